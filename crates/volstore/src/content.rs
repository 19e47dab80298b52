//! What stands where: extents of blocks, pieces of content with their sums, versions of an object.

use std::sync::Arc;

use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumType};
use serde::{Deserialize, Serialize};
use types::limits::BLOCK_BYTES;

use crate::limits::SUM_BYTES;
use crate::name::Opseq;

/// Blocks of a group's volume that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extent {
    pub first: u32,
    pub count: u32,
}

impl Extent {
    pub fn range(&self) -> std::ops::Range<u64> {
        u64::from(self.first)..u64::from(self.first) + u64::from(self.count)
    }

    /// The volume's byte at which it begins.
    pub fn offset(&self) -> u64 {
        u64::from(self.first) * BLOCK_BYTES as u64
    }

    pub fn bytes(&self) -> usize {
        self.count as usize * BLOCK_BYTES
    }
}

/// Bytes that were written at once: at most [`crate::limits::PIECE_BYTES`], in whole blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub length: u32,
    pub extents: Box<[Extent]>,
    /// CRC32C of each [`SUM_BYTES`] of it.
    pub sums: Box<[u32]>,
}

impl Piece {
    pub fn blocks(&self) -> u64 {
        self.extents.iter().map(|extent| u64::from(extent.count)).sum()
    }

    /// Whether the fields agree with one another.
    pub fn is_sane(&self) -> bool {
        let length = self.length as usize;
        let is_within = |extent: &Extent| extent.count > 0 && extent.first.checked_add(extent.count).is_some();
        length > 0
            && self.blocks() == length.div_ceil(BLOCK_BYTES) as u64
            && self.sums.len() == length.div_ceil(SUM_BYTES)
            && self.extents.iter().all(is_within)
    }
}

/// A part of an object that was made by parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartMark {
    pub length: u64,
    pub checksum: Option<PartChecksum>,
}

/// A part's checksum, as records have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartChecksum {
    algorithm: u8,
    /// None: of all of the part.
    parts: Option<u16>,
    value: Vec<u8>,
}

impl PartChecksum {
    pub fn of(checksum: &Checksum) -> PartChecksum {
        let parts = match checksum.kind() {
            ChecksumType::FullObject => None,
            ChecksumType::Composite { parts } => Some(parts),
        };
        PartChecksum { algorithm: checksum.algorithm() as u8, parts, value: checksum.value().to_vec() }
    }

    /// None if a later version of the program made it.
    pub fn checksum(&self) -> Option<Checksum> {
        let algorithm = ChecksumAlgorithm::ALL.into_iter().find(|known| *known as u8 == self.algorithm)?;
        let kind = self.parts.map_or(ChecksumType::FullObject, |parts| ChecksumType::Composite { parts });
        Checksum::new(algorithm, kind, &self.value)
    }
}

/// All bytes of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub pieces: Box<[Piece]>,
    /// None if it was not made by parts.
    pub parts: Option<Box<[PartMark]>>,
}

impl Content {
    pub fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.length)).sum()
    }

    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        self.pieces.iter().flat_map(|piece| piece.extents.iter().copied())
    }

    /// What tells it from other contents that have blocks at the same time.
    pub fn first_block(&self) -> Option<u32> {
        Some(self.pieces.first()?.extents.first()?.first)
    }

    pub fn blocks(&self) -> u64 {
        self.pieces.iter().map(Piece::blocks).sum()
    }

    pub fn is_sane(&self) -> bool {
        self.pieces.iter().all(Piece::is_sane)
    }
}

/// A version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Of the mutation that made it.
    pub opseq: Opseq,
    /// As records of objects have them (`format::attributes`).
    pub attributes: Box<[u8]>,
    pub content: Arc<Content>,
}
