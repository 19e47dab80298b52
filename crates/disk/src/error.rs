//! Why a disk could not do what it was asked.

use std::fmt;
use std::io;
use std::sync::Arc;

/// A failed operation: which device, which range, what for.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{device}: {operation} of {len} bytes at offset {offset}: {kind}{}", cause_text(cause))]
pub struct DiskError {
    pub kind: DiskErrorKind,
    pub device: Arc<str>,
    pub operation: Operation,
    pub offset: u64,
    pub len: u64,
    #[source]
    pub cause: Option<Arc<io::Error>>,
}

/// What the caller has to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskErrorKind {
    /// The medium or the path to it failed (EIO and everything that is not listed below).
    Failed,
    /// The file system under the file is full. Nothing was promised; it does not poison.
    NoSpace,
    /// Beyond the disk's end or capacity.
    OutOfRange,
    /// A write or a direct read that is not a multiple of a block.
    Misaligned,
    /// Empty, or longer than `MAX_REQUEST_BYTES`.
    BadLength,
    /// An earlier flush or durable write failed; this disk takes no more writes until it is opened anew.
    Poisoned,
    /// A read, and more requests are waiting than the queue holds. Nothing was started.
    Overloaded,
    /// The disk was dropped with the request unanswered.
    Abandoned,
}

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Read,
    Write,
    Flush,
    Allocate,
    WriteZeros,
    Discard,
}

impl Operation {
    pub const ALL: [Operation; 6] =
        [Operation::Read, Operation::Write, Operation::Flush, Operation::Allocate, Operation::WriteZeros, Operation::Discard];
}

impl DiskErrorKind {
    /// The kind for an error of the operating system.
    pub(crate) fn of(cause: &io::Error) -> DiskErrorKind {
        match cause.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => DiskErrorKind::NoSpace,
            _ => DiskErrorKind::Failed,
        }
    }
}

impl fmt::Display for DiskErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            DiskErrorKind::Failed => "the device failed",
            DiskErrorKind::NoSpace => "no space left",
            DiskErrorKind::OutOfRange => "beyond the end of the disk",
            DiskErrorKind::Misaligned => "not a multiple of the block size",
            DiskErrorKind::BadLength => "empty or longer than one request may be",
            DiskErrorKind::Poisoned => "refused, because an earlier flush or durable write failed; restart to recover",
            DiskErrorKind::Overloaded => "too many requests are waiting",
            DiskErrorKind::Abandoned => "the disk was closed first",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Allocate => "allocation",
            Operation::WriteZeros => "writing zeros",
            Operation::Discard => "discard",
        })
    }
}

fn cause_text(cause: &Option<Arc<io::Error>>) -> String {
    cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"))
}
