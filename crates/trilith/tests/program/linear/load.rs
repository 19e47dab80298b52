//! What the clients of one run and the one who disturbs them share.

use crate::server::{LOOK, PATIENCE};
use env::{Env, Instant};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Requests under way, and how they went.
#[derive(Default)]
pub struct Load {
    pub answered: AtomicU64,
    /// The kill is next: from now on connections may break.
    pub is_ending: AtomicBool,
    pub clients_lost: AtomicU64,
    /// Requests to a cluster.
    samples: Mutex<Vec<Sample>>,
}

/// One request to a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub is_write: bool,
    pub is_served: bool,
    pub began: Instant,
    pub ended: Instant,
}

/// How requests of one kind went for a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub served: u64,
    pub refused: u64,
    /// Of one that was served.
    pub longest_wait: Duration,
    /// In which none was served.
    pub longest_gap: Duration,
}

impl Load {
    pub fn now(&self) -> Instant {
        Env::real_with_cores(1).now()
    }

    /// A request that began then has ended.
    pub fn note(&self, began: Instant, is_write: bool, is_served: bool) {
        self.samples.lock().push(Sample { is_write, is_served, began, ended: self.now() });
        self.answered.fetch_add(u64::from(is_served), Ordering::Relaxed);
    }

    /// Waits until the clients have had so many more answers.
    pub fn await_more(&self, answers: u64) {
        let enough = self.answered.load(Ordering::Relaxed) + answers;
        let deadline = self.now() + PATIENCE;
        while self.answered.load(Ordering::Relaxed) < enough && self.clients_lost.load(Ordering::Relaxed) == 0 {
            assert!(self.now() < deadline, "not {answers} answers in {PATIENCE:?}");
            std::thread::sleep(LOOK);
        }
    }

    /// The reads, or the writes, that ended from one moment to another.
    pub fn tally(&self, writes: bool, from: Instant, to: Instant) -> Tally {
        let mut tally = Tally::default();
        let mut last = from;
        for sample in self.samples.lock().iter().filter(|sample| sample.is_write == writes) {
            if sample.ended < from || sample.ended > to {
                continue;
            }
            if !sample.is_served {
                tally.refused += 1;
                continue;
            }
            tally.served += 1;
            tally.longest_wait = tally.longest_wait.max(sample.ended - sample.began);
            tally.longest_gap = tally.longest_gap.max(sample.ended - last);
            last = sample.ended;
        }
        tally.longest_gap = tally.longest_gap.max(to - last);
        tally
    }
}
