//! The superblock: which checkpoint counts, and where the journal goes on behind it. Two slots are written in turn; the newest whole one counts.
//!
//! Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `TfSb` |
//! | 4 | 4 | `crc` | CRC32C of all other bytes of the block |
//! | 8 | 4 | `version` | 1 |
//! | 12 | 4 | `term` | of extents that are made from now on |
//! | 16 | 16 | `device_uuid` | |
//! | 32 | 8 | `sequence` | counts up; modulo 2 it is the slot |
//! | 40 | 8 | `keep_from` | the first record of the journal that is needed |
//! | 48 | 8 | `segment_bytes` | of the journal |
//! | 56 | 8 | `directory_bytes` | of all chunks of the directory |
//! | 64 | 4 | `last_chunk_place` | of the directory's last chunk |
//! | 68 | 4 | `last_chunk_blocks` | 0: there is none |
//! | 72 | 8 | `checkpoint` | counts up; the chunks of its directory name it |

use disk::{AlignedBuf, BLOCK_BYTES};

use super::layout::Span;
use super::sums::{crc_of_parts, u32_at, u64_at};

const MAGIC: &[u8; 4] = b"TfSb";
const VERSION: u32 = 1;

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub sequence: u64,
    pub term: u32,
    pub keep_from: u64,
    pub segment_bytes: u64,
    pub directory_bytes: u64,
    pub last_chunk: Option<Span>,
    pub checkpoint: u64,
}

impl Superblock {
    pub fn slot(&self) -> u64 {
        self.sequence % super::layout::SUPERBLOCK_SLOTS
    }

    pub fn encode(&self, device_uuid: &[u8; 16]) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        let chunk = self.last_chunk.unwrap_or(Span { place: 0, count: 0 });
        block[0..4].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&self.term.to_le_bytes());
        block[16..32].copy_from_slice(device_uuid);
        block[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        block[40..48].copy_from_slice(&self.keep_from.to_le_bytes());
        block[48..56].copy_from_slice(&self.segment_bytes.to_le_bytes());
        block[56..64].copy_from_slice(&self.directory_bytes.to_le_bytes());
        block[64..68].copy_from_slice(&chunk.place.to_le_bytes());
        block[68..72].copy_from_slice(&chunk.count.to_le_bytes());
        block[72..80].copy_from_slice(&self.checkpoint.to_le_bytes());
        let crc = crc_of_parts(&[&block[..4], &block[8..]]);
        block[4..8].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads a slot; none where it is not whole, or of another device.
    pub fn decode(block: &[u8], device_uuid: &[u8; 16]) -> Option<Superblock> {
        let is_whole = &block[..4] == MAGIC && u32_at(block, 4) == crc_of_parts(&[&block[..4], &block[8..]]);
        if !is_whole || u32_at(block, 8) != VERSION || &block[16..32] != device_uuid {
            return None;
        }
        let chunk = Span { place: u32_at(block, 64), count: u32_at(block, 68) };
        Some(Superblock {
            sequence: u64_at(block, 32),
            term: u32_at(block, 12),
            keep_from: u64_at(block, 40),
            segment_bytes: u64_at(block, 48),
            directory_bytes: u64_at(block, 56),
            last_chunk: (chunk.count > 0).then_some(chunk),
            checkpoint: u64_at(block, 72),
        })
    }
}
