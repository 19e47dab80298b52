//! Where replay of the shared log begins: two blocks, written in turn.
//!
//! ```text
//! slot      0  magic        8  "TRILCNB\0"
//!           8  version      4
//!          12  checksum     4  CRC-32C of the other bytes of the block
//!          16  sequence     8  1, 2, 3 ...: slot = sequence modulo 2, the higher one counts
//!          24  node         8  whose log this is
//!          32  keep from    8  first record that is still needed
//!          40  zero, to the end of the block
//! ```
//!
//! Invariants
//! - A slot is durable before the log gives up any record that only the other slot asks for; one that was read, too.
//! - A torn slot is the younger one: the older still names records that exist. Two bad slots are an error.

use std::sync::Arc;

use crc_fast::{CrcAlgorithm, checksum};
use disk::{AlignedBuf, BLOCK_BYTES, Disk, DiskError, DiskExt, Durability, ReadMode};
use parking_lot::Mutex;
use wal::Lsn;

use crate::id::{COUNT_LIMIT, NodeId};

/// Bytes that a base needs of its disk.
pub const BASE_BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// The newest layout: the first one.
const BASE_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"TRILCNB\0";

/// Why the base cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    #[error("the base of the consensus log cannot be read or written")]
    Disk(#[from] DiskError),
    #[error("the base of the consensus log on {device} has no sound slot: {first}; {second}")]
    Corrupt { device: String, first: SlotError, second: SlotError },
    #[error("the base of the consensus log on {device} is of version {found}; this program reads up to {BASE_VERSION}")]
    Version { device: String, found: u32 },
    #[error("the consensus log on {device} belongs to node {found}, not to node {expected}")]
    ForeignNode { device: String, expected: NodeId, found: NodeId },
}

/// What is wrong with one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    #[error("magic {found:02x?}, expected {MAGIC:02x?}")]
    Magic { found: [u8; 8] },
    #[error("checksum {found:08x}, expected {expected:08x}")]
    Checksum { expected: u32, found: u32 },
    #[error("version {found}")]
    Version { found: u32 },
    #[error("number {found}, expected one below {COUNT_LIMIT}")]
    Number { found: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    sequence: u64,
    node: NodeId,
    keep_from: Lsn,
}

/// The base of one log.
pub(crate) struct Base {
    disk: Arc<dyn Disk>,
    node: NodeId,
    newest: Mutex<Slot>,
}

impl Base {
    /// Reads the base, or begins one on blocks of zeros.
    pub(crate) async fn open(disk: Arc<dyn Disk>, node: NodeId) -> Result<Base, BaseError> {
        let blocks = [disk.read(0, BLOCK_BYTES, ReadMode::Direct).await?, read_second(&disk).await?];
        let slots = [Slot::decode(&blocks[0]), Slot::decode(&blocks[1])];
        // The first write goes to the second slot and says "from the first record on". As long as the first slot was never written,
        // nothing else can have been said, whether that write was torn or decayed later.
        if blocks[0].iter().all(|byte| *byte == 0)
            && matches!(slots[1], Err(SlotError::Magic { .. } | SlotError::Checksum { .. }))
        {
            let base = Base { disk, node, newest: Mutex::new(Slot { sequence: 0, node, keep_from: Lsn::FIRST }) };
            base.store(Lsn::FIRST).await?;
            return Ok(base);
        }
        let device = disk.describe();
        for slot in &slots {
            if let Err(SlotError::Version { found }) = *slot {
                return Err(BaseError::Version { device, found });
            }
        }
        let newest = match slots {
            [Err(first), Err(second)] => return Err(BaseError::Corrupt { device, first, second }),
            [Ok(slot), Err(_)] | [Err(_), Ok(slot)] => slot,
            [Ok(first), Ok(second)] if first.sequence > second.sequence => first,
            [Ok(_), Ok(second)] => second,
        };
        if newest.node != node {
            return Err(BaseError::ForeignNode { device, expected: node, found: newest.node });
        }
        // The last process may have been killed after its last write and before that was durable. From here on the log gives up what the other
        // slot asks for, which must not come back with a power cut.
        disk.flush().await?;
        Ok(Base { disk, node, newest: Mutex::new(newest) })
    }

    pub(crate) fn keep_from(&self) -> Lsn {
        self.newest.lock().keep_from
    }

    /// Makes `keep_from` durable. One call at a time.
    pub(crate) async fn store(&self, keep_from: Lsn) -> Result<(), BaseError> {
        let slot = Slot { sequence: self.newest.lock().sequence + 1, node: self.node, keep_from };
        let offset = slot.sequence % 2 * BLOCK_BYTES as u64;
        self.disk.write(offset, slot.encode(), Durability::Durable).await?;
        *self.newest.lock() = slot;
        Ok(())
    }
}

async fn read_second(disk: &Arc<dyn Disk>) -> Result<AlignedBuf, DiskError> {
    disk.read(BLOCK_BYTES as u64, BLOCK_BYTES, ReadMode::Direct).await
}

impl Slot {
    fn encode(&self) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        block[0..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&BASE_VERSION.to_le_bytes());
        block[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        block[24..32].copy_from_slice(&self.node.0.to_le_bytes());
        block[32..40].copy_from_slice(&self.keep_from.0.to_le_bytes());
        let sum = block_checksum(&block);
        block[12..16].copy_from_slice(&sum.to_le_bytes());
        block
    }

    fn decode(block: &[u8]) -> Result<Slot, SlotError> {
        let magic: [u8; 8] = part(block, 0);
        if magic != MAGIC {
            return Err(SlotError::Magic { found: magic });
        }
        let (expected, found) = (block_checksum(block), u32::from_le_bytes(part(block, 12)));
        if expected != found {
            return Err(SlotError::Checksum { expected, found });
        }
        let version = u32::from_le_bytes(part(block, 8));
        if version != BASE_VERSION {
            return Err(SlotError::Version { found: version });
        }
        let number = |offset| u64::from_le_bytes(part(block, offset));
        let count = |offset| match number(offset) {
            found if found < COUNT_LIMIT => Ok(found),
            found => Err(SlotError::Number { found }),
        };
        Ok(Slot { sequence: count(16)?, node: NodeId(number(24)), keep_from: Lsn(count(32)?) })
    }
}

/// For the fuzz target: a slot that is accepted survives being written again.
pub(crate) fn check_slot(block: &[u8]) {
    if let Ok(slot) = Slot::decode(block) {
        assert_eq!(Slot::decode(&slot.encode()), Ok(slot));
    }
}

fn part<const N: usize>(block: &[u8], offset: usize) -> [u8; N] {
    block[offset..offset + N].try_into().expect("the slot lies within its block")
}

fn block_checksum(block: &[u8]) -> u32 {
    let mut covered = block.to_vec();
    covered[12..16].fill(0);
    checksum(CrcAlgorithm::Crc32Iscsi, &covered) as u32
}

#[cfg(test)]
mod tests;
