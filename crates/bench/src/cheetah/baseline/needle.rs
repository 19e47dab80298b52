//! What stands in a volume: a header of the volume, then needles one behind the other.
//!
//! ```text
//!   volume   magic 4 │ volume 4 │ generation 8 │ incarnation 8 │ crc 4                    one block
//!   needle   magic 4 │ incarnation 4 │ key 8 │ length 4 │ crc of the bytes 4 │ crc of the header 4 │ 4 zeros │ bytes, filled up to 8
//! ```
//!
//! A needle of the length [`TOMBSTONE`] says that its key is deleted.

use disk::{AlignedBuf, BLOCK_BYTES};

const VOLUME_MAGIC: u32 = 0x5641_5948;
const NEEDLE_MAGIC: u32 = 0x4e41_5948;
/// Of a needle.
pub const HEADER_BYTES: usize = 32;
/// Needles begin at multiples of this.
const ALIGNMENT: usize = 8;
/// The length of a needle that deletes.
const TOMBSTONE: u32 = u32::MAX;

/// What a volume is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeHeader {
    pub volume: u32,
    /// Of two with the same number the newer one counts.
    pub generation: u64,
    /// Random. Needles of another one are of an earlier use of the space.
    pub incarnation: u64,
}

impl VolumeHeader {
    pub fn encode(&self) -> AlignedBuf {
        let mut block = AlignedBuf::with_capacity(BLOCK_BYTES);
        block.extend_from_slice(&VOLUME_MAGIC.to_le_bytes());
        block.extend_from_slice(&self.volume.to_le_bytes());
        block.extend_from_slice(&self.generation.to_le_bytes());
        block.extend_from_slice(&self.incarnation.to_le_bytes());
        let sum = crc(&block);
        block.extend_from_slice(&sum.to_le_bytes());
        block.pad_to_block();
        block
    }

    pub fn decode(block: &[u8]) -> Option<VolumeHeader> {
        let is_one = u32_at(block, 0) == VOLUME_MAGIC && u32_at(block, 24) == crc(&block[..24]);
        let header = VolumeHeader { volume: u32_at(block, 4), generation: u64_at(block, 8), incarnation: u64_at(block, 16) };
        is_one.then_some(header)
    }
}

/// The header of a needle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedleHeader {
    pub key: u64,
    /// None: it deletes.
    pub length: Option<u32>,
    pub sum: u32,
}

impl NeedleHeader {
    pub fn of(key: u64, bytes: Option<&[u8]>) -> NeedleHeader {
        NeedleHeader { key, length: bytes.map(|bytes| bytes.len() as u32), sum: bytes.map_or(0, crc) }
    }

    pub fn encode(&self, incarnation: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&NEEDLE_MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&(incarnation as u32).to_le_bytes());
        header[8..16].copy_from_slice(&self.key.to_le_bytes());
        header[16..20].copy_from_slice(&self.length.unwrap_or(TOMBSTONE).to_le_bytes());
        header[20..24].copy_from_slice(&self.sum.to_le_bytes());
        let sum = crc(&header[..24]);
        header[24..28].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// None where no needle of this incarnation begins.
    pub fn decode(header: &[u8], incarnation: u64) -> Option<NeedleHeader> {
        let is_one = u32_at(header, 0) == NEEDLE_MAGIC
            && u32_at(header, 4) == incarnation as u32
            && u32_at(header, 24) == crc(&header[..24]);
        let length = Some(u32_at(header, 16)).filter(|length| *length != TOMBSTONE);
        is_one.then(|| NeedleHeader { key: u64_at(header, 8), length, sum: u32_at(header, 20) })
    }

    /// Bytes that it takes in a volume, its content included.
    pub fn space(&self) -> usize {
        space_of(self.length.map(|length| length as usize))
    }
}

/// Where the bytes of needles begin in a write, whichever incarnation they are of.
pub fn starts(write: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let ends = HEADER_BYTES..write.len();
    ends.step_by(ALIGNMENT).filter(|end| u32_at(write, end - HEADER_BYTES) == NEEDLE_MAGIC)
}

/// Bytes that a needle takes in a volume.
pub fn space_of(length: Option<usize>) -> usize {
    HEADER_BYTES + length.unwrap_or(0).next_multiple_of(ALIGNMENT)
}

pub fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
