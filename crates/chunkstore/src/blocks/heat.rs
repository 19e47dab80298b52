//! How often a device's copies are asked for, and which of them most (paper, section 4.1: "the top-k most popular objects").
//!
//! One request in [`SAMPLE`] is counted, in a space-saving sketch (A. Metwally, D. Agrawal, A. El Abbadi, Efficient computation of frequent and top-k
//! elements in data streams, 2005): when it is full, what was counted least gives its counter away, and the next one inherits its count as a
//! possible error. What is told is the count without that error, so that a copy is never taken for hotter than it is but by the chance of the sample.
//! Each look ends a window; rates are averages over windows, of which later ones weigh more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use format::chunk_id::ChunkId;
use parking_lot::Mutex;

/// Of so many requests one is counted. A power of two.
const SAMPLE: u64 = 16;
/// Copies that are counted at a time.
const TRACKED: usize = 512;
/// What the newest window weighs in an average, of 8.
const NEW_WEIGHT: u64 = 3;
const ALL_WEIGHT: u64 = 8;
const MILLI: u64 = 1_000;

/// A copy: its chunk, and the block.
type Copy = (ChunkId, u32);

/// How a device was used lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceHeat {
    /// Requests a second.
    pub heat: u64,
    /// Copies that are asked for most, the hottest first: chunk, block, requests a second.
    pub hot: Vec<(ChunkId, u32, u64)>,
}

/// Counts requests.
#[derive(Debug, Default)]
pub(super) struct Heat {
    requests: AtomicU64,
    sketch: Mutex<Sketch>,
}

#[derive(Debug, Default)]
struct Sketch {
    /// Sampled requests of this window, and how many of them may be others'.
    counts: BTreeMap<Copy, (u64, u64)>,
    /// Requests before this window.
    requests_before: u64,
    /// Averages, in thousandths of a request a second.
    heat_milli: u64,
    rates_milli: BTreeMap<Copy, u64>,
}

impl Heat {
    /// A copy was asked for.
    pub fn note(&self, id: ChunkId, block: u32) {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        // Requests may come in a pattern: every sixteenth could be the same one.
        if mix(number).is_multiple_of(SAMPLE) {
            self.sketch.lock().count((id, block));
        }
    }

    /// Ends a window of this length.
    pub fn look(&self, window: Duration, most: usize) -> DeviceHeat {
        self.sketch.lock().look(self.requests.load(Ordering::Relaxed), window, most)
    }
}

impl Sketch {
    fn count(&mut self, copy: Copy) {
        if let Some((count, _)) = self.counts.get_mut(&copy) {
            *count += 1;
            return;
        }
        let mut error = 0;
        if self.counts.len() >= TRACKED {
            let least = self.counts.iter().min_by_key(|(_, (count, _))| *count).map(|(copy, (count, _))| (*copy, *count));
            if let Some((copy, count)) = least {
                self.counts.remove(&copy);
                error = count;
            }
        }
        self.counts.insert(copy, (error + 1, error));
    }

    fn look(&mut self, requests: u64, window: Duration, most: usize) -> DeviceHeat {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate_milli = |count: u64| count.saturating_mul(MILLI * MILLI) / window_ms;
        let average = |before: u64, now: u64| (before * (ALL_WEIGHT - NEW_WEIGHT) + now * NEW_WEIGHT) / ALL_WEIGHT;
        let new = requests.saturating_sub(std::mem::replace(&mut self.requests_before, requests));
        self.heat_milli = average(self.heat_milli, rate_milli(new));
        let mut counts = std::mem::take(&mut self.counts);
        let mut rates = std::mem::take(&mut self.rates_milli);
        rates.iter_mut().for_each(|(copy, rate)| {
            let (count, error) = counts.remove(copy).unwrap_or_default();
            *rate = average(*rate, rate_milli((count - error) * SAMPLE));
        });
        rates.extend(counts.into_iter().map(|(copy, (count, error))| (copy, average(0, rate_milli((count - error) * SAMPLE)))));
        let mut ranked: Vec<(Copy, u64)> = rates.into_iter().filter(|(_, rate)| *rate > 0).collect();
        ranked.sort_by_key(|(copy, rate)| (std::cmp::Reverse(*rate), *copy));
        ranked.truncate(TRACKED);
        let hot = ranked.iter().filter(|(_, rate)| *rate >= MILLI).take(most);
        let hot = hot.map(|((id, block), rate)| (*id, *block, rate / MILLI)).collect();
        self.rates_milli = ranked.into_iter().collect();
        DeviceHeat { heat: self.heat_milli / MILLI, hot }
    }
}

/// The finaliser of SplitMix64 (S. Vigna): neighbours become unrelated.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;
