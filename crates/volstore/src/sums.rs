//! Checksums and numbers of what stands on a volume.

use crate::limits::SUM_BYTES;

/// CRC32C of bytes.
pub fn crc(bytes: &[u8]) -> u32 {
    crc_of_parts(&[bytes])
}

/// CRC32C of bytes that follow one another.
pub fn crc_of_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// The sums of a piece of content.
pub fn sums_of(content: &[u8]) -> Box<[u32]> {
    content.chunks(SUM_BYTES).map(crc).collect()
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
