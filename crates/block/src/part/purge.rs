//! Images that are removed for good: their blobs first, then the record, so that nothing is left of which no record tells.

use super::local::LocalStores;
use crate::stores::{Admission, BlobRow, StoreError, Stores};
use futures_util::{StreamExt, TryStreamExt, stream};
use manager::{ImageRecord, Manager};
use types::DeviceId;

/// Later than any session that a holder of the same token had.
const LAST_SESSION: u32 = u32::MAX;
/// Blobs that are freed at once.
const FREES_AT_ONCE: usize = 32;

/// Purges an image that is in the trash. Safe to begin anew.
pub async fn purge(manager: &Manager, stores: &LocalStores, record: &ImageRecord) -> Result<(), String> {
    let admission = Admission { image: record.id, token: record.token, session: LAST_SESSION, epoch: record.epoch };
    let devices: Vec<DeviceId> = record.devices.iter().map(|used| used.device).collect();
    if let Some(device) = devices.iter().find(|device| stores.get(**device).is_none()) {
        return Err(format!(
            "{} has blobs on device {device}, which is not on this node now: purge it where that is",
            record.name
        ));
    }
    manager.begin_image_purge(record.id).await.map_err(|error| error.to_string())?;
    for device in devices {
        free_all(stores, device, admission).await.map_err(|error| format!("device {device}: {error}"))?;
    }
    manager.purge_image(record.id).await.map_err(|error| error.to_string())
}

async fn free_all(stores: &LocalStores, device: DeviceId, admission: Admission) -> Result<(), StoreError> {
    let rows = stores.enter(device, admission).await?;
    let free = |row: BlobRow| async move {
        match stores.free(device, admission, row.at).await {
            Err(StoreError::Absent) => Ok(()),
            freed => freed,
        }
    };
    stream::iter(rows).map(free).buffer_unordered(FREES_AT_ONCE).try_collect().await
}
