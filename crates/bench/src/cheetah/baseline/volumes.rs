//! A data server with append-only volumes: needles behind one another, an index in memory, compaction.
//!
//! ```text
//!   choose ── room in an open volume is set aside;  a volume that is full is never written again, but for tombstones
//!   append ── queue ─► all that waits goes into one durable write ─► index ─► answer
//!   delete ── a tombstone is appended;  compact ── what lives goes to another slot, whose header then takes the volume's number
//! ```
//!
//! Invariants:
//! - A needle is in the index when it is durable.
//! - Of a volume's slots the one with the highest generation counts; the header is written when all of its needles are durable.

mod compacting;
mod opening;
mod writing;

use super::Layout;
use super::needle::{HEADER_BYTES, NeedleHeader, VolumeHeader, crc, space_of};
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use disk::{AlignedBuf, BLOCK_BYTES, Disk, DiskExt, DiskStats, Durability};
use env::Env;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{Notify, oneshot};

/// Needles begin behind the header.
const FIRST_BYTE: u64 = BLOCK_BYTES as u64;
/// One part in so many of a volume is kept for tombstones.
const TOMBSTONE_SHARE: u64 = 64;
/// A volume is opened when so many slots are free: a compaction needs one.
const LEAST_FREE_SLOTS: usize = 2;
/// How often a read looks again whose needle was moved meanwhile.
const READ_TRIES: usize = 4;

/// A data server.
pub struct Volumes {
    env: Env,
    disk: Arc<dyn Disk>,
    layout: Layout,
    state: Mutex<State>,
    /// Held while a volume gets a slot.
    opening: tokio::sync::Mutex<()>,
    is_compacting: AtomicBool,
    moved_bytes: AtomicU64,
    /// A write, or a compaction, has ended.
    changed: Notify,
}

struct State {
    volumes: BTreeMap<u32, Volume>,
    free_slots: Vec<u32>,
    next_volume: u32,
    /// Round robin of open volumes.
    turn: usize,
}

struct Volume {
    slot: u32,
    header: VolumeHeader,
    /// Behind the last needle, from the slot's start.
    tail: u64,
    /// What the last block of the tail has.
    tail_bytes: Vec<u8>,
    /// Set aside for needles that were not appended yet.
    set_aside: u64,
    is_open: bool,
    is_writing: bool,
    /// What is appended waits.
    is_frozen: bool,
    queue: VecDeque<Waiting>,
    index: HashMap<u64, Place>,
    live_bytes: u64,
}

/// Where a needle is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    offset: u64,
    header: NeedleHeader,
}

struct Waiting {
    header: NeedleHeader,
    bytes: Bytes,
    done: oneshot::Sender<Result<(), String>>,
}

impl Volume {
    fn garbage_share(&self) -> f64 {
        1.0 - self.live_bytes as f64 / (self.tail - FIRST_BYTE).max(1) as f64
    }

    /// Takes a needle into the index, or out of it.
    fn note(&mut self, offset: u64, header: NeedleHeader) {
        let before = match header.length {
            Some(_) => self.index.insert(header.key, Place { offset, header }),
            None => self.index.remove(&header.key),
        };
        self.live_bytes -= before.map_or(0, |place| place.header.space() as u64);
        self.live_bytes += header.length.map_or(0, |_| header.space() as u64);
    }
}

impl Volumes {
    /// Sets room aside for a needle, in the next open volume that has some.
    pub async fn choose(self: &Arc<Self>, length: usize) -> anyhow::Result<u32> {
        let space = space_of(Some(length)) as u64;
        ensure!(FIRST_BYTE + space <= self.most_bytes(), "an object of {length} bytes is longer than a volume");
        loop {
            let changed = self.changed.notified();
            if let Some(volume) = self.set_aside(space) {
                return Ok(volume);
            }
            let turn = self.opening.lock().await;
            if let Some(volume) = self.set_aside(space) {
                return Ok(volume);
            }
            if self.open_one().await? {
                continue;
            }
            drop(turn);
            if !self.begin_compaction() {
                bail!("the baseline's volumes are full");
            }
            changed.await;
        }
    }

