//! A node's part of the images (docs/rfd/0024): the blobs of its devices, the images that it has open, the places where it serves them.
//!
//! An image has its blobs on the devices of one node so far: the one that opened it first.

mod answers;
mod control;
mod figures;
mod local;
mod opened;
mod purge;
mod records;
mod serving;

use crate::door::Door;
use crate::protocol::IMAGES;
use crate::store::BlobStore;
use device::VolumeOwner;
use local::LocalStores;
use net::{BoxFuture, Service, ServiceTag};
use opened::Opened;
use serving::Served;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use subsystem::{Figure, Loss, Starter, StatusLine, Subsystem, Surroundings, Task};
use types::DeviceId;

/// What a node begins its part with.
pub struct ImageStarter {
    pub door: Arc<dyn Door>,
    /// Where is noted what is served, so that the next start serves it again.
    pub served_file: PathBuf,
}

/// A node's part of the images.
pub struct Images {
    around: Surroundings,
    stores: Arc<LocalStores>,
    opened: Arc<Opened>,
    served: Arc<Served>,
}

impl Starter for ImageStarter {
    fn start(self: Box<Self>, around: Surroundings) -> BoxFuture<'static, Result<Arc<dyn Subsystem>, String>> {
        Box::pin(async move {
            let mut stores = BTreeMap::new();
            for device in &around.devices {
                let store = BlobStore::open(&around.env, device.volume(VolumeOwner::Images)).await;
                stores.insert(device.id(), Arc::new(store.map_err(|error| error.to_string())?));
            }
            let stores = Arc::new(LocalStores::new(around.manager.clone(), stores));
            let opened = Arc::new(Opened::new(around.clone(), stores.clone()));
            let served = Arc::new(Served::load(self.door, self.served_file, opened.clone())?);
            Ok(Arc::new(Images { around, stores, opened, served }) as Arc<dyn Subsystem>)
        })
    }
}

impl Subsystem for Images {
    fn name(&self) -> &'static str {
        "images"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        let control = control::Control {
            around: self.around.clone(),
            stores: self.stores.clone(),
            opened: self.opened.clone(),
            served: self.served.clone(),
        };
        vec![(IMAGES, Arc::new(control))]
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        for store in self.stores.iter() {
            let store = store.clone();
            tasks.push(Box::pin(async move { store.return_space().await }));
        }
        let env = self.around.env.clone();
        tasks.push(Box::pin(async move { self.served.serve_again(&env).await }));
        tasks
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Loss { devices, whose, all_the_same } = loss;
            let state = self.around.manager.snapshot();
            let has_lost = |image: &&Arc<manager::ImageRecord>| {
                image.devices.iter().any(|device| device.out_since.is_none() && devices.contains(&device.device))
            };
            match state.images().filter(has_lost).count() {
                0 => Ok(()),
                count => Err(format!(
                    "{count} images have blobs on {whose}, and no other copies. Export them first (trilith image export); {all_the_same} gives them up"
                )),
            }
        })
    }

    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.served.pause().await;
            self.opened.close_all().await;
        })
    }

    fn close_device(&self, device: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(store) = self.stores.get(device) {
                store.close().await;
            }
        })
    }

    fn figures(&self) -> Vec<Figure> {
        figures::of(&self.stores, &self.opened)
    }

    fn status(&self) -> Vec<StatusLine> {
        let count = self.around.manager.snapshot().images().filter(|image| image.removed_ms.is_none()).count();
        if count == 0 {
            return Vec::new();
        }
        let (open, places) = (self.opened.count(), self.served.place_count());
        let text = format!("{count} in the cluster; {open} open here, served at {places} places");
        vec![StatusLine { label: "images".to_owned(), text }]
    }
}
