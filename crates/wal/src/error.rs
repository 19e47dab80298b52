//! One error type per operation, and what can be wrong with bytes on a medium.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use disk::{DiskError, DiskErrorKind};

use crate::{Lsn, MAX_SEGMENTS};

/// What was found in place of a sound header, frame or record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("expected the magic number, found {found:#018x}")]
    Magic { found: u64 },
    #[error("expected header checksum {expected:#010x}, found {found:#010x}")]
    HeaderChecksum { expected: u32, found: u32 },
    #[error("expected checksum {expected:#010x} for record {lsn}, found {found:#010x}")]
    RecordChecksum { lsn: Lsn, expected: u32, found: u32 },
    #[error("expected at most {most} bytes, found a length of {found}")]
    Length { most: usize, found: usize },
    #[error("expected a frame of whole blocks, found a length of {found}")]
    Blocks { found: usize },
    /// Of a record or of a segment. Checksums prove what was written, not that it makes sense.
    #[error("expected a number from 1 to {most}, found {found}")]
    Number { most: u64, found: u64 },
    #[error("expected layout version {newest} or older, found {found}; use a newer Trilith")]
    Version { newest: u32, found: u32 },
    #[error("expected record {expected}, found record {found}")]
    Order { expected: Lsn, found: Lsn },
    #[error("expected segment sequence {expected}, found {found}")]
    Sequence { expected: u64, found: u64 },
    #[error("expected a segment of {expected} bytes, found {found}")]
    SegmentBytes { expected: u64, found: u64 },
    #[error("expected log {expected}, found log {found}")]
    ForeignLog { expected: String, found: String },
}

/// The log could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the segments of the log cannot be opened")]
    Store(#[from] StoreError),
    #[error("the log cannot be read")]
    Disk(#[from] DiskError),
    /// Bytes that were once durable are not what was written. A torn tail is no corruption and is never reported as such.
    #[error(
        "corrupt log: segment {segment}, offset {offset}: {mismatch}, but later records prove that this was durable; \
         rebuild its owner's state: a node of a cluster is removed, and an empty one joins"
    )]
    Corrupt { segment: String, offset: u64, mismatch: Mismatch },
    /// A segment that cannot belong to this log.
    #[error("log segment {segment} is unusable: {mismatch}")]
    Segment { segment: String, mismatch: Mismatch },
    /// The owner's state says that records existed which the log does not hold.
    #[error(
        "the log begins with record {first} and is known to go to {last}, but record {needed} should come next or be among them"
    )]
    Missing { first: Lsn, last: Lsn, needed: Lsn },
    #[error("the tail of the log cannot be used")]
    Tail(#[from] std::io::Error),
    #[error("what stands in the tail of the log cannot be written to its segments")]
    TakeTail(#[from] AppendError),
    #[error("{found} segments; a log has at most {MAX_SEGMENTS}")]
    TooManySegments { found: usize },
}

/// A record did not become durable, as far as anyone knows: after [`AppendError::Poisoned`] a restart decides.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    #[error("a record of {found} bytes; this log takes at most {most}")]
    RecordLength { found: usize, most: usize },
    /// An earlier write failed. The log takes no more records until it is opened anew.
    #[error("the log failed and takes no more records; restart to recover")]
    Poisoned(#[source] Arc<Failure>),
}

/// What ended a log.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("all {MAX_SEGMENTS} segments hold records that are still needed")]
    Full,
    #[error("the log's writer ended early")]
    Abandoned,
    #[error("its owner can't go on: {reason}")]
    Owner { reason: String },
}

/// A folder of segments could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt} {}", path.display())]
pub struct StoreError {
    pub attempt: &'static str,
    pub path: PathBuf,
    #[source]
    pub cause: Box<dyn std::error::Error + Send + Sync>,
}

impl StoreError {
    /// Whether the file system is full: nothing has been promised, and there may be room later.
    pub(crate) fn is_no_space(&self) -> bool {
        let is_full = |error: &(dyn std::error::Error + 'static)| {
            let disk = error.downcast_ref::<DiskError>().map(|error| error.kind == DiskErrorKind::NoSpace);
            let file = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            disk == Some(true) || matches!(file, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
        };
        self.causes().any(is_full)
    }

    /// Whether another try may do better: the file system is full, or the process or the machine has no descriptor or no memory left. Nothing
    /// has been promised.
    pub(crate) fn may_pass(&self) -> bool {
        const NO_DESCRIPTOR_OF_PROCESS: i32 = 24;
        const NO_DESCRIPTOR_OF_MACHINE: i32 = 23;
        const NO_MEMORY: i32 = 12;
        let is_want = |error: &(dyn std::error::Error + 'static)| {
            let errno = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
            matches!(errno, Some(NO_DESCRIPTOR_OF_PROCESS | NO_DESCRIPTOR_OF_MACHINE | NO_MEMORY))
        };
        self.is_no_space() || self.causes().any(is_want)
    }

    fn causes(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        let first: &(dyn std::error::Error + 'static) = &*self.cause;
        std::iter::successors(Some(first), |error| error.source())
    }
}
