//! The opened descriptors of one disk and what is known about it, shared by the disk and its operations in flight.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

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
    pub(super) counters: Counters,
    /// Cleared when the file system turns out not to know RWF_NOWAIT.
    knows_nowait: AtomicBool,
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
        Medium {
            name: path.display().to_string().into(),
            writer,
            reader,
            is_block_device,
            direct: true,
            size: AtomicU64::new(size),
            capacity,
            poison: Poison::default(),
            counters: Counters::default(),
            knows_nowait: AtomicBool::new(true),
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

    /// Makes cached reads see a completed write.
    pub(super) fn drop_cached(&self, offset: u64, len: u64) {
        if self.direct && self.is_block_device {
            // The kernel invalidates before an asynchronous direct write to a block device, not after it. A failure leaves
            // nothing to report: the advice is refused for no range of an open block device.
            let len = std::num::NonZeroU64::new(len);
            rustix::fs::fadvise(&self.reader, offset, len, Advice::DontNeed).ok();
        }
    }
}
