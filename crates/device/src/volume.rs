//! A volume of a device: blocks that are read and written where they are. What they mean, its owner knows.
//!
//! A volume is as large as all zones together, and takes space only where it was written to. It is divided into units, each as long as the data of
//! a zone. [`Volume::reserve`] gets the units of a range their zones, [`Volume::give_back`] returns one. A unit without a zone reads as zeros.
//! An owner may have several such spaces of addresses: the parts of its volume.
//!
//! Invariants:
//! - A write is answered when it is as durable as an append of the device would be ([`crate::SyncMode`]).
//! - A write within reserved units never finds the device or the file system full.
//! - A write that failed ends all writing on the device, as a failed append does, and the other way round.
//! - A write that was begun goes on if the caller waits for it no more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::{AlignedBuf, Completion, DiskError, DiskErrorKind, DiskExt, Durability, Operation, ReadMode, Request};
use format::unit_table::{MAX_UNITS, VolumeOwner};
use format::zone_header::ZONE_DATA_START;
use tokio::sync::oneshot;
use types::limits::BLOCK_BYTES;
use types::{DeviceId, DeviceUuid};

use crate::error::VolumeError;
use crate::finishing::Finishing;
use crate::flushing::flush_dirty;
use crate::inner::{Inner, abandoned};
use crate::units::{self, Claim, Units};

/// A device's volume of one owner; clones are the same one. It keeps the device's disk, but none of its background work.
#[derive(Clone)]
pub struct Volume {
    inner: Arc<Inner>,
    owner: VolumeOwner,
    /// The first unit of this part of the owner's units.
    first_unit: u32,
}

/// Units of each part of an owner's volume: as many as a device can have.
const PART_UNITS: u32 = MAX_UNITS as u32;

/// The part of a range that lies in one unit.
#[derive(Clone, Copy)]
struct Piece {
    /// Among all units of the owner.
    unit: u32,
    /// From the start of the zone's data.
    in_unit: u64,
    len: u64,
}

impl Volume {
    pub(crate) fn new(inner: Arc<Inner>, owner: VolumeOwner) -> Volume {
        Volume { inner, owner, first_unit: 0 }
    }

    /// Another volume of the same owner, with addresses of its own. Part 0 is the owner's first volume.
    pub fn part(&self, part: u16) -> Volume {
        Volume { inner: self.inner.clone(), owner: self.owner, first_unit: u32::from(part) * PART_UNITS }
    }

    /// The parts of which units have space, ascending.
    pub fn parts(&self) -> Vec<u16> {
        let mut parts: Vec<u16> = self.inner.units.of(self.owner).iter().map(|unit| (unit / PART_UNITS) as u16).collect();
        parts.dedup();
        parts
    }

    pub fn device(&self) -> DeviceId {
        self.inner.device()
    }

    pub fn device_uuid(&self) -> DeviceUuid {
        self.inner.superblock.device_uuid
    }

    pub(crate) fn owner(&self) -> VolumeOwner {
        self.owner
    }

    pub(crate) fn env(&self) -> &env::Env {
        &self.inner.env
    }

    /// The name of the disk under it, for people.
    pub fn describe(&self) -> String {
        self.inner.disk.describe()
    }

    /// Bytes that can be addressed. How many of them find space depends on what the log and the other volumes leave.
    pub fn byte_count(&self) -> u64 {
        self.unit_bytes() * u64::from(self.inner.geometry.zone_count())
    }

    /// Bytes of a unit.
    pub fn unit_bytes(&self) -> u64 {
        self.inner.geometry.data_bytes()
    }

    /// The units that have space, ascending.
    pub fn units(&self) -> Vec<u32> {
        let of_part = self.first_unit..=self.first_unit + (PART_UNITS - 1);
        let units = self.inner.units.of(self.owner).into_iter().filter(|unit| of_part.contains(unit));
        units.map(|unit| unit - self.first_unit).collect()
    }

    /// Bytes for which units could get space now.
    pub fn room_bytes(&self) -> u64 {
        let mut zones = self.inner.zones.lock();
        zones.book.lendable(&|| self.inner.env.now()) as u64 * self.unit_bytes()
    }

    /// Whether all of a range has space.
    pub fn is_reserved(&self, offset: u64, len: u64) -> bool {
        self.pieces(offset, len).all(|piece| self.inner.units.is_lent((self.owner, piece.unit)))
    }

    /// Whether a write is on the medium when it is answered.
    pub fn writes_are_durable(&self) -> bool {
        self.inner.durability() == Durability::Durable
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
        self.check_range(offset, len as u64)?;
        self.inner.stats.volume_reads.add(1);
        self.inner.stats.volume_read_bytes.add(len as u64);
        let mut pieces = self.pieces(offset, len as u64);
        let first = pieces.next().expect("a range has bytes");
        if first.len == len as u64 {
            return self.read_piece(first, mode).await;
        }
        let mut whole = AlignedBuf::with_capacity(len);
        for piece in std::iter::once(first).chain(pieces) {
            whole.extend_from_slice(&self.read_piece(piece, mode).await?);
        }
        Ok(whole)
    }

    async fn read_piece(&self, piece: Piece, mode: ReadMode) -> Result<AlignedBuf, VolumeError> {
        let Some(claim) = self.claim(piece) else { return Ok(AlignedBuf::zeroed(piece.len as usize)) };
        let (disk, at) = (&self.inner.disk, self.disk_offset(&claim, piece));
        let read = match mode {
            ReadMode::Cached => disk.read_cached(at, piece.len as usize).await,
            ReadMode::Direct => disk.read(at, piece.len as usize, mode).await,
        };
        read.map_err(|cause| VolumeError::disk(self.device(), Arc::new(cause)))
    }

