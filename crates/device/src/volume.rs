//! The volume region of a device: blocks that are read and written where they are. What they mean, its owner knows.
//!
//! It lies behind the zones, so that a file that stands in for a device has a hole between the two until the zones are used; a hole,
//! and what is behind the file's end, is zeros.
//!
//! Invariants:
//! - A write is answered when it is as durable as an append of the device would be ([`crate::SyncMode`]).
//! - A write that finds no space has promised nothing and harms nobody else; through a page cache a full file
//!   system is found out too late for that, so space is reserved before it is written to. Any other failed write ends all writing on
//!   the device, as a failed append does, and the other way round.
//! - A write that was begun goes on if nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::{AlignedBuf, DiskError, DiskErrorKind, DiskExt, Operation, ReadMode, Request};
use format::superblock::VolumeRegion;
use tokio::sync::oneshot;
use types::limits::BLOCK_BYTES;
use types::{DeviceId, DeviceUuid};

use crate::error::VolumeError;
use crate::flushing::flush_dirty;
use crate::inner::{Inner, abandoned};

/// A device's volume region; clones are the same one. It keeps the device's disk, but none of its background work.
#[derive(Clone)]
pub struct Volume {
    inner: Arc<Inner>,
    region: VolumeRegion,
}

impl Volume {
    pub(crate) fn new(inner: Arc<Inner>, region: VolumeRegion) -> Volume {
        Volume { inner, region }
    }

    pub fn device(&self) -> DeviceId {
        self.inner.device()
    }

    pub fn device_uuid(&self) -> DeviceUuid {
        self.inner.superblock.device_uuid
    }

    /// What a person calls the disk under it.
    pub fn describe(&self) -> String {
        self.inner.disk.describe()
    }

    pub fn byte_count(&self) -> u64 {
        self.region.byte_count
    }

    /// The write that failed, after which the device takes no more.
    pub fn poisoned_by(&self) -> Option<Arc<DiskError>> {
        self.inner.poisoned_by()
    }

    /// Whether the disk has owed an answer for so long that it is better gone around. It may answer again.
    pub fn hangs(&self) -> bool {
        self.inner.hangs()
    }

    /// Reads whole blocks, from the page cache where it has them.
    pub async fn read(&self, offset: u64, len: usize) -> Result<AlignedBuf, VolumeError> {
        self.read_in_mode(offset, len, ReadMode::Cached).await
    }

    /// Reads whole blocks from the medium.
    pub async fn read_medium(&self, offset: u64, len: usize) -> Result<AlignedBuf, VolumeError> {
        self.read_in_mode(offset, len, ReadMode::Direct).await
    }

    async fn read_in_mode(&self, offset: u64, len: usize, mode: ReadMode) -> Result<AlignedBuf, VolumeError> {
        let at = self.place(offset, len as u64)?;
        let disk = &self.inner.disk;
        // A file may end within the range, though not within a block that was written.
        let there = disk.size_bytes().saturating_sub(at).min(len as u64) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        self.inner.stats.volume_reads.add(1);
        self.inner.stats.volume_read_bytes.add(len as u64);
        if there == 0 {
            return Ok(AlignedBuf::zeroed(len));
        }
        let read = match mode {
            ReadMode::Cached => disk.read_cached(at, there as usize).await,
            ReadMode::Direct => disk.read(at, there as usize, mode).await,
        };
        let mut buf = read.map_err(|cause| self.failure(offset, Arc::new(cause)))?;
        buf.resize(len);
        Ok(buf)
    }

    /// Writes whole blocks.
    pub async fn write(&self, offset: u64, buf: AlignedBuf) -> Result<(), VolumeError> {
        let len = buf.len() as u64;
        let at = self.place(offset, len)?;
        self.check_writable(offset)?;
        self.inner.stats.volume_writes.add(1);
        self.inner.stats.volume_written_bytes.add(len);
        let (tell, told) = oneshot::channel();
        let owner = self.clone();
        let request = Request::Write { offset: at, buf, durability: self.inner.durability() };
        // Whoever asked may have gone.
        let done = move |completion: disk::Completion| drop(tell.send(owner.written(offset, completion.result)));
        self.inner.disk.submit(request, Box::new(done));
        told.await.unwrap_or_else(|_| {
            let cause = self.inner.poison(abandoned(&*self.inner.disk, Operation::Write, at, len));
            Err(self.failure(offset, cause))
        })
    }

    /// Makes everything written durable, in the modes where it is not already.
    pub async fn flush(&self) -> Result<(), VolumeError> {
        self.check_writable(0)?;
        flush_dirty(&self.inner).await.map_err(|cause| self.failure(0, cause))
    }

    /// Reserves space, so that writes of the range can't find the file system full.
    pub async fn reserve(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let at = self.place(offset, len)?;
        self.check_writable(offset)?;
        self.inner.disk.allocate(at, len).await.map_err(|cause| self.failure(offset, Arc::new(cause)))
    }

    /// What a write's result means for the device.
    fn written(&self, offset: u64, result: Result<(), DiskError>) -> Result<(), VolumeError> {
        let Err(error) = result else {
            self.inner.dirty.store(true, Ordering::Release);
            return Ok(());
        };
        let is_harmless = matches!(error.kind, DiskErrorKind::NoSpace | DiskErrorKind::OutOfRange);
        let cause = if is_harmless { Arc::new(error) } else { self.inner.poison(error) };
        Err(self.failure(offset, cause))
    }

    /// Where a range stands on the disk.
    fn place(&self, offset: u64, len: u64) -> Result<u64, VolumeError> {
        let (device, byte_count) = (self.device(), self.region.byte_count);
        let block = BLOCK_BYTES as u64;
        let is_whole = offset.is_multiple_of(block) && len.is_multiple_of(block) && len > 0;
        let is_within = offset.checked_add(len).is_some_and(|end| end <= byte_count);
        if !is_whole || !is_within {
            return Err(VolumeError::Range { device, offset, len, byte_count });
        }
        Ok(self.region.first_byte + offset)
    }

    fn check_writable(&self, offset: u64) -> Result<(), VolumeError> {
        let device = self.device();
        if let Some(cause) = self.inner.poisoned_by() {
            return Err(VolumeError::Poisoned { device, offset, cause });
        }
        if self.inner.sealed.load(Ordering::Acquire) {
            return Err(VolumeError::Sealed { device, offset });
        }
        Ok(())
    }

    fn failure(&self, offset: u64, cause: Arc<DiskError>) -> VolumeError {
        VolumeError::Disk { device: self.device(), offset, cause }
    }
}
