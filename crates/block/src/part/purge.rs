//! Images that are removed for good: their blobs first, then the record, so that nothing is left of which no record tells.

use super::cluster::ClusterStores;
use super::placing::ClusterPlacement;
use crate::stores::{Admission, BlobRow, StoreError, Stores};
use futures_util::{StreamExt, TryStreamExt, stream};
use manager::{ImageRecord, Manager};
use types::DeviceId;

/// Later than any session that a holder of the same token had.
const LAST_SESSION: u32 = u32::MAX;
/// Blobs that are freed at once.
const FREES_AT_ONCE: usize = 32;

/// Purges an image that is in the trash. Safe to begin anew.
pub async fn purge(
    manager: &Manager,
    stores: &ClusterStores,
    placement: &ClusterPlacement,
    record: &ImageRecord,
) -> Result<(), String> {
    let admission = Admission { image: record.id, token: record.token, session: LAST_SESSION, epoch: record.epoch };
    let devices: Vec<DeviceId> = record.devices.iter().map(|used| used.device).collect();
    if let Some((device, node)) = placement.silent_among(&devices).first() {
        return Err(format!(
            "{} may have blobs on device {device} of node {node}, which does not answer. Purge the image when that node is back; if it is gone \
             for good, remove it from the cluster first",
            record.name
        ));
    }
    manager.begin_image_purge(record.id).await.map_err(|error| error.to_string())?;
    for device in devices {
        let freed = free_all(stores, device, admission).await;
        freed.map_err(|error| format!("device {device}: {error}. Purge the image again when that is mended"))?;
    }
    manager.purge_image(record.id).await.map_err(|error| error.to_string())
}

async fn free_all(stores: &ClusterStores, device: DeviceId, admission: Admission) -> Result<(), StoreError> {
    let rows = stores.enter_new(device, admission).await?;
    let free = |row: BlobRow| async move {
        match stores.free(device, admission, row.at).await {
            Err(StoreError::Absent) => Ok(()),
            freed => freed,
        }
    };
    stream::iter(rows).map(free).buffer_unordered(FREES_AT_ONCE).try_collect().await
}
