//! Frees what this node's devices have of volumes that are no more. Ids of volumes are never used again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use types::FileVolumeId;

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
                for volume in volumes_of(store) {
                    if self.is_gone(volume).await {
                        tracing::info!(%volume, device = %store.device(), "the contents of a volume that was removed are freed");
                        free(store, volume).await;
                    }
                }
            }
        }
    }

    /// Whether a volume is no more, of which there is content. The manager's state is looked at after that was seen: a new volume is in it.
    async fn is_gone(&self, volume: FileVolumeId) -> bool {
        let around = self.0.around();
        let is_known = || around.manager.snapshot().file_volume(volume).is_some();
        !is_known() && self.0.member(volume).is_none() && around.manager.fresh().await.is_ok() && !is_known()
    }
}

/// The volumes of which a store has extents.
fn volumes_of(store: &ExtentStore) -> Vec<FileVolumeId> {
    let mut found = Vec::new();
    let mut after = None;
    while let Some(first) = store.extents(after, 1).first() {
        let partition = first.extent.partition;
        found.push(FileVolumeId(partition));
        after = Some(ExtentId { partition, term: u32::MAX, number: u64::MAX });
    }
    found
}

async fn free(store: &ExtentStore, volume: FileVolumeId) {
    loop {
        let extents = store.list(volume.0, None, AT_ONCE);
        if extents.is_empty() {
            return;
        }
        let removed = join_all(extents.iter().map(|extent| store.remove(*extent))).await;
        if let Some(Err(error)) = removed.into_iter().find(Result::is_err) {
            tracing::debug!(%volume, %error, "the contents of a volume that was removed are freed later");
            return;
        }
    }
}
