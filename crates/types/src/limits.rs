//! The limits that more than one crate must agree on. Each crate names its own limits itself.

/// Offsets in a zone count units of this many bytes, so that small records do not pay for block alignment
/// (RFD 2, decision 23).
pub const UNIT_BYTES: usize = 64;

/// Writes to a device are whole blocks of this many bytes; payload checksums cover this many.
pub const BLOCK_BYTES: usize = 4096;

/// Longest object key, in bytes of UTF-8 (S3).
pub const MAX_KEY_BYTES: usize = 1024;

/// Largest object whose bytes stand in the same record as its metadata (RFD 2, "What is taken from the paper").
pub const MAX_SMALL_BYTES: usize = 128 * 1024;

/// Bytes of one chunk of a large object; the last chunk may be shorter.
pub const CHUNK_BYTES: usize = 1024 * 1024;

/// Largest object (S3): 5 TiB.
pub const MAX_OBJECT_BYTES: u64 = 5 * 1024 * 1024 * 1024 * 1024;

/// Largest object or part that one request may carry (S3): 5 GiB.
pub const MAX_PUT_BYTES: u64 = 5 * 1024 * 1024 * 1024;

/// Smallest part of a multipart upload, except the last (S3): 5 MiB.
pub const MIN_PART_BYTES: u64 = 5 * 1024 * 1024;

/// Highest part number (S3).
pub const MAX_PARTS: u16 = 10_000;

/// All user metadata of an object together: names and values (S3).
pub const MAX_USER_METADATA_BYTES: usize = 2048;

/// Device numbers are below this: indices and chunks' places have 16 bits for them, of which one value says "none". No number is given twice.
pub const DEVICE_NUMBERS: u32 = u16::MAX as u32;

/// Most replicas of a record.
pub const MAX_REPLICAS: usize = 3;

const _: () = assert!(BLOCK_BYTES.is_multiple_of(UNIT_BYTES));
const _: () = assert!(MAX_SMALL_BYTES < CHUNK_BYTES);
const _: () = assert!(CHUNK_BYTES.is_multiple_of(BLOCK_BYTES));
// The largest record of a small object (its names, a block for all other fields, its content) is shorter than a chunk.
const _: () = assert!(MAX_KEY_BYTES + MAX_USER_METADATA_BYTES + BLOCK_BYTES + MAX_SMALL_BYTES < CHUNK_BYTES);

#[cfg(test)]
mod tests;