    /// Writes whole blocks, in units that have space.
    pub async fn write(&self, offset: u64, buf: AlignedBuf) -> Result<(), VolumeError> {
        let len = buf.len() as u64;
        self.check_range(offset, len)?;
        self.check_writable()?;
        let mut claimed = Vec::new();
        for piece in self.pieces(offset, len) {
            let device = self.device();
            let claim = self.claim(piece).ok_or(VolumeError::NotReserved { device, offset, len })?;
            claimed.push((piece, claim));
        }
        self.inner.stats.volume_writes.add(1);
        self.inner.stats.volume_written_bytes.add(len);
        let parts = match claimed[..] {
            [_] => vec![buf],
            _ => parts_of(&buf, claimed.iter().map(|(piece, _)| piece.len as usize)),
        };
        let started = claimed.into_iter().zip(parts).map(|((piece, claim), part)| self.start_write(piece, claim, part));
        let answers: Vec<_> = started.collect();
        let mut outcome = Ok(());
        for answer in answers {
            let result = answer.await.unwrap_or_else(|_| {
                let cause = abandoned(&*self.inner.disk, Operation::Write, offset, len);
                Err(VolumeError::disk(self.device(), self.inner.poison(cause)))
            });
            outcome = outcome.and(result);
        }
        outcome
    }

    fn start_write(&self, piece: Piece, claim: Claim, buf: AlignedBuf) -> oneshot::Receiver<Result<(), VolumeError>> {
        let (tell, told) = oneshot::channel();
        let at = self.disk_offset(&claim, piece);
        let request = Request::Write { offset: at, buf, durability: self.inner.durability() };
        let owner = self.clone();
        let done = move |completion: Completion| {
            let result = owner.written(completion.result);
            drop(claim);
            // The caller may have gone.
            drop(tell.send(result));
        };
        self.inner.disk.submit(request, Box::new(done));
        told
    }

    /// Makes everything written durable, in the modes where it is not already.
    pub async fn flush(&self) -> Result<(), VolumeError> {
        self.check_writable()?;
        flush_dirty(&self.inner).await.map_err(|cause| VolumeError::disk(self.device(), cause))
    }

    /// Gets the units of a range their space, so that writes within can't find the device or the file system full. It goes on if the caller waits
    /// for it no more.
    pub async fn reserve(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.check_range(offset, len)?;
        for piece in self.pieces(offset, len) {
            let unit = (self.owner, piece.unit);
            if !self.inner.units.is_lent(unit) {
                self.check_writable()?;
                Finishing::new(&self.inner.env, units::lend(self.inner.clone(), unit)).await?;
            }
        }
        Ok(())
    }

    /// Gives a unit's space back: it reads as zeros from now on. The owner has nothing in it, and writes nothing to it meanwhile.
    pub async fn give_back(&self, unit: u32) -> Result<(), VolumeError> {
        self.check_writable()?;
        Finishing::new(&self.inner.env, units::take_back(self.inner.clone(), (self.owner, self.first_unit + unit))).await
    }

    /// What a write's result means for the device.
    fn written(&self, result: Result<(), DiskError>) -> Result<(), VolumeError> {
        let Err(error) = result else {
            self.inner.dirty.store(true, Ordering::Release);
            return Ok(());
        };
        let is_harmless = matches!(error.kind, DiskErrorKind::NoSpace | DiskErrorKind::OutOfRange);
        let cause = if is_harmless { Arc::new(error) } else { self.inner.poison(error) };
        Err(VolumeError::disk(self.device(), cause))
    }

    fn pieces(&self, offset: u64, len: u64) -> impl Iterator<Item = Piece> + use<> {
        let (unit_bytes, end, first_unit) = (self.unit_bytes(), offset + len, self.first_unit);
        let mut at = offset;
        std::iter::from_fn(move || {
            let (unit, in_unit) = (first_unit + (at / unit_bytes) as u32, at % unit_bytes);
            let len = (unit_bytes - in_unit).min(end - at);
            at += len;
            (len > 0).then_some(Piece { unit, in_unit, len })
        })
    }

    fn claim(&self, piece: Piece) -> Option<Claim> {
        Units::claim(&self.inner, (self.owner, piece.unit))
    }

    fn disk_offset(&self, claim: &Claim, piece: Piece) -> u64 {
        self.inner.geometry.disk_offset(claim.zone, ZONE_DATA_START + piece.in_unit)
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let (device, byte_count) = (self.device(), self.byte_count());
        let block = BLOCK_BYTES as u64;
        let is_whole = offset.is_multiple_of(block) && len.is_multiple_of(block) && len > 0;
        let is_within = offset.checked_add(len).is_some_and(|end| end <= byte_count);
        if is_whole && is_within { Ok(()) } else { Err(VolumeError::Range { device, offset, len, byte_count }) }
    }

    fn check_writable(&self) -> Result<(), VolumeError> {
        let device = self.device();
        if let Some(cause) = self.inner.poisoned_by() {
            return Err(VolumeError::Poisoned { device, cause });
        }
        if self.inner.sealed.load(Ordering::Acquire) {
            return Err(VolumeError::Sealed { device });
        }
        Ok(())
    }
}

/// Copies of what follows one another in a buffer.
fn parts_of(buf: &[u8], lens: impl Iterator<Item = usize>) -> Vec<AlignedBuf> {
    let mut left = buf;
    lens.map(|len| {
        let (part, rest) = left.split_at(len);
        left = rest;
        AlignedBuf::copy_of(part)
    })
    .collect()
}
