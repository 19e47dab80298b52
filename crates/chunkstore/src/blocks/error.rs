//! What can go wrong with a device's blocks.

use device::VolumeError;
use types::{DeviceId, ErrorKind};

use crate::message::NodeRefusal;

/// Why a device's chunks can't be served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BlocksError {
    #[error("device {device}: its volume of {bytes} bytes holds no block; {least} are needed")]
    TooSmall { device: DeviceId, bytes: u64, least: u64 },
    /// Without them a late request could bring back what was deleted.
    #[error(
        "device {device}: block {block} has chunks, but the fences at the start of the volume are lost: give the device up, its chunks have other copies"
    )]
    FencesLost { device: DeviceId, block: u32 },
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// Why something is not durable.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("the fences have no room for one shard more")]
    TooManyShards,
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl WriteError {
    /// What whoever asked is told.
    pub fn refusal(&self) -> NodeRefusal {
        match self {
            WriteError::TooManyShards => NodeRefusal::Full,
            WriteError::Volume(error) => match error.kind() {
                ErrorKind::Full => NodeRefusal::Full,
                ErrorKind::Busy => NodeRefusal::Busy,
                _ => NodeRefusal::Failed,
            },
        }
    }
}
