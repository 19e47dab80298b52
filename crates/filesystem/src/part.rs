//! A node's part of the file volumes (docs/rfd/0025): the trees that it is a member of, the contents on its devices, and its mounts.
//!
//! ```text
//!   a command ─► control ─► mounts ─► volumes: a client of each mounted volume ─┬─► trees: the leader of the volume's group, here or there
//!                                                                               └─► contents: the device's store, here or there
//! ```

mod contents;
mod control;
mod figures;
mod leases;
mod mounts;
mod sweeper;
mod trees;
mod volumes;

use std::path::PathBuf;
use std::sync::Arc;

use device::VolumeOwner;
use groups::{Assigner, Named, named_by_others};
use manager::GroupKind;
use net::{BoxFuture, Service, ServiceTag};
use subsystem::{Figure, Loss, Starter, StatusLine, Subsystem, Surroundings, Task};
use types::DeviceId;

use crate::data::store::ExtentStore;
use crate::door::MountDoor;
use contents::{ContentService, Contents};
use leases::Leases;
use mounts::Mounts;
use sweeper::Sweeper;
use trees::{TreeService, Trees};
use volumes::Volumes;

/// What a node begins its part with.
pub struct FileStarter {
    pub door: Arc<dyn MountDoor>,
    /// Where is noted what is mounted, so that the next start mounts it again.
    pub mounts_file: PathBuf,
}

/// A node's part of the file volumes.
pub struct Files {
    around: Surroundings,
    contents: Arc<Contents>,
    trees: Arc<Trees>,
    volumes: Arc<Volumes>,
    mounts: Arc<Mounts>,
}

impl Starter for FileStarter {
    fn start(self: Box<Self>, around: Surroundings) -> BoxFuture<'static, Result<Arc<dyn Subsystem>, String>> {
        Box::pin(async move {
            let contents = Arc::new(Contents::open(&around).await?);
            let trees = Arc::new(Trees::new(&around));
            let volumes = Arc::new(Volumes::new(&around, trees.clone(), contents.clone()));
            let mounts = Arc::new(Mounts::load(&around.env, self.door, self.mounts_file, volumes.clone())?);
            mounts.take_over().await;
            Ok(Arc::new(Files { around, contents, trees, volumes, mounts }) as Arc<dyn Subsystem>)
        })
    }
}

impl Subsystem for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        let control = control::Control {
            around: self.around.clone(),
            contents: self.contents.clone(),
            volumes: self.volumes.clone(),
            mounts: self.mounts.clone(),
        };
        vec![
            (ServiceTag::FILES, Arc::new(control)),
            (ServiceTag::FILE_TREES, Arc::new(TreeService(self.trees.clone()))),
            (ServiceTag::FILE_CONTENTS, Arc::new(ContentService(self.contents.clone()))),
        ]
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        let assigner = Assigner {
            env: self.around.env.clone(),
            manager: self.around.manager.clone(),
            kind: GroupKind::FILE_TREES,
            wanted: |state| state.file_volumes().map(|volume| volume.id.0).collect(),
            able: |state| state.devices().filter_map(|device| device.node).collect(),
            silent: self.around.silent.clone(),
        };
        let leases = Leases { around: self.around.clone(), trees: self.trees.clone() };
        let sweeper = Sweeper { around: self.around.clone(), trees: self.trees.clone(), contents: self.contents.clone() };
        let mut tasks: Vec<Task> = Vec::new();
        for store in self.contents.stores() {
            let store = store.clone();
            tasks.push(Box::pin(async move { store.maintain().await }));
        }
        let (trees, files) = (self.trees.clone(), self);
        let others: [Task; 5] = [
            Box::pin(assigner.run()),
            Box::pin(async move { trees.run().await }),
            Box::pin(sweeper.run()),
            Box::pin(leases.run()),
            Box::pin(async move { files.mounts.keep().await }),
        ];
        tasks.extend(others);
        tasks
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let state = self.around.manager.snapshot();
            let lost: Vec<&str> = state
                .file_volumes()
                .filter(|volume| !volume.is_removing && loss.devices.contains(&volume.device))
                .map(|volume| volume.name.as_str())
                .collect();
            match lost.is_empty() {
                true => Ok(()),
                false => Err(format!(
                    "the files of these volumes are on {} alone: {}. Copy them elsewhere and remove the volumes; {} gives them up",
                    loss.whose,
                    lost.join(", "),
                    loss.all_the_same
                )),
            }
        })
    }

    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.mounts.pause().await;
            self.trees.stop_leading().await;
        })
    }

    fn close_device(&self, device: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(store) = self.contents.store(device) {
                store.close().await;
            }
        })
    }

    fn leave(&self) -> BoxFuture<'_, ()> {
        let look =
            || -> BoxFuture<'static, Option<Named>> { Box::pin(named_by_others(self.around.clone(), GroupKind::FILE_TREES)) };
        Box::pin(self.trees.leave(look))
    }

    fn figures(&self) -> Vec<Figure> {
        figures::of(&self.contents, &self.trees)
    }

    fn status(&self) -> Vec<StatusLine> {
        let count = self.around.manager.snapshot().file_volumes().filter(|volume| !volume.is_removing).count();
        if count == 0 {
            return Vec::new();
        }
        let text = format!("{count} volumes in the cluster; {} trees here, {} led", self.trees.count(), self.trees.led());
        vec![StatusLine { label: "files".to_owned(), text }]
    }
}

/// The store of a device's contents.
async fn open_store(around: &Surroundings, device: &device::Device) -> Result<ExtentStore, String> {
    ExtentStore::open(&around.env, device.volume(VolumeOwner::Files)).await.map_err(|error| error.to_string())
}
