//! How long requests took: counts by duration, cheap enough for each request of a data path.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the counts, in microseconds: each is twice the one before. What took longer than the last has a count of its own.
const BOUNDS_US: [u64; 20] = {
    let mut bounds = [50; 20];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = 2 * bounds[at - 1];
        at += 1;
    }
    bounds
};

/// Durations of one kind of request.
#[derive(Default)]
pub struct Latencies {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Latencies {
    pub fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        let at = BOUNDS_US.partition_point(|bound| *bound < micros);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Each bound in seconds, the last one infinite, with the requests that took at most so long and longer than the bound before.
    pub fn counts(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_US.iter().map(|micros| *micros as f64 / 1e6).chain([f64::INFINITY]);
        bounds.zip(&self.counts).map(|(bound, count)| (bound, count.load(Ordering::Relaxed))).collect()
    }

    pub fn sum_seconds(&self) -> f64 {
        self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
}

/// One series of a histogram.
pub struct LatencySeries {
    pub labels: Vec<(&'static str, String)>,
    pub latencies: Arc<Latencies>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_below_the_first_bound_that_it_does_not_pass() {
        let latencies = Latencies::default();
        let took = [0, 50_000, 50_001, 100_000, 26_214_400_000, 26_214_400_001];
        took.iter().for_each(|nanos| latencies.record(Duration::from_nanos(*nanos)));
        let counts = latencies.counts();
        assert_eq!(counts[0], (50e-6, 2));
        assert_eq!(counts[1], (100e-6, 2));
        assert_eq!(counts[19], (26.2144, 1));
        assert_eq!(counts[20], (f64::INFINITY, 1));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), took.len() as u64);
        assert!((latencies.sum_seconds() - 52.429).abs() < 1e-3);
    }
}
