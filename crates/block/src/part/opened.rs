//! The images that this node has open, each for as long as something here uses it.

use super::local::LocalStores;
use super::records::{Records, view_of};
use crate::door::OpenImage;
use crate::image::{Image, Outside};
use crate::stores::{Admission, Stores};
use futures_util::future::join_all;
use manager::{ImageRecord, NodeRecord};
use net::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use subsystem::Surroundings;
use types::{ImageId, Token};

/// How long the manager may take to note that an image is closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);

/// Images that are open here.
pub struct Opened {
    around: Surroundings,
    stores: Arc<LocalStores>,
    records: Arc<Records>,
    /// Held while one is opened or closed.
    images: tokio::sync::Mutex<BTreeMap<ImageId, Used>>,
    count: std::sync::atomic::AtomicUsize,
}

struct Used {
    image: Arc<OpenImage>,
    users: usize,
}

/// The use of an image. [`Opened::release`] ends it.
pub struct Use {
    pub image: Arc<OpenImage>,
}

impl Opened {
    pub fn new(around: Surroundings, stores: Arc<LocalStores>) -> Opened {
        let records = Arc::new(Records { manager: around.manager.clone(), stores: stores.clone() });
        Opened { around, stores, records, images: tokio::sync::Mutex::default(), count: 0.into() }
    }

