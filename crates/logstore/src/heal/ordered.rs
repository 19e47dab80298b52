//! A scrub that a person asks for: now, of one device, told of while it runs and in the end.
//!
//! ```text
//!   asked ─► reading ─ nothing named is damaged ─────────────────────► done
//!               └─ some is ─► healing ─┬─ named no more ─────────────► done, none left
//!                                      └─ no better for a long while ► done, some left
//! ```
//!
//! It reads like the scrub in the background, and beside it; what it finds goes the same way. It has an end of its own: whether what it found
//! is still named where it is damaged is looked up until nothing is. So it tells the same at whatever node it runs, the leader or not.

use super::Damaged;
use super::scrub::{LIST_PAUSE, MOST_BYTES_PER_SECOND, ended};
use crate::LogStore;
use crate::store::Inner;
use device::{Device, ZoneInfo, ZoneState};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::{DeviceId, Place};

/// How often it is looked up what is healed.
const LOOK: Duration = Duration::from_secs(1);
/// How long it is waited for one more copy to be healed: several attempts, and news of a node that died.
const PATIENCE: Duration = Duration::from_secs(60);
/// Damaged copies of a device that are watched until they are healed; what is found beyond them is told and healed like others.
const MAX_WATCHED: usize = 64 * 1024;

/// The scrubs that were asked for, by device: the last of each.
#[derive(Default)]
pub(crate) struct Ordered(Mutex<BTreeMap<DeviceId, ScrubProgress>>);

/// How far a scrub has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubProgress {
    pub device: DeviceId,
    pub state: ScrubState,
    /// Bytes in the zones that are to be read, as they were when it began. Open zones are not among them.
    pub bytes: u64,
    pub read_bytes: u64,
    /// Frames and ranges that are damaged, and gaps between frames: what nobody needs among them.
    pub damaged_frames: u64,
    /// Damaged copies of something stored.
    pub damaged_copies: u64,
    /// Those that are not made again so far.
    pub left_copies: u64,
    /// A large object's list could not be read: it may name what is damaged.
    pub is_list_unread: bool,
}

/// What a scrub is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubState {
    Reading,
    /// All is read; damaged copies are being made again.
    Healing,
    Done,
    /// The device takes no more writes, and is read no further.
    Stopped,
}

impl ScrubState {
    pub fn is_over(self) -> bool {
        matches!(self, ScrubState::Done | ScrubState::Stopped)
    }
}

/// A device of another server, or none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("device {asked} is not one of this server, which has {here:?}")]
pub struct NotHere {
    pub asked: u32,
    pub here: Vec<u32>,
}

impl LogStore {
    /// Begins to scrub a device of this process, or all of them. One that is being scrubbed goes on.
    pub fn scrub(&self, device: Option<DeviceId>) -> Result<Vec<ScrubProgress>, NotHere> {
        let here: Vec<Arc<Device>> = self.inner.targets.devices().filter_map(|target| target.local().cloned()).collect();
        let wanted = |id: DeviceId| device.is_none_or(|device| device == id);
        if let Some(asked) = device.filter(|asked| here.iter().all(|device| device.id() != *asked)) {
            return Err(NotHere { asked: asked.0, here: here.iter().map(|device| device.id().0).collect() });
        }
        let chosen: Vec<Arc<Device>> = here.into_iter().filter(|device| wanted(device.id())).collect();
        for device in &chosen {
            if self.inner.ordered.begin(device) {
                self.inner.env.spawn(run(Arc::downgrade(&self.inner), device.clone()));
            }
        }
        Ok(self.scrubs().into_iter().filter(|scrub| wanted(scrub.device)).collect())
    }

    /// The last scrub of each device that one was asked for, since this gateway began to serve.
    pub fn scrubs(&self) -> Vec<ScrubProgress> {
        self.inner.ordered.0.lock().values().copied().collect()
    }
}

impl Ordered {
    /// False if the device is being scrubbed.
    fn begin(&self, device: &Device) -> bool {
        let mut scrubs = self.0.lock();
        if scrubs.get(&device.id()).is_some_and(|scrub| !scrub.state.is_over()) {
            return false;
        }
        let begun = ScrubProgress {
            device: device.id(),
            state: ScrubState::Reading,
            bytes: device.zones().iter().filter(|zone| is_read(zone)).map(|zone| zone.written_bytes).sum(),
            read_bytes: 0,
            damaged_frames: 0,
            damaged_copies: 0,
            left_copies: 0,
            is_list_unread: false,
        };
        scrubs.insert(device.id(), begun);
        true
    }

