//! Blobs: the pieces of an image that a device allocates (docs/rfd/0024).

use std::fmt;
use std::ops::{BitAnd, BitOr, Not, Range};

use crate::{ImageId, Layer};

/// Bytes of a blob. An image is cut into as many parts as it has of these; a part gets a blob when it is first written to.
pub const BLOB_BYTES: u32 = 4 << 20;
/// Bytes of a piece: what the header of a blob counts one by one.
pub const PIECE_BYTES: u32 = 64 << 10;
/// Pieces of a blob.
pub const PIECES_PER_BLOB: u32 = BLOB_BYTES / PIECE_BYTES;

const _: () = assert!(PIECES_PER_BLOB == u64::BITS);

/// Names a blob in a cluster. Its content begins at byte `index · BLOB_BYTES` of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct BlobId {
    pub image: ImageId,
    pub index: u32,
    pub layer: Layer,
}

/// A layer of an image, for ever: what a clone begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct LayerOf {
    pub image: ImageId,
    pub layer: Layer,
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.image, self.index, self.layer)
    }
}

/// A set of pieces of a blob. Bit i stands for the bytes from `i · PIECE_BYTES` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Pieces(pub u64);

impl Pieces {
    pub const NONE: Pieces = Pieces(0);
    pub const ALL: Pieces = Pieces(u64::MAX);

    /// The pieces that a range of a blob touches.
    ///
    /// Panics when the range goes beyond the blob.
    pub fn touched(range: Range<u32>) -> Pieces {
        assert!(range.end <= BLOB_BYTES, "{range:?} goes beyond a blob");
        if range.is_empty() {
            return Pieces::NONE;
        }
        Pieces::from_to(range.start / PIECE_BYTES, range.end.div_ceil(PIECE_BYTES))
    }

    /// The pieces that lie in a range of a blob as a whole.
    ///
    /// Panics when the range goes beyond the blob.
    pub fn within(range: Range<u32>) -> Pieces {
        assert!(range.end <= BLOB_BYTES, "{range:?} goes beyond a blob");
        Pieces::from_to(range.start.div_ceil(PIECE_BYTES), range.end / PIECE_BYTES)
    }

    fn from_to(first: u32, end: u32) -> Pieces {
        let below = |bit: u32| if bit >= u64::BITS { u64::MAX } else { (1 << bit) - 1 };
        Pieces(below(end) & !below(first))
    }

    pub fn contains(self, piece: u32) -> bool {
        self.0 >> piece & 1 == 1
    }

    pub fn covers(self, other: Pieces) -> bool {
        other.0 & !self.0 == 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The runs of pieces that stand side by side, ascending, as ranges of bytes of the blob.
    pub fn runs(self) -> impl Iterator<Item = Range<u32>> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let first = left.trailing_zeros();
            let count = (left >> first).trailing_ones();
            left &= !Pieces::from_to(first, first + count).0;
            Some(first * PIECE_BYTES..(first + count) * PIECE_BYTES)
        })
    }
}

impl BitOr for Pieces {
    type Output = Pieces;

    fn bitor(self, other: Pieces) -> Pieces {
        Pieces(self.0 | other.0)
    }
}

impl BitAnd for Pieces {
    type Output = Pieces;

    fn bitand(self, other: Pieces) -> Pieces {
        Pieces(self.0 & other.0)
    }
}

impl Not for Pieces {
    type Output = Pieces;

    fn not(self) -> Pieces {
        Pieces(!self.0)
    }
}

#[cfg(test)]
mod tests;
