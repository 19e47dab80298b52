//! Where things stand in a volume.

use std::ops::{Range, RangeInclusive};

use disk::{AlignedBuf, BLOCK_BYTES};
use format::chunk_block::{BLOCK_STRIDE_BYTES, HEADER_SLOT_BYTES, HEADER_SLOTS};
use format::chunk_fences::FENCES_AREA_BYTES;
use format::chunk_place::BLOCK_BITS;

/// Blocks for chunks that a volume of so many bytes has.
pub fn block_count(volume_bytes: u64) -> u32 {
    let blocks = volume_bytes.saturating_sub(FENCES_AREA_BYTES) / BLOCK_STRIDE_BYTES;
    blocks.min(1 << BLOCK_BITS) as u32
}

/// Bytes of a volume with so many blocks for chunks.
pub fn volume_bytes(block_count: u32) -> u64 {
    FENCES_AREA_BYTES + u64::from(block_count) * BLOCK_STRIDE_BYTES
}

/// Where a block's header begins.
pub fn block_start(block: u32) -> u64 {
    FENCES_AREA_BYTES + u64::from(block) * BLOCK_STRIDE_BYTES
}

/// The units of a volume in which a block stands.
pub fn units_of(block: u32, unit_bytes: u64) -> RangeInclusive<u32> {
    let last = block_start(block) + BLOCK_STRIDE_BYTES - 1;
    (block_start(block) / unit_bytes) as u32..=(last / unit_bytes) as u32
}

/// The blocks of which something stands in a unit.
pub fn blocks_of(unit: u32, unit_bytes: u64, block_count: u32) -> Range<u32> {
    let start = u64::from(unit) * unit_bytes;
    let first = start.saturating_sub(FENCES_AREA_BYTES) / BLOCK_STRIDE_BYTES;
    let end = (start + unit_bytes).saturating_sub(FENCES_AREA_BYTES).div_ceil(BLOCK_STRIDE_BYTES);
    (first as u32).min(block_count)..end.min(u64::from(block_count)) as u32
}

/// How a unit has the header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderIn {
    All,
    Nothing,
    /// One part stands in another unit.
    Part,
}

pub fn header_in(unit: u32, unit_bytes: u64, block: u32) -> HeaderIn {
    let (start, last) = (slot_start(block, 0), slot_start(block, HEADER_SLOTS) - 1);
    match (start / unit_bytes == u64::from(unit), last / unit_bytes == u64::from(unit)) {
        (true, true) => HeaderIn::All,
        (false, false) => HeaderIn::Nothing,
        _ => HeaderIn::Part,
    }
}

pub fn slot_start(block: u32, slot: u64) -> u64 {
    block_start(block) + slot * HEADER_SLOT_BYTES as u64
}

/// Where a byte of a block's data area stands.
pub fn data_start(block: u32, offset: u32) -> u64 {
    slot_start(block, HEADER_SLOTS) + u64::from(offset)
}

/// The bytes, and zeros up to whole blocks of the device.
pub fn padded(bytes: &[u8]) -> AlignedBuf {
    let mut buf = AlignedBuf::with_capacity(bytes.len().next_multiple_of(BLOCK_BYTES));
    buf.extend_from_slice(bytes);
    buf.pad_to_block();
    buf
}

const _: () = assert!(BLOCK_STRIDE_BYTES.is_multiple_of(BLOCK_BYTES as u64));
const _: () = assert!(HEADER_SLOT_BYTES.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(FENCES_AREA_BYTES.is_multiple_of(BLOCK_BYTES as u64));
