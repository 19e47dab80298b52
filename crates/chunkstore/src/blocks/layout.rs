//! Where things stand in a volume.

use device::Strides;
use disk::{AlignedBuf, BLOCK_BYTES};
use format::chunk_block::{BLOCK_STRIDE_BYTES, HEADER_SLOT_BYTES, HEADER_SLOTS};
use format::chunk_fences::FENCES_AREA_BYTES;
use format::chunk_place::BLOCK_BITS;

/// The blocks of a volume.
pub const STRIDES: Strides = Strides {
    first_byte: FENCES_AREA_BYTES,
    stride_bytes: BLOCK_STRIDE_BYTES,
    header_bytes: HEADER_SLOTS * HEADER_SLOT_BYTES as u64,
};

/// Blocks for chunks that a volume of so many bytes has.
pub fn block_count(volume_bytes: u64) -> u32 {
    STRIDES.block_count(volume_bytes).min(1 << BLOCK_BITS) as u32
}

/// Bytes of a volume with so many blocks for chunks.
pub fn volume_bytes(block_count: u32) -> u64 {
    STRIDES.block_start(block_count)
}

pub fn slot_start(block: u32, slot: u64) -> u64 {
    STRIDES.block_start(block) + slot * HEADER_SLOT_BYTES as u64
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
