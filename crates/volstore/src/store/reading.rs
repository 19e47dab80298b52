//! Reads of content. The version that is read is pinned by its reference: its blocks are not used for anything else before that is dropped.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::engine::EngineError;
use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use types::limits::BLOCK_BYTES;

use disk::AlignedBuf;

use super::{Inner, NO_LEASE, Store, refusal, unavailable};
use crate::blocks::{BlockError, Way};
use crate::content::{Content, Extent, Object, Piece};
use crate::limits::SUM_BYTES;
use crate::medium::Medium;
use crate::name::Name;
use crate::sums::crc;

/// A version that is read. Dropped, its blocks may be used again.
pub struct Pinned {
    inner: Arc<Inner>,
    /// Always there before the drop.
    object: Option<Object>,
}

impl Pinned {
    pub fn object(&self) -> &Object {
        self.object.as_ref().expect("it is there before the drop")
    }

    /// Bytes of a range, verified: those that one piece has of it.
    pub async fn read(&self, range: Range<u64>) -> Result<Bytes, EngineError> {
        let content = &self.object().content;
        let (piece, within) = locate(content, &range)
            .ok_or_else(|| EngineError::Invalid { reason: format!("bytes {range:?} of {}", content.length()) })?;
        self.inner.read_piece(piece, within).await
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.object = None;
        let mut state = self.inner.state.lock();
        if state.pg.limbo_blocks() > 0 && state.pg.release(self.inner.medium.settled_below()) {
            drop(state);
            self.inner.changed.notify_waiters();
        }
    }
}

impl Store {
    /// The visible version of a name.
    pub fn pin(&self, name: &Name) -> Result<Option<Pinned>, EngineError> {
        let object = self.inner.look(|state| state.pg.pin(name))?;
        Ok(object.map(|object| Pinned { inner: self.inner.clone(), object: Some(object) }))
    }
}

/// The piece in which a range begins, and the bytes of the piece that the range has.
fn locate<'a>(content: &'a Content, range: &Range<u64>) -> Option<(&'a Piece, Range<usize>)> {
    if range.is_empty() {
        return None;
    }
    let mut start = 0;
    for piece in &content.pieces {
        let end = start + u64::from(piece.length);
        if range.start < end {
            return Some((piece, (range.start - start) as usize..(range.end.min(end) - start) as usize));
        }
        start = end;
    }
    None
}

impl Inner {
    /// Bytes of a piece. A mismatch in the cache is read from the medium, and from other copies, before it counts.
    async fn read_piece(&self, piece: &Piece, within: Range<usize>) -> Result<Bytes, EngineError> {
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        let first_sum = within.start / SUM_BYTES;
        let from = first_sum * SUM_BYTES;
        let to = within.end.next_multiple_of(SUM_BYTES).min(piece.length as usize);
        let copies = self.medium.volume.copies();
        let ways = std::iter::once((0, Way::Cached)).chain((0..copies).map(|copy| (copy, Way::Medium)));
        for (copy, way) in ways {
            let read = self.medium.read_blocks(piece, from..to, copy, way).await;
            let bytes = match read {
                Err(_) if copies > 1 => continue,
                read => read.map_err(|error| refusal(&error))?,
            };
            self.counters.read_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if bytes.chunks(SUM_BYTES).zip(&piece.sums[first_sum..]).all(|(part, sum)| crc(part) == *sum) {
                return Ok(bytes.slice(within.start - from..within.end - from));
            }
        }
        if !self.seat.may_read() {
            // Another primary may have used the blocks again.
            return Err(unavailable(NO_LEASE.to_owned()));
        }
        self.counters.damaged.fetch_add(1, Ordering::Relaxed);
        let (first, group, device) = (piece.extents[0].first, self.seat.group.number, self.medium.volume.device());
        let detail = format!(
            "{} bytes at block {first} of placement group {group} on device {device} do not match their sums",
            piece.length
        );
        tracing::error!(detail, "an object of a volume bucket is damaged");
        Err(EngineError::Corrupt { detail })
    }
}

impl Medium {
    /// Whether the medium has all bytes of a piece. A copy that lacks them gets them from one that has them.
    pub async fn ensure_piece(&self, piece: &Piece) -> Result<bool, EngineError> {
        let Copies { whole, lacking, unreadable } = self.look_at_copies(piece).await?;
        if lacking.is_empty() && unreadable.is_empty() {
            return Ok(true);
        }
        let Some(good) = whole else {
            // A copy that was read has not got it, so it was never answered. Where none could be read it may be there.
            return unreadable
                .into_iter()
                .next()
                .filter(|_| lacking.is_empty())
                .map_or(Ok(false), |(_, error)| Err(refusal(&error)));
        };
        env::mark("volume engine: a copy was mended");
        for copy in unreadable.into_iter().map(|(copy, _)| copy).chain(lacking) {
            for (extent, blocks) in blocks_of(piece, &good) {
                let repaired = self.volume.write_copy(copy, extent.offset(), blocks).await;
                repaired.map_err(|error| self.refuse_copy(copy, &error))?;
            }
        }
        Ok(true)
    }

