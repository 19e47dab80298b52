//! The bytes of an unfinished chunk, in segments of memory that was lent for them.
//!
//! Bytes are copied out of the connection's buffer: a few bytes that are kept would keep all of that buffer. A segment grows never;
//! the next one is as large as the chunk so far, within bounds. So a chunk takes at most twice the bytes that came, and nothing is
//! copied twice.

use bytes::Bytes;
use engine::Payload;

use crate::upload_memory::Lent;

/// Smallest segment.
pub(super) const LEAST_SEGMENT_BYTES: usize = 4 * 1024;
/// Largest segment. The allocator keeps pages of such blocks and hands them out again without the system's help.
pub(super) const MOST_SEGMENT_BYTES: usize = 128 * 1024;

/// Memory that fills.
pub(super) struct Segment {
    bytes: Vec<u8>,
    lent: Lent,
}

/// Bytes that stay as they came, and the memory that is counted for them.
struct Kept {
    bytes: Bytes,
    _lent: Lent,
}

/// A chunk on its way to be full.
#[derive(Default)]
pub(super) struct Unfinished {
    sealed: Payload,
    bytes: usize,
}

impl Segment {
    pub(super) fn new(lent: Lent) -> Segment {
        Segment { bytes: Vec::with_capacity(lent.bytes()), lent }
    }

    /// Takes what fits from the front of a piece.
    pub(super) fn fill(&mut self, piece: &mut Bytes) {
        let room = self.lent.bytes() - self.bytes.len();
        self.bytes.extend_from_slice(&piece.split_to(room.min(piece.len())));
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() == self.lent.bytes()
    }

    /// The memory is given back with the last handle on these bytes.
    pub(super) fn seal(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Segment {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A piece that is not copied.
pub(super) fn keep(bytes: Bytes, lent: Lent) -> Bytes {
    Bytes::from_owner(Kept { bytes, _lent: lent })
}

impl Unfinished {
    pub(super) fn push(&mut self, sealed: Bytes) {
        self.bytes += sealed.len();
        self.sealed.push(sealed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn take(&mut self) -> Payload {
        self.bytes = 0;
        std::mem::take(&mut self.sealed)
    }

    /// Bytes of the next segment, of which so many bytes wait, if the chunk may grow by `room`.
    pub(super) fn next_segment_bytes(&self, arrived: usize, room: usize) -> usize {
        let wanted = self.bytes.max(arrived).next_multiple_of(LEAST_SEGMENT_BYTES);
        wanted.clamp(LEAST_SEGMENT_BYTES, MOST_SEGMENT_BYTES).min(room)
    }
}
