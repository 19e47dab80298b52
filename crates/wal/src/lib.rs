//! Group-commit log: preallocated recycled segments, a checksum per record, a torn tail told from corruption.
//!
//! A [`Wal`] keeps records in the order in which they were handed over, under consecutive numbers ([`Lsn`]). A record is durable
//! when its future completes. There are no timers: the first record at an idle log is written at once, what queues up while that
//! write is on its way goes into the next one.
//!
//! Invariants:
//! - At most one write is on its way, and it is durable before the next is submitted. Therefore any trace of a later write
//!   proves that every earlier one was completed.
//! - Recovery takes a bad frame for the torn tail of an unfinished write only where no such trace follows it. Everything else
//!   that is bad is an error that names the place, what was expected and what was found. Nothing is dropped silently.
//! - An acknowledged record comes back after any crash, in order, until [`Wal::truncate_before`] gives it up. A record that was
//!   never acknowledged may come back too, if its write had got that far, but only as the next after all acknowledged ones.
//! - A record that is kept in the log's tail comes back after any end of the process; after a power cut too, or none behind it does.
//! - A segment's header is durable before the first frame of that incarnation. Segments are given up oldest first and reused in
//!   that order, so those of one log are consecutive at all times.
//! - After a failed write nothing more is written: what the medium holds is known again only after a recovery.
//!
//! The one loss that no single log can see is that of its last frame as a whole (a medium that lies about flushes, or decay of
//! exactly those blocks). An owner that knows better says so: [`OpenOptions::keep_from`] is checked against the log's end.
#![forbid(unsafe_code)]

mod error;
mod layout;
mod log;
mod recovery;
mod settling;
mod store;
mod tail;

#[cfg(test)]
mod tests;

use std::fmt;

pub use error::{AppendError, Failure, Mismatch, OpenError, StoreError};
pub use log::{KEPT_DELAY, OpenOptions, Pending, Reservation, Wal};
pub use settling::Settling;
pub use store::{FolderStore, RegionStore, Segment, SegmentStore, StoreFuture};
pub use tail::{FileTail, MAX_KEPT_RECORD_BYTES, MIN_TAIL_BYTES, SimTail, Tail};

/// Most segments of one log. A log that would need more ends with [`Failure::Full`]: its owner forgot to truncate.
pub const MAX_SEGMENTS: usize = 256;

/// Smallest segment: a header, and one frame of useful size.
pub const MIN_SEGMENT_BYTES: u64 = 16 * 1024;

/// Largest segment; recovery reads one segment at a time into memory, in one request.
pub const MAX_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes of one frame, and so of one write, unless a single record is longer.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;

/// Most records that wait for a write, in units of [`QUEUE_UNIT_BYTES`] begun: 64 MiB of long ones, 65,536 short ones.
pub const MAX_QUEUE_UNITS: usize = 64 * 1024;

/// What one unit of the queue's limit stands for.
pub const QUEUE_UNIT_BYTES: usize = 1024;

/// Segments that a new log is given. The second is there so that the first change of segment has to make none.
pub const INITIAL_SEGMENTS: usize = 2;

/// Largest number of a record or of an incarnation of a segment. A log never gets there: a billion a second take 292 years. So a
/// number that is read and is larger is wrong, and one that passes can be counted on from without an overflow.
pub(crate) const MAX_NUMBER: u64 = 1 << 63;

/// The number of a record: 1 for the first, consecutive. 0 means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The number of the first record of a log.
    pub const FIRST: Lsn = Lsn(1);

    /// The number after this one.
    pub const fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }

    /// The number before this one. `Lsn(0)` has none.
    pub const fn previous(self) -> Lsn {
        assert!(self.0 > 0);
        Lsn(self.0 - 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What tells one log's segments from another's: random, made with the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogId(pub(crate) [u8; 16]);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogId({self})")
    }
}
