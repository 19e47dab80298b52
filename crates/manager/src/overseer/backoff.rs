//! Waits before something that could not be reached is tried again.

use std::collections::BTreeMap;

use topology::ClockReading;

use super::{BACKOFF_FORGOTTEN_MS, FIRST_BACKOFF_MS, MAX_BACKOFF_MS, NANOS_PER_MS};

/// Waits by what waits. Forgotten with the leadership: a new leader tries once more, and begins again.
#[derive(Debug)]
pub(super) struct Backoffs<K>(BTreeMap<K, Backoff>);

#[derive(Debug)]
struct Backoff {
    wait_ms: u64,
    until: ClockReading,
}

impl<K> Default for Backoffs<K> {
    fn default() -> Self {
        Backoffs(BTreeMap::new())
    }
}

impl<K: Ord> Backoffs<K> {
    /// It failed: it waits for twice as long as the last time.
    pub(super) fn fail(&mut self, key: K, now: ClockReading) {
        let backoff = self.0.entry(key).or_insert(Backoff { wait_ms: FIRST_BACKOFF_MS / 2, until: now });
        backoff.wait_ms = (2 * backoff.wait_ms).min(MAX_BACKOFF_MS);
        backoff.until = later(now, backoff.wait_ms);
    }

    pub(super) fn is_waiting(&self, key: &K, now: ClockReading) -> bool {
        self.0.get(key).is_some_and(|backoff| now < backoff.until)
    }

    /// Whether its wait is over, or has lasted for so long.
    pub(super) fn has_waited(&self, key: &K, at_most_ms: u64, now: ClockReading) -> bool {
        let is_over = |backoff: &Backoff| {
            let unspent_ms = backoff.wait_ms.saturating_sub(at_most_ms);
            now.nanos.saturating_add(unspent_ms * NANOS_PER_MS) >= backoff.until.nanos
        };
        self.0.get(key).is_none_or(is_over)
    }

    /// The last failure of what waits does not count where it has an excuse: the wait is over, and the next is no longer for it.
    pub(super) fn excuse(&mut self, has_excuse: impl Fn(&K) -> bool, now: ClockReading) {
        for (_, backoff) in self.0.iter_mut().filter(|(key, backoff)| now < backoff.until && has_excuse(key)) {
            backoff.wait_ms /= 2;
            backoff.until = now;
        }
    }

    /// What has done well for [`BACKOFF_FORGOTTEN_MS`] begins again.
    pub(super) fn forget(&mut self, now: ClockReading) {
        self.0.retain(|_, backoff| now < later(backoff.until, BACKOFF_FORGOTTEN_MS));
    }
}

fn later(from: ClockReading, ms: u64) -> ClockReading {
    ClockReading { nanos: from.nanos.saturating_add(ms * NANOS_PER_MS) }
}