    pub fn count(&self) -> usize {
        self.count.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What a holder on this node works with.
    pub fn outside(&self) -> Outside {
        Outside {
            env: self.around.env.clone(),
            stores: self.stores.clone(),
            registry: self.records.clone(),
            placement: self.stores.clone(),
            ancestors: self.records.clone(),
        }
    }

    /// An image by its name. The manager's state here is as new as the leader's when this began.
    pub async fn find(&self, name: &str) -> Result<Arc<ImageRecord>, String> {
        self.around.manager.fresh().await.map_err(|error| error.to_string())?;
        let state = self.around.manager.snapshot();
        state.image_named(name).cloned().ok_or_else(|| format!("there is no image {name}: `trilith image ls` lists them"))
    }

    /// Opens an image, or shares the one that is open here.
    pub async fn acquire(&self, name: &str) -> Result<Use, String> {
        let record = self.find(name).await?;
        let mut images = self.images.lock().await;
        if let Some(used) = images.get_mut(&record.id)
            && !used.image.image().has_ended()
        {
            used.users += 1;
            return Ok(Use { image: used.image.clone() });
        }
        let image = Arc::new(OpenImage::new(name.to_owned(), Box::pin(self.open(&record)).await?));
        self.tidy(&image);
        // Uses of one that has ended are given back too.
        let users = 1 + images.get(&record.id).map_or(0, |used| used.users);
        images.insert(record.id, Used { image: image.clone(), users });
        self.count.store(images.len(), std::sync::atomic::Ordering::Relaxed);
        Ok(Use { image })
    }

    /// A use of an image ends.
    pub async fn release(&self, used: Use) {
        let mut images = self.images.lock().await;
        let id = used.image.image().id();
        let Some(known) = images.get_mut(&id) else { return };
        known.users -= 1;
        if known.users == 0 {
            let known = images.remove(&id).expect("it was there");
            self.count.store(images.len(), std::sync::atomic::Ordering::Relaxed);
            self.close(&known.image).await;
        }
    }

    /// An image that a place uses, for a client that lets go of it before the place does. A holder that has ended is followed by another.
    pub async fn shared(&self, id: ImageId, name: &str) -> Result<Arc<OpenImage>, String> {
        let known = self.images.lock().await.get(&id).map(|used| used.image.clone());
        match known {
            None => Err(format!("{name} is not open here any more")),
            Some(image) if !image.image().has_ended() => Ok(image),
            Some(_) => {
                let used = self.acquire(name).await?;
                let image = used.image.clone();
                self.release(used).await;
                if image.image().id() == id { Ok(image) } else { Err(format!("{name} is another image now")) }
            }
        }
    }

    pub async fn close_all(&self) {
        let mut images = self.images.lock().await;
        let open: Vec<Used> = std::mem::take(&mut *images).into_values().collect();
        join_all(open.iter().map(|used| self.close(&used.image))).await;
        self.count.store(0, std::sync::atomic::Ordering::Relaxed);
    }

    async fn open(&self, record: &ImageRecord) -> Result<Image, String> {
        let (manager, me) = (&self.around.manager, self.around.me);
        let expected = match record.holder {
            None => None,
            // This node's former process.
            Some(holder) if holder.node == me => Some(record.token),
            Some(holder) => {
                let name = manager.snapshot().node(holder.node).map_or_else(|| holder.node.to_string(), name_of);
                return Err(format!(
                    "{} is open on node {name}. Ask that node; if it is gone for good: trilith image unlock --force {}",
                    record.name, record.name
                ));
            }
        };
        self.check_here(record)?;
        let opened = manager.open_image(record.id, me, expected).await.map_err(|error| error.to_string())?;
        let image = self.take_over(&opened).await;
        if image.is_err() {
            self.give_back(opened.id, opened.token, opened.is_settled).await;
        }
        image
    }

    /// Whether all blobs of an image, and of those below it, are on this node.
    fn check_here(&self, record: &ImageRecord) -> Result<(), String> {
        if self.stores.devices().is_empty() {
            return Err("this node has no devices: ask one that has".to_owned());
        }
        let state = self.around.manager.snapshot();
        let mut next = Some(record);
        while let Some(image) = next {
            if let Some(used) = image.devices.iter().find(|used| self.stores.get(used.device).is_none()) {
                return Err(format!(
                    "{} has blobs on device {}, which is not on this node, or not there now: trilith cluster status shows which node has it",
                    image.name, used.device
                ));
            }
            next = image.parent.and_then(|parent| state.image(parent.image)).map(Arc::as_ref);
        }
        Ok(())
    }

    async fn take_over(&self, opened: &Arc<ImageRecord>) -> Result<Image, String> {
        let manager = &self.around.manager;
        let known = |device| opened.devices.iter().any(|used| used.device == device);
        let new: Vec<_> = self.stores.devices().into_iter().filter(|device| !known(*device)).collect();
        let record = match new.is_empty() {
            true => opened.clone(),
            false => {
                let used = manager.use_image_devices(opened.id, opened.token, new).await;
                used.map_err(|error| error.to_string())?
            }
        };
        Image::open(self.outside(), view_of(&record)).await.map_err(|error| error.to_string())
    }

    /// Finishes beside what an earlier holder left undone.
    fn tidy(&self, image: &Arc<OpenImage>) {
        let image = image.clone();
        let tidying: BoxFuture<'static, ()> = Box::pin(async move {
            if let Err(error) = image.image().tidy().await {
                tracing::warn!(image = image.name(), %error, "blobs that no snapshot needs are not freed before the image is opened again");
            }
        });
        drop(self.around.env.spawn(tidying));
    }

    /// The image was unlocked: its holder is over, also if it is this node.
    pub async fn end(&self, unlocked: &ImageRecord) -> Result<(), String> {
        self.around.manager.fresh().await.map_err(|error| error.to_string())?;
        let admission = Admission { image: unlocked.id, token: unlocked.token, session: 0, epoch: unlocked.epoch };
        for device in unlocked.devices.iter().map(|used| used.device).filter(|device| self.stores.get(*device).is_some()) {
            self.stores.enter(device, admission).await.map_err(|error| format!("device {device}: {error}"))?;
        }
        Ok(())
    }

    async fn close(&self, image: &OpenImage) {
        let (id, token) = (image.image().id(), image.image().token());
        if image.image().close().await.is_ok() {
            self.give_back(id, token, true).await;
        }
    }

    /// Without an answer in time the next start of this node takes the image over.
    async fn give_back(&self, id: ImageId, token: Token, is_settled: bool) {
        let closing = self.around.manager.close_image(id, token, is_settled);
        let outcome = tokio::select! {
            closed = closing => closed.map(drop).map_err(|error| error.to_string()),
            () = self.around.env.sleep(CLOSE_PATIENCE) => Err("no leader of the managers answered in time".to_owned()),
        };
        if let Err(reason) = outcome {
            tracing::warn!(image = id.0, %reason, "the image stays noted as open on this node");
        }
    }
}

fn name_of(node: &Arc<NodeRecord>) -> String {
    node.name.clone()
}
