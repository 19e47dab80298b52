//! Where things stand in a volume region.

use disk::{AlignedBuf, BLOCK_BYTES};
use format::chunk_block::{BLOCK_STRIDE_BYTES, HEADER_SLOT_BYTES, HEADER_SLOTS};
use format::chunk_fences::FENCES_AREA_BYTES;
use format::chunk_place::BLOCK_BITS;

/// Blocks for chunks that a volume region of so many bytes has.
pub fn block_count(volume_bytes: u64) -> u32 {
    let blocks = volume_bytes.saturating_sub(FENCES_AREA_BYTES) / BLOCK_STRIDE_BYTES;
    blocks.min(1 << BLOCK_BITS) as u32
}

/// Bytes of a volume region with so many blocks for chunks.
pub fn volume_bytes(block_count: u32) -> u64 {
    FENCES_AREA_BYTES + u64::from(block_count) * BLOCK_STRIDE_BYTES
}

/// Where a block's header begins.
pub fn block_start(block: u32) -> u64 {
    FENCES_AREA_BYTES + u64::from(block) * BLOCK_STRIDE_BYTES
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
