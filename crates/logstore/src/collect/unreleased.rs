//! Zones that are emptied and still read: a reader of a large object holds places in them for as long as its client takes.
//!
//! They keep their question until it is answered, however many cycles that takes. Meanwhile they are not chosen again, and of a device that has many of them
//! only what needs no copying is collected: each copy takes room that comes back when the readers are done.

use super::{Collected, PIN_LOOK, PIN_PATIENCE, Victim};
use crate::gateway::Readers;
use crate::store::Inner;
use parking_lot::Mutex;
use std::sync::Arc;
use types::{DeviceId, ZoneIndex};

/// One of so many zones of a device may wait for readers before nothing more is copied there.
const ZONES_PER_UNRELEASED: u32 = 8;
/// So many may in any case.
const LEAST_UNRELEASED: u32 = 4;

/// The zones that wait.
#[derive(Default)]
pub(crate) struct Unreleased(Mutex<Vec<Emptied>>);

/// Zones of one cycle, and whom they wait for.
struct Emptied {
    victims: Vec<Victim>,
    readers: Readers,
}

impl Unreleased {
    pub fn holds(&self, device: DeviceId, zone: ZoneIndex) -> bool {
        self.0.lock().iter().flat_map(|emptied| &emptied.victims).any(|victim| victim.at() == (device, zone))
    }

    /// Whether so many of a device's zones wait that no more should be copied.
    pub fn is_full(&self, device: DeviceId, zones: u32) -> bool {
        let waiting =
            self.0.lock().iter().flat_map(|emptied| &emptied.victims).filter(|victim| victim.at().0 == device).count();
        waiting as u32 >= (zones / ZONES_PER_UNRELEASED).max(LEAST_UNRELEASED)
    }
}

impl Inner {
    /// Resets emptied zones when those who read now are done; soon, or in a later cycle.
    pub(super) async fn reset_when_released(self: &Arc<Self>, victims: Vec<Victim>, collected: &mut Collected) {
        let readers = self.present_readers();
        let deadline = self.env.now() + PIN_PATIENCE;
        while !self.are_done(&readers) {
            if self.env.now() >= deadline {
                env::mark("engine: emptied zones wait for their readers");
                self.unreleased.0.lock().push(Emptied { victims, readers });
                return;
            }
            self.env.sleep(PIN_LOOK).await;
        }
        self.reset_dead(victims, collected).await;
    }

    /// Resets those of former cycles whose readers are done. What waits for an answer that will not come is chosen anew.
    pub(super) async fn reset_released(self: &Arc<Self>, collected: &mut Collected) {
        let done: Vec<Emptied> = {
            let mut waiting = self.unreleased.0.lock();
            waiting.retain(|emptied| !self.are_forgotten(&emptied.readers));
            waiting.extract_if(.., |emptied| self.are_done(&emptied.readers)).collect()
        };
        for Emptied { victims, .. } in done {
            self.reset_dead(victims, collected).await;
        }
    }
}
