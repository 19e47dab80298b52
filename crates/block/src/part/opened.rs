//! The images that this node has open, each for as long as something here uses it.

use super::local::LocalStores;
use super::records::{Records, view_of};
use crate::door::OpenImage;
use crate::image::{Image, Outside};
use manager::{ImageRecord, NodeRecord};
use std::collections::BTreeMap;
use std::sync::Arc;
use subsystem::Surroundings;
use types::{ImageId, Token};

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

    /// Opens an image, or shares it with those who use it already.
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
        // Those who use one that has ended give theirs back too.
        let users = 1 + images.get(&record.id).map_or(0, |used| used.users);
        images.insert(record.id, Used { image: image.clone(), users });
        self.count.store(images.len(), std::sync::atomic::Ordering::Relaxed);
        Ok(Use { image })
    }

    /// The image is not used any more by who acquired it.
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

    /// An image that somebody here uses, for one more who lets go of it before them.
    pub async fn shared(&self, name: &str) -> Result<Arc<OpenImage>, String> {
        let images = self.images.lock().await;
        let used = images.values().find(|used| used.image.name() == name && !used.image.image().has_ended());
        used.map(|used| used.image.clone()).ok_or_else(|| format!("{name} is not open here any more"))
    }

    pub async fn close_all(&self) {
        let mut images = self.images.lock().await;
        for used in std::mem::take(&mut *images).into_values() {
            self.close(&used.image).await;
        }
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
        let elsewhere = record.devices.iter().find(|device| self.stores.get(device.device).is_none());
        if let Some(device) = elsewhere {
            return Err(format!(
                "{} has blobs on device {}, which another node serves: ask that node (trilith cluster status shows it)",
                record.name, device.device
            ));
        }
        let opened = manager.open_image(record.id, me, expected).await.map_err(|error| error.to_string())?;
        let image = self.take_over(&opened).await;
        if image.is_err() {
            self.give_back(opened.id, opened.token).await;
        }
        image
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
        let image = Image::open(self.outside(), view_of(&record)).await.map_err(|error| error.to_string())?;
        image.tidy().await.map_err(|error| error.to_string())?;
        Ok(image)
    }

    async fn close(&self, image: &OpenImage) {
        let (id, token) = (image.image().id(), image.image().token());
        if image.image().close().await.is_ok() {
            self.give_back(id, token).await;
        }
    }

    async fn give_back(&self, id: ImageId, token: Token) {
        if let Err(error) = self.around.manager.close_image(id, token).await {
            tracing::warn!(image = id.0, %error, "the image stays noted as open on this node");
        }
    }
}

fn name_of(node: &Arc<NodeRecord>) -> String {
    node.name.clone()
}
