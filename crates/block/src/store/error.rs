//! What can go wrong with a device's blobs.

use device::VolumeError;
use types::{DeviceId, ErrorKind};

use crate::stores::StoreError;

/// Why a device's blobs can't be served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenStoreError {
    #[error("device {device}: its volume of {bytes} bytes holds no blob; {least} are needed")]
    TooSmall { device: DeviceId, bytes: u64, least: u64 },
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// What the asker is told.
pub(super) fn refusal(device: DeviceId, error: &VolumeError) -> StoreError {
    match error.kind() {
        ErrorKind::Full => StoreError::NoSpace(device),
        _ => StoreError::Failed(error.to_string()),
    }
}
