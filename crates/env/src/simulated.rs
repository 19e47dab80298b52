//! The simulated source: a seeded generator and tokio's clock, which turmoil and `tokio::time::pause` own.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

use crate::Instant;

/// How long before the start of the simulation its machines booted. Not zero, so that "now minus a lease" has a past.
pub const SIMULATED_BOOT_AGE: Duration = Duration::from_secs(10_000);

/// The wall clock at the start of a simulation: 2030-01-01T00:00:00Z.
pub const SIMULATED_WALL_BASE_MS: u64 = 1_893_456_000_000;

/// The state and the controls of a simulated environment.
#[derive(Debug)]
pub struct Simulation {
    generator: Mutex<StdRng>,
    /// tokio's clock when this environment was made, and how old the simulation was then.
    origin: tokio::time::Instant,
    elapsed_at_origin: Duration,
    wall_skew_us: AtomicI64,
}

impl Simulation {
    pub(crate) fn new(seed: u64, elapsed_at_origin: Duration) -> Simulation {
        Simulation {
            generator: Mutex::new(StdRng::seed_from_u64(seed)),
            origin: tokio::time::Instant::now(),
            elapsed_at_origin,
            wall_skew_us: AtomicI64::new(0),
        }
    }

    /// Sets how far this node's wall clock is ahead of the simulation's (behind, if negative).
    pub fn set_wall_skew_ms(&self, skew_ms: i64) {
        self.wall_skew_us.store(skew_ms.saturating_mul(1_000), Ordering::Relaxed);
    }

    /// How old the simulation is.
    pub fn elapsed(&self) -> Duration {
        self.elapsed_at_origin + self.origin.elapsed()
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(0) + SIMULATED_BOOT_AGE + self.elapsed()
    }

    pub(crate) fn wall_clock_us(&self) -> u64 {
        let true_us = SIMULATED_WALL_BASE_MS * 1_000 + self.elapsed().as_micros() as u64;
        true_us.saturating_add_signed(self.wall_skew_us.load(Ordering::Relaxed))
    }

    pub(crate) fn random_u64(&self) -> u64 {
        self.generator.lock().next_u64()
    }

    pub(crate) fn fill_random(&self, bytes: &mut [u8]) {
        self.generator.lock().fill_bytes(bytes);
    }
}
