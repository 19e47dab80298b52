//! A node's part of the file volumes (docs/rfd/0025): the trees that it is a member of, the contents on its devices, and its mounts.
//!
//! ```text
//!   a command ─► control ─► mounts ─► volumes: a client of each mounted volume ─┬─► trees: the leader of the volume's group, here or there
//!                                                                               └─► contents: the primary of each data partition, here or there
//! ```

mod contents;
mod control;
mod figures;
mod growth;
mod guests;
mod leader;
mod leases;
mod loss;
mod mounts;
mod placing;
mod sweeper;
mod trees;
mod volumes;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join;
use groups::{Assigner, Named, named_by_others};
use manager::{GroupKind, Snapshot};
use net::{BoxFuture, Service, ServiceTag};
use parking_lot::Mutex;
use subsystem::{Figure, Loss, Starter, StatusLine, Subsystem, Surroundings, Task};
use types::{DeviceId, FileVolumeId};

use crate::asking::content::Standing;
use crate::asking::tree::TreePartition;
use crate::data::store::ExtentUse;
use crate::door::MountDoor;
use crate::meta::MetaPartition;
use contents::{Collector, ContentService, Contents, CopyService};
use growth::Growth;
use guests::GuestService;
use leases::Leases;
use mounts::Mounts;
use placing::Placer;
use sweeper::Sweeper;
use trees::{Settler, TreeService, Trees};
use volumes::Volumes;

/// What a node begins its part with.
pub struct FileStarter {
    pub door: Arc<dyn MountDoor>,
    /// Where is noted what is mounted, so that the next start mounts it again.
    pub mounts_file: PathBuf,
    /// A tree with more inodes gets no new directories as long as another one has fewer, and a volume whose newest tree has more gets another.
    pub soft_inodes: u64,
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
            let trees = Arc::new(Trees::new(&around, self.soft_inodes));
            let volumes = Arc::new(Volumes::new(&around, trees.clone(), contents.clone()));
            let mounts = Arc::new(Mounts::load(&around.env, self.door, self.mounts_file, volumes.clone())?);
            mounts.take_over().await;
            Ok(Arc::new(Files { around, contents, trees, volumes, mounts }) as Arc<dyn Subsystem>)
        })
    }
}

impl Files {
    /// What guests of a volume can call; none if there is no such volume.
    pub fn guest_service(&self, volume: FileVolumeId) -> Option<Arc<dyn Service>> {
        let state = self.around.manager.snapshot();
        state.file_volume(volume).filter(|record| !record.is_removing)?;
        let (around, trees, contents) = (self.around.clone(), self.trees.clone(), self.contents.clone());
        Some(Arc::new(GuestService { around, volume, trees, contents, ways: Mutex::default() }))
    }
}

/// What simulations look at.
impl Files {
    /// The trees of a volume, wherever they are led.
    pub fn trees(&self, volume: FileVolumeId) -> Vec<Arc<dyn MetaPartition>> {
        let state = self.around.manager.snapshot();
        let trees = state.file_volume(volume).map(|volume| volume.trees.clone()).unwrap_or_default();
        trees.into_iter().map(|tree| Arc::new(TreePartition(self.trees.way(tree))) as Arc<dyn MetaPartition>).collect()
    }

    /// Where the copies of each of a volume's data partitions are; none if its group does not answer.
    pub async fn standings(&self, volume: FileVolumeId) -> Vec<Option<Standing>> {
        let standings = self.volumes.standings(volume).await;
        standings.into_iter().map(|(_, told)| told.map(|(standing, _)| standing)).collect()
    }

    /// The extents on this node's devices, of all volumes.
    pub fn extents(&self) -> Vec<(DeviceId, ExtentUse)> {
        let stores = self.contents.stores().all();
        stores.flat_map(|store| store.extents(None, usize::MAX).into_iter().map(|extent| (store.device(), extent))).collect()
    }
}

/// All trees of all volumes.
fn trees_wanted(state: &Snapshot) -> BTreeSet<u32> {
    state.file_volumes().flat_map(|volume| &volume.trees).map(|tree| tree.0).collect()
}

