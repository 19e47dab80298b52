//! Throughput over time: how many operations ended in each slice of it.

use crate::clock;
use crate::report::median;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest time that is looked at, in slices; what ends later counts in the last one.
const MAX_SLICES: usize = 12_000;

/// Counts of a load that runs until it is told to stop.
pub struct Timeline {
    began: Instant,
    slice: Duration,
    ended: Vec<AtomicU64>,
    failed: AtomicU64,
    stop: AtomicBool,
}

impl Timeline {
    /// Cut into slices of this.
    pub fn begin(slice: Duration) -> Timeline {
        let ended = (0..MAX_SLICES).map(|_| AtomicU64::new(0)).collect();
        Timeline { began: clock::now(), slice, ended, failed: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }

    /// Operations have ended just now.
    pub fn note(&self, operations: u64) {
        let slice = (self.elapsed().as_millis() / self.slice.as_millis()) as usize;
        self.ended[slice.min(MAX_SLICES - 1)].fetch_add(operations, Ordering::Relaxed);
    }

    /// One failed.
    pub fn note_failure(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn failures(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub fn elapsed(&self) -> Duration {
        clock::now() - self.began
    }

    /// Tells the load to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Operations per second in each whole slice up to now.
    pub fn rates(&self) -> Vec<f64> {
        let slices = (self.elapsed().as_millis() / self.slice.as_millis()) as usize;
        let counts = self.ended[..slices.min(MAX_SLICES)].iter();
        counts.map(|count| count.load(Ordering::Relaxed) as f64 / self.slice.as_secs_f64()).collect()
    }

    /// The slices that lie wholly between two times.
    fn between(&self, from: Duration, to: Duration) -> Vec<f64> {
        let slice = self.slice.as_millis();
        let (first, last) = (from.as_millis().div_ceil(slice) as usize, (to.as_millis() / slice) as usize);
        let rates = self.rates();
        rates.get(first..last.min(rates.len())).map(<[f64]>::to_vec).unwrap_or_default()
    }

    /// Operations so far.
    pub fn total(&self) -> f64 {
        self.ended.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>() as f64
    }

    /// Mean rate between two times; 0 if no whole slice lies between them.
    pub fn mean(&self, from: Duration, to: Duration) -> f64 {
        let rates = self.between(from, to);
        if rates.is_empty() { 0.0 } else { rates.iter().sum::<f64>() / rates.len() as f64 }
    }

    /// Median rate between two times; 0 if no whole slice lies between them.
    pub fn usual(&self, from: Duration, to: Duration) -> f64 {
        let rates = self.between(from, to);
        if rates.is_empty() { 0.0 } else { median(&rates) }
    }

    /// Longest time without a single end between two times.
    pub fn longest_gap(&self, from: Duration, to: Duration) -> Duration {
        let (mut longest, mut gap) = (0, 0);
        for rate in self.between(from, to) {
            gap = if rate == 0.0 { gap + 1 } else { 0 };
            longest = longest.max(gap);
        }
        self.slice * longest
    }

    /// When the rate is that of before again after something happened: the first time from which the mean of the next `window` is at least this.
    pub fn back_after(&self, happened: Duration, rate: f64, window: Duration) -> Option<Duration> {
        let (rates, slice) = (self.rates(), self.slice.as_millis());
        let (first, width) = (happened.as_millis().div_ceil(slice) as usize, (window.as_millis() / slice).max(1) as usize);
        let mean = |at: usize| rates[at..at + width].iter().sum::<f64>() / width as f64;
        (first..(rates.len() + 1).saturating_sub(width)).find(|at| mean(*at) >= rate).map(|at| self.slice * at as u32)
    }

    /// As points of a plot.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let middle = |at: usize| (at as f64 + 0.5) * self.slice.as_secs_f64();
        self.rates().into_iter().enumerate().map(|(at, rate)| (middle(at), rate)).collect()
    }
}
