//! A range of a file cut at the borders of its keys: what lies in extents, and the holes between. Plain arithmetic.

use std::ops::Range;

use crate::ids::{BLOCK_BYTES, ExtentKey};

/// A part of a file that is in one extent, or in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Reads as zeros.
    Hole { start: u64, end: u64 },
    /// The key covers exactly the part.
    Data(ExtentKey),
}

/// The first byte of the file after a key.
pub fn end_of(key: &ExtentKey) -> u64 {
    key.file_offset + key.len
}

/// The part of a key within a range, if there is one.
pub fn clip(key: &ExtentKey, range: &Range<u64>) -> Option<ExtentKey> {
    let start = key.file_offset.max(range.start);
    let end = end_of(key).min(range.end);
    let cut = start - key.file_offset;
    (start < end).then(|| ExtentKey {
        file_offset: start,
        extent: key.extent,
        extent_offset: key.extent_offset + cut,
        len: end - start,
    })
}

/// Cuts `range` at the borders of `keys`, which are in order and don't overlap. Holes are as long as they can be.
pub fn pieces(keys: &[ExtentKey], range: Range<u64>) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut at = range.start;
    for key in keys.iter().filter_map(|key| clip(key, &range)) {
        if at < key.file_offset {
            found.push(Piece::Hole { start: at, end: key.file_offset });
        }
        at = end_of(&key);
        found.push(Piece::Data(key));
    }
    if at < range.end {
        found.push(Piece::Hole { start: at, end: range.end });
    }
    found
}

/// The block that an offset is in, or begins.
pub fn block_start(offset: u64) -> u64 {
    offset - offset % BLOCK_BYTES
}

/// The end of the block before an offset, or of the one that it is in.
pub fn block_end(offset: u64) -> u64 {
    offset.next_multiple_of(BLOCK_BYTES)
}

/// Adds a key to those of one commit; one that goes on where the last ends makes it longer.
pub fn add_key(keys: &mut Vec<ExtentKey>, key: ExtentKey) {
    if let Some(last) = keys.last_mut()
        && last.extent == key.extent
        && end_of(last) == key.file_offset
        && last.extent_offset + last.len == key.extent_offset
    {
        last.len += key.len;
        return;
    }
    keys.push(key);
}

#[cfg(test)]
mod tests;
