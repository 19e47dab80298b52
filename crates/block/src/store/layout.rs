//! Where things stand in a volume.

use device::Strides;
use disk::{AlignedBuf, BLOCK_BYTES};
use format::blob_header::{BLOB_SLOT_BYTES, BLOB_SLOTS, BLOB_STRIDE_BYTES};

/// The blocks of a volume.
pub const STRIDES: Strides =
    Strides { first_byte: 0, stride_bytes: BLOB_STRIDE_BYTES, header_bytes: BLOB_SLOTS * BLOB_SLOT_BYTES as u64 };

/// Blocks that a volume of so many bytes has.
pub fn block_count(volume_bytes: u64) -> u32 {
    STRIDES.block_count(volume_bytes).min(u64::from(u32::MAX)) as u32
}

pub fn slot_start(block: u32, slot: u64) -> u64 {
    STRIDES.block_start(block) + slot * BLOB_SLOT_BYTES as u64
}

/// Where a byte of a block's content stands.
pub fn data_start(block: u32, offset: u32) -> u64 {
    slot_start(block, BLOB_SLOTS) + u64::from(offset)
}

/// The bytes, and zeros up to whole blocks of the device.
pub fn padded(bytes: &[u8]) -> AlignedBuf {
    let mut buf = AlignedBuf::with_capacity(bytes.len().next_multiple_of(BLOCK_BYTES));
    buf.extend_from_slice(bytes);
    buf.pad_to_block();
    buf
}

const _: () = assert!(BLOB_STRIDE_BYTES.is_multiple_of(BLOCK_BYTES as u64));
const _: () = assert!(BLOB_SLOT_BYTES.is_multiple_of(BLOCK_BYTES));
