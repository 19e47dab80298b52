//! A logical volume: raw blocks that stand on one device, or in copies on several nodes.

use device::{Volume, VolumeError};
use disk::{AlignedBuf, DiskErrorKind};
use types::{DeviceId, DeviceUuid, ErrorKind, NodeId};

use crate::mirror::Mirror;

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

/// A logical volume. Clones are the same one.
#[derive(Clone)]
pub enum LogicalVolume {
    /// On one device of this server.
    Local(Volume),
    /// In copies on several nodes.
    Mirrored(Mirror),
}

impl From<Volume> for LogicalVolume {
    fn from(volume: Volume) -> LogicalVolume {
        LogicalVolume::Local(volume)
    }
}

impl LogicalVolume {
    /// The device of the copy that is here.
    fn local(&self) -> &Volume {
        match self {
            LogicalVolume::Local(volume) => volume,
            LogicalVolume::Mirrored(mirror) => mirror.local(),
        }
    }

    /// What superblocks name the volume by.
    pub fn uuid(&self) -> DeviceUuid {
        match self {
            LogicalVolume::Local(volume) => volume.device_uuid(),
            LogicalVolume::Mirrored(mirror) => mirror.uuid(),
        }
    }

    pub fn device(&self) -> DeviceId {
        self.local().device()
    }

    pub fn byte_count(&self) -> u64 {
        self.local().byte_count()
    }

    /// Bytes of a unit of space.
    pub fn unit_bytes(&self) -> u64 {
        match self {
            LogicalVolume::Local(volume) => volume.unit_bytes(),
            LogicalVolume::Mirrored(mirror) => mirror.unit_bytes(),
        }
    }

    /// The units that have space, in all copies.
    pub fn units(&self) -> Vec<u32> {
        match self {
            LogicalVolume::Local(volume) => volume.units(),
            LogicalVolume::Mirrored(mirror) => mirror.units(),
        }
    }

    /// Bytes for which units could get space now, as far as this node knows.
    pub fn room_bytes(&self) -> u64 {
        self.local().room_bytes()
    }

    /// Whether writes are worth a try.
    pub fn takes_writes(&self) -> bool {
        !self.local().hangs() && self.local().poisoned_by().is_none()
    }

    /// How many copies there are. Copy 0 is the one that is here.
    pub fn copies(&self) -> usize {
        match self {
            LogicalVolume::Local(_) => 1,
            LogicalVolume::Mirrored(mirror) => mirror.copies(),
        }
    }

    /// Reads whole blocks of one copy.
    pub async fn read(&self, copy: usize, offset: u64, len: usize, way: Way) -> Result<AlignedBuf, BlockError> {
        match self {
            LogicalVolume::Local(volume) => Ok(read_local(volume, offset, len, way).await?),
            LogicalVolume::Mirrored(mirror) => mirror.read(copy, offset, len, way).await,
        }
    }

    /// Writes whole blocks, to all copies at once.
    pub async fn write(&self, offset: u64, buf: AlignedBuf) -> Result<(), BlockError> {
        match self {
            LogicalVolume::Local(volume) => Ok(volume.write(offset, buf).await?),
            LogicalVolume::Mirrored(mirror) => mirror.write(offset, buf).await,
        }
    }

    /// Writes blocks of one copy that lacks them.
    pub async fn repair(&self, copy: usize, offset: u64, buf: AlignedBuf) -> Result<(), BlockError> {
        match self {
            LogicalVolume::Local(volume) => Ok(volume.write(offset, buf).await?),
            LogicalVolume::Mirrored(mirror) => mirror.write_copy(copy, offset, buf).await,
        }
    }

    /// A copy has failed where the group is opened: the next view is without it.
    pub fn blame(&self, copy: usize, error: BlockError) -> BlockError {
        if let LogicalVolume::Mirrored(mirror) = self {
            mirror.blame(copy, &error);
        }
        error
    }

    /// Makes everything written durable, in all copies.
    pub async fn flush(&self) -> Result<(), BlockError> {
        match self {
            LogicalVolume::Local(volume) => Ok(volume.flush().await?),
            LogicalVolume::Mirrored(mirror) => mirror.flush().await,
        }
    }

    /// Gets units their space, in all copies.
    pub async fn reserve(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        match self {
            LogicalVolume::Local(volume) => Ok(volume.reserve(offset, len).await?),
            LogicalVolume::Mirrored(mirror) => mirror.reserve(offset, len).await,
        }
    }

    /// Gives a unit's space back, where that can be done: whether it was.
    pub async fn give_back(&self, unit: u32) -> Result<(), BlockError> {
        match self {
            LogicalVolume::Local(volume) => Ok(volume.give_back(unit).await?),
            LogicalVolume::Mirrored(_) => Ok(()),
        }
    }

    /// Whether units go back to the device when nothing is in them.
    pub fn gives_back(&self) -> bool {
        matches!(self, LogicalVolume::Local(_))
    }
}

/// Reads whole blocks of a device of this server.
pub async fn read_local(volume: &Volume, offset: u64, len: usize, way: Way) -> Result<AlignedBuf, VolumeError> {
    match way {
        Way::Cached => volume.read(offset, len).await,
        Way::Medium => volume.read_medium(offset, len).await,
    }
}
