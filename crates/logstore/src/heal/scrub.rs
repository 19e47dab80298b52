//! The scrub in the background: each gateway reads the devices of its own process, zone after zone, and looks for copies that are not whole.
//!
//! ```text
//!   zone, from the medium ─► damage or holes? ─ no ─► next zone
//!                                └─ yes ─► what records and runs name in it, and is not whole there ─► suspects
//! ```
//!
//! What a crash tore is named by nothing, and looked up once: its zone is remembered with what was found in it. How far a scrub has come is not
//! written down; each start begins at another zone, by the clock, so that a server that is often started scrubs all of a device all the same.

use super::Damaged;
use crate::store::Inner;
use device::{Device, ScrubReport, ZoneInfo, ZoneState};
use env::{Env, Instant};
use format::zone_header::ZONE_DATA_START;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use target::ReadFailure;
use types::{Activation, DeviceId, Place, ZoneIndex};

/// A device is read at least this fast...
const LEAST_BYTES_PER_SECOND: u64 = 64 << 10;
/// ... and at most this fast, however short the period.
pub(super) const MOST_BYTES_PER_SECOND: u64 = 64 << 20;
/// How often it is looked whether the engine has ended, or has got other devices.
const LOOK: Duration = Duration::from_secs(5);

/// Pause between two lists of chunks that are read to find out what is named where.
pub(super) const LIST_PAUSE: Duration = Duration::from_millis(10);
/// A guess at the length of a frame of which only the place is known.
const FRAME_BYTES: u32 = 4096;

/// Zones whose damage is explained: nothing that anybody names. By what the scrub saw.
#[derive(Default)]
pub(crate) struct Explained(Mutex<BTreeMap<(DeviceId, ZoneIndex), Seen>>);

/// What a scrub saw of a zone. Damage that comes later changes it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    activation: Activation,
    damage: u64,
    holes: u64,
    frames: u64,
}

/// What a scrub's finding in a zone means.
#[derive(Default)]
pub(super) struct Judged {
    pub damaged: Vec<Damaged>,
    /// A list could not be read that may name more.
    pub is_list_unread: bool,
}

impl Inner {
    /// Scrubs in the background from now on, if that is wanted at all.
    pub(crate) fn start_scrubs(self: &Arc<Self>) {
        if !self.config.scrub_period.is_zero() {
            self.env.spawn(run(Arc::downgrade(self)));
        }
    }
}

/// Scrubs every device of this process, each at its own pace, until the engine is dropped or leaves its cell.
async fn run(inner: Weak<Inner>) {
    let mut begun = BTreeSet::new();
    loop {
        let Some(inner) = inner.upgrade().filter(|inner| !inner.is_deposed()) else { return };
        let here = inner.targets.devices().filter_map(|target| target.local());
        for device in here.filter(|device| begun.insert(device.id())) {
            inner.env.spawn(scrub_device(Arc::downgrade(&inner), device.clone()));
        }
        let env = inner.env.clone();
        drop(inner);
        env.sleep(LOOK).await;
    }
}

async fn scrub_device(inner: Weak<Inner>, device: Arc<Device>) {
    let Some(first) = inner.upgrade() else { return };
    let (env, period) = (first.env.clone(), first.config.scrub_period);
    drop(first);
    let count = device.zones().len() as u64;
    let mut next = env.wall_clock_ms() % count;
    loop {
        let started = env.now();
        let Some(engine) = inner.upgrade() else { return };
        engine.look_for_lost(&device).await;
        drop(engine);
        for _ in 0..count {
            let zone = device.zones()[next as usize];
            next = (next + 1) % count;
            if zone.state != Some(ZoneState::Finished) || device.poisoned_by().is_some() {
                continue;
            }
            let rate = bytes_per_second(device.usage().written_bytes, period);
            let report = tokio::select! {
                biased;
                () = ended(&env, &inner) => return,
                report = device.scrub(zone.zone, rate) => report.expect("a zone of the device"),
            };
            let Some(inner) = inner.upgrade() else { return };
            inner.judge(&device, &zone, &report).await;
        }
        if pause(&env, &inner, started + period).await {
            return;
        }
    }
}

