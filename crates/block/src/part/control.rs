//! Answers what people ask of images.

use super::answers::info_of;
use super::cluster::ClusterStores;
use super::opened::Opened;
use super::placing::ClusterPlacement;
use super::purge::purge;
use super::serving::Served;
use crate::image::{Image, ImageError, Part, Placement, read_layer};
use crate::protocol::{Ask, Asked, MAX_CONTENT_BYTES, Told};
use bytes::Bytes;
use manager::{ImageRecord, NewImage, ParentSnapshot, Snapshot};
use net::{BoxFuture, Refusal, Request, Service};
use std::sync::Arc;
use subsystem::Surroundings;
use types::{BLOB_BYTES, ImageId, LayerOf};

/// Copies that an image gets if the person who makes it says nothing, and there are as many hosts.
const USUAL_COPIES: usize = 3;

/// The service.
#[derive(Clone)]
pub struct Control {
    pub around: Surroundings,
    pub stores: Arc<ClusterStores>,
    pub placement: Arc<ClusterPlacement>,
    pub opened: Arc<Opened>,
    pub served: Arc<Served>,
}

impl Service for Control {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let asked: Asked = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            let deadline = request.deadline;
            // On its own: it goes on if the asker is gone.
            let control = self.clone();
            let carry_out: BoxFuture<'static, Told> = Box::pin(async move {
                let told = match control.forward(&asked, deadline).await {
                    Ok(None) => control.carry_out(asked.ask).await,
                    Ok(Some(told)) => Ok(told),
                    Err(reason) => Err(reason),
                };
                told.unwrap_or_else(Told::Refused)
            });
            let carried_out = self.around.env.spawn(carry_out);
            let told = carried_out.await.map_err(Refusal::new)?;
            Ok(postcard::to_stdvec(&told).map_err(Refusal::new)?.into())
        })
    }
}

impl Control {
    async fn carry_out(&self, ask: Ask) -> Result<Told, String> {
        match ask {
            Ask::Create { name, size_bytes, copies, is_preallocated } => {
                self.create(name, size_bytes, copies, is_preallocated).await?
            }
            Ask::Clone { image, snapshot, name } => self.clone_of(&image, snapshot, name).await?,
            Ask::List { in_trash } => return self.list(in_trash).await,
            Ask::Info { image } => {
                let record = self.opened.find(&image).await?;
                let usage = self.stores.usage().await;
                let images = vec![info_of(&self.state(), &usage.images, &record)];
                return Ok(Told::Images { images, unheard: usage.silent });
            }
            Ask::Rename { image, name } => self.rename(&image, &name).await?,
            Ask::Resize { image, size_bytes, may_shrink } => {
                self.with(&image, move |image| Box::pin(image.resize(size_bytes, may_shrink))).await?;
            }
            Ask::Snapshot { image, name } => {
                self.with(&image, move |image| Box::pin(async move { image.snapshot(&name).await })).await?
            }
            Ask::RemoveSnapshot { image, name } => {
                self.with(&image, move |image| Box::pin(async move { image.remove_snapshot(&name).await })).await?;
            }
            Ask::Flatten { image } => self.with(&image, |image| Box::pin(image.flatten())).await?,
            Ask::Rollback { image, snapshot } => self.rollback(&image, &snapshot).await?,
            Ask::Remove { image, with_snapshots } => self.remove(&image, with_snapshots).await?,
            Ask::Restore { id, name } => {
                self.around.manager.restore_image(ImageId(id), &name).await.map_err(text)?;
            }
            Ask::Purge { id } => self.purge(id).await?,
            Ask::AcceptLosses { image } => {
                let record = self.opened.find(&image).await?;
                self.around.manager.accept_image_losses(record.id).await.map_err(text)?;
            }
            Ask::Unlock { image } => {
                let record = self.opened.find(&image).await?;
                let unlocked = self.around.manager.unlock_image(record.id, record.token).await.map_err(text)?;
                self.opened.end(&unlocked).await?;
            }
            Ask::Serve { images, at } => self.served.serve(at, images).await?,
            Ask::EndServing { at } => self.served.end(&at).await?,
            Ask::Served => return Ok(Told::Served(self.served.list().await)),
            Ask::Read { image, id, snapshot, offset, length } => {
                self.check_id(&image, id).await?;
                return self.read(&image, snapshot, offset, length).await;
            }
            Ask::Write { image, id, offset, content } => {
                self.check_id(&image, id).await?;
                self.with(&image, move |image| Box::pin(image.write(offset, Bytes::from(content)))).await?;
            }
        }
        Ok(Told::Done)
    }

    fn state(&self) -> Arc<Snapshot> {
        self.around.manager.snapshot()
    }

