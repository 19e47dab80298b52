//! What can go wrong on a device, one type per operation.

use std::sync::Arc;

use disk::{DiskError, DiskErrorKind};
use format::frame::{FrameError, PayloadCrc};
use format::superblock::SuperblockError;
use types::{ClusterId, DeviceId, DeviceUuid, ErrorKind, Place, ZoneIndex};

use crate::class::AppendClass;

/// Why a device could not be formatted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FormatError {
    #[error("{device} holds device {found} of cluster {cluster} already; name another or overwrite it on purpose")]
    Occupied { device: String, found: DeviceUuid, cluster: ClusterId },
    #[error("{device}: {zones} zones of {zone_bytes} bytes fit, at least {least} are needed")]
    TooSmall { device: String, zones: u64, zone_bytes: u64, least: u32 },
    #[error("zones of {zone_bytes} bytes: must be a multiple of 4096, at least {least}, at most {most}")]
    ZoneBytes { zone_bytes: u64, least: u64, most: u64 },
    #[error("{device} has no size of its own: name a capacity")]
    NoCapacity { device: String },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why a device could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    #[error("{device}: no superblock can be believed: {cause}")]
    Superblock { device: String, cause: SuperblockError },
    #[error("{device} is {found}, expected {expected}")]
    Identity { device: String, expected: String, found: String },
    #[error("{device}: superblock names no usable zone region")]
    Geometry { device: String },
    /// Without the table a zone that is lent could be taken for one of the log's.
    #[error(
        "{device}: zone {} is lent, but the table of lent zones is lost: give the device up (`trilith device forget`), its contents have other copies", zone.0
    )]
    UnitTableLost { device: String, zone: ZoneIndex },
    #[error("{device}: the table of lent zones can't be used: {reason}")]
    UnitTable { device: String, reason: String },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why an append did not happen, or is not known to have happened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// No zone is left for this class. Nothing was written. Collecting and resetting zones frees some.
    #[error("device {device} is full for {class:?} appends")]
    Full { device: DeviceId, class: AppendClass },
    /// A frame that no zone of this device can hold. Nothing was written.
    #[error("frame of {frame_bytes} bytes, the device takes at most {most}")]
    TooLarge { frame_bytes: usize, most: usize },
    /// A queue limit is reached. Nothing was written.
    #[error("device {device} has too many appends waiting")]
    Busy { device: DeviceId },
    /// The deadline passed before the frame was handed to the disk. Nothing was written.
    #[error("the deadline passed before the append was submitted")]
    DeadlinePassed,
    /// The device takes no writes any more, since an earlier one failed. This one was not started.
    #[error("device {device} takes no more writes: {cause}")]
    Poisoned { device: DeviceId, cause: Arc<DiskError> },
    /// The write failed: the frame may or may not be found by a later walk. The device takes no more writes.
    #[error("outcome of an append to device {device} is unknown: {cause}")]
    OutcomeUnknown { device: DeviceId, cause: Arc<DiskError> },
    /// The device was sealed for good ([`crate::Device::seal`]).
    #[error("device {device} is sealed")]
    Sealed { device: DeviceId },
    /// Refused on the way to the device, by a fence or for want of a connection. Nothing was written.
    #[error("device {device}: {reason}")]
    Refused { device: DeviceId, kind: ErrorKind, reason: Arc<str> },
    /// Sent to another node, which has not answered: the frame may be found by a later walk.
    #[error("outcome of an append to device {device} is unknown: {reason}")]
    Unanswered { device: DeviceId, reason: Arc<str> },
}

impl AppendError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            AppendError::Full { .. } => ErrorKind::Full,
            AppendError::TooLarge { .. } => ErrorKind::Invalid,
            AppendError::Busy { .. } => ErrorKind::Busy,
            AppendError::DeadlinePassed => ErrorKind::Timeout,
            AppendError::Poisoned { .. } | AppendError::Sealed { .. } => ErrorKind::Unavailable,
            AppendError::Refused { kind, .. } => *kind,
            AppendError::OutcomeUnknown { .. } | AppendError::Unanswered { .. } => ErrorKind::Timeout,
        }
    }

    /// Whether the frame is certainly not on the device.
    pub fn is_certain(&self) -> bool {
        !matches!(self, AppendError::OutcomeUnknown { .. } | AppendError::Unanswered { .. })
    }
}

