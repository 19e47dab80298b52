//! Zones that are emptied and still read: a reader of a large object holds places in them for as long as its client takes.
//!
//! They keep their question until it is answered, however many cycles that takes. Meanwhile they are not chosen again, and of a device that has many of them
//! only what needs no copying is collected: each copy takes room that comes back when the readers are done.

use super::{Collected, PIN_LOOK, PIN_PATIENCE, Victim};
use crate::gateway::Readers;
use crate::store::Inner;
use env::Instant;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, KeyHash, ZoneIndex};

/// One of so many zones of a device may wait for readers before nothing more is copied there.
const ZONES_PER_UNRELEASED: u32 = 8;
/// So many may in any case.
const LEAST_UNRELEASED: u32 = 4;
/// How long zones wait before that is said, and how long until it is said again.
const SAY_AFTER: Duration = Duration::from_secs(60);

/// The zones that wait.
#[derive(Default)]
pub(crate) struct Unreleased(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    emptied: Vec<Emptied>,
    said: Option<Instant>,
}

/// A zone, and whom it waits for.
struct Emptied {
    victim: Victim,
    readers: Readers,
    since: Instant,
}

impl Waiting {
    /// Tells an operator why space is not given back.
    fn say_what_waits(&mut self, now: Instant) {
        let Some(oldest) = self.emptied.iter().map(|emptied| emptied.since).min() else { return };
        let is_long = |since: Instant| now - since >= SAY_AFTER;
        if is_long(oldest) && self.said.is_none_or(is_long) {
            let (zones, seconds) = (self.emptied.len(), (now - oldest).as_secs());
            env::mark("engine: it is said that emptied zones wait for their readers");
            tracing::warn!(zones, seconds, "emptied zones are not free: a client has been reading a large object since before");
            self.said = Some(now);
        }
    }
}

impl Unreleased {
    pub fn holds(&self, device: DeviceId, zone: ZoneIndex) -> bool {
        self.0.lock().emptied.iter().any(|emptied| emptied.victim.at() == (device, zone))
    }

    /// Whether so many of a device's zones wait that no more should be copied.
    pub fn is_full(&self, device: DeviceId, zones: u32) -> bool {
        let waiting = self.0.lock().emptied.iter().filter(|emptied| emptied.victim.at().0 == device).count();
        waiting as u32 >= (zones / ZONES_PER_UNRELEASED).max(LEAST_UNRELEASED)
    }
}

impl Inner {
    /// Resets emptied zones when those who read now are done; soon, or in a later cycle.
    pub(super) async fn reset_when_released(
        self: &Arc<Self>,
        victims: Vec<(Victim, Option<BTreeSet<KeyHash>>)>,
        collected: &mut Collected,
    ) {
        let since = self.env.now();
        let wait = |(victim, whose)| Emptied { victim, readers: self.present_readers(whose), since };
        let mut waiting: Vec<Emptied> = victims.into_iter().map(wait).collect();
        loop {
            let is_released = |emptied: &mut Emptied| self.are_done(&emptied.readers);
            let released = waiting.extract_if(.., is_released).map(|emptied| emptied.victim).collect();
            self.reset_dead(released, collected).await;
            if waiting.is_empty() {
                return;
            }
            if self.env.now() - since >= PIN_PATIENCE {
                env::mark("engine: emptied zones wait for their readers");
                self.unreleased.0.lock().emptied.extend(waiting);
                return;
            }
            self.env.sleep(PIN_LOOK).await;
        }
    }

    /// Resets those of former cycles whose readers are done. What waits for an answer that will not come is chosen anew.
    pub(super) async fn reset_released(self: &Arc<Self>, collected: &mut Collected) {
        let released: Vec<Victim> = {
            let mut waiting = self.unreleased.0.lock();
            waiting.emptied.retain(|emptied| !self.are_forgotten(&emptied.readers));
            let released =
                waiting.emptied.extract_if(.., |emptied| self.are_done(&emptied.readers)).map(|emptied| emptied.victim);
            let released = released.collect();
            waiting.say_what_waits(self.env.now());
            released
        };
        self.reset_dead(released, collected).await;
    }
}
