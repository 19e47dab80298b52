//! What a write does to a file's content: which bytes change in place, and which are appended. Plain arithmetic.
//!
//! ```text
//!   blocks     |         |         |         |
//!   keys        [=======]           [==]             a hole between, another at the end
//!   write             [##############]
//!   in place          [#]           [#]
//!   run                  [##########]                appended with one key
//! ```
//!
//! A run is a hole as far as the write's blocks reach: zeros fill it to its border with the next key, or to the border of the block. So a block of a file
//! stays in one key, unless the file ended in it and its extent could not go on.

use std::ops::Range;

use super::pieces::{Piece, block_end, block_start, clip, pieces};
use crate::ids::{BLOCK_BYTES, ExtentId, ExtentKey};

/// An extent is given up for a new one rather than become longer.
pub const MAX_EXTENT_BYTES: u64 = 1 << 30;

/// Parts of a file that one request changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Where the bytes of the request lie already, each cut to the request.
    pub in_place: Vec<ExtentKey>,
    /// Ranges of the file without a key that get one, in order. Bytes of them beside the request are zeros.
    pub runs: Vec<Range<u64>>,
}

/// The blocks that a request for `range` of a file of `size` bytes looks at.
///
/// The end of the file stays open: what is written next goes on in the same block.
pub fn blocks_of(range: &Range<u64>, size: u64) -> Range<u64> {
    let end = if range.end < size { block_end(range.end).min(size) } else { range.end };
    block_start(range.start)..end
}

/// Plans a write of `range`, which is not empty. `keys` are those of [`blocks_of`] the range at least.
pub fn plan(keys: &[ExtentKey], range: &Range<u64>, size: u64) -> Plan {
    let mut plan = Plan::default();
    for piece in pieces(keys, blocks_of(range, size)) {
        match piece {
            Piece::Data(key) => plan.in_place.extend(clip(&key, range)),
            Piece::Hole { start, end } if start < range.end && range.start < end => plan.runs.push(start..end),
            Piece::Hole { .. } => {}
        }
    }
    plan
}

/// The extent that a file grows in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenExtent {
    pub id: ExtentId,
    pub len: u64,
    /// Keys of the extent were cut: what it ends with may be given back, to the end of its last block.
    was_cut: bool,
    /// How often the file had been cut when the extent grew last.
    cuts: u64,
}

impl OpenExtent {
    pub fn new(id: ExtentId, cuts: u64) -> Self {
        OpenExtent { id, len: 0, was_cut: false, cuts }
    }

    /// The file was cut so often: if that is once more, this client or another one may have cut this extent.
    pub fn file_was_cut(&mut self, cuts: u64) {
        if self.cuts != cuts {
            self.cuts = cuts;
            self.begin_block();
        }
    }

    /// The next run begins in a block of its own.
    pub fn begin_block(&mut self) {
        self.was_cut = true;
    }

    /// A run was appended, and the extent is so long now.
    pub fn grew(&mut self, len: u64) {
        (self.len, self.was_cut) = (len, false);
    }

    /// Where a run that begins at `file_offset` begins in the extent: at its end, or beyond it, where the offsets are the same within a block. None where the extent would
    /// become too long.
    pub fn place(&self, file_offset: u64, len: u64) -> Option<u64> {
        let within = file_offset % BLOCK_BYTES;
        let goes_on = self.len % BLOCK_BYTES == within && !self.was_cut;
        let at = if goes_on { self.len } else { block_end(self.len) + within };
        (at + len <= MAX_EXTENT_BYTES).then_some(at)
    }
}

/// What punching `range` out of a file of `size` bytes does: the blocks that go, and the bytes at both ends that become zeros in place.
///
/// The block that the file ends in is whole where the range reaches the end.
pub fn punched(range: &Range<u64>, size: u64) -> (Range<u64>, Vec<Range<u64>>) {
    let end = if range.end >= size { block_end(range.end) } else { block_start(range.end) };
    let start = block_end(range.start);
    if start >= end {
        return (start..start, vec![range.clone()]);
    }
    let edges = [range.start..start, end..range.end];
    (start..end, edges.into_iter().filter(|edge| edge.start < edge.end).collect())
}

/// The keys that cover parts of `range`, each cut to it.
pub fn keys_within(keys: &[ExtentKey], range: &Range<u64>) -> Vec<ExtentKey> {
    keys.iter().filter_map(|key| clip(key, range)).collect()
}

/// How many bytes of `range` have no key.
pub fn missing_bytes(keys: &[ExtentKey], range: &Range<u64>) -> u64 {
    let covered: u64 = keys_within(keys, range).iter().map(|key| key.len).sum();
    range.end - range.start - covered
}

#[cfg(test)]
mod tests;
