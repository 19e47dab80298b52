//! What each connection does next.
//!
//! Keys live in three sets, so that a GET never meets a key that another connection has just deleted:
//! *shared* keys (prepared, read, overwritten), *doomed* keys (prepared, each deleted once) and *fresh* keys (written once
//! each by `--unique`, named after the run). Workers own stripes: worker `w` of `n` takes every n-th key from `w`, so
//! nothing is shared between threads.

use std::collections::VecDeque;
use std::str::FromStr;

use super::mix::{Mix, Op};
use super::zipf::Zipf;
use crate::random::{Random, mix64};

/// Fresh keys that one worker remembers for deletion once the doomed ones are gone.
pub const FRESH_REMEMBERED_LIMIT: usize = 1 << 16;

/// Which set a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeySet {
    /// Prepared; read and overwritten.
    Shared,
    /// Prepared; deleted once each.
    Doomed,
    /// Written once each, never before.
    Fresh,
}

/// A key by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Its set.
    pub set: KeySet,
    /// Its number within the set.
    pub index: u64,
}

/// How shared keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// One after the other, from the start again at the end.
    Sequential,
    /// Zipf with this exponent; the ranks are scattered over the key space.
    Zipf(f64),
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let theta = match text {
            "uniform" => return Ok(Distribution::Uniform),
            "sequential" => return Ok(Distribution::Sequential),
            "zipf" => "0.99",
            other => other
                .strip_prefix("zipf(")
                .and_then(|rest| rest.strip_suffix(')'))
                .or_else(|| other.strip_prefix("zipf:"))
                .ok_or_else(|| format!("unknown distribution {text:?}: expected uniform, sequential, zipf or zipf:THETA"))?,
        };
        match theta.parse::<f64>() {
            Ok(theta) if theta > 0.0 && theta <= 10.0 => Ok(Distribution::Zipf(theta)),
            _ => Err(format!("theta {theta:?} is not a number above 0 and up to 10")),
        }
    }
}

/// The keys of one worker among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    /// This worker, from 0.
    pub worker: u64,
    /// Workers in all.
    pub workers: u64,
}

/// What a phase does.
#[derive(Debug, Clone)]
pub enum Plan {
    /// One operation on each key of a set, once.
    Sweep {
        /// The operation.
        op: Op,
        /// The set.
        set: KeySet,
        /// Keys in the set.
        count: u64,
    },
    /// The mix, until told to stop or out of keys.
    Load(Load),
}

/// The measured phase.
#[derive(Debug, Clone)]
pub struct Load {
    /// Operations.
    pub mix: Mix,
    /// Choice of shared keys.
    pub distribution: Distribution,
    /// Keys in the shared set.
    pub shared: u64,
    /// Keys in the doomed set.
    pub doomed: u64,
    /// Whether every PUT takes a fresh key.
    pub unique: bool,
    /// Seed of all choices.
    pub seed: u64,
}

/// One step for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An operation on a key.
    On(Op, Key),
    /// The connection's next page of names.
    List,
    /// Nothing is left to do.
    Finished,
}

/// Hands out the steps of one worker.
#[derive(Debug)]
pub struct Source {
    plan: Plan,
    stripe: Stripe,
    random: Random,
    chooser: Chooser,
    swept: u64,
    doomed_next: u64,
    fresh_next: u64,
    fresh_done: VecDeque<u64>,
}

#[derive(Debug)]
enum Chooser {
    Uniform,
    Sequential { next: u64 },
    Zipf { zipf: Zipf, stride: u64, offset: u64 },
}

impl Source {
    /// The steps of this stripe of the plan.
    pub fn new(plan: Plan, stripe: Stripe) -> Self {
        let (chooser, seed) = match &plan {
            Plan::Sweep { .. } => (Chooser::Uniform, 0),
            Plan::Load(load) => (Chooser::new(load, stripe), load.seed),
        };
        Source {
            plan,
            stripe,
            random: Random::new(seed, stripe.worker),
            chooser,
            swept: stripe.worker,
            doomed_next: stripe.worker,
            fresh_next: stripe.worker,
            fresh_done: VecDeque::new(),
        }
    }

