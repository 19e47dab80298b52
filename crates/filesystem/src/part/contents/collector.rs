//! Frees what this node's devices have of data partitions whose volumes are no more. Ids of partitions are never used again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use manager::FilePartitionId;

use super::Contents;
use crate::data::Extents;
use crate::data::copies::CopyStore;
use crate::data::store::ExtentStore;
use crate::ids::ExtentId;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Extents that are removed at once.
const AT_ONCE: usize = 16;

/// The work, on one node.
pub struct Collector(pub Arc<Contents>);

impl Collector {
    /// For as long as the node lives.
    pub async fn run(self) {
        let around = self.0.around();
        loop {
            around.env.sleep(LOOK).await;
            for store in self.0.stores().all() {
                let found = partitions_of(store);
                for partition in self.gone(&found).await {
                    tracing::info!(partition = partition.0, device = %store.device(), "the contents of a volume that was removed are freed");
                    free(store, partition).await;
                }
            }
        }
    }

    /// Those of these that are no more. The manager's state is looked at after they were found: a new one is in it.
    async fn gone(&self, found: &BTreeSet<FilePartitionId>) -> Vec<FilePartitionId> {
        let unknown = self.unknown(found);
        let is_sure = !unknown.is_empty() && self.0.around().manager.fresh().await.is_ok();
        if is_sure { self.unknown(&unknown).into_iter().collect() } else { Vec::new() }
    }

    fn unknown(&self, found: &BTreeSet<FilePartitionId>) -> BTreeSet<FilePartitionId> {
        let state = self.0.around().manager.snapshot();
        let known: BTreeSet<FilePartitionId> =
            state.file_volumes().flat_map(|volume| &volume.partitions).map(|partition| partition.id).collect();
        found.difference(&known).filter(|partition| self.0.member(**partition).is_none()).copied().collect()
    }
}

/// The partitions of which a store has extents.
fn partitions_of(store: &ExtentStore) -> BTreeSet<FilePartitionId> {
    let mut found = BTreeSet::new();
    let mut after = None;
    while let Some(first) = store.extents(after, 1).first() {
        let partition = first.extent.partition;
        found.insert(FilePartitionId(partition));
        after = Some(ExtentId { partition, term: u32::MAX, number: u64::MAX });
    }
    found
}

async fn free(store: &ExtentStore, partition: FilePartitionId) {
    loop {
        let extents = store.list(partition.0, None, AT_ONCE);
        if extents.is_empty() {
            return;
        }
        let removed = join_all(extents.iter().map(|extent| store.remove(*extent))).await;
        if let Some(Err(error)) = removed.into_iter().find(Result::is_err) {
            tracing::debug!(partition = partition.0, %error, "the contents of a volume that was removed are freed later");
            return;
        }
    }
}
