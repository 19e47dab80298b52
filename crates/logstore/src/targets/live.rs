//! How much of each zone is live, by what this gateway knows: hints, by which collection chooses what to look at. It proves liveness itself.
//!
//! Of a device without a hold it is counted too: when the device comes, collection there begins with what is so, not with zones in which nothing seems live.

use super::{Targets, frames_of};
use crate::index::Located;
use crate::live_hints;
use env::Instant;
use format::chunk_ref::ChunkRef;
use format::manifest::DeviceLive;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use target::LogTarget;
use types::{DeviceId, Place, ZoneIndex};

/// Which of a zone's live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveCount {
    /// Of records that the index names, and of runs.
    Records,
    /// Of chunks and nodes.
    Chunks,
}

#[derive(Default)]
pub(super) struct LiveBytes {
    records: AtomicI64,
    chunks: AtomicI64,
    /// How often collection tried to empty the zone and could not.
    setbacks: AtomicU32,
    /// When that was last: the environment's clock, in nanoseconds.
    set_back_at: AtomicU64,
    /// How long that try took, in nanoseconds.
    took: AtomicU64,
}

/// How long a zone that could not be emptied comes behind others; it doubles.
const FIRST_SETBACK: Duration = Duration::from_secs(2);
/// How often it doubles at most.
const MOST_SETBACK_DOUBLINGS: u32 = 16;
/// The least, by how long the try took: collection has more to do than that.
const SETBACK_BY_TRY: u32 = 4;

/// Collection could not empty a zone, and has not since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setback {
    pub last: Instant,
    /// From the last one on.
    lasts: Duration,
    took: Duration,
}

impl Setback {
    /// Whether others come first now; not for longer than this, unless tries take long.
    pub fn is_on(&self, now: Instant, longest: Duration) -> bool {
        now < self.last + self.lasts.min(longest).max(self.took * SETBACK_BY_TRY)
    }
}

impl LiveBytes {
    fn all(&self) -> u64 {
        self.records.load(Ordering::Relaxed).max(0) as u64 + self.of_chunks()
    }

    fn of_chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed).max(0) as u64
    }
}

/// Counts of devices that there is no hold on yet.
#[derive(Default)]
pub(super) struct Absent(Mutex<BTreeMap<DeviceId, Counted>>);

#[derive(Default)]
struct Counted {
    zones: BTreeMap<ZoneIndex, LiveBytes>,
    /// What a checkpoint says of its chunks.
    hint: Option<DeviceLive>,
}

impl Absent {
    /// A device comes: puts its counts where `put` has them. Whether that could be done.
    pub fn comes(&self, device: &dyn LogTarget, put: impl FnOnce(Box<[LiveBytes]>) -> bool) -> bool {
        // Until it is put: who counts meanwhile waits, and counts there.
        let mut absent = self.0.lock();
        let Counted { mut zones, hint } = absent.remove(&device.id()).unwrap_or_default();
        let numbers = (0..device.zones().len() as u32).map(ZoneIndex);
        let live: Box<[LiveBytes]> = numbers.map(|zone| zones.remove(&zone).unwrap_or_default()).collect();
        for (zone, bytes) in hint.iter().flat_map(|hint| live_hints::hinted(device, hint)) {
            live[zone.0 as usize].chunks.fetch_add(bytes as i64, Ordering::Relaxed);
        }
        put(live)
    }

    /// Others than these are gone for good.
    pub fn keep(&self, known: &BTreeSet<DeviceId>) {
        self.0.lock().retain(|device, _| known.contains(device));
    }
}

impl Targets {
    pub fn add_live_entry(&self, entry: &Located) {
        self.change_live_entry(entry, 1);
    }

    pub fn remove_live_entry(&self, entry: &Located) {
        self.change_live_entry(entry, -1);
    }

    fn change_live_entry(&self, entry: &Located, sign: i64) {
        if entry.is_live() {
            for place in entry.places.as_slice() {
                self.change(place, |live| &live.records, sign * entry.frame_bytes as i64);
            }
        }
    }

    pub fn add_live_to(&self, count: LiveCount, place: &Place, bytes: u64) {
        match count {
            LiveCount::Records => self.add_live(place, bytes),
            LiveCount::Chunks => self.add_live_chunk(place, bytes),
        }
    }

    pub fn remove_live_from(&self, count: LiveCount, (device, zone): (DeviceId, ZoneIndex), bytes: u64) {
        let anywhere = Place { device, zone, offset: Default::default() };
        match count {
            LiveCount::Records => self.remove_live(&anywhere, bytes),
            LiveCount::Chunks => self.remove_live_chunk(&anywhere, bytes),
        }
    }

    /// Frames of runs.
    pub fn add_live(&self, place: &Place, bytes: u64) {
        self.change(place, |live| &live.records, bytes as i64);
    }

