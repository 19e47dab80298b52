//! A node's part of the images (docs/rfd/0024): the blobs of its devices, the images that it has open, the places where it serves them.
//!
//! ```text
//!   a command ─► control ─┬─ forward ─► control of the holder's node
//!                         └─► opened: images ─► cluster: stores of all devices ─┬─► local: this node's devices ◄─ blobs ◄─┐
//!                                 │                                             └─► ways ─► another node's service ─► ... ┘
//!                                 └── records, placing, ancestors: what the manager knows
//! ```

mod ancestors;
mod answers;
mod blobs;
mod cluster;
mod control;
mod figures;
mod forward;
mod keeping;
mod local;
mod loss;
mod opened;
mod placing;
mod purge;
pub(crate) mod records;
mod serving;
mod tenure;
mod ways;

use crate::door::Door;
use crate::protocol::IMAGES;
use crate::store::BlobStore;
use ancestors::ClusterAncestors;
use blobs::BlobService;
use cluster::ClusterStores;
use device::VolumeOwner;
use local::LocalStores;
use net::{BoxFuture, Service, ServiceTag};
use opened::Opened;
use placing::ClusterPlacement;
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
    local: Arc<LocalStores>,
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
            let local = Arc::new(LocalStores::new(around.manager.clone(), stores));
            let opened = Arc::new(opened_with(&around, &local));
            let served = Arc::new(Served::load(self.door, self.served_file, opened.clone())?);
            Ok(Arc::new(Images { around, local, opened, served }) as Arc<dyn Subsystem>)
        })
    }
}

fn opened_with(around: &Surroundings, local: &Arc<LocalStores>) -> Opened {
    let stores = Arc::new(ClusterStores::new(&around.env, local.clone(), Arc::new(around.clone())));
    let placement = Arc::new(ClusterPlacement { around: around.clone(), local: local.clone() });
    let ancestors = ClusterAncestors {
        env: around.env.clone(),
        manager: around.manager.clone(),
        stores: stores.clone(),
        placement: placement.clone(),
    };
    Opened::new(around.clone(), stores, placement, Arc::new(ancestors))
}

impl Subsystem for Images {
    fn name(&self) -> &'static str {
        "images"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        let control = control::Control {
            around: self.around.clone(),
            stores: self.opened.stores.clone(),
            placement: self.opened.placement.clone(),
            opened: self.opened.clone(),
            served: self.served.clone(),
        };
        let mut services: Vec<(ServiceTag, Arc<dyn Service>)> = vec![(IMAGES, Arc::new(control))];
        if self.local.iter().next().is_some() {
            services.push((ServiceTag::BLOBS, Arc::new(BlobService(self.local.clone()))));
        }
        services
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        for store in self.local.iter() {
            let store = store.clone();
            tasks.push(Box::pin(async move { store.return_space().await }));
        }
        let opened = self.opened.clone();
        tasks.push(Box::pin(async move { opened.keep_tenures().await }));
        let opened = self.opened.clone();
        tasks.push(Box::pin(async move { opened.keep_closed().await }));
        let env = self.around.env.clone();
        tasks.push(Box::pin(async move { self.served.serve_again(&env).await }));
        tasks
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { loss::check(&self.around.manager.snapshot(), loss) })
    }

    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.served.pause().await;
            self.opened.close_all().await;
        })
    }

    fn close_device(&self, device: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(store) = self.local.get(device) {
                store.close().await;
            }
        })
    }

    fn figures(&self) -> Vec<Figure> {
        figures::of(&self.local, &self.opened)
    }

    fn status(&self) -> Vec<StatusLine> {
        let state = self.around.manager.snapshot();
        let present: Vec<_> = state.images().filter(|image| image.removed_ms.is_none()).collect();
        if present.is_empty() {
            return Vec::new();
        }
        let (open, places) = (self.opened.count(), self.served.place_count());
        let text = format!("{} in the cluster; {open} open here, served at {places} places", present.len());
        let line = |text| StatusLine { label: "images".to_owned(), text };
        std::iter::once(text).chain(loss::shortage(&present)).map(line).collect()
    }
}
