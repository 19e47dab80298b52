//! Copies that were found damaged, until they are made again or given up.
//!
//! ```text
//!   noted ─┬─ leader ─► heal ─┬─► made again, or not named any more: settled
//!          │                  └─► failed: again after a pause, MAX_ATTEMPTS times, then given up
//!          └─ member ─► told to the leader: kept for a while, so that not every read tells it again
//! ```
//!
//! Nothing here is written down. What a crash forgets, the next read of the copy finds again, or the next scrub.

use env::Instant;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{KeyHash, Place};

/// Damaged copies that wait; what is found beyond this is found again later.
pub(crate) const MAX_SUSPECTS: usize = 4096;
/// How often it is tried to make a copy again before that is left to the next read or scrub that finds it.
pub(super) const MAX_ATTEMPTS: u32 = 8;
/// Pause before another try.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How long a copy that was told to the leader is not told again.
const TELL_PAUSE: Duration = Duration::from_secs(60);

/// A copy that could not be read where it should stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Damaged {
    pub place: Place,
    /// The record that has the copy, or whose list of chunks names it; none: it is of a run.
    pub owner: Option<KeyHash>,
}

struct Waiting {
    attempts: u32,
    is_told: bool,
    not_before: Instant,
}

/// What is known to be damaged, bounded.
#[derive(Default)]
pub(crate) struct Suspects(Mutex<BTreeMap<Damaged, Waiting>>);

impl Suspects {
    /// Takes a damaged copy in; false if it is known, or there is no room.
    pub fn note(&self, damaged: Damaged, now: Instant) -> bool {
        let mut suspects = self.0.lock();
        if suspects.contains_key(&damaged) || suspects.len() >= MAX_SUSPECTS {
            return false;
        }
        suspects.insert(damaged, Waiting { attempts: 0, is_told: false, not_before: now });
        true
    }

    /// Some of those whose turn has come.
    pub fn due(&self, now: Instant, most: usize) -> Vec<Damaged> {
        let suspects = self.0.lock();
        suspects.iter().filter(|(_, waiting)| waiting.not_before <= now).map(|(damaged, _)| *damaged).take(most).collect()
    }

    /// Nothing more is to be done about it.
    pub fn settle(&self, damaged: &Damaged) {
        self.0.lock().remove(damaged);
    }

    /// It could not be made again now; false if that was the last attempt.
    pub fn postpone(&self, damaged: &Damaged, now: Instant) -> bool {
        let mut suspects = self.0.lock();
        let Some(waiting) = suspects.get_mut(damaged) else { return true };
        waiting.attempts += 1;
        waiting.not_before = now + RETRY_PAUSE;
        let goes_on = waiting.attempts < MAX_ATTEMPTS;
        if !goes_on {
            suspects.remove(damaged);
        }
        goes_on
    }

    /// Whether the leader is to be told of it now. One that was told a while ago is forgotten: who still finds it damaged notes it again.
    pub fn tell(&self, damaged: &Damaged, now: Instant) -> bool {
        let mut suspects = self.0.lock();
        let Some(waiting) = suspects.get_mut(damaged) else { return false };
        if std::mem::replace(&mut waiting.is_told, true) {
            suspects.remove(damaged);
            return false;
        }
        waiting.not_before = now + TELL_PAUSE;
        true
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
}
