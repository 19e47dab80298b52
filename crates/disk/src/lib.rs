//! Aligned raw I/O on block devices and files, and a simulated disk; the only crate with `unsafe`.
//!
//! A [`Disk`] takes [`Request`]s and answers each with one call of its [`Done`]. Nothing here knows what the bytes mean.
//!
//! Invariants
//! - A completed durable write is on the medium, and so are all writes that had completed before a completed flush was
//!   submitted. A volatile write may be lost whole, lost in part or overtake others, sector by sector, until then.
//! - A buffer belongs to the disk from `submit` to `done`: nothing else can read, write or free it meanwhile.
//! - A failed flush or durable write poisons the disk: what the medium holds is unknown from then on, and a second try that
//!   succeeds proves nothing (the kernel drops the dirty state with the first error). Every later write and flush fails,
//!   reads go on, and only opening the disk anew, with the recovery that goes with it, ends it. A full file system is no
//!   such failure: that write is refused and nothing was promised.
//! - A read submitted, or tried, after a write completed sees that write, whichever descriptor serves it.
//! - Only reads are refused because too many requests wait: they come from clients without end. Writes, flushes and allocations are
//!   bounded by whoever makes them (the batches and headers of a device, the one frame of a log, one write of a block), and a failed one
//!   would end its device.
//! - No request is retried after an error, and none is reported before its last byte is where it belongs.

mod aligned;
mod apart;
mod error;
mod file;
mod future;
mod heap;
mod overlay;
mod poison;
mod request;
mod ring;
mod sim;
mod stats;

pub use crate::aligned::AlignedBuf;
pub use crate::apart::apart;
pub use crate::error::{DiskError, DiskErrorKind, Operation};
pub use crate::file::{FileDisk, LOCK_PATIENCE, LockHolder, OpenError, OpenOptions};
pub use crate::future::DiskExt;
pub use crate::heap::{GiveBack, give_back, use_huge_pages_when_large, use_small_pages};
pub use crate::overlay::OverlayDisk;
pub use crate::request::{Completion, Done, Durability, ReadMode, Request};
pub use crate::ring::{RingError, RingGuard, install_ring, ring_is_installed};
pub use crate::sim::{CompletionOrder, Fault, FaultOdds, FaultRule, SimDisk, SimOptions};
pub use crate::stats::DiskStats;

/// Offsets and lengths of writes and direct reads are multiples of this: the largest logical block of any device in use.
pub const BLOCK_BYTES: usize = 4096;

/// What a medium writes whole or not at all: the smallest logical sector of any device in use.
pub const SECTOR_BYTES: usize = 512;

/// The longest read or write in one request. Longer ones would hold a device against all others.
pub const MAX_REQUEST_BYTES: usize = 64 << 20;

/// A device or a file standing in for one.
pub trait Disk: Send + Sync + 'static {
    /// What a person calls this disk: its path, and what is unusual about how it is used.
    fn describe(&self) -> String;

    /// How many bytes can be read at present.
    fn size_bytes(&self) -> u64;

    /// The size that writes and allocations may reach: a block device's own, a file's limit, or none where only the file
    /// system limits the file.
    fn capacity_bytes(&self) -> Option<u64>;

    /// Fills `buf` from the page cache on the caller's thread, at any alignment. `false`: that would have to wait for the
    /// device, or the disk ends before `buf` does; `buf` then holds nothing of use and a request of
    /// [`ReadMode::Cached`] is the way.
    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError>;

    /// Starts `request` without waiting for the device. `done` is called exactly once: later on this thread, on another
    /// thread, or before this returns. It must not block.
    fn submit(&self, request: Request, done: Done);

    /// What this disk has done since it was opened.
    fn stats(&self) -> DiskStats;
}