/// Why a frame could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The place is not on this device at all: the caller's table is wrong.
    #[error("{place:?} is not a place of device {device}")]
    NoSuchPlace { device: DeviceId, place: Place },
    /// The zone holds nothing any more or has been reset and used again. Look the place up again.
    #[error("{place:?} is stale: its zone has been reset")]
    Stale { place: Place },
    /// What stands there is not the frame that was written, neither in the page cache nor on the medium. Or the place is stale and
    /// its zone so far in use again that it lies within another frame: look it up again before believing the worst.
    #[error("device {} zone {} offset {}: {damage}", place.device, place.zone.0, place.offset.bytes())]
    Corrupt { place: Place, damage: Damage },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl ReadError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ReadError::NoSuchPlace { .. } => ErrorKind::Internal,
            ReadError::Stale { .. } => ErrorKind::NotFound,
            ReadError::Corrupt { .. } => ErrorKind::Corrupt,
            ReadError::Disk(_) => ErrorKind::Unavailable,
        }
    }
}

/// What is wrong with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error(transparent)]
    Header(FrameError),
    #[error(transparent)]
    Payload(PayloadCrc),
    /// The header is good, but the frame would reach beyond its zone.
    #[error("frame of {frame_bytes} bytes reaches beyond its zone")]
    BeyondZone { frame_bytes: usize },
}

/// Why a zone could not be reset.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResetError {
    #[error("device {device} has no zone {}", zone.0)]
    NoSuchZone { device: DeviceId, zone: ZoneIndex },
    /// Only finished zones are reset. The zone is open, free or being reset.
    #[error("zone {} of device {device} is not finished", zone.0)]
    NotFinished { device: DeviceId, zone: ZoneIndex },
    #[error("device {device} takes no more writes: {cause}")]
    Poisoned { device: DeviceId, cause: Arc<DiskError> },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why a volume could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum VolumeError {
    /// Nothing was tried.
    #[error(
        "device {device}: {len} bytes at offset {offset} of a volume of {byte_count}: must be whole blocks of 4096 within it"
    )]
    Range { device: DeviceId, offset: u64, len: u64, byte_count: u64 },
    /// No zone is left that may be lent. Nothing was written. Space that objects or another volume give up can be had again.
    #[error("device {device} is full: it keeps its last free zones for deletes, checkpoints and collection")]
    Full { device: DeviceId },
    /// A write to a range that was not reserved. Nothing was written.
    #[error("device {device}: {len} bytes at offset {offset} of a volume were not reserved")]
    NotReserved { device: DeviceId, offset: u64, len: u64 },
    /// The device takes no writes any more, since an earlier one failed. This one was not started.
    #[error("device {device} takes no more writes, also not to its volumes: {cause}")]
    Poisoned { device: DeviceId, cause: Arc<DiskError> },
    /// The device was sealed for good ([`crate::Device::seal`]).
    #[error("device {device} is sealed and takes no write to its volumes")]
    Sealed { device: DeviceId },
    /// A write that failed may be there in part, or as a whole.
    #[error("device {device}, in a volume: {cause}")]
    Disk { device: DeviceId, cause: Arc<DiskError> },
}

impl VolumeError {
    pub(crate) fn disk(device: DeviceId, cause: Arc<DiskError>) -> VolumeError {
        VolumeError::Disk { device, cause }
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            VolumeError::Range { .. } => ErrorKind::Invalid,
            VolumeError::NotReserved { .. } => ErrorKind::Internal,
            VolumeError::Full { .. } => ErrorKind::Full,
            VolumeError::Poisoned { .. } | VolumeError::Sealed { .. } => ErrorKind::Unavailable,
            VolumeError::Disk { cause, .. } => match cause.kind {
                DiskErrorKind::NoSpace | DiskErrorKind::OutOfRange => ErrorKind::Full,
                DiskErrorKind::Overloaded => ErrorKind::Busy,
                _ => ErrorKind::Unavailable,
            },
        }
    }
}

/// Why notes could not be read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotesIoError {
    #[error("notes of {found} bytes, at most {most} fit")]
    TooLong { found: usize, most: usize },
    #[error(transparent)]
    Disk(#[from] DiskError),
}