    /// Does something with an image that is opened for it, if it is not open.
    async fn with<T>(
        &self,
        name: &str,
        work: impl for<'a> FnOnce(&'a Image) -> BoxFuture<'a, Result<T, ImageError>>,
    ) -> Result<T, String> {
        let used = self.opened.acquire(name).await?;
        let done = work(used.image.image()).await.map_err(text);
        self.opened.release(used).await;
        done
    }

    async fn check_id(&self, name: &str, id: u64) -> Result<(), String> {
        match self.opened.find(name).await?.id.0 == id {
            true => Ok(()),
            false => Err(format!("{name} is another image now: the one that was meant has been renamed or removed")),
        }
    }

    async fn create(&self, name: String, size_bytes: u64, copies: Option<u8>, is_preallocated: bool) -> Result<(), String> {
        let device_count = self.placement.devices().len();
        if device_count == 0 {
            return Err("no device of the cluster takes blobs now: trilith cluster status shows why".to_owned());
        }
        let copies = copies.unwrap_or_else(|| self.placement.host_count().clamp(1, USUAL_COPIES) as u8);
        if usize::from(copies) > device_count {
            return Err(format!(
                "{copies} copies need as many devices, and {device_count} take blobs now: say fewer with --copies, or add devices"
            ));
        }
        if is_preallocated {
            self.check_room(size_bytes, copies).await?;
        }
        let new = NewImage { name: name.clone(), size_bytes, copies, parent: None };
        let made = self.around.manager.create_image(new).await.map_err(text)?;
        if !is_preallocated {
            return Ok(());
        }
        let filled = self.with(&name, move |image| Box::pin(preallocate(image, size_bytes))).await;
        if let Err(reason) = filled {
            self.remove(&name, false).await?;
            self.purge(Some(made.id.0)).await?;
            return Err(format!("{reason}; {name} was removed again"));
        }
        Ok(())
    }

    async fn check_room(&self, size_bytes: u64, copies: u8) -> Result<(), String> {
        let needed = size_bytes.saturating_mul(u64::from(copies));
        let room = self.stores.usage().await.room_bytes;
        match needed <= room {
            true => Ok(()),
            false => Err(format!(
                "{needed} bytes are to be taken at once, all copies counted, and the devices that answer have room for {room}"
            )),
        }
    }

    async fn clone_of(&self, image: &str, snapshot: String, name: String) -> Result<(), String> {
        let record = self.opened.find(image).await?;
        let Some(found) = record.snapshot(&snapshot) else { return Err(format!("{image} has no snapshot {snapshot}")) };
        let (size_bytes, parent) = (found.size_bytes, Some(ParentSnapshot { image: record.id, snapshot }));
        let clone = NewImage { name, size_bytes, copies: record.copies, parent };
        self.around.manager.create_image(clone).await.map_err(text)?;
        Ok(())
    }

    async fn list(&self, in_trash: bool) -> Result<Told, String> {
        self.around.manager.fresh().await.map_err(text)?;
        let state = self.state();
        let mut images: Vec<&Arc<ImageRecord>> =
            state.images().filter(|image| image.removed_ms.is_some() == in_trash).collect();
        images.sort_by(|one, other| one.name.cmp(&other.name));
        let usage = self.stores.usage().await;
        let images = images.into_iter().map(|image| info_of(&state, &usage.images, image)).collect();
        Ok(Told::Images { images, unheard: usage.silent })
    }

    async fn rename(&self, image: &str, name: &str) -> Result<(), String> {
        self.refuse_served(image).await?;
        let record = self.opened.find(image).await?;
        self.around.manager.rename_image(record.id, name).await.map_err(text)?;
        Ok(())
    }

    /// What clients have of the image in their caches would be wrong.
    async fn rollback(&self, image: &str, snapshot: &str) -> Result<(), String> {
        self.refuse_served(image).await?;
        let snapshot = snapshot.to_owned();
        self.with(image, move |image| Box::pin(async move { image.rollback(&snapshot).await })).await
    }

    async fn remove(&self, image: &str, with_snapshots: bool) -> Result<(), String> {
        self.refuse_served(image).await?;
        let record = self.opened.find(image).await?;
        self.around.manager.remove_image(record.id, with_snapshots).await.map_err(text)?;
        Ok(())
    }

    async fn refuse_served(&self, image: &str) -> Result<(), String> {
        match self.served.places_of(image).await.first() {
            Some(at) => Err(format!("{image} is served at {at}: end that first (trilith nbd --end)")),
            None => Ok(()),
        }
    }

    async fn purge(&self, id: Option<u64>) -> Result<(), String> {
        self.around.manager.fresh().await.map_err(text)?;
        let state = self.state();
        let is_meant = |image: &&Arc<ImageRecord>| id.is_none_or(|id| image.id.0 == id);
        let meant: Vec<_> = state.images().filter(|image| image.removed_ms.is_some()).filter(is_meant).cloned().collect();
        if let (Some(id), []) = (id, meant.as_slice()) {
            return Err(format!("there is no image {id} in the trash: `trilith image ls --trash` shows what is"));
        }
        for record in meant {
            purge(&self.around.manager, &self.stores, &self.placement, &record).await?;
        }
        Ok(())
    }

    async fn read(&self, name: &str, snapshot: Option<String>, offset: u64, length: u32) -> Result<Told, String> {
        if length > MAX_CONTENT_BYTES {
            return Err(format!("at most {MAX_CONTENT_BYTES} bytes are read at once"));
        }
        let content = match snapshot {
            None => self.with(name, move |image| Box::pin(image.read(offset, length))).await?,
            Some(snapshot) => {
                let record = self.opened.find(name).await?;
                let found = record.snapshot(&snapshot).ok_or_else(|| format!("{name} has no snapshot {snapshot}"))?;
                if offset.checked_add(u64::from(length)).is_none_or(|end| end > found.size_bytes) {
                    return Err(format!("{name}@{snapshot} has {} bytes", found.size_bytes));
                }
                let layer = LayerOf { image: record.id, layer: found.layer };
                read_layer(&self.opened.outside(), layer, offset, length).await.map_err(text)?
            }
        };
        let mut at = 0;
        let mut parts = Vec::new();
        for part in content {
            match part {
                Part::Data(bytes) => {
                    let from = at;
                    at += bytes.len() as u32;
                    parts.push((from, bytes.to_vec()));
                }
                Part::Zeros(zeros) => at += zeros,
            }
        }
        Ok(Told::Content(parts))
    }
}

/// Makes all blobs of a new image: zeros that stay allocated.
async fn preallocate(image: &Image, size_bytes: u64) -> Result<(), ImageError> {
    let mut offset = 0;
    while offset < size_bytes {
        let length = u64::from(BLOB_BYTES).min(size_bytes - offset);
        image.write_zeros(offset, length, true).await?;
        offset += length;
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
