//! Clock, randomness, task spawning and the use of the machine: real and simulated.
//!
//! This is one of the four seams between Trilith and the world (clock, randomness, disk, network). Nothing outside this crate
//! asks the operating system for time or for random bytes, so a simulation that hands out seeded environments replays exactly.
//!
//! Invariants
//! - `now()` never goes backwards within one boot of a machine, and it keeps counting while the machine sleeps: a lease that
//!   ran out during a suspend is out (the real clock is `CLOCK_BOOTTIME`, not `CLOCK_MONOTONIC`, for that reason).
//! - An `Instant` has no meaning on another machine or after a reboot; only durations cross those borders.
//! - The wall clock may jump either way. It dates things for people and for protocols that demand dates; it decides nothing.
//! - A simulated environment takes its randomness from its seed alone and its time from tokio's clock alone.
//! - A simulated process that is paused or has ended runs no code, whatever its tasks wait for ([`Process`]).
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "this crate is the seam behind which the clocks and the randomness lie")]

mod instant;
mod machine;
mod marks;
mod process;
mod runtime_core;
mod simulated;
pub mod watch;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::RngCore;
use tokio::task::JoinHandle;

pub use crate::instant::Instant;
pub use crate::machine::{MachineMeter, MachineUse, memory_bytes};
pub use crate::marks::{keep_marks, mark, take_marks};
pub use crate::process::Process;
pub use crate::runtime_core::{core_index, set_core_index};
pub use crate::simulated::{SIMULATED_BOOT_AGE, SIMULATED_WALL_BASE_MS, Simulation};

/// A cheap handle on the clock, the randomness and the spawner of one process.
#[derive(Clone, Debug)]
pub struct Env {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    core_count: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Real,
    Simulated(Box<Simulation>),
}

impl Env {
    /// The operating system's clocks and randomness, for a process with one runtime thread per available core.
    pub fn real() -> Env {
        let core_count = std::thread::available_parallelism().map_or(1, |count| count.get());
        Env::real_with_cores(core_count)
    }

    /// As [`Env::real`], for a process that starts `core_count` runtime threads.
    pub fn real_with_cores(core_count: usize) -> Env {
        assert!(core_count > 0, "a process runs on at least one core");
        Env { inner: Arc::new(Inner { core_count, source: Source::Real }) }
    }

    /// A node of a simulation that starts now: randomness from `seed`, time from tokio's clock, one core.
    ///
    /// Call it inside the runtime whose clock it shall follow.
    pub fn simulated(seed: u64) -> Env {
        Env::simulated_after(seed, Duration::ZERO)
    }

    /// As [`Env::simulated`], for a node that starts `elapsed` after the simulation did. Each start of a turmoil host has its
    /// own runtime and so its own tokio clock; the simulator passes what has passed so that wall clocks go on across a restart.
    pub fn simulated_after(seed: u64, elapsed: Duration) -> Env {
        let simulation = Simulation::new(seed, elapsed);
        Env { inner: Arc::new(Inner { core_count: 1, source: Source::Simulated(Box::new(simulation)) }) }
    }

    /// The controls of a simulated environment; none for the real one.
    pub fn simulation(&self) -> Option<&Simulation> {
        match &self.inner.source {
            Source::Real => None,
            Source::Simulated(simulation) => Some(simulation),
        }
    }

    /// Time since the machine's boot, suspends included.
    pub fn now(&self) -> Instant {
        match &self.inner.source {
            Source::Real => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
            }
            Source::Simulated(simulation) => simulation.now(),
        }
    }

    /// A meter of what the machine is used for; a simulated one shows what it is told ([`Simulation::set_machine_use`]).
    pub fn machine_meter(&self) -> MachineMeter {
        MachineMeter::new(self)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z; may jump either way.
    pub fn wall_clock_ms(&self) -> u64 {
        self.wall_clock_us() / 1_000
    }

    /// Microseconds since 1970-01-01T00:00:00Z; may jump either way.
    pub fn wall_clock_us(&self) -> u64 {
        match &self.inner.source {
            // A machine whose clock stands before 1970 is dated 1970: the wall clock decides nothing.
            Source::Real => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64),
            Source::Simulated(simulation) => simulation.wall_clock_us(),
        }
    }

    /// A number that nobody can guess (the real one is cryptographically strong).
    pub fn random_u64(&self) -> u64 {
        match &self.inner.source {
            Source::Real => rand::rng().next_u64(),
            Source::Simulated(simulation) => simulation.random_u64(),
        }
    }

    /// A number below `bound`, without the bias that a plain remainder has for large bounds. `bound` must not be 0.
    pub fn random_below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        // Multiply and shift (Lemire 2019) without the rejection step: the bias left is below bound / 2^64.
        ((u128::from(self.random_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills `bytes` with random bytes, fit for keys and secrets in the real environment.
    pub fn fill_random(&self, bytes: &mut [u8]) {
        match &self.inner.source {
            Source::Real => rand::rng().fill_bytes(bytes),
            Source::Simulated(simulation) => simulation.fill_random(bytes),
        }
    }

    /// Waits at least `duration`.
    pub async fn sleep(&self, duration: Duration) {
        match &self.inner.source {
            Source::Real => tokio::time::sleep(duration).await,
            Source::Simulated(simulation) => tokio::time::sleep(simulation.true_duration(duration)).await,
        }
    }

    /// Waits until `now()` has reached `deadline`; not at all if it has.
    pub async fn sleep_until(&self, deadline: Instant) {
        // In a loop: a timer may fire a rounding early against this clock.
        loop {
            let now = self.now();
            if now >= deadline {
                return;
            }
            self.sleep(deadline.saturating_duration_since(now)).await;
        }
    }

    /// Starts a task on the current runtime; it stays on this thread if that is a current-thread runtime.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match &self.inner.source {
            Source::Real => tokio::spawn(future),
            Source::Simulated(simulation) => simulation.process().spawn(future),
        }
    }

    /// A future that goes on only while this environment's process runs: for what is polled by somebody else than its tasks. Always,
    /// in the real environment.
    pub fn within<F>(&self, future: F) -> impl Future<Output = F::Output> + use<F>
    where
        F: Future,
    {
        let env = self.clone();
        async move {
            match &env.inner.source {
                Source::Real => future.await,
                Source::Simulated(simulation) => simulation.process().run(future).await,
            }
        }
    }

    /// The index of the runtime core that this thread is: 0 unless [`set_core_index`] was called on it.
    pub fn core_index(&self) -> usize {
        core_index()
    }

    /// How many runtime cores this process has.
    pub fn core_count(&self) -> usize {
        self.inner.core_count
    }
}

#[cfg(test)]
mod tests;
