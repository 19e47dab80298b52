//! What stands where in the volume.
//!
//! ```text
//!   block 0, 1        blocks 2 …                        all others, in units that have space
//!   ├ superblock ×2 ─┼─ journal: segments of one size ─┼─ content │ pages and directory of a checkpoint │ free
//! ```

use device::Volume;
use disk::BLOCK_BYTES;
use wal::{MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES};

use super::limits::{JOURNAL_SEGMENTS, JOURNAL_SHARE, MAX_JOURNAL_BYTES};

pub const BLOCK: u64 = BLOCK_BYTES as u64;
/// Slots of the superblock, a block each.
pub const SUPERBLOCK_SLOTS: u64 = 2;

/// A place is a 32-bit number, and the last one stands for none.
const MAX_BLOCKS: u64 = u32::MAX as u64;

/// Blocks that follow one another on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Span {
    pub place: u32,
    pub count: u32,
}

impl Span {
    pub fn end(self) -> u32 {
        self.place + self.count
    }

    /// The volume's byte at which it begins.
    pub fn offset(self) -> u64 {
        u64::from(self.place) * BLOCK
    }

    pub fn bytes(self) -> usize {
        self.count as usize * BLOCK_BYTES
    }
}

/// Adds a block to spans, to the last one if it follows that.
pub fn push_block(spans: &mut Vec<Span>, place: u32) {
    match spans.last_mut().filter(|last| last.end() == place) {
        Some(last) => last.count += 1,
        None => spans.push(Span { place, count: 1 }),
    }
}

/// The blocks of spans, in their order.
pub fn blocks_of(spans: &[Span]) -> impl Iterator<Item = u32> {
    spans.iter().flat_map(|span| span.place..span.end())
}

/// The measures of a volume for files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub unit_blocks: u64,
    pub blocks: u64,
    pub segment_bytes: u64,
}

impl Layout {
    pub fn of(volume: &Volume) -> Layout {
        let share = (volume.byte_count() / JOURNAL_SHARE).min(MAX_JOURNAL_BYTES) / JOURNAL_SEGMENTS as u64;
        let segment_bytes = (share / BLOCK * BLOCK).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        let blocks = (volume.byte_count() / BLOCK).min(MAX_BLOCKS);
        Layout { unit_blocks: volume.unit_bytes() / BLOCK, blocks, segment_bytes }
    }

    pub fn segment_start(&self, index: usize) -> u64 {
        SUPERBLOCK_SLOTS * BLOCK + index as u64 * self.segment_bytes
    }

    /// Blocks at the start that are never content.
    pub fn fixed_blocks(&self) -> u64 {
        self.segment_start(JOURNAL_SEGMENTS) / BLOCK
    }

    /// Units that hold the blocks at the start.
    pub fn fixed_units(&self) -> u32 {
        self.fixed_blocks().div_ceil(self.unit_blocks) as u32
    }

    /// The blocks of a unit that may be content.
    pub fn content_of(&self, unit: u32) -> std::ops::Range<u64> {
        let start = u64::from(unit) * self.unit_blocks;
        start.max(self.fixed_blocks())..(start + self.unit_blocks).min(self.blocks).max(self.fixed_blocks())
    }
}
