//! Blocks of one size that stand side by side in a volume, each with a header in front: which units they stand in.
//!
//! ```text
//!   unit 0                        unit 1                        unit 2
//!   ├─────────────────────────────┼─────────────────────────────┼──────
//!   ├ first_byte ┼ header │ content ──────┼ header │ content ───┼ header …
//!                ├───── stride_bytes ─────┤
//! ```
//!
//! Blocks may straddle units, and so may headers.

use std::ops::{Range, RangeInclusive};

/// How a volume is divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// Where the first block begins.
    pub first_byte: u64,
    /// From one block to the next.
    pub stride_bytes: u64,
    /// Of a block's header, with which the block begins.
    pub header_bytes: u64,
}

/// How a unit has the header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderIn {
    All,
    Nothing,
    /// One part stands in another unit.
    Part,
}

impl Strides {
    /// Blocks that a volume of so many bytes has.
    pub const fn block_count(&self, volume_bytes: u64) -> u64 {
        volume_bytes.saturating_sub(self.first_byte) / self.stride_bytes
    }

    /// Where a block begins.
    pub const fn block_start(&self, block: u32) -> u64 {
        self.first_byte + block as u64 * self.stride_bytes
    }

    /// The units of a volume in which a block stands.
    pub fn units_of(&self, block: u32, unit_bytes: u64) -> RangeInclusive<u32> {
        let start = self.block_start(block);
        let last = start + self.stride_bytes - 1;
        (start / unit_bytes) as u32..=(last / unit_bytes) as u32
    }

    /// The blocks of which something stands in a unit.
    pub fn blocks_of(&self, unit: u32, unit_bytes: u64, block_count: u32) -> Range<u32> {
        let start = u64::from(unit) * unit_bytes;
        let first = start.saturating_sub(self.first_byte) / self.stride_bytes;
        let end = (start + unit_bytes).saturating_sub(self.first_byte).div_ceil(self.stride_bytes);
        (first as u32).min(block_count)..end.min(u64::from(block_count)) as u32
    }

    /// How a unit, which is at least as long as a header, has the header of a block.
    pub fn header_in(&self, unit: u32, unit_bytes: u64, block: u32) -> HeaderIn {
        let start = self.block_start(block);
        let last = start + self.header_bytes - 1;
        match (start / unit_bytes == u64::from(unit), last / unit_bytes == u64::from(unit)) {
            (true, true) => HeaderIn::All,
            (false, false) => HeaderIn::Nothing,
            _ => HeaderIn::Part,
        }
    }
}

#[cfg(test)]
mod tests;
