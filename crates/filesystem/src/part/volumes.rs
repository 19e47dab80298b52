//! The volumes that this node uses: a client of each, made when it is first needed.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use manager::{FilePartitionId, FileQuota, FileTreeId, FileVolumeRecord, Manager};
use net::BoxFuture;
use subsystem::Surroundings;
use types::FileVolumeId;

use super::contents::Contents;
use super::trees::Trees;
use crate::asking::Way;
use crate::asking::content::{ContentPartition, Standing};
use crate::asking::contents::{Partition, Partitions, VolumeContents};
use crate::asking::tree::{TreeAnswer, TreeAsk, TreePartition, TreeStanding};
use crate::asking::trees::{TreeList, VolumeTrees};
use crate::client::{Client, Opening};
use crate::data::PartitionRoom;
use crate::meta::{MetaCallError, MetaPartition, MetaSession, Usage};

/// How long a new volume waits for its trees.
const TREE_PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks for it.
const TREE_LOOK: Duration = Duration::from_millis(50);
/// How long a list of volumes waits for one of them.
const USAGE_PATIENCE: Duration = Duration::from_secs(3);

/// What a client of a volume uses.
type Used = (Arc<VolumeTrees<NodeTrees>>, Arc<VolumeContents<NodePartitions>>);

/// A data partition, and what it says of itself; none if it does not answer.
pub type PartitionStanding = (FilePartitionId, Option<(Standing, PartitionRoom)>);

/// The trees of a volume, and what each says of itself; none if it does not answer.
pub type TreeStandings = Vec<(FileTreeId, Option<TreeStanding>)>;

/// What a volume has and may have; none if a tree does not answer.
pub fn total(trees: &TreeStandings) -> Option<Usage> {
    let usages: Option<Vec<Usage>> = trees.iter().map(|(_, told)| told.map(|told| told.usage)).collect();
    usages.filter(|usages| !usages.is_empty()).map(|usages| Usage::total(&usages))
}

/// Ways to volumes.
pub struct Volumes {
    around: Surroundings,
    trees: Arc<Trees>,
    contents: Arc<Contents>,
}

impl Volumes {
    pub fn new(around: &Surroundings, trees: Arc<Trees>, contents: Arc<Contents>) -> Volumes {
        Volumes { around: around.clone(), trees, contents }
    }

    /// The record of a volume.
    pub async fn find(&self, name: &str) -> Result<Arc<FileVolumeRecord>, String> {
        self.around.manager.fresh().await.map_err(|error| error.to_string())?;
        let state = self.around.manager.snapshot();
        state
            .file_volume_named(name)
            .cloned()
            .ok_or_else(|| format!("there is no volume {name}: `trilith volume ls` shows which there are"))
    }

    /// A new session at a volume.
    pub async fn client(&self, id: FileVolumeId, opening: Opening) -> Result<Arc<Client>, String> {
        let (meta, data) = self.partitions(id)?;
        data.learn_room().await;
        let client = Client::connect_as(meta, data, self.around.env.clone(), opening).await;
        client.map_err(|error| error.to_string())
    }

    /// Ends a session at a volume that an earlier process had, and that no process goes on with.
    pub async fn end_session(&self, id: FileVolumeId, session: MetaSession) -> Result<(), String> {
        let (meta, _) = self.partitions(id)?;
        Client::end_session(meta, self.around.env.clone(), session).await.map_err(|error| error.to_string())
    }

    /// The session at a volume that an earlier process had. The volume's trees need not answer yet.
    pub fn resume(&self, id: FileVolumeId, record: File) -> Result<Arc<Client>, String> {
        let (meta, data) = self.partitions(id)?;
        Client::resume(meta, data, self.around.env.clone(), record).map_err(|error| error.to_string())
    }

    fn partitions(&self, id: FileVolumeId) -> Result<Used, String> {
        let state = self.around.manager.snapshot();
        if state.file_volume(id).is_none_or(|volume| volume.is_removing) {
            return Err(format!("volume {id} was removed: end its mounts with `trilith umount`"));
        }
        let partitions = NodePartitions { manager: self.around.manager.clone(), contents: self.contents.clone(), volume: id };
        let trees = NodeTrees { manager: self.around.manager.clone(), trees: self.trees.clone(), volume: id };
        Ok((Arc::new(VolumeTrees::new(trees)), Arc::new(VolumeContents::new(&self.around.env, partitions))))
    }