    /// The next step. After [`Step::Finished`] it stays finished, unless a fresh key is reported in between.
    pub fn next_step(&mut self) -> Step {
        match &self.plan {
            Plan::Sweep { op, set, count } => {
                if self.swept >= *count {
                    return Step::Finished;
                }
                let key = Key { set: *set, index: self.swept };
                self.swept += self.stripe.workers;
                Step::On(*op, key)
            }
            Plan::Load(load) => {
                let (mut op, unique, shared) = (load.mix.draw(&mut self.random), load.unique, load.shared);
                if op == Op::Delete {
                    if let Some(key) = self.next_doomed() {
                        return Step::On(Op::Delete, key);
                    }
                    // Out of keys to delete: the rest of the mix goes on, a mix of deletes alone is finished.
                    let Plan::Load(load) = &self.plan else { unreachable!("matched above") };
                    match load.mix.without(Op::Delete) {
                        Some(rest) => op = rest.draw(&mut self.random),
                        None => return Step::Finished,
                    }
                }
                match op {
                    Op::List => Step::List,
                    Op::Put if unique => Step::On(op, self.next_fresh()),
                    _ => Step::On(
                        op,
                        Key { set: KeySet::Shared, index: self.chooser.draw(shared, self.stripe, &mut self.random) },
                    ),
                }
            }
        }
    }

    /// A fresh key was stored: it may be deleted later.
    pub fn stored(&mut self, key: Key) {
        let deletes = matches!(&self.plan, Plan::Load(load) if load.mix.has(Op::Delete));
        if deletes && key.set == KeySet::Fresh && self.fresh_done.len() < FRESH_REMEMBERED_LIMIT {
            self.fresh_done.push_back(key.index);
        }
    }

    fn next_doomed(&mut self) -> Option<Key> {
        let Plan::Load(load) = &self.plan else { return None };
        if self.doomed_next < load.doomed {
            let key = Key { set: KeySet::Doomed, index: self.doomed_next };
            self.doomed_next += self.stripe.workers;
            return Some(key);
        }
        self.fresh_done.pop_front().map(|index| Key { set: KeySet::Fresh, index })
    }

    fn next_fresh(&mut self) -> Key {
        let key = Key { set: KeySet::Fresh, index: self.fresh_next };
        self.fresh_next += self.stripe.workers;
        key
    }
}

impl Chooser {
    fn new(load: &Load, stripe: Stripe) -> Self {
        match load.distribution {
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Sequential => Chooser::Sequential { next: stripe.worker % load.shared.max(1) },
            Distribution::Zipf(theta) => {
                let count = load.shared.max(1);
                let offset = mix64(load.seed) % count;
                Chooser::Zipf { zipf: Zipf::new(count, theta), stride: scatter_stride(count), offset }
            }
        }
    }

    fn draw(&mut self, count: u64, stripe: Stripe, random: &mut Random) -> u64 {
        match self {
            Chooser::Uniform => random.below(count),
            Chooser::Sequential { next } => {
                let index = *next;
                *next += stripe.workers;
                if *next >= count {
                    *next = stripe.worker % count;
                }
                index
            }
            Chooser::Zipf { zipf, stride, offset } => {
                let rank = zipf.draw(random);
                ((u128::from(rank) * u128::from(*stride) + u128::from(*offset)) % u128::from(count)) as u64
            }
        }
    }
}

/// A step near the golden section of `count` and coprime to it: multiplying by it permutes the keys, and the frequent ranks
/// land far apart.
fn scatter_stride(count: u64) -> u64 {
    let mut stride = ((count as f64 * 0.618_033_988_75) as u64).max(1);
    while greatest_common_divisor(stride, count) != 1 {
        stride += 1;
    }
    stride
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
