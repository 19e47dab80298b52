//! A device's own part of the volume engine's volume: the log of all groups that have their copy on the device, and from where on that is needed.
//!
//! Part 0: two slots of a block, written in turn, then the log's segments. Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `TvMe` |
//! | 4 | 4 | `crc` | CRC32C of bytes 0 to 4 and 8 to 40 |
//! | 8 | 8 | `sequence` | counts up; modulo 2 it is the slot |
//! | 16 | 8 | `keep_from` | the first record of the log that is needed |
//! | 24 | 8 | `segment_bytes` | of the log |
//! | 32 | 8 | `segments` | of the log |
//!
//! Part `n + 1` is the copy of group `n`.

use std::collections::BTreeMap;
use std::sync::Arc;

use allack::{GroupId, Saved, WalStore};
use device::{Volume, VolumeDisk};
use disk::{AlignedBuf, BLOCK_BYTES};
use env::Env;
use parking_lot::Mutex;
use types::DeviceId;
use wal::{Lsn, RegionStore};

use crate::blocks::{BlockError, Way, read_local};
use crate::limits::Shape;
use crate::sums::{crc_of_parts, u32_at, u64_at};
use crate::superblock::SUPERBLOCK_SLOTS;

const MAGIC: &[u8; 4] = b"TvMe";
const LAYOUT_BYTES: usize = 40;
const LOG_START: u64 = SUPERBLOCK_SLOTS * BLOCK_BYTES as u64;

/// The part of a group's copy.
pub fn part_of(group: u32) -> u16 {
    group as u16 + 1
}

/// A device's region.
pub struct Region {
    home: Volume,
    slot: Mutex<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    sequence: u64,
    keep_from: u64,
    segment_bytes: u64,
    segments: u64,
}

/// A region, its log, and what that has of each group.
type Found = (Region, WalStore, BTreeMap<GroupId, Saved>);

impl Region {
    /// A device's region, if it has one.
    pub async fn find(env: &Env, home: &Volume, shape: Shape) -> Result<Option<Found>, String> {
        match newest_slot(home).await? {
            None => Ok(None),
            Some(slot) => Ok(Some(Region::open(env, home, slot, shape).await?)),
        }
    }

    /// Makes a device's region.
    pub async fn make(env: &Env, home: &Volume, shape: Shape) -> Result<(Region, WalStore), String> {
        let region_bytes = LOG_START + shape.segments as u64 * shape.segment_bytes;
        home.reserve(0, region_bytes).await.map_err(|error| error.to_string())?;
        let Shape { segments, segment_bytes, .. } = shape;
        let slot = Slot { sequence: 1, keep_from: Lsn::FIRST.0, segment_bytes, segments: segments as u64 };
        put_slot(home, slot).await?;
        let (region, store, _) = Region::open(env, home, slot, shape).await?;
        Ok((region, store))
    }

    async fn open(env: &Env, home: &Volume, slot: Slot, shape: Shape) -> Result<Found, String> {
        let flushed = home.clone();
        let settle = Arc::new(move || {
            let flushed = flushed.clone();
            Box::pin(async move { flushed.flush().await }) as _
        });
        let disk = Arc::new(VolumeDisk::new(home.clone(), settle));
        let (segment_bytes, segments) = (slot.segment_bytes, slot.segments as usize);
        let store = RegionStore::new(disk, LOG_START, segment_bytes, segments);
        let opened = WalStore::open(env, Arc::new(store), segments, Lsn(slot.keep_from), &shape.log).await;
        let (store, saved) = opened.map_err(|error| causes(&error))?;
        Ok((Region { home: home.clone(), slot: Mutex::new(slot) }, store, saved))
    }

    pub fn device(&self) -> DeviceId {
        self.home.device()
    }

    /// Notes durably from where on the log is needed.
    pub async fn keep_from(&self, lsn: Lsn) -> Result<(), String> {
        let slot = {
            let mut slot = self.slot.lock();
            *slot = Slot { sequence: slot.sequence + 1, keep_from: lsn.0, ..*slot };
            *slot
        };
        put_slot(&self.home, slot).await
    }
}

/// An error, and what it comes from.
pub fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    causes.collect::<Vec<_>>().join(": ")
}

async fn put_slot(home: &Volume, slot: Slot) -> Result<(), String> {
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    block[..4].copy_from_slice(MAGIC);
    block[8..16].copy_from_slice(&slot.sequence.to_le_bytes());
    block[16..24].copy_from_slice(&slot.keep_from.to_le_bytes());
    block[24..32].copy_from_slice(&slot.segment_bytes.to_le_bytes());
    block[32..40].copy_from_slice(&slot.segments.to_le_bytes());
    let crc = crc_of_parts(&[&block[..4], &block[8..LAYOUT_BYTES]]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
    let offset = slot.sequence % SUPERBLOCK_SLOTS * BLOCK_BYTES as u64;
    home.write(offset, block).await.map_err(|error| error.to_string())?;
    home.flush().await.map_err(|error| error.to_string())
}

/// A slot; none where the medium has refused to read it.
async fn read_slot(volume: &Volume, slot: u64) -> Result<Option<AlignedBuf>, String> {
    let read = read_local(volume, slot * BLOCK_BYTES as u64, BLOCK_BYTES, Way::Medium).await.map_err(BlockError::from);
    match read {
        Ok(block) => Ok(Some(block)),
        Err(error) if error.is_bad_block() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

async fn newest_slot(volume: &Volume) -> Result<Option<Slot>, String> {
    let mut newest: Option<Slot> = None;
    for slot in 0..SUPERBLOCK_SLOTS {
        let Some(block) = read_slot(volume, slot).await? else { continue };
        let is_whole = &block[..4] == MAGIC && u32_at(&block, 4) == crc_of_parts(&[&block[..4], &block[8..LAYOUT_BYTES]]);
        let read = is_whole.then(|| Slot {
            sequence: u64_at(&block, 8),
            keep_from: u64_at(&block, 16),
            segment_bytes: u64_at(&block, 24),
            segments: u64_at(&block, 32),
        });
        newest = read.into_iter().chain(newest).max_by_key(|slot| slot.sequence);
    }
    Ok(newest)
}