    /// Reads all copies of a piece. A copy that does not answer at all is to blame for the error.
    async fn look_at_copies(&self, piece: &Piece) -> Result<Copies, EngineError> {
        let mut copies = Copies::default();
        for copy in 0..self.volume.copies() {
            match self.read_blocks(piece, 0..piece.length as usize, copy, Way::Medium).await {
                Ok(bytes) if is_whole(piece, &bytes) => copies.whole = Some(bytes),
                Ok(_) => copies.lacking.push(copy),
                Err(error) if error.is_bad_block() => copies.unreadable.push((copy, error)),
                Err(error) => return Err(self.refuse_copy(copy, &error)),
            }
        }
        Ok(copies)
    }

    /// A copy has failed where the group is opened: the next view is without it.
    fn refuse_copy(&self, copy: usize, error: &BlockError) -> EngineError {
        self.volume.blame(copy, error);
        refusal(error)
    }

    /// How many copies lack bytes of a piece.
    #[cfg(test)]
    pub async fn lacking_copies(&self, piece: &Piece) -> Result<usize, EngineError> {
        let Copies { lacking, unreadable, .. } = self.look_at_copies(piece).await?;
        Ok(lacking.len() + unreadable.len())
    }

    /// Bytes of a piece, as any copy has them that is right. None if all were read and none is right.
    pub async fn whole_piece(&self, piece: &Piece) -> Result<Option<Bytes>, EngineError> {
        let mut unread = None;
        for copy in 0..self.volume.copies() {
            match self.read_blocks(piece, 0..piece.length as usize, copy, Way::Medium).await {
                Ok(bytes) if is_whole(piece, &bytes) => return Ok(Some(bytes)),
                Ok(_) => {}
                Err(error) => unread = Some(error),
            }
        }
        unread.map_or(Ok(None), |error| Err(refusal(&error)))
    }

    /// Bytes of a piece from a block's start on, of one copy.
    async fn read_blocks(&self, piece: &Piece, bytes: Range<usize>, copy: usize, way: Way) -> Result<Bytes, BlockError> {
        let (from, to) = (bytes.start, bytes.end);
        let (first, end) = (from / BLOCK_BYTES, to.div_ceil(BLOCK_BYTES));
        let mut runs: Vec<(Extent, usize)> = Vec::new();
        let mut at = 0;
        for extent in &piece.extents {
            let (start, stop) = (first.max(at), end.min(at + extent.count as usize));
            if start < stop {
                let count = (stop - start) as u32;
                runs.push((Extent { first: extent.first + (start - at) as u32, count }, count as usize));
            }
            at += extent.count as usize;
        }
        let reading = runs.iter().map(async |(extent, count)| {
            let (offset, len) = (extent.offset(), count * BLOCK_BYTES);
            self.volume.read(copy, offset, len, way).await
        });
        let mut bufs = try_join_all(reading).await?;
        if let [_] = bufs[..] {
            let buf = bufs.pop().expect("there is one");
            return Ok(Bytes::from_owner(buf).slice(..to - from));
        }
        let mut bytes = BytesMut::with_capacity(end * BLOCK_BYTES - from);
        bufs.iter().for_each(|buf| bytes.extend_from_slice(buf));
        bytes.truncate(to - from);
        Ok(bytes.freeze())
    }
}

/// What the copies of a piece have.
#[derive(Default)]
struct Copies {
    whole: Option<Bytes>,
    /// Their bytes are others.
    lacking: Vec<usize>,
    /// Their media refuse to read them.
    unreadable: Vec<(usize, BlockError)>,
}

fn is_whole(piece: &Piece, bytes: &[u8]) -> bool {
    bytes.chunks(SUM_BYTES).zip(&piece.sums).all(|(part, sum)| crc(part) == *sum)
}

/// A piece's bytes by extent, in whole blocks.
pub fn blocks_of<'a>(piece: &'a Piece, bytes: &'a [u8]) -> impl Iterator<Item = (Extent, AlignedBuf)> + 'a {
    let mut rest = bytes;
    piece.extents.iter().map(move |extent| {
        let (own, later) = rest.split_at(extent.bytes().min(rest.len()));
        rest = later;
        let mut buf = AlignedBuf::copy_of(own);
        buf.pad_to_block();
        (*extent, buf)
    })
}
