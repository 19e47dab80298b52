//! The superblock of a group's volume: which dump counts, and where the log goes on behind it. Two slots are written in turn; the newest whole one
//! counts.
//!
//! Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `TvSb` |
//! | 4 | 4 | `crc` | CRC32C of all other bytes of the block |
//! | 8 | 4 | `version` | 1 |
//! | 12 | 4 | reserved | zero |
//! | 16 | 16 | `volume` | the group's name for its volume |
//! | 32 | 8 | `sequence` | counts up; modulo 2 it is the slot |
//! | 40 | 8 | `keep_from` | the first entry of the log that is needed |
//! | 48 | 8 | `dump` | counts up; the chunks of the dump name it |
//! | 56 | 8 | `dump_bytes` | rows of the dump |
//! | 64 | 4 | `last_chunk_place` | block of the dump's last chunk |
//! | 68 | 4 | `last_chunk_blocks` | 0: there is none |

use disk::{AlignedBuf, BLOCK_BYTES};
use types::DeviceUuid;

use crate::dump::ChunkPlace;
use crate::sums::{crc_of_parts, u32_at, u64_at};

const MAGIC: &[u8; 4] = b"TvSb";
const VERSION: u32 = 1;
/// Slots, a block each, at the start of the volume.
pub const SUPERBLOCK_SLOTS: u64 = 2;

/// What a slot says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub sequence: u64,
    pub keep_from: u64,
    pub dump: u64,
    pub dump_bytes: u64,
    pub last_chunk: Option<ChunkPlace>,
}

impl Superblock {
    /// Of a group that has nothing.
    pub fn first() -> Superblock {
        Superblock { sequence: 1, keep_from: 1, dump: 0, dump_bytes: 0, last_chunk: None }
    }

    pub fn slot(&self) -> u64 {
        self.sequence % SUPERBLOCK_SLOTS
    }

    /// `volume`: the group's name for it.
    pub fn encode(&self, volume: &DeviceUuid) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        let chunk = self.last_chunk.unwrap_or(ChunkPlace { first: 0, count: 0 });
        block[0..4].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&volume.0);
        block[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        block[40..48].copy_from_slice(&self.keep_from.to_le_bytes());
        block[48..56].copy_from_slice(&self.dump.to_le_bytes());
        block[56..64].copy_from_slice(&self.dump_bytes.to_le_bytes());
        block[64..68].copy_from_slice(&chunk.first.to_le_bytes());
        block[68..72].copy_from_slice(&chunk.count.to_le_bytes());
        let crc = crc_of_parts(&[&block[..4], &block[8..]]);
        block[4..8].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads a slot; none where it is not whole, or of another group.
    pub fn decode(block: &[u8], volume: &DeviceUuid) -> Option<Superblock> {
        let is_whole = &block[..4] == MAGIC && u32_at(block, 4) == crc_of_parts(&[&block[..4], &block[8..]]);
        if !is_whole || u32_at(block, 8) != VERSION || block[16..32] != volume.0 {
            return None;
        }
        let chunk = ChunkPlace { first: u32_at(block, 64), count: u32_at(block, 68) };
        Some(Superblock {
            sequence: u64_at(block, 32),
            keep_from: u64_at(block, 40),
            dump: u64_at(block, 48),
            dump_bytes: u64_at(block, 56),
            last_chunk: (chunk.count > 0).then_some(chunk),
        })
    }
}

#[cfg(test)]
mod tests {
    use types::DeviceUuid;

    use super::Superblock;
    use crate::dump::ChunkPlace;

    #[test]
    fn a_slot_is_read_as_it_was_written() {
        let volume = DeviceUuid([4; 16]);
        let last_chunk = Some(ChunkPlace { first: 5, count: 4 });
        let superblock = Superblock { sequence: 9, keep_from: 8, dump: 3, dump_bytes: 6, last_chunk };
        let mut block = superblock.encode(&volume);
        assert_eq!(superblock.slot(), 1);
        assert_eq!(Superblock::decode(&block, &volume), Some(superblock));
        assert_eq!(Superblock::decode(&block, &DeviceUuid([6; 16])), None, "another group");
        block[100] ^= 1;
        assert_eq!(Superblock::decode(&block, &volume), None, "a changed bit");
    }
}
