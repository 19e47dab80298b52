//! Seeded draws.

use model::choice::{Choose, Seeded};
use std::time::Duration;

/// A stream of draws. Each part of a run has its own, so that one part's draws don't change another's.
#[derive(Clone, Debug)]
pub struct Draw(Seeded);

impl Draw {
    /// Stream `stream` under `seed`.
    pub fn new(seed: u64, stream: u64) -> Draw {
        Draw(Seeded::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(stream)))
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound as usize) as u64
    }

    /// Whether something that happens so many times in a hundred happens now.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time up to `most`, in microseconds.
    pub fn duration(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(most.as_micros() as u64 + 1))
    }
}
