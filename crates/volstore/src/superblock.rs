//! The superblock, on the home volume: which dump counts, where the log goes on behind it, and which devices there are. Two slots are written in turn; the
//! newest whole one counts.
//!
//! Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `TvSb` |
//! | 4 | 4 | `crc` | CRC32C of all other bytes of the block |
//! | 8 | 4 | `version` | 1 |
//! | 12 | 4 | `volume_count` | devices in the table |
//! | 16 | 16 | `device_uuid` | of the home device |
//! | 32 | 8 | `sequence` | counts up; modulo 2 it is the slot |
//! | 40 | 8 | `keep_from` | the first record of the log that is needed |
//! | 48 | 8 | `segment_bytes` | of the log |
//! | 56 | 8 | `dump_bytes` | rows of the dump |
//! | 64 | 4 | `last_chunk_place` | block of the dump's last chunk |
//! | 68 | 4 | `last_chunk_blocks` | 0: there is none |
//! | 72 | 8 | `dump` | counts up; the chunks of the dump name it |
//! | 80 | 16 × count | `volumes` | uuid of each device, by the number that extents name it by |

use disk::{AlignedBuf, BLOCK_BYTES};
use types::DeviceUuid;

use crate::dump::ChunkPlace;
use crate::limits::MAX_VOLUMES;
use crate::sums::{crc_of_parts, u32_at, u64_at};

const MAGIC: &[u8; 4] = b"TvSb";
const VERSION: u32 = 1;
const TABLE_START: usize = 80;
const UUID_BYTES: usize = 16;
/// Slots, a block each, at the start of the home volume.
pub const SUPERBLOCK_SLOTS: u64 = 2;

const _: () = assert!(TABLE_START + MAX_VOLUMES * UUID_BYTES <= BLOCK_BYTES);

/// What a slot says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub sequence: u64,
    pub keep_from: u64,
    pub segment_bytes: u64,
    pub dump_bytes: u64,
    pub last_chunk: Option<ChunkPlace>,
    pub dump: u64,
    pub volumes: Vec<DeviceUuid>,
}

impl Superblock {
    /// Of a store that has nothing.
    pub fn first(segment_bytes: u64, volumes: Vec<DeviceUuid>) -> Superblock {
        Superblock { sequence: 1, keep_from: 1, segment_bytes, dump_bytes: 0, last_chunk: None, dump: 0, volumes }
    }

    pub fn slot(&self) -> u64 {
        self.sequence % SUPERBLOCK_SLOTS
    }

    pub fn encode(&self, home: &DeviceUuid) -> AlignedBuf {
        assert!(self.volumes.len() <= MAX_VOLUMES, "{} volumes", self.volumes.len());
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        let chunk = self.last_chunk.unwrap_or(ChunkPlace { first: 0, count: 0 });
        block[0..4].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&(self.volumes.len() as u32).to_le_bytes());
        block[16..32].copy_from_slice(&home.0);
        block[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        block[40..48].copy_from_slice(&self.keep_from.to_le_bytes());
        block[48..56].copy_from_slice(&self.segment_bytes.to_le_bytes());
        block[56..64].copy_from_slice(&self.dump_bytes.to_le_bytes());
        block[64..68].copy_from_slice(&chunk.first.to_le_bytes());
        block[68..72].copy_from_slice(&chunk.count.to_le_bytes());
        block[72..80].copy_from_slice(&self.dump.to_le_bytes());
        let table = block[TABLE_START..].chunks_exact_mut(UUID_BYTES);
        table.zip(&self.volumes).for_each(|(entry, uuid)| entry.copy_from_slice(&uuid.0));
        let crc = crc_of_parts(&[&block[..4], &block[8..]]);
        block[4..8].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads a slot; none where it is not whole, or of another device.
    pub fn decode(block: &[u8], home: &DeviceUuid) -> Option<Superblock> {
        let is_whole = &block[..4] == MAGIC && u32_at(block, 4) == crc_of_parts(&[&block[..4], &block[8..]]);
        let count = u32_at(block, 12) as usize;
        if !is_whole || u32_at(block, 8) != VERSION || block[16..32] != home.0 || count > MAX_VOLUMES {
            return None;
        }
        let chunk = ChunkPlace { first: u32_at(block, 64), count: u32_at(block, 68) };
        let table = block[TABLE_START..].chunks_exact(UUID_BYTES).take(count);
        Some(Superblock {
            sequence: u64_at(block, 32),
            keep_from: u64_at(block, 40),
            segment_bytes: u64_at(block, 48),
            dump_bytes: u64_at(block, 56),
            last_chunk: (chunk.count > 0).then_some(chunk),
            dump: u64_at(block, 72),
            volumes: table.map(|uuid| DeviceUuid(uuid.try_into().expect("sixteen bytes"))).collect(),
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
        let home = DeviceUuid([4; 16]);
        let superblock = Superblock {
            sequence: 9,
            keep_from: 8,
            segment_bytes: 7 << 12,
            dump_bytes: 6,
            last_chunk: Some(ChunkPlace { first: 5, count: 4 }),
            dump: 3,
            volumes: vec![home, DeviceUuid([6; 16])],
        };
        let mut block = superblock.encode(&home);
        assert_eq!(superblock.slot(), 1);
        assert_eq!(Superblock::decode(&block, &home), Some(superblock));
        assert_eq!(Superblock::decode(&block, &DeviceUuid([6; 16])), None, "another device");
        block[100] ^= 1;
        assert_eq!(Superblock::decode(&block, &home), None, "a changed bit");
    }
}