    fn update(&self, device: &Device, change: impl FnOnce(&mut ScrubProgress)) {
        if let Some(scrub) = self.0.lock().get_mut(&device.id()) {
            change(scrub);
        }
    }
}

fn is_read(zone: &ZoneInfo) -> bool {
    zone.state == Some(ZoneState::Finished)
}

async fn run(inner: Weak<Inner>, device: Arc<Device>) {
    let Some(found) = read(&inner, &device).await else { return };
    let beyond = found.len().saturating_sub(MAX_WATCHED) as u64;
    let watched: BTreeSet<Damaged> = found.into_iter().take(MAX_WATCHED).collect();
    await_healing(&inner, &device, &watched, beyond).await;
}

/// Reads all finished zones: what is damaged, of what is stored. None: the engine ended, or the device stopped.
async fn read(inner: &Weak<Inner>, device: &Arc<Device>) -> Option<BTreeSet<Damaged>> {
    let first = inner.upgrade()?;
    let env = first.env.clone();
    let mut found: BTreeSet<Damaged> = first.look_for_lost(device).await.into_iter().collect();
    drop(first);
    for number in 0..device.zones().len() {
        let zone = device.zones()[number];
        if !is_read(&zone) {
            continue;
        }
        if device.poisoned_by().is_some() {
            inner.upgrade()?.ordered.update(device, |scrub| scrub.state = ScrubState::Stopped);
            return None;
        }
        let report = tokio::select! {
            biased;
            () = ended(&env, inner) => return None,
            report = device.scrub(zone.zone, MOST_BYTES_PER_SECOND) => report.expect("a zone of the device"),
        };
        let engine = inner.upgrade()?;
        let judged = engine.judge(device, &zone, &report).await;
        found.extend(judged.damaged);
        engine.ordered.update(device, |scrub| {
            scrub.read_bytes += report.bytes;
            scrub.damaged_frames += report.damage + report.holes;
            scrub.damaged_copies = found.len() as u64;
            scrub.left_copies = scrub.damaged_copies;
            scrub.is_list_unread |= judged.is_list_unread;
        });
    }
    Some(found)
}

/// Waits while damaged copies are made again, and as long as that goes on.
async fn await_healing(inner: &Weak<Inner>, device: &Device, watched: &BTreeSet<Damaged>, beyond: u64) {
    let Some(env) = inner.upgrade().map(|inner| inner.env.clone()) else { return };
    let (mut least, mut since) = (usize::MAX, env.now());
    loop {
        let Some(engine) = inner.upgrade().filter(|inner| !inner.is_deposed()) else { return };
        let left = engine.still_named(device.id(), watched).await;
        if left.len() < least {
            (least, since) = (left.len(), env.now());
        }
        let is_over = left.is_empty() || env.now() - since >= PATIENCE;
        engine.ordered.update(device, |scrub| {
            scrub.left_copies = left.len() as u64 + beyond;
            scrub.damaged_copies = watched.len() as u64 + beyond;
            scrub.state = if is_over { ScrubState::Done } else { ScrubState::Healing };
        });
        if is_over {
            return;
        }
        // There may have been no room for all of them, or a leader that was told has gone.
        engine.hear_of_damaged(left);
        drop(engine);
        env.sleep(LOOK).await;
    }
}

impl Inner {
    /// Of damaged copies of one device those that are still named. Reads all lists of chunks, if there are any.
    async fn still_named(self: &Arc<Self>, device: DeviceId, watched: &BTreeSet<Damaged>) -> Vec<Damaged> {
        if watched.is_empty() {
            return Vec::new();
        }
        let places: BTreeSet<Place> = watched.iter().map(|damaged| damaged.place).collect();
        let is_watched = |place: &Place| place.device == device && places.contains(place);
        let named = self.named_where(is_watched, LIST_PAUSE).await;
        let is_list_unread = named.unread.is_some();
        let by_records =
            named.by_owner.into_iter().flat_map(|(owner, places)| places.into_iter().map(move |place| (Some(owner), place)));
        let of_runs = self.run_places().into_iter().map(|place| (None, place));
        let named: BTreeSet<Damaged> = by_records.chain(of_runs).map(|(owner, place)| Damaged { place, owner }).collect();
        // What an unread list names is not known: it counts as it did.
        watched.iter().filter(|damaged| is_list_unread || named.contains(damaged)).copied().collect()
    }
}
