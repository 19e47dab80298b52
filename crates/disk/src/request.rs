//! What a disk can be asked, and how it answers.

use crate::aligned::AlignedBuf;
use crate::error::{DiskError, DiskErrorKind, Operation};
use crate::{BLOCK_BYTES, MAX_REQUEST_BYTES};

/// Which way a read takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Through the page cache; any alignment.
    Cached,
    /// From the medium (scrub, recovery); block aligned.
    Direct,
}

/// What a completed write promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing beyond visibility: a power cut may lose or tear it until the next flush.
    Volatile,
    /// On the medium before completion (FUA, or a write and a flush).
    Durable,
}

/// One operation on a disk.
#[derive(Debug)]
pub enum Request {
    /// Fills `buf`, whose length says how much is wanted.
    Read { offset: u64, buf: AlignedBuf, mode: ReadMode },
    /// Writes all of `buf`; block aligned. A file grows as needed, up to its capacity.
    Write { offset: u64, buf: AlignedBuf, durability: Durability },
    /// Makes every write that has completed before this request durable.
    Flush,
    /// Reserves space, so that writes within cannot run out of it, and grows the file to cover the range.
    Allocate { offset: u64, len: u64 },
    /// Makes the range zeros, with space reserved for it; block aligned. It is as durable as a [`Durability::Volatile`] write.
    WriteZeros { offset: u64, len: u64 },
    /// Gives the space of the range back to the device or the file system; block aligned. Until the range is written again a read returns zeros or
    /// what was there. A disk that can't give space back does nothing.
    Discard { offset: u64, len: u64 },
}

impl Request {
    /// What is asked, for errors and counters.
    pub fn operation(&self) -> Operation {
        match self {
            Request::Read { .. } => Operation::Read,
            Request::Write { .. } => Operation::Write,
            Request::Flush => Operation::Flush,
            Request::Allocate { .. } => Operation::Allocate,
            Request::WriteZeros { .. } => Operation::WriteZeros,
            Request::Discard { .. } => Operation::Discard,
        }
    }

    /// The range that the request touches; empty at 0 for a flush.
    pub fn range(&self) -> (u64, u64) {
        match self {
            Request::Read { offset, buf, .. } | Request::Write { offset, buf, .. } => (*offset, buf.len() as u64),
            Request::Flush => (0, 0),
            Request::Allocate { offset, len } | Request::WriteZeros { offset, len } | Request::Discard { offset, len } => {
                (*offset, *len)
            }
        }
    }

    /// Whether `done` will get a result that promises durability.
    pub(crate) fn promises_durability(&self) -> bool {
        matches!(self, Request::Flush | Request::Write { durability: Durability::Durable, .. })
    }

    /// Whether a poisoned disk refuses it.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self, Request::Read { .. })
    }

    /// What is wrong with the request itself, on a disk of `size` bytes that may grow to `capacity`.
    pub(crate) fn fault(&self, size: u64, capacity: Option<u64>) -> Option<DiskErrorKind> {
        let (offset, len) = self.range();
        let Some(end) = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64) else {
            return Some(DiskErrorKind::OutOfRange);
        };
        let aligned = offset.is_multiple_of(BLOCK_BYTES as u64) && len.is_multiple_of(BLOCK_BYTES as u64);
        match self {
            Request::Flush => None,
            Request::Read { .. } | Request::Write { .. } if len == 0 || len > MAX_REQUEST_BYTES as u64 => {
                Some(DiskErrorKind::BadLength)
            }
            Request::Allocate { .. } | Request::WriteZeros { .. } | Request::Discard { .. } if len == 0 => {
                Some(DiskErrorKind::BadLength)
            }
            Request::Read { mode: ReadMode::Direct, .. } | Request::Write { .. } if !aligned => Some(DiskErrorKind::Misaligned),
            Request::WriteZeros { .. } | Request::Discard { .. } if !aligned => Some(DiskErrorKind::Misaligned),
            Request::Read { .. } if end > size => Some(DiskErrorKind::OutOfRange),
            Request::Write { .. } | Request::Allocate { .. } | Request::WriteZeros { .. } | Request::Discard { .. }
                if capacity.is_some_and(|most| end > most) =>
            {
                Some(DiskErrorKind::OutOfRange)
            }
            _ => None,
        }
    }

    /// The buffer back, if the request has one.
    pub(crate) fn into_buf(self) -> Option<AlignedBuf> {
        match self {
            Request::Read { buf, .. } | Request::Write { buf, .. } => Some(buf),
            Request::Flush | Request::Allocate { .. } | Request::WriteZeros { .. } | Request::Discard { .. } => None,
        }
    }
}

/// The answer to one request.
#[derive(Debug)]
pub struct Completion {
    pub result: Result<(), DiskError>,
    /// The request's buffer: filled by a read that went well, unchanged by a write, of no meaning after a failed read.
    pub buf: Option<AlignedBuf>,
}

/// Called once with the answer.
pub type Done = Box<dyn FnOnce(Completion) + Send>;
