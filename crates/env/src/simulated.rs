//! The simulated source: a seeded generator and tokio's clock, which turmoil and `tokio::time::pause` own.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

use crate::{Instant, MachineUse, Process};

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
    clock: Mutex<Clock>,
    process: Process,
    machine_use: Mutex<MachineUse>,
}

/// A machine's clock runs on from a moment with a drift: then the simulation was `true_age` old and this clock showed `shown_age`.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    true_age: Duration,
    shown_age: Duration,
    drift_ppm: i64,
}

const MILLION: i128 = 1_000_000;

impl Clock {
    fn shown(&self, true_age: Duration) -> Duration {
        let since = true_age.saturating_sub(self.true_age).as_nanos() as i128;
        self.shown_age + nanos(since * (MILLION + i128::from(self.drift_ppm)) / MILLION)
    }
}

fn nanos(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(if nanos < 0 { 0 } else { u64::MAX }))
}

impl Simulation {
    pub(crate) fn new(seed: u64, elapsed_at_origin: Duration) -> Simulation {
        Simulation {
            generator: Mutex::new(StdRng::seed_from_u64(seed)),
            origin: tokio::time::Instant::now(),
            elapsed_at_origin,
            wall_skew_us: AtomicI64::new(0),
            clock: Mutex::default(),
            process: Process::default(),
            machine_use: Mutex::default(),
        }
    }

    /// Sets how far this node's wall clock is ahead of the simulation's (behind, if negative).
    pub fn set_wall_skew_ms(&self, skew_ms: i64) {
        self.wall_skew_us.store(skew_ms.saturating_mul(1_000), Ordering::Relaxed);
    }

    /// Lets this node's clock run fast by so many parts per million from now on (slow, if negative; it never runs backwards).
    pub fn set_clock_drift_ppm(&self, drift_ppm: i64) {
        assert!(i128::from(drift_ppm) > -MILLION, "a clock goes forward");
        let true_age = self.elapsed();
        let mut clock = self.clock.lock();
        *clock = Clock { true_age, shown_age: clock.shown(true_age), drift_ppm };
    }

    /// Moves this node's clock forward, as a suspend of the whole machine does.
    pub fn advance_clock(&self, by: Duration) {
        self.clock.lock().shown_age += by;
    }

    /// What this node's machine is used for from now on.
    pub fn set_machine_use(&self, machine_use: MachineUse) {
        *self.machine_use.lock() = machine_use;
    }

    pub(crate) fn machine_use(&self) -> MachineUse {
        *self.machine_use.lock()
    }

    /// The process that runs in this environment.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// How long it takes until this node's clock has gone on by `shown`. Rounded up: the 1 ns that is left for a fast clock after a timer
    /// that fired early would round down to none, and who waits for a deadline would do so for ever without time passing.
    pub(crate) fn true_duration(&self, shown: Duration) -> Duration {
        let drift = i128::from(self.clock.lock().drift_ppm);
        if drift == 0 {
            return shown;
        }
        nanos((shown.as_nanos() as i128 * MILLION + MILLION + drift - 1) / (MILLION + drift))
    }

    /// How old the simulation is.
    pub fn elapsed(&self) -> Duration {
        self.elapsed_at_origin + self.origin.elapsed()
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(0) + SIMULATED_BOOT_AGE + self.clock.lock().shown(self.elapsed())
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