    /// Where needles of puts end.
    fn most_bytes(&self) -> u64 {
        self.layout.slot_bytes - self.layout.slot_bytes / TOMBSTONE_SHARE
    }

    fn set_aside(&self, space: u64) -> Option<u32> {
        let mut state = self.state.lock();
        state.turn += 1;
        let turn = state.turn;
        let most = self.most_bytes();
        let open: Vec<u32> = state.volumes.iter().filter(|(_, volume)| volume.is_open).map(|(number, _)| *number).collect();
        if open.len() < self.layout.open_volumes && state.free_slots.len() >= LEAST_FREE_SLOTS {
            return None;
        }
        for at in 0..open.len() {
            let number = open[(turn + at) % open.len()];
            let volume = state.volumes.get_mut(&number).expect("it was listed");
            if volume.tail + volume.set_aside + space <= most {
                volume.set_aside += space;
                return Some(number);
            }
            volume.is_open = false;
        }
        None
    }

    /// Opens a volume in a free slot; `false` if there is none.
    async fn open_one(&self) -> anyhow::Result<bool> {
        let (slot, number) = {
            let mut state = self.state.lock();
            if state.free_slots.len() < LEAST_FREE_SLOTS {
                return Ok(false);
            }
            let slot = state.free_slots.pop().expect("it was counted");
            state.next_volume += 1;
            (slot, state.next_volume)
        };
        let header = VolumeHeader { volume: number, generation: 1, incarnation: self.env.random_u64() };
        self.disk.write(self.layout.slot_start(slot), header.encode(), Durability::Durable).await?;
        let volume = Volume { is_open: true, ..opening::empty(slot, header) };
        self.state.lock().volumes.insert(number, volume);
        Ok(true)
    }

    /// The bytes of a needle; none if it is not there.
    pub async fn read(&self, number: u32, key: u64) -> anyhow::Result<Option<Bytes>> {
        for _ in 0..READ_TRIES {
            let found = {
                let state = self.state.lock();
                let volume = state.volumes.get(&number);
                volume.and_then(|volume| Some((volume.slot, volume.header.incarnation, *volume.index.get(&key)?)))
            };
            let Some((slot, incarnation, place)) = found else { return Ok(None) };
            let at = self.layout.slot_start(slot) + place.offset;
            let length = place.header.length.expect("the index has no tombstones") as usize;
            let buf: AlignedBuf = self.disk.read_cached(at, HEADER_BYTES + length).await?;
            let is_it = NeedleHeader::decode(&buf, incarnation) == Some(place.header);
            if is_it && crc(&buf[HEADER_BYTES..]) == place.header.sum {
                return Ok(Some(Bytes::from_owner(buf).slice(HEADER_BYTES..)));
            }
        }
        bail!("needle {key} of volume {number} is damaged")
    }

    /// Whether a needle is there.
    pub fn has(&self, number: u32, key: u64) -> bool {
        self.state.lock().volumes.get(&number).is_some_and(|volume| volume.index.contains_key(&key))
    }

    /// The highest key that there is.
    pub fn last_key(&self) -> u64 {
        let state = self.state.lock();
        state.volumes.values().flat_map(|volume| volume.index.keys().copied()).max().unwrap_or(0)
    }

    /// Bytes of the volumes' files.
    pub fn occupied_bytes(&self) -> u64 {
        self.state.lock().volumes.values().map(|volume| volume.tail).sum()
    }

    pub fn is_compacting(&self) -> bool {
        self.is_compacting.load(Ordering::Acquire)
    }

    /// Bytes that compactions have read.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    pub fn device(&self) -> DiskStats {
        self.disk.stats()
    }

    fn volume<T>(&self, number: u32, work: impl FnOnce(&mut Volume) -> T) -> anyhow::Result<T> {
        let mut state = self.state.lock();
        let volume = state.volumes.get_mut(&number).with_context(|| format!("there is no volume {number}"))?;
        Ok(work(volume))
    }
}
