//! Reading one frame: from the page cache on the caller's thread where it is there, else from the disk; believed only when it
//! proves itself.
//!
//! A frame that does not check is read once more around the page cache before it is called corrupt: a buffered read that ran
//! beside the direct write of a neighbour may have left an old page in the cache.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use disk::{AlignedBuf, DiskExt, ReadMode};
use format::frame::{self, FIXED_HEADER_BYTES, FrameError, FrameView, Seal};
use types::Place;
use types::limits::{BLOCK_BYTES, UNIT_BYTES};

use crate::book::ZoneUse;
use crate::error::{Damage, ReadError};
use crate::inner::{Inner, unread};

/// The answer of a read that doesn't wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// The whole frame is in the buffer, header and payload checked.
    Frame(FrameView),
    /// The frame is this long; try again with a buffer that holds it.
    Longer { needed: usize },
    /// It is not in the page cache, or what is there does not check: the read that waits will know.
    MustWait,
}

/// A frame that was read, checked.
#[derive(Debug)]
pub struct FrameBuf {
    buf: AlignedBuf,
    /// Where the frame starts in `buf`.
    start: usize,
    view: FrameView,
}

impl FrameBuf {
    /// The frame's parts; ranges count from the frame's start.
    pub fn view(&self) -> FrameView {
        self.view
    }

    /// The whole frame.
    pub fn bytes(&self) -> &[u8] {
        &self.buf[self.start..self.start + self.view.frame_bytes()]
    }

    /// The engine's header.
    pub fn engine_header(&self) -> &[u8] {
        &self.bytes()[self.view.engine_header()]
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[self.view.payload()]
    }

    /// The payload, shared without a copy.
    pub fn into_payload(self) -> Bytes {
        let range = self.view.payload();
        let (from, to) = (self.start + range.start, self.start + range.end);
        Bytes::from_owner(self.buf).slice(from..to)
    }
}

/// See [`crate::Device::try_read`].
pub(crate) fn try_read(inner: &Inner, place: Place, buf: &mut [u8]) -> Result<Tried, ReadError> {
    let seal = seal_of(inner, place)?;
    let len = buf.len().min(room(inner, place));
    let buf = &mut buf[..len];
    if len < FIXED_HEADER_BYTES {
        return Ok(Tried::Longer { needed: FIXED_HEADER_BYTES });
    }
    let offset = inner.geometry.disk_offset(place.zone, place.offset.bytes());
    if !inner.disk.try_read_cached(offset, buf)? {
        return Ok(Tried::MustWait);
    }
    match check(buf, &seal) {
        Ok(view) => {
            inner.stats.reads.add(1);
            inner.stats.cached_reads.add(1);
            Ok(Tried::Frame(view))
        }
        Err(Unread::Longer { needed }) if needed <= room(inner, place) => Ok(Tried::Longer { needed }),
        Err(_) => Ok(Tried::MustWait),
    }
}

/// See [`crate::Device::read`].
pub(crate) async fn read(inner: &Arc<Inner>, place: Place, expected_bytes: usize) -> Result<FrameBuf, ReadError> {
    inner.stats.reads.add(1);
    let seal = seal_of(inner, place)?;
    let first = match read_by(inner, place, &seal, expected_bytes, ReadMode::Cached).await {
        Ok(frame) => return Ok(frame),
        Err(Failure::Disk(error)) => return Err(error.into()),
        Err(Failure::Damage(damage)) => damage,
    };
    let second = read_by(inner, place, &seal, expected_bytes, ReadMode::Direct).await;
    settle(inner, place, &seal, first, second)
}

/// The outcome of a read whose first answer was damaged, and whose second came from the medium.
pub(crate) fn settle<T>(
    inner: &Inner,
    place: Place,
    seal: &Seal,
    first: Damage,
    second: Result<T, Failure>,
) -> Result<T, ReadError> {
    match second {
        Ok(read) => {
            inner.stats.repeated_reads.add(1);
            tracing::warn!(?place, damage = %first, "a frame in the page cache was wrong, on the medium it is right");
            Ok(read)
        }
        Err(Failure::Disk(error)) => Err(error.into()),
        Err(Failure::Damage(damage)) => {
            let is_misplaced = matches!(damage, Damage::Header(FrameError::Misplaced { .. }));
            if is_misplaced || is_stale(inner, place, seal) {
                return Err(ReadError::Stale { place });
            }
            inner.stats.corrupt_reads.add(1);
            Err(ReadError::Corrupt { place, damage })
        }
    }
}

/// Whether what stands at a place can't be what was meant: the zone was reset while we read, or has been activated again and is
/// not filled as far as that.
fn is_stale(inner: &Inner, place: Place, seal: &Seal) -> bool {
    seal_of(inner, place).as_ref().ok() != Some(seal) || place.offset.bytes() >= inner.zones.lock().book.end(place.zone)
}

