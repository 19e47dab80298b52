//! A node's own part of a volume: the log of all its groups, and from where on that is needed.
//!
//! Part 0 of the volume engine's volume on one device: two slots of a block, written in turn, then the log's segments. Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `TvMe` |
//! | 4 | 4 | `crc` | CRC32C of bytes 0 to 4 and 8 to 32 |
//! | 8 | 8 | `sequence` | counts up; modulo 2 it is the slot |
//! | 16 | 8 | `keep_from` | the first record of the log that is needed |
//! | 24 | 8 | reserved | zero |
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

use crate::limits::{GROUP_LOG, MEMBER_SEGMENT_BYTES, MEMBER_SEGMENTS};
use crate::sums::{crc_of_parts, u32_at, u64_at};
use crate::superblock::SUPERBLOCK_SLOTS;

const MAGIC: &[u8; 4] = b"TvMe";
const LAYOUT_BYTES: usize = 32;
const LOG_START: u64 = SUPERBLOCK_SLOTS * BLOCK_BYTES as u64;
const REGION_BYTES: u64 = LOG_START + MEMBER_SEGMENTS as u64 * MEMBER_SEGMENT_BYTES;

/// The part of a group's copy.
pub fn part_of(group: u32) -> u16 {
    group as u16 + 1
}

/// The region, on the device that has it.
pub struct Region {
    home: Volume,
    sequence: Mutex<u64>,
}

#[derive(Clone, Copy)]
struct Slot {
    sequence: u64,
    keep_from: u64,
}

impl Region {
    /// Opens the region, or makes it on the device with the most room.
    pub async fn open(env: &Env, volumes: &[Volume]) -> Result<(Region, WalStore, BTreeMap<GroupId, Saved>), String> {
        let mut found = None;
        for volume in volumes {
            if let Some(slot) = newest_slot(volume).await? {
                found = Some((volume.clone(), slot));
            }
        }
        let (home, slot) = match found {
            Some(found) => found,
            None => make(volumes).await?,
        };
        let flushed = home.clone();
        let settle = Arc::new(move || {
            let flushed = flushed.clone();
            Box::pin(async move { flushed.flush().await }) as _
        });
        let disk = Arc::new(VolumeDisk::new(home.clone(), settle));
        let segments = RegionStore::new(disk, LOG_START, MEMBER_SEGMENT_BYTES, MEMBER_SEGMENTS);
        let opened = WalStore::open(env, Arc::new(segments), MEMBER_SEGMENTS, Lsn(slot.keep_from), &GROUP_LOG).await;
        let (store, saved) = opened.map_err(|error| format!("device {}: {}", home.device(), causes(&error)))?;
        Ok((Region { home, sequence: Mutex::new(slot.sequence) }, store, saved))
    }

    pub fn device(&self) -> DeviceId {
        self.home.device()
    }

    /// Notes durably from where on the log is needed.
    pub async fn keep_from(&self, lsn: Lsn) -> Result<(), String> {
        let sequence = {
            let mut sequence = self.sequence.lock();
            *sequence += 1;
            *sequence
        };
        put_slot(&self.home, Slot { sequence, keep_from: lsn.0 }).await
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    causes.collect::<Vec<_>>().join(": ")
}

async fn make(volumes: &[Volume]) -> Result<(Volume, Slot), String> {
    let home = volumes.iter().max_by_key(|volume| volume.room_bytes()).ok_or("this node has no device")?;
    home.reserve(0, REGION_BYTES).await.map_err(|error| error.to_string())?;
    let slot = Slot { sequence: 1, keep_from: Lsn::FIRST.0 };
    put_slot(home, slot).await?;
    Ok((home.clone(), slot))
}

async fn put_slot(home: &Volume, slot: Slot) -> Result<(), String> {
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    block[..4].copy_from_slice(MAGIC);
    block[8..16].copy_from_slice(&slot.sequence.to_le_bytes());
    block[16..24].copy_from_slice(&slot.keep_from.to_le_bytes());
    let crc = crc_of_parts(&[&block[..4], &block[8..LAYOUT_BYTES]]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
    let offset = slot.sequence % SUPERBLOCK_SLOTS * BLOCK_BYTES as u64;
    home.write(offset, block).await.map_err(|error| error.to_string())?;
    home.flush().await.map_err(|error| error.to_string())
}

async fn newest_slot(volume: &Volume) -> Result<Option<Slot>, String> {
    let mut newest: Option<Slot> = None;
    for slot in 0..SUPERBLOCK_SLOTS {
        let block = volume.read_medium(slot * BLOCK_BYTES as u64, BLOCK_BYTES).await.map_err(|error| error.to_string())?;
        let is_whole = &block[..4] == MAGIC && u32_at(&block, 4) == crc_of_parts(&[&block[..4], &block[8..LAYOUT_BYTES]]);
        let read = is_whole.then(|| Slot { sequence: u64_at(&block, 8), keep_from: u64_at(&block, 16) });
        newest = read.into_iter().chain(newest).max_by_key(|slot| slot.sequence);
    }
    Ok(newest)
}

/// Whether these devices have a region: the node is a member of groups.
pub async fn is_region(volumes: &[Volume]) -> bool {
    for volume in volumes {
        if matches!(newest_slot(volume).await, Ok(Some(_))) {
            return true;
        }
    }
    false
}
