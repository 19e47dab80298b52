//! A device's own part of the volume engine's volume: the log of all groups that have their copy on the device, and from where on that is needed.
//!
//! Part 0: two slots of a block, written in turn, then the log's segments. Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `TvMe` |
//! | 4 | 4 | `crc` | CRC32C of bytes 0 to 4 and 8 to 64 |
//! | 8 | 8 | `sequence` | counts up; modulo 2 it is the slot |
//! | 16 | 8 | `keep_from` | the first record of the log that is needed |
//! | 24 | 8 | `segment_bytes` | of the log |
//! | 32 | 8 | `segments` | of the log |
//! | 40 | 8 | `journal_from` | the first record of the journal that is needed |
//! | 48 | 8 | `journal_segment_bytes` | of the journal |
//! | 56 | 8 | `journal_segments` | of the journal, which stands behind the log; 0: there is none |
//!
//! Part `n + 1` is the copy of group `n`.

use std::collections::BTreeMap;
use std::sync::Arc;

use allack::{GroupId, Saved, WalStore};
use device::{Volume, VolumeDisk, VolumeError};
use disk::{AlignedBuf, BLOCK_BYTES};
use env::Env;
use tokio::sync::Mutex;
use types::DeviceId;
use wal::{Lsn, RegionStore};

use crate::blocks::{BlockError, Way, read_local};
use crate::journal::Journal;
use crate::limits::{JournalShape, Shape};
use crate::sums::{crc_of_parts, u32_at, u64_at};
use crate::superblock::SUPERBLOCK_SLOTS;

const MAGIC: &[u8; 4] = b"TvMe";
const LAYOUT_BYTES: usize = 64;
const LOG_START: u64 = SUPERBLOCK_SLOTS * BLOCK_BYTES as u64;

/// The part of a group's copy.
pub fn part_of(group: u32) -> u16 {
    group as u16 + 1
}

/// A device's region.
pub struct Region {
    home: Volume,
    /// Held while it is written.
    slot: Mutex<Slot>,
}

/// What stands in a region.
pub struct Opened {
    pub region: Arc<Region>,
    pub store: WalStore,
    /// What the log has of each group.
    pub saved: BTreeMap<GroupId, Saved>,
    pub journal: Option<Arc<Journal>>,
}

#[derive(Clone, Copy)]
struct Slot {
    sequence: u64,
    keep_from: u64,
    segment_bytes: u64,
    segments: u64,
    journal_from: u64,
    journal_segment_bytes: u64,
    journal_segments: u64,
}

impl Slot {
    fn log_end(self) -> u64 {
        LOG_START + self.segments * self.segment_bytes
    }

    fn end(self) -> u64 {
        self.log_end() + self.journal_segments * self.journal_segment_bytes
    }
}

impl Region {
    /// A device's region, if it has one.
    pub async fn find(env: &Env, home: &Volume, shape: Shape) -> Result<Option<Opened>, String> {
        match newest_slot(home).await? {
            None => Ok(None),
            Some(slot) => Ok(Some(Region::open(env, home, slot, shape).await?)),
        }
    }

    /// Makes a device's region.
    pub async fn make(env: &Env, home: &Volume, shape: Shape) -> Result<Opened, String> {
        let Shape { segments, segment_bytes, journal, .. } = shape;
        let has_journal = home.byte_count() >= journal.least_device_bytes;
        let slot = Slot {
            sequence: 1,
            keep_from: Lsn::FIRST.0,
            segment_bytes,
            segments: segments as u64,
            journal_from: Lsn::FIRST.0,
            journal_segment_bytes: journal.segment_bytes,
            journal_segments: if has_journal { journal.segments as u64 } else { 0 },
        };
        home.reserve(0, slot.end()).await.map_err(|error| error.to_string())?;
        put_slot(home, slot).await.map_err(|error| error.to_string())?;
        Region::open(env, home, slot, shape).await
    }

    async fn open(env: &Env, home: &Volume, slot: Slot, shape: Shape) -> Result<Opened, String> {
        let flushed = home.clone();
        let settle = Arc::new(move || {
            let flushed = flushed.clone();
            Box::pin(async move { flushed.flush().await }) as _
        });
        let disk = Arc::new(VolumeDisk::new(home.clone(), settle));
        let (segment_bytes, segments) = (slot.segment_bytes, slot.segments as usize);
        let store = RegionStore::new(disk.clone(), LOG_START, segment_bytes, segments);
        let opened = WalStore::open(env, Arc::new(store), segments, Lsn(slot.keep_from), &shape.log).await;
        let (store, saved) = opened.map_err(|error| causes(&error))?;
        let region = Arc::new(Region { home: home.clone(), slot: Mutex::new(slot) });
        let journal = match slot.journal_segments as usize {
            0 => None,
            segments => {
                let behind = RegionStore::new(disk, slot.log_end(), slot.journal_segment_bytes, segments).waiting_when_full();
                let JournalShape { from_writes, .. } = shape.journal;
                let (region, keep_from) = (region.clone(), Lsn(slot.journal_from));
                Some(Arc::new(Journal::open(env, region, behind, (segments, from_writes), keep_from).await?))
            }
        };
        Ok(Opened { region, store, saved, journal })
    }

    /// The part of the device's volume in which it stands.
    pub fn home(&self) -> &Volume {
        &self.home
    }

    pub fn device(&self) -> DeviceId {
        self.home.device()
    }

    /// Notes durably from where on the log is needed.
    pub async fn keep_from(&self, lsn: Lsn) -> Result<(), VolumeError> {
        self.change(|slot| slot.keep_from = lsn.0).await
    }

    /// Notes durably from where on the journal is needed.
    pub async fn keep_journal_from(&self, lsn: Lsn) -> Result<(), VolumeError> {
        self.change(|slot| slot.journal_from = lsn.0).await
    }

    async fn change(&self, change: impl FnOnce(&mut Slot)) -> Result<(), VolumeError> {
        let mut slot = self.slot.lock().await;
        change(&mut slot);
        slot.sequence += 1;
        put_slot(&self.home, *slot).await
    }
}

/// An error, and what it comes from.
pub fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    causes.collect::<Vec<_>>().join(": ")
}

async fn put_slot(home: &Volume, slot: Slot) -> Result<(), VolumeError> {
    let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
    block[..4].copy_from_slice(MAGIC);
    let Slot { sequence, keep_from, segment_bytes, segments, journal_from, journal_segment_bytes, journal_segments } = slot;
    let fields = [sequence, keep_from, segment_bytes, segments, journal_from, journal_segment_bytes, journal_segments];
    for (at, field) in (8..).step_by(8).zip(fields) {
        block[at..at + 8].copy_from_slice(&field.to_le_bytes());
    }
    let crc = crc_of_parts(&[&block[..4], &block[8..LAYOUT_BYTES]]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
    let offset = slot.sequence % SUPERBLOCK_SLOTS * BLOCK_BYTES as u64;
    home.write(offset, block).await?;
    home.flush().await
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
            journal_from: u64_at(&block, 40),
            journal_segment_bytes: u64_at(&block, 48),
            journal_segments: u64_at(&block, 56),
        });
        newest = read.into_iter().chain(newest).max_by_key(|slot| slot.sequence);
    }
    Ok(newest)
}
