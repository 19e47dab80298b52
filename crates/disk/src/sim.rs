//! A simulated disk: what a real one may do, decided by a seed.
//!
//! Reads see every completed write at once. The medium lags behind: a volatile write stays in the device's cache until the
//! next flush, and a power cut keeps a seeded part of the cache, sector by sector, in any order (`image`). Durable writes and
//! flushed ones always survive. Operations in flight at the cut may have happened in part, and are never answered.
//!
//! Faults come by rule, for a test that wants one thing at one place, or by odds, for a storm. With `Inline` completion and no
//! odds the disk is a function of its requests; in every mode the same seed and the same calls give the same disk.

mod fault;
mod image;
mod random;
mod state;

use std::sync::Arc;
use std::time::Duration;

use env::Env;

pub use self::fault::{Fault, FaultOdds, FaultRule};
use self::image::Image;
use self::random::Random;
use self::state::{Inner, Pending, State, tell};
use crate::Disk;
use crate::error::{DiskError, DiskErrorKind, Operation};
use crate::request::{Completion, Done, Request};
use crate::stats::DiskStats;

/// When requests take effect and are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOrder {
    /// Within `submit`.
    Inline,
    /// When the test calls `step` or `run_until_idle`, in seeded order.
    Stepped,
    /// After a seeded time up to this, on the environment's clock; needs a runtime.
    Timed(Duration),
}

/// What kind of disk to simulate.
#[derive(Clone, Debug)]
pub struct SimOptions {
    pub name: String,
    pub seed: u64,
    /// The size at first, all zeros.
    pub size_bytes: u64,
    /// The size it may grow to, like a file; none for no limit. A block device has `Some(size_bytes)`.
    pub capacity_bytes: Option<u64>,
    pub order: CompletionOrder,
    pub odds: FaultOdds,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions {
            name: "simulated disk".to_owned(),
            seed: 0,
            size_bytes: 0,
            capacity_bytes: None,
            order: CompletionOrder::Inline,
            odds: FaultOdds::default(),
        }
    }
}

/// A handle on a simulated disk; clones share it.
#[derive(Clone)]
pub struct SimDisk {
    inner: Arc<Inner>,
}

impl SimDisk {
    pub fn new(env: &Env, options: SimOptions) -> SimDisk {
        let random = Random::new(options.seed);
        let image = Image::new(options.size_bytes);
        SimDisk::with_image(env, &options, random, image)
    }

    fn with_image(env: &Env, options: &SimOptions, random: Random, image: Image) -> SimDisk {
        SimDisk { inner: Arc::new(Inner::new(env, options, random, image)) }
    }

    /// Cuts the power now: operations in flight and all later ones are never answered.
    pub fn power_cut(&self) {
        self.inner.state.lock().cut_power();
    }

    /// Cuts the power at the first write, flush or allocation after `mutations` more of them have taken effect. That one is
    /// in flight at the cut: it may take effect in part, and is never answered.
    pub fn power_cut_after(&self, mutations: u64) {
        let mut state = self.inner.state.lock();
        state.cut_after = Some(state.mutations + mutations);
    }

    /// Whether the power has been cut.
    pub fn power_is_cut(&self) -> bool {
        self.inner.state.lock().power_is_cut
    }

    /// How many writes, flushes and allocations have taken effect.
    pub fn mutations(&self) -> u64 {
        self.inner.state.lock().mutations
    }

    /// The disk that the next process finds; this one answers nothing from here on. After a power cut that is what was
    /// durable and a seeded part of the rest. Without one only the process ended: all that it wrote is there, and what was
    /// in flight still happens. Odds, order, lies about flushes and the space limit stay; rules don't.
    pub fn restart(&self) -> SimDisk {
        let mut state = self.inner.state.lock();
        if state.power_is_cut {
            let State { image, random, .. } = &mut *state;
            image.lose_cache(random);
        } else {
            let mut pending = state.take_pending();
            state.random.shuffle(&mut pending);
            for Pending { request, done, .. } in pending {
                state.apply_in_flight(&request);
                state.unanswered.push((request, done));
            }
            state.is_dead = true;
        }
        let options = SimOptions {
            name: self.inner.name.to_string(),
            seed: 0,
            size_bytes: 0,
            capacity_bytes: self.inner.capacity,
            order: state.order,
            odds: state.faults.odds,
        };
        let random = Random::new(state.random.next());
        let successor = SimDisk::with_image(&self.inner.env, &options, random, std::mem::take(&mut state.image));
        let mut next = successor.inner.state.lock();
        next.ignores_flush = state.ignores_flush;
        next.space_limit = state.space_limit;
        next.unanswered = std::mem::take(&mut state.unanswered);
        drop(next);
        state.successor = Arc::downgrade(&successor.inner);
        successor
    }

    /// Cuts the power and restarts: the disk that survives.
    pub fn crash(&self) -> SimDisk {
        self.power_cut();
        self.restart()
    }

    /// Lets one request in flight take effect and be answered, chosen by the seed; `false` if there is none.
    pub fn step(&self) -> bool {
        let mut state = self.inner.state.lock();
        if state.stepped.is_empty() {
            return false;
        }
        let count = state.stepped.len() as u64;
        let chosen = state.random.below(count) as usize;
        let pending = state.stepped.swap_remove(chosen);
        let answer = self.inner.carry_out(&mut state, pending);
        drop(state);
        tell(answer);
        true
    }

    /// Steps until nothing is in flight, what callbacks submit included; returns how many steps that took.
    pub fn run_until_idle(&self) -> usize {
        let mut steps = 0;
        while self.step() {
            steps += 1;
        }
        steps
    }

