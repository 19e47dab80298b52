//! Reading a piece of one frame's payload: the header and the blocks that cover the piece, no more (RFD 2, decision 1).
//!
//! ```text
//! 0         header_bytes
//! ├─ header ┼─ block ─┼─ block ─┼─ … ─┼─ block ─┼─ block ─┼─ … ─┤
//!  └─ read ┘                            └── read: the piece ┘
//! ```
//!
//! The header holds the checksums of all blocks under its own, so each block is proved alone. Blocks that the piece does not
//! touch are not checked, also where they were read: damage there keeps nobody from what is whole.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use disk::ReadMode;
use format::frame::{self, FIXED_HEADER_BYTES, FrameError, FrameView, Seal};
use futures_util::future::try_join;
use types::Place;
use types::limits::BLOCK_BYTES;

use crate::error::{Damage, ReadError};
use crate::inner::Inner;
use crate::read::{Failure, read_range, room, seal_of, settle};

/// Header and blocks are one read if no more than this lies between them: reading it costs less than a second request.
pub const MAX_GAP_BYTES: usize = 4 * BLOCK_BYTES;

/// Which bytes of a frame's payload are wanted. The lengths are guesses: if they are good, header and blocks are read at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceOfFrame {
    pub engine_header_bytes: usize,
    pub payload_bytes: usize,
    /// Bytes of the payload. What goes beyond its end is left out.
    pub range: Range<usize>,
}

/// A piece of a frame that was read, checked.
#[derive(Debug, Clone)]
pub struct FramePiece {
    view: FrameView,
    head: Bytes,
    payload: Bytes,
}

impl FramePiece {
    /// The whole frame's parts.
    pub fn view(&self) -> FrameView {
        self.view
    }

    /// The engine's header.
    pub fn engine_header(&self) -> &[u8] {
        &self.head[self.view.engine_header()]
    }

    /// The bytes that were wanted, without a copy: they keep the blocks in memory that hold them.
    pub fn into_payload(self) -> Bytes {
        self.payload
    }
}

/// See [`crate::Device::read_piece`].
pub(crate) async fn read_piece(inner: &Arc<Inner>, place: Place, wanted: &PieceOfFrame) -> Result<FramePiece, ReadError> {
    inner.stats.reads.add(1);
    let seal = seal_of(inner, place)?;
    let first = match read_by(inner, place, &seal, wanted, ReadMode::Cached).await {
        Ok(piece) => return Ok(piece),
        Err(Failure::Disk(error)) => return Err(error.into()),
        Err(Failure::Damage(damage)) => damage,
    };
    let second = read_by(inner, place, &seal, wanted, ReadMode::Direct).await;
    settle(inner, place, &seal, first, second)
}

async fn read_by(
    inner: &Inner,
    place: Place,
    seal: &Seal,
    wanted: &PieceOfFrame,
    mode: ReadMode,
) -> Result<FramePiece, Failure> {
    let room = room(inner, place);
    let beyond_zone = |frame_bytes| Failure::Damage(Damage::BeyondZone { frame_bytes });
    if room < FIXED_HEADER_BYTES {
        return Err(beyond_zone(FIXED_HEADER_BYTES));
    }
    let guess = frame::header_bytes(wanted.engine_header_bytes, wanted.payload_bytes);
    let guessed = span_of(guess, wanted.payload_bytes, &wanted.range);
    let (mut head, mut blocks) = read_both(inner, place, guess.min(room), limit(&guessed, room), mode).await?;
    let view = loop {
        match frame::open(&head, seal) {
            Ok(view) => break view,
            Err(FrameError::Short { needed }) if needed > room => return Err(beyond_zone(needed)),
            Err(FrameError::Short { needed }) => {
                assert!(needed > head.len(), "a header of {needed} bytes does not fit {}", head.len());
                head = read_range(inner, place, 0..needed, mode).await?;
            }
            Err(error) => return Err(Failure::Damage(Damage::Header(error))),
        }
    };
    if view.frame_bytes() > room {
        return Err(beyond_zone(view.frame_bytes()));
    }
    let payload_bytes = view.payload().len();
    let span = span_of(view.header_bytes(), payload_bytes, &wanted.range);
    if span != guessed {
        blocks = read_range(inner, place, span.clone(), mode).await?;
    }
    let first_block = (span.start - view.header_bytes()) / BLOCK_BYTES;
    match frame::verify_payload(&head, &view, &blocks, first_block) {
        Ok(()) => {
            let range = clip(&wanted.range, payload_bytes);
            let skip = first_block * BLOCK_BYTES;
            let payload = if range.is_empty() { Bytes::new() } else { blocks.slice(range.start - skip..range.end - skip) };
            Ok(FramePiece { view, head, payload })
        }
        Err(error) => Err(Failure::Damage(Damage::Payload(error))),
    }
}

/// The first `head` bytes of a frame, and a span of it: by one read if they are neighbours, else by two at once.
async fn read_both(
    inner: &Inner,
    place: Place,
    head: usize,
    span: Range<usize>,
    mode: ReadMode,
) -> Result<(Bytes, Bytes), Failure> {
    if span.is_empty() {
        return Ok((read_range(inner, place, 0..head, mode).await?, Bytes::new()));
    }
    if span.start - head <= MAX_GAP_BYTES {
        let all = read_range(inner, place, 0..span.end, mode).await?;
        return Ok((all.slice(..head), all.slice(span)));
    }
    let both = try_join(read_range(inner, place, 0..head, mode), read_range(inner, place, span, mode));
    Ok(both.await?)
}

/// Where the blocks that cover `range` of the payload stand in the frame. Empty if there are none.
fn span_of(header_bytes: usize, payload_bytes: usize, range: &Range<usize>) -> Range<usize> {
    let range = clip(range, payload_bytes);
    if range.is_empty() {
        return header_bytes..header_bytes;
    }
    let from = range.start / BLOCK_BYTES * BLOCK_BYTES;
    let to = range.end.next_multiple_of(BLOCK_BYTES).min(payload_bytes);
    header_bytes + from..header_bytes + to
}

fn clip(range: &Range<usize>, payload_bytes: usize) -> Range<usize> {
    range.start.min(payload_bytes)..range.end.min(payload_bytes)
}

/// A span that may be read before it is known to lie in its zone.
fn limit(span: &Range<usize>, room: usize) -> Range<usize> {
    if span.end <= room { span.clone() } else { 0..0 }
}