/// Waits for the next turn; true if the engine ended meanwhile.
async fn pause(env: &Env, inner: &Weak<Inner>, until: Instant) -> bool {
    tokio::select! {
        biased;
        () = ended(env, inner) => true,
        // Also if the turn took longer than its period: never without any pause.
        () = env.sleep_until(until.max(env.now() + LOOK)) => false,
    }
}

pub(super) async fn ended(env: &Env, inner: &Weak<Inner>) {
    while inner.upgrade().is_some_and(|inner| !inner.is_deposed()) {
        env.sleep(LOOK).await;
    }
}

/// So fast that all of it is read once in the period.
fn bytes_per_second(bytes: u64, period: Duration) -> u64 {
    (bytes / period.as_secs().max(1)).clamp(LEAST_BYTES_PER_SECOND, MOST_BYTES_PER_SECOND)
}

impl Inner {
    /// Finds copies that should stand where nothing was written, as the device has it: a start that finds the end of a zone, or its header,
    /// damaged takes it for shorter than it was, or for free.
    pub(super) async fn look_for_lost(self: &Arc<Self>, device: &Device) -> Vec<Damaged> {
        let (id, zones) = (device.id(), device.zones());
        let is_beyond = |place: &Place| {
            let holds = |zone: &ZoneInfo| {
                let is_used = matches!(zone.state, Some(ZoneState::Open | ZoneState::Finished));
                is_used && place.offset.bytes() < ZONE_DATA_START + zone.written_bytes
            };
            place.device == id && !zones.get(place.zone.0 as usize).is_some_and(holds)
        };
        let named = self.named_where(is_beyond, LIST_PAUSE).await.by_owner.into_iter();
        let copies =
            named.flat_map(|(owner, places)| places.into_iter().map(move |place| Damaged { place, owner: Some(owner) }));
        let of_runs = self.run_places().into_iter().filter(is_beyond).map(|place| Damaged { place, owner: None });
        let mut lost = Vec::new();
        for damaged in copies.chain(of_runs).collect::<Vec<_>>() {
            // Or it was written since.
            let read = self.targets.read(&damaged.place, FRAME_BYTES).await;
            if read.is_err_and(|failure| failure.is_damage() || failure == ReadFailure::Moved) {
                self.suspect([damaged].into_iter());
                lost.push(damaged);
            }
        }
        lost
    }

    /// Finds whose copies are damaged where a scrub found something.
    pub(super) async fn judge(self: &Arc<Self>, device: &Device, zone: &ZoneInfo, report: &ScrubReport) -> Judged {
        let at = (device.id(), zone.zone);
        let ScrubReport { damage, holes, frames, .. } = *report;
        let seen = Seen { activation: zone.activation, damage, holes, frames };
        if !report.is_suspicious() || self.explained.0.lock().get(&at) == Some(&seen) {
            return Judged::default();
        }
        let lacks = |place: &Place| (place.device, place.zone) == at && report.whole.binary_search(&place.offset).is_err();
        let mut damaged = Vec::new();
        let named = self.named_in(at).await;
        for (owner, places) in named.by_owner {
            damaged.extend(places.into_iter().filter(lacks).map(|place| Damaged { place, owner: Some(owner) }));
        }
        damaged.extend(self.run_places().into_iter().filter(lacks).map(|place| Damaged { place, owner: None }));
        // Meanwhile it may have been reset, and be in use again.
        if device.zones()[zone.zone.0 as usize].activation != zone.activation {
            return Judged::default();
        }
        tracing::info!(device = at.0.0, zone = at.1.0, damage, holes, copies = damaged.len(), "a scrub found damage");
        if damaged.is_empty() && named.unread.is_none() {
            self.explained.0.lock().insert(at, seen);
        }
        damaged.iter().for_each(|damaged| self.suspect([*damaged].into_iter()));
        Judged { damaged, is_list_unread: named.unread.is_some() }
    }
}
