//! One device: superblock, regions, and the zone discipline. It knows frames, not objects; positions, not replicas or views.
//!
//! A device is a block device or a file. Its zones are appended to, finished, and reset as a whole. The target that serves the
//! device owns them: it assigns positions, advances, and numbers activations; the zones' headers are its only journal
//! (docs/rfd/0010).
//!
//! ```text
//!  append ─► combiner of (core, class) ─► place: reserve in the book, seal ─► one durable write ─► answers
//!                                              │
//!                                              └─ zone full: finish it, activate the next (zone_io)
//! ```
//!
//! Invariants:
//! - An append is answered with its place only when it is durable (unless the device was opened in a weaker [`SyncMode`]).
//! - Positions ascend within a stream and are never used twice; activation numbers only count up.
//! - A failed write or flush ends all writing. It is never retried.
//! - What a read returns has proved that it is the frame written at that place in that activation.
//!
//! - Zones are the log's or lent to volumes; the unit table says which (docs/rfd/0023).
//!
//! Reading order: `class`, `book`, `launch`, `combiner`, `zone_io`, `recover`, `reused`, `walk`, `read`, `piece`, `units`, `volume`, `strides`, `answers`, `device`.
#![forbid(unsafe_code)]

pub mod admission;
mod answers;
mod book;
mod chunks;
mod class;
mod combiner;
mod config;
mod device;
mod error;
mod finishing;
mod flushing;
mod geometry;
mod inner;
mod launch;
pub mod limits;
mod notes;
mod piece;
mod position_vector;
mod prewrite;
mod read;
mod recover;
mod reused;
mod scrub;
mod stats;
mod strides;
mod superblock_io;
mod units;
mod usage;
mod volume;
mod volume_disk;
mod walk;
mod zone_io;

pub use crate::class::AppendClass;
pub use crate::config::{DeviceConfig, FormatOptions, SyncMode};
pub use crate::device::{AppendOrder, Device};
pub use crate::error::{AppendError, Damage, FormatError, NotesIoError, OpenError, ReadError, ResetError, VolumeError};
pub use crate::finishing::Finishing;
pub use crate::launch::{AppendDone, Appended};
pub use crate::piece::{FramePiece, MAX_GAP_BYTES, PieceOfFrame};
pub use crate::position_vector::LogVector;
pub use crate::read::{FrameBuf, Tried};
pub use crate::scrub::{Gaps, NoSuchZone, ScrubFinding, ScrubReport};
pub use crate::stats::{Counter, DeviceStats};
pub use crate::strides::{HeaderIn, Strides};
pub use crate::usage::{OwnerUsage, Usage, ZoneInfo};
pub use crate::volume::Volume;
pub use crate::volume_disk::{Settle, VolumeDisk};
pub use crate::walk::{Walk, WalkEvent, WalkedFrame};
pub use format::superblock::notes::NotesKind;
pub use format::unit_table::VolumeOwner;
pub use format::zone_header::{ZoneState, ZoneStream};

#[cfg(test)]
mod tests;