/// Why one try to read did not give a frame.
pub(crate) enum Failure {
    Disk(disk::DiskError),
    Damage(Damage),
}

impl From<disk::DiskError> for Failure {
    fn from(error: disk::DiskError) -> Self {
        Failure::Disk(error)
    }
}

/// Why a buffer does not hold a frame.
enum Unread {
    Longer { needed: usize },
    Damage(Damage),
}

/// Reads as often as the frame turns out to be longer than was expected: twice at most, for its header and for its payload.
async fn read_by(inner: &Inner, place: Place, seal: &Seal, expected_bytes: usize, mode: ReadMode) -> Result<FrameBuf, Failure> {
    let room = room(inner, place);
    // The disk ends before the place: a file that was cut off, or a place from a table that lies.
    if room < FIXED_HEADER_BYTES {
        return Err(Failure::Damage(Damage::BeyondZone { frame_bytes: expected_bytes }));
    }
    let mut len = expected_bytes.clamp(FIXED_HEADER_BYTES, room);
    loop {
        let (buf, start) = read_at(inner, place, 0..len, mode).await?;
        match check(&buf[start..start + len], seal) {
            Ok(view) => return Ok(FrameBuf { buf, start, view }),
            Err(Unread::Damage(damage)) => return Err(Failure::Damage(damage)),
            Err(Unread::Longer { needed }) if needed > room => {
                return Err(Failure::Damage(Damage::BeyondZone { frame_bytes: needed }));
            }
            Err(Unread::Longer { needed }) => {
                assert!(needed > len, "a frame of {needed} bytes does not fit {len}");
                len = needed;
            }
        }
    }
}

/// A range of bytes, counted from `place` on, and where they start in the buffer.
async fn read_at(
    inner: &Inner,
    place: Place,
    range: Range<usize>,
    mode: ReadMode,
) -> Result<(AlignedBuf, usize), disk::DiskError> {
    let offset = inner.geometry.disk_offset(place.zone, place.offset.bytes()) + range.start as u64;
    match mode {
        ReadMode::Cached => Ok((inner.disk.read_cached(offset, range.len()).await?, 0)),
        ReadMode::Direct => {
            let block = BLOCK_BYTES as u64;
            let from = offset / block * block;
            let to = (offset + range.len() as u64).next_multiple_of(block);
            let buf = inner.disk.read(from, (to - from) as usize, ReadMode::Direct).await?;
            Ok((buf, (offset - from) as usize))
        }
    }
}

/// A range of bytes, counted from `place` on, unchecked.
pub(crate) async fn read_range(
    inner: &Inner,
    place: Place,
    range: Range<usize>,
    mode: ReadMode,
) -> Result<Bytes, disk::DiskError> {
    let len = range.len();
    let (buf, start) = read_at(inner, place, range, mode).await?;
    Ok(Bytes::from_owner(buf).slice(start..start + len))
}

fn check(bytes: &[u8], seal: &Seal) -> Result<FrameView, Unread> {
    let view = match frame::open(bytes, seal) {
        Ok(view) => view,
        Err(FrameError::Short { needed }) => return Err(Unread::Longer { needed }),
        Err(error) => return Err(Unread::Damage(Damage::Header(error))),
    };
    let needed = view.frame_bytes();
    if needed > bytes.len() {
        return Err(Unread::Longer { needed });
    }
    match frame::verify_payload(bytes, &view, &bytes[view.payload()], 0) {
        Ok(()) => Ok(view),
        Err(error) => Err(Unread::Damage(Damage::Payload(error))),
    }
}

pub(crate) fn seal_of(inner: &Inner, place: Place) -> Result<Seal, ReadError> {
    if place.device != inner.device() || !inner.geometry.holds(place) {
        return Err(ReadError::NoSuchPlace { device: inner.device(), place });
    }
    inner.table.seal(place.device, place.zone, place.offset).ok_or_else(|| {
        let is_unknown = inner.zones.lock().book.entry(place.zone).doing == ZoneUse::Unknown;
        let offset = inner.geometry.disk_offset(place.zone, place.offset.bytes());
        // What is in it may be what is asked for.
        match is_unknown {
            true => ReadError::Disk(unread(&*inner.disk, offset, UNIT_BYTES as u64)),
            false => ReadError::Stale { place },
        }
    })
}

/// Bytes from `place` to its zone's end, or to the end of the disk where that ends within the zone.
pub(crate) fn room(inner: &Inner, place: Place) -> usize {
    let end = crate::walk::readable_end(&*inner.disk, inner.geometry, place.zone);
    end.saturating_sub(place.offset.bytes()) as usize
}