    pub fn remove_live(&self, place: &Place, bytes: u64) {
        self.change(place, |live| &live.records, -(bytes as i64));
    }

    pub fn add_live_chunk(&self, place: &Place, bytes: u64) {
        self.change(place, |live| &live.chunks, bytes as i64);
    }

    pub fn remove_live_chunk(&self, place: &Place, bytes: u64) {
        self.change(place, |live| &live.chunks, -(bytes as i64));
    }

    /// A tree names this chunk or node.
    pub fn add_live_ref(&self, chunk: &ChunkRef) {
        frames_of(chunk).for_each(|(place, bytes)| self.add_live_chunk(&place, bytes));
    }

    pub fn remove_live_ref(&self, chunk: &ChunkRef) {
        frames_of(chunk).for_each(|(place, bytes)| self.remove_live_chunk(&place, bytes));
    }

    /// What is known of a zone of a device that there is a hold on.
    fn zone(&self, device: DeviceId, zone: ZoneIndex) -> Option<&LiveBytes> {
        self.one(device)?.live.get(zone.0 as usize)
    }

    fn change(&self, place: &Place, of: impl Fn(&LiveBytes) -> &AtomicI64, by: i64) {
        let add = |live: &LiveBytes| of(live).fetch_add(by, Ordering::Relaxed);
        if let Some(one) = self.one(place.device) {
            one.live.get(place.zone.0 as usize).map(add);
            return;
        }
        let mut absent = self.absent.0.lock();
        match self.one(place.device) {
            // It came while the lock was waited for.
            Some(one) => drop(one.live.get(place.zone.0 as usize).map(add)),
            None if self.is_gone(place.device) => {}
            None => drop(add(absent.entry(place.device).or_default().zones.entry(place.zone).or_default())),
        }
    }

    /// What a checkpoint says of a device's chunks.
    pub fn add_hinted(&self, hint: &DeviceLive) {
        let mut absent = self.absent.0.lock();
        let Some(device) = self.device(hint.device) else {
            if !self.is_gone(hint.device) {
                absent.entry(hint.device).or_default().hint = Some(hint.clone());
            }
            return;
        };
        for (zone, bytes) in live_hints::hinted(&**device, hint) {
            self.add_live_chunk(&Place { device: hint.device, zone, offset: Default::default() }, bytes);
        }
    }

    /// What checkpoints have said of the chunks of devices that there is still no hold on.
    pub fn hints_of_absent(&self) -> Vec<DeviceLive> {
        self.absent.0.lock().values().filter_map(|counted| counted.hint.clone()).collect()
    }

    /// Live bytes of a zone, by what is known.
    pub fn live_bytes(&self, device: DeviceId, zone: ZoneIndex) -> u64 {
        self.zone(device, zone).map_or(0, LiveBytes::all)
    }

    /// The zone was reset: nothing in it is live.
    pub fn forget_zone(&self, device: DeviceId, zone: ZoneIndex) {
        if let Some(live) = self.zone(device, zone) {
            live.records.store(0, Ordering::Relaxed);
            live.chunks.store(0, Ordering::Relaxed);
            live.setbacks.store(0, Ordering::Relaxed);
            live.set_back_at.store(0, Ordering::Relaxed);
            live.took.store(0, Ordering::Relaxed);
        }
    }

    /// Collection could not empty the zone. For a while: zones with copies of what hardly ever dies are always at hand, and it would move those round and round.
    pub fn note_setback(&self, device: DeviceId, zone: ZoneIndex, took: Duration, now: Instant) {
        if let Some(live) = self.zone(device, zone) {
            live.set_back_at.store(now.as_nanos(), Ordering::Relaxed);
            live.took.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            live.setbacks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often collection could not empty the zone.
    #[cfg(test)]
    pub fn setbacks(&self, device: DeviceId, zone: ZoneIndex) -> u32 {
        self.zone(device, zone).map_or(0, |live| live.setbacks.load(Ordering::Relaxed))
    }

    /// The last time that collection could not empty the zone, if it was not reset since.
    pub fn setback(&self, device: DeviceId, zone: ZoneIndex) -> Option<Setback> {
        let live = self.zone(device, zone)?;
        let doublings = live.setbacks.load(Ordering::Relaxed).checked_sub(1)?;
        let last = Instant::from_nanos(live.set_back_at.load(Ordering::Relaxed));
        let lasts = FIRST_SETBACK * (1 << doublings.min(MOST_SETBACK_DOUBLINGS));
        Some(Setback { last, lasts, took: Duration::from_nanos(live.took.load(Ordering::Relaxed)) })
    }

    /// Live bytes of a zone's chunks, by what is known.
    pub fn live_chunk_bytes(&self, device: DeviceId, zone: ZoneIndex) -> u64 {
        self.zone(device, zone).map_or(0, LiveBytes::of_chunks)
    }
}
