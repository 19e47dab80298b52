//! The opened descriptors of one disk and what is known about it, shared by the disk and its operations in flight.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

use super::page_cache;
use super::pool::Pool;
use crate::BLOCK_BYTES;
use crate::aligned::AlignedBuf;
use crate::error::{DiskError, DiskErrorKind, Operation};
use crate::poison::Poison;
use crate::request::Request;
use crate::stats::Counters;

pub(crate) struct Medium {
    pub(super) name: Arc<str>,
    /// Writes, direct reads and flushes; holds the lock.
    pub(super) writer: OwnedFd,
    /// Cached reads.
    pub(super) reader: OwnedFd,
    pub(super) is_block_device: bool,
    /// Whether `writer` goes around the page cache.
    pub(super) direct: bool,
    pub(super) size: AtomicU64,
    pub(super) capacity: Option<u64>,
    pub(super) poison: Poison,
    /// Held over a sync of the page cache, until `poison` knows how it ended. The kernel tells of a failed write-back once, to whichever sync
    /// comes first: one that comes second must not take its own good end for the medium's.
    pub(super) syncing: Mutex<()>,
    pub(super) counters: Counters,
    /// Cleared when the file system turns out not to know RWF_NOWAIT.
    knows_nowait: AtomicBool,
    knows_cachestat: bool,
    pub(super) pool: Pool,
}

impl Medium {
    pub(super) fn new(
        path: &Path,
        writer: OwnedFd,
        reader: OwnedFd,
        is_block_device: bool,
        size: u64,
        capacity: Option<u64>,
    ) -> Medium {
        let knows_cachestat = page_cache::holds_any(&writer, 0, BLOCK_BYTES as u64).is_ok();
        Medium {
            name: path.display().to_string().into(),
            writer,
            reader,
            is_block_device,
            direct: true,
            size: AtomicU64::new(size),
            capacity,
            poison: Poison::default(),
            syncing: Mutex::default(),
            counters: Counters::default(),
            knows_nowait: AtomicBool::new(true),
            knows_cachestat,
            pool: Pool::new(),
        }
    }

    /// Some file systems accept O_DIRECT when opening and refuse the reads and writes.
    pub(super) fn direct_read_works(&self) -> bool {
        if self.size.load(Ordering::Acquire) < BLOCK_BYTES as u64 {
            return true;
        }
        let mut block = AlignedBuf::for_read(BLOCK_BYTES);
        !matches!(rustix::io::pread(&self.writer, &mut block[..], 0), Err(Errno::INVAL))
    }

    /// Brings to the medium what the page cache has, and lets it go. Pages that could not be written stay in the cache like such as were, and the
    /// error was told to the process before this one: a recovery that read them would take for durable what the medium does not hold.
    pub(super) fn empty_page_cache(&self) -> Result<(), Errno> {
        rustix::fs::fdatasync(&self.writer)?;
        rustix::fs::fadvise(&self.writer, 0, None, Advice::DontNeed)
    }

    /// Why `request` is not even tried, if so.
    pub(super) fn refusal(&self, request: &Request) -> Option<DiskError> {
        let (offset, len) = request.range();
        if let Some(kind) = request.fault(self.size.load(Ordering::Acquire), self.capacity) {
            return Some(self.error(kind, request.operation(), offset, len, None));
        }
        if request.is_write() { self.poison.refusal(request.operation(), offset, len) } else { None }
    }

    pub(super) fn error(
        &self,
        kind: DiskErrorKind,
        operation: Operation,
        offset: u64,
        len: u64,
        cause: Option<io::Error>,
    ) -> DiskError {
        DiskError { kind, device: self.name.clone(), operation, offset, len, cause: cause.map(Arc::new) }
    }

    pub(super) fn read_without_waiting(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        if !self.knows_nowait.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let wanted = buf.len();
        let mut interruptions = 0;
        loop {
            let slices = &mut [IoSliceMut::new(buf)];
            match rustix::io::preadv2(&self.reader, slices, offset, ReadWriteFlags::NOWAIT) {
                Ok(count) => return Ok(count == wanted),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) if interruptions < super::job::INTERRUPTION_LIMIT => interruptions += 1,
                Err(Errno::OPNOTSUPP) => {
                    self.knows_nowait.store(false, Ordering::Relaxed);
                    return Ok(false);
                }
                Err(errno) => {
                    let cause = io::Error::from(errno);
                    let kind = DiskErrorKind::of(&cause);
                    return Err(self.error(kind, Operation::Read, offset, wanted as u64, Some(cause)));
                }
            }
        }
    }

    /// Whether a write that a ring completed may have left older bytes of its range in the page cache.
    pub(super) fn may_be_stale(&self, offset: u64, len: u64) -> bool {
        // A failure counts as staleness: the remedy is merely slow.
        self.direct && self.is_block_device && page_cache::holds_any(&self.writer, offset, len).unwrap_or(true)
    }

    /// Whether a ring may carry out `request`. fallocate always waits for the journal; the ring would only hand it to a
    /// thread of the kernel's. Writes to a block device need the page cache to be asked after them. Syncs of the page cache wait for each other.
    pub(super) fn suits_a_ring(&self, request: &Request) -> bool {
        match request {
            _ if !self.direct && request.promises_durability() => false,
            Request::Allocate { .. } | Request::WriteZeros { .. } | Request::Discard { .. } => false,
            Request::Write { .. } => !self.is_block_device || self.knows_cachestat,
            Request::Read { .. } | Request::Flush => true,
        }
    }
}