    /// Lets all requests that a fault holds take effect and be answered; returns how many that were.
    pub fn release(&self) -> usize {
        let held = std::mem::take(&mut self.inner.state.lock().held);
        let count = held.len();
        for pending in held {
            let answer = self.inner.carry_out(&mut self.inner.state.lock(), pending);
            tell(answer);
        }
        count
    }

    /// Hangs: requests neither take effect nor fail until [`SimDisk::let_go`]. What the page cache has is still read.
    pub fn hang(&self) {
        let mut state = self.inner.state.lock();
        Operation::ALL.iter().for_each(|operation| state.faults.add(FaultRule::always(*operation, Fault::Hold)));
    }

    /// Ends all holding, and lets what was held take effect; returns how many requests that were.
    pub fn let_go(&self) -> usize {
        self.inner.state.lock().faults.end_holding();
        self.release()
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        let state = self.inner.state.lock();
        state.stepped.len() + state.held.len() + state.timed.len()
    }

    /// Adds a fault at one place. Of several rules that match, the one added first applies.
    pub fn add_rule(&self, rule: FaultRule) {
        self.inner.state.lock().faults.add(rule);
    }

    /// Removes all rules and odds.
    pub fn clear_faults(&self) {
        self.inner.state.lock().faults.clear();
    }

    pub fn set_odds(&self, odds: FaultOdds) {
        self.inner.state.lock().faults.odds = odds;
    }

    pub fn set_order(&self, order: CompletionOrder) {
        self.inner.state.lock().order = order;
    }

    /// Makes the disk a liar: durable writes and flushes are acknowledged, and nothing becomes durable by them. A crash test
    /// that passes on such a disk tests nothing.
    pub fn set_ignores_flush(&self, ignores_flush: bool) {
        self.inner.state.lock().ignores_flush = ignores_flush;
    }

    /// Lets writes and allocations that end beyond `limit` find no space.
    pub fn set_space_limit(&self, limit: Option<u64>) {
        self.inner.state.lock().space_limit = limit;
    }

    /// Changes at least one bit of every sector in the range, on the medium and in all caches, as ageing media do.
    pub fn corrupt_at_rest(&self, offset: u64, len: u64) {
        let mut state = self.inner.state.lock();
        let State { image, random, .. } = &mut *state;
        image.corrupt(offset, len, random);
    }

    /// What a read would return, past all faults and counters.
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.inner.state.lock().image.read(offset, &mut bytes);
        bytes
    }
}

impl Disk for SimDisk {
    fn describe(&self) -> String {
        self.inner.name.to_string()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.state.lock().image.size()
    }

    fn capacity_bytes(&self) -> Option<u64> {
        self.inner.capacity
    }

    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        let len = buf.len() as u64;
        let mut state = self.inner.state.lock();
        let State { image, random, faults, is_dead, .. } = &mut *state;
        let is_within = offset.checked_add(len).is_some_and(|end| end <= image.size());
        if *is_dead || !is_within || faults.misses_cache(random) {
            self.inner.counters.count_cached(false);
            return Ok(false);
        }
        match faults.choose_for_cached_read(offset, len, random) {
            Some(Fault::Fail) => {
                self.inner.counters.count_failure();
                return Err(self.inner.error(DiskErrorKind::Failed, Operation::Read, offset, len));
            }
            fault => {
                image.read(offset, buf);
                if fault == Some(Fault::Corrupt) {
                    random.corrupt(buf);
                }
            }
        }
        self.inner.counters.count_cached(true);
        Ok(true)
    }

    fn submit(&self, request: Request, done: Done) {
        let mut state = self.inner.state.lock();
        if state.is_dead {
            drop(state);
            return self.inner.leave_unanswered(request, done);
        }
        if let Some(error) = self.inner.refusal(&request, state.image.size()) {
            drop(state);
            self.inner.counters.count_failure();
            return done(Completion { result: Err(error), buf: request.into_buf() });
        }
        self.inner.counters.count_request(&request);
        let (offset, len) = request.range();
        let State { faults, random, .. } = &mut *state;
        let fault = faults.choose(request.operation(), offset, len, random);
        let wait = match (fault, state.order) {
            (Some(Fault::Delay(time)), _) => Some(time),
            (_, CompletionOrder::Timed(most)) => Some(state.random.duration(most)),
            _ => None,
        };
        let pending = Pending { request, done, fault };
        match (fault, wait) {
            (Some(Fault::Hold), _) => state.held.push(pending),
            (_, Some(time)) => self.wait(&mut state, pending, time),
            (_, None) if state.order == CompletionOrder::Stepped => state.stepped.push(pending),
            _ => {
                let answer = self.inner.carry_out(&mut state, pending);
                drop(state);
                tell(answer);
            }
        }
    }

    fn stats(&self) -> DiskStats {
        self.inner.counters.snapshot()
    }
}

impl SimDisk {
    /// Lets `pending` take effect after `time` on the environment's clock.
    fn wait(&self, state: &mut State, pending: Pending, time: Duration) {
        let timer = state.next_timer;
        state.next_timer += 1;
        state.timed.insert(timer, pending);
        let disk = self.clone();
        let task = self.inner.env.clone();
        self.inner.env.spawn(async move {
            task.sleep(time).await;
            let mut state = disk.inner.state.lock();
            let answer = state.timed.remove(&timer).and_then(|pending| disk.inner.carry_out(&mut state, pending));
            drop(state);
            tell(answer);
        });
    }
}

#[cfg(test)]
mod tests;
