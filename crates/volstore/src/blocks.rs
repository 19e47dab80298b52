//! Raw blocks of one copy of a group's volume.

use device::{Volume, VolumeError};
use disk::{AlignedBuf, DiskErrorKind};
use types::{ErrorKind, NodeId};

/// Whether bytes come from the page cache, where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Cached,
    Medium,
}

/// Why blocks were not read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BlockError {
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error("the copy on node {node}: {reason}")]
    Copy { node: NodeId, kind: ErrorKind, reason: String },
}

impl BlockError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            BlockError::Volume(error) => error.kind(),
            BlockError::Copy { kind, .. } => *kind,
        }
    }

    /// The medium has refused a read: other blocks may be there.
    pub fn is_bad_block(&self) -> bool {
        match self {
            BlockError::Volume(error) => is_bad_block(error),
            BlockError::Copy { kind, .. } => *kind == ErrorKind::Corrupt,
        }
    }
}

/// Whether a medium has refused to read a block of it.
pub fn is_bad_block(error: &VolumeError) -> bool {
    matches!(error, VolumeError::Disk { cause, .. } if cause.kind == DiskErrorKind::Failed)
}

/// Reads whole blocks of the copy that is here.
pub async fn read_local(volume: &Volume, offset: u64, len: usize, way: Way) -> Result<AlignedBuf, VolumeError> {
    match way {
        Way::Cached => volume.read(offset, len).await,
        Way::Medium => volume.read_medium(offset, len).await,
    }
}