/// The placer founds their groups; the assigner keeps and ends them.
fn partitions_wanted(state: &Snapshot) -> BTreeSet<u32> {
    state.file_volumes().flat_map(|volume| &volume.partitions).map(|partition| partition.id.0).collect()
}

impl Subsystem for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        let control =
            control::Control { around: self.around.clone(), volumes: self.volumes.clone(), mounts: self.mounts.clone() };
        vec![
            (ServiceTag::FILES, Arc::new(control)),
            (ServiceTag::FILE_TREES, Arc::new(TreeService(self.trees.clone()))),
            (ServiceTag::FILE_CONTENTS, Arc::new(ContentService(self.contents.clone()))),
            (ServiceTag::FILE_COPIES, Arc::new(CopyService(self.contents.clone()))),
        ]
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        let assigner = |kind, wanted| Assigner {
            env: self.around.env.clone(),
            manager: self.around.manager.clone(),
            kind,
            wanted,
            able: |state| state.devices().filter_map(|device| device.node).collect(),
            silent: self.around.silent.clone(),
        };
        let of_trees = assigner(GroupKind::FILE_TREES, trees_wanted);
        let of_contents = assigner(GroupKind::FILE_CONTENTS, partitions_wanted);
        let placer = Placer { around: self.around.clone(), contents: self.contents.clone() };
        let leases = Leases { around: self.around.clone(), trees: self.trees.clone() };
        let sweeper = Sweeper { around: self.around.clone(), trees: self.trees.clone(), contents: self.contents.clone() };
        let growth = Growth { around: self.around.clone(), trees: self.trees.clone() };
        let mut tasks: Vec<Task> = Vec::new();
        for store in self.contents.stores().all() {
            let store = store.clone();
            tasks.push(Box::pin(async move { store.maintain().await }));
        }
        let (collector, settler) = (Collector(self.contents.clone()), Settler(self.trees.clone()));
        let (trees, contents, files) = (self.trees.clone(), self.contents.clone(), self);
        let others: [Task; 11] = [
            Box::pin(of_trees.run()),
            Box::pin(of_contents.run()),
            Box::pin(placer.run()),
            Box::pin(async move { trees.run().await }),
            Box::pin(async move { contents.run().await }),
            Box::pin(collector.run()),
            Box::pin(sweeper.run()),
            Box::pin(leases.run()),
            Box::pin(settler.run()),
            Box::pin(growth.run()),
            Box::pin(async move { files.mounts.keep().await }),
        ];
        tasks.extend(others);
        tasks
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let mut partitions = Vec::new();
            for (id, name) in loss::asked(&self.around.manager.snapshot()) {
                let standings = self.volumes.standings(id).await;
                partitions.extend(standings.into_iter().map(|(_, told)| (name.clone(), told.map(|(standing, _)| standing))));
            }
            loss::refuse(&partitions, loss)
        })
    }

    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.mounts.pause().await;
            join(self.trees.stop_leading(), self.contents.stop_leading()).await;
        })
    }

    fn close_device(&self, device: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(store) = self.contents.stores().get(device) {
                store.close().await;
            }
        })
    }

    fn leave(&self) -> BoxFuture<'_, ()> {
        let look = |kind| {
            let around = self.around.clone();
            move || -> BoxFuture<'static, Option<Named>> { Box::pin(named_by_others(around.clone(), kind)) }
        };
        Box::pin(async move {
            let left = (self.trees.leave(look(GroupKind::FILE_TREES)), self.contents.leave(look(GroupKind::FILE_CONTENTS)));
            join(left.0, left.1).await;
        })
    }

    fn figures(&self) -> Vec<Figure> {
        figures::of(&self.contents, &self.trees)
    }

    fn status(&self) -> Vec<StatusLine> {
        let count = self.around.manager.snapshot().file_volumes().filter(|volume| !volume.is_removing).count();
        if count == 0 {
            return Vec::new();
        }
        let (trees, partitions) = (self.trees.count(), self.contents.all().len());
        let text = format!(
            "{count} volumes in the cluster; {trees} trees here, {} led; {partitions} data partitions here, {} led, {} of these take no new extents, {} copies of these not in sync",
            self.trees.led(),
            self.contents.led().len(),
            self.contents.closed(),
            self.contents.copies_out()
        );
        vec![StatusLine { label: "files".to_owned(), text }]
    }
}