    /// Until a new volume can be used.
    pub async fn wait_until_usable(&self, id: FileVolumeId, quota: FileQuota) -> Result<(), String> {
        self.wait_for_trees(id, quota).await?;
        let until = self.around.env.now() + TREE_PATIENCE;
        let is_serving = |(_, told): &PartitionStanding| told.as_ref().is_some_and(|(standing, _)| standing.is_serving);
        while !self.standings(id).await.iter().any(is_serving) {
            if self.around.env.now() >= until {
                return Err(
                    "it is noted, but it has no place for contents yet: trilith volume info shows when it has".to_owned()
                );
            }
            self.around.env.sleep(TREE_LOOK).await;
        }
        Ok(())
    }

    /// Until the trees of a volume answer, and know the quota that the volume was given.
    pub async fn wait_for_trees(&self, id: FileVolumeId, quota: FileQuota) -> Result<(), String> {
        let until = self.around.env.now() + TREE_PATIENCE;
        let knows = |usage: Usage| (usage.quota_bytes, usage.quota_inodes) == (quota.bytes, quota.inodes);
        let is_known = |(_, told): &(FileTreeId, Option<TreeStanding>)| told.is_some_and(|told| knows(told.usage));
        let is_all_known = |standings: &TreeStandings| !standings.is_empty() && standings.iter().all(is_known);
        while !is_all_known(&self.tree_standings(id).await) {
            if self.around.env.now() >= until {
                let reason = "it is noted, but a tree of the volume does not answer yet: trilith volume info shows when all do";
                return Err(reason.to_owned());
            }
            self.around.env.sleep(TREE_LOOK).await;
        }
        Ok(())
    }

    /// What the data partitions of a volume say of themselves.
    pub async fn standings(&self, id: FileVolumeId) -> Vec<PartitionStanding> {
        let state = self.around.manager.snapshot();
        let partitions = state.file_volume(id).map(|volume| volume.partitions.clone()).unwrap_or_default();
        join_all(partitions.iter().map(|partition| async { (partition.id, self.standing(partition.id).await) })).await
    }

    async fn standing(&self, id: FilePartitionId) -> Option<(Standing, PartitionRoom)> {
        let partition = ContentPartition::new(self.contents.way(id));
        tokio::select! {
            standing = partition.standing() => standing.ok(),
            () = self.around.env.sleep(USAGE_PATIENCE) => None,
        }
    }

    /// What the trees of a volume say of themselves.
    pub async fn tree_standings(&self, id: FileVolumeId) -> TreeStandings {
        let state = self.around.manager.snapshot();
        let trees = state.file_volume(id).map(|volume| volume.trees.clone()).unwrap_or_default();
        join_all(trees.iter().map(|tree| async { (*tree, self.tree_standing(*tree).await) })).await
    }

    async fn tree_standing(&self, id: FileTreeId) -> Option<TreeStanding> {
        let way = self.trees.way(id);
        let answer = way.ask(TreeAsk::Standing, Some(self.around.env.now() + USAGE_PATIENCE));
        match answer.await {
            Ok(TreeAnswer::Standing(standing)) => Some(standing),
            _ => None,
        }
    }
}

/// The trees of a volume, as the manager's state has them here.
struct NodeTrees {
    manager: Arc<Manager>,
    trees: Arc<Trees>,
    volume: FileVolumeId,
}

impl TreeList for NodeTrees {
    fn numbers(&self) -> Vec<u32> {
        let state = self.manager.snapshot();
        let trees = state.file_volume(self.volume).map(|volume| &volume.trees);
        trees.into_iter().flatten().map(|tree| tree.0).collect()
    }

    fn learn(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Err(error) = self.manager.fresh().await {
                tracing::debug!(%error, "which trees the volume has is not known");
            }
        })
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), MetaCallError>> {
        Box::pin(async { self.trees.settle().await.map_err(MetaCallError::Unavailable) })
    }

    fn open(&self, number: u32) -> Arc<dyn MetaPartition> {
        Arc::new(TreePartition(self.trees.way(FileTreeId(number))))
    }
}

/// The data partitions of a volume, as the manager's state has them here.
struct NodePartitions {
    manager: Arc<Manager>,
    contents: Arc<Contents>,
    volume: FileVolumeId,
}

impl Partitions for NodePartitions {
    fn numbers(&self) -> Vec<u32> {
        let state = self.manager.snapshot();
        let partitions = state.file_volume(self.volume).map(|volume| &volume.partitions);
        partitions.into_iter().flatten().map(|partition| partition.id.0).collect()
    }

    fn open(&self, number: u32) -> Arc<dyn Partition> {
        Arc::new(ContentPartition::new(self.contents.way(FilePartitionId(number))))
    }
}
