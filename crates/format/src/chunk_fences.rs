//! What a device's chunks are fenced by: for each shard, the numbers below which nothing can be decided any more (docs/rfd/0011, rule 10).
//!
//! The record stands at the start of the chunk store's volume, in two slots that are written in turn, each write with all fences:
//!
//! ```text
//! 0              512 KiB        1 MiB
//! ├─ slot 0 ─────┼─ slot 1 ─────┼─ blocks …
//! ```
//!
//! Little endian.
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `crc` | CRC32C over `[4, 64 + 24 · count)` |
//! | 4 | 4 | `magic` | `TcFn` |
//! | 8 | 1 | `version` | [`CHUNK_FENCES_VERSION`] |
//! | 9 | 3 | reserved | zero |
//! | 12 | 4 | `count` | at most [`MAX_FENCED_SHARDS`] |
//! | 16 | 16 | `device_uuid` | |
//! | 32 | 8 | `sequence` | of this write; decides the slot |
//! | 40 | 24 | reserved | zero |
//! | 64 | 24 each | fences | `shard` u32, reserved u32, `puts` u64, `moves` u64; ascending by shard |
//!
//! Invariants:
//! - A write touches the slot that does not hold the newest fences, so a torn write leaves those.
//! - Each shard stands once, and what is said of it only grows.

use crc_fast::crc32_iscsi;
use types::DeviceUuid;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::chunk_id::{ChunkNumber, ShardId};
use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;

/// Version written; 1: the first.
pub const CHUNK_FENCES_VERSION: u8 = 1;
/// Bytes from one slot to the next.
pub const FENCES_SLOT_BYTES: u64 = 512 * 1024;
/// Slots at the start of the volume.
pub const FENCES_SLOTS: u64 = 2;
/// Bytes in front of the blocks.
pub const FENCES_AREA_BYTES: u64 = FENCES_SLOTS * FENCES_SLOT_BYTES;
/// Most shards that have, or had, chunks on one device. With a million chunks each that is more than a device holds in its life.
pub const MAX_FENCED_SHARDS: usize = 16_384;

const MAGIC: [u8; 4] = *b"TcFn";
const HEAD_BYTES: usize = 64;
const FENCE_BYTES: usize = 24;
const CRC_BYTES: usize = 4;
const FENCES: &str = "chunk fences";

const _: () = assert!(HEAD_BYTES + FENCE_BYTES * MAX_FENCED_SHARDS <= FENCES_SLOT_BYTES as usize);

/// What is refused of one shard: puts, and copies that relocations bring, below these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardFence {
    pub shard: ShardId,
    pub puts: ChunkNumber,
    pub moves: u64,
}

/// All fences of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkFences {
    pub device_uuid: DeviceUuid,
    /// Decides the slot.
    pub sequence: u64,
    /// Ascending by shard.
    pub fences: Vec<ShardFence>,
}

fixed_layout! {
    pub(crate) struct ChunkFencesLayout: 64 {
        0 crc: U32,
        4 magic: [u8; 4],
        8 version: u8,
        9 reserved_a: [u8; 3],
        12 count: U32,
        16 device_uuid: [u8; 16],
        32 sequence: U64,
        40 reserved_b: [u8; 24],
    }
}

fixed_layout! {
    pub(crate) struct ShardFenceLayout: 24 {
        0 shard: U32,
        4 reserved: U32,
        8 puts: U64,
        16 moves: U64,
    }
}

const _: () = assert!(size_of::<ChunkFencesLayout>() == HEAD_BYTES);
const _: () = assert!(size_of::<ShardFenceLayout>() == FENCE_BYTES);

impl ChunkFences {
    /// Where this record stands in its volume.
    pub fn offset(&self) -> u64 {
        self.sequence % FENCES_SLOTS * FENCES_SLOT_BYTES
    }

    /// The bytes of a slot, up to the last fence.
    ///
    /// Panics when there are more than [`MAX_FENCED_SHARDS`].
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.fences.len() <= MAX_FENCED_SHARDS, "{} fences", self.fences.len());
        let head = ChunkFencesLayout {
            crc: U32::ZERO,
            magic: MAGIC,
            version: CHUNK_FENCES_VERSION,
            reserved_a: [0; 3],
            count: (self.fences.len() as u32).into(),
            device_uuid: self.device_uuid.0,
            sequence: self.sequence.into(),
            reserved_b: [0; 24],
        };
        let mut out = Vec::with_capacity(HEAD_BYTES + FENCE_BYTES * self.fences.len());
        out.extend_from_slice(head.as_bytes());
        for ShardFence { shard, puts, moves } in &self.fences {
            let (shard, puts, moves) = (shard.0.into(), puts.0.into(), (*moves).into());
            out.extend_from_slice(ShardFenceLayout { shard, reserved: U32::ZERO, puts, moves }.as_bytes());
        }
        let crc = crc32_iscsi(&out[CRC_BYTES..]);
        out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads one slot; bytes behind the fences do not count.
    pub fn decode(slot: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(FENCES, slot);
        let head: &ChunkFencesLayout = reader.fixed("head")?;
        if head.magic != MAGIC {
            let found = u64::from(u32::from_le_bytes(head.magic));
            return Err(reader.error_at(4, "magic", Fault::Unknown { found }));
        }
        reader.check_version(8, head.version, CHUNK_FENCES_VERSION)?;
        let count = head.count.get() as usize;
        reader.check_count(12, count, FENCE_BYTES, "count")?;
        if count > MAX_FENCED_SHARDS {
            let fault = Fault::OutOfRange { least: 0, most: MAX_FENCED_SHARDS as u64, found: count as u64 };
            return Err(reader.error_at(12, "count", fault));
        }
        let (expected, found) = (crc32_iscsi(&slot[CRC_BYTES..HEAD_BYTES + FENCE_BYTES * count]), head.crc.get());
        if expected != found {
            return Err(reader.error_at(0, "crc", Fault::Checksum { expected, found }));
        }
        if head.reserved_a != [0; 3] || head.reserved_b != [0; 24] {
            return Err(reader.error_at(9, "reserved", Fault::Unknown { found: u64::from(head.reserved_a[0]) }));
        }
        let fences = read_fences(&mut reader, count)?;
        Ok(ChunkFences { device_uuid: DeviceUuid(head.device_uuid), sequence: head.sequence.get(), fences })
    }
}

fn read_fences(reader: &mut Reader<'_>, count: usize) -> Result<Vec<ShardFence>, DecodeError> {
    let mut fences: Vec<ShardFence> = Vec::with_capacity(count);
    for _ in 0..count {
        let at = reader.offset();
        let fence: &ShardFenceLayout = reader.fixed("fence")?;
        if fence.reserved != U32::ZERO {
            return Err(reader.error_at(at + 4, "reserved", Fault::Unknown { found: u64::from(fence.reserved.get()) }));
        }
        let shard = ShardId(fence.shard.get());
        if fences.last().is_some_and(|before| before.shard >= shard) {
            return Err(reader.error_at(at, "shard", Fault::Unordered));
        }
        fences.push(ShardFence { shard, puts: ChunkNumber(fence.puts.get()), moves: fence.moves.get() });
    }
    Ok(fences)
}

#[cfg(test)]
mod tests;
