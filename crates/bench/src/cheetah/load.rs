//! A closed loop: so many workers, each with one operation on its way, over objects that a catalogue knows.
//!
//! An object that a worker uses is out of the catalogue meanwhile: no worker reads what another one deletes.

use super::subject::Subject;
use crate::clock;
use crate::random::{Random, mix64};
use anyhow::{Context, ensure};
use bytes::Bytes;
use disk::DiskStats;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// All contents are parts of so many bytes.
const POOL_BYTES: usize = 8 << 20;
/// Of latencies: from a microsecond to a minute.
const BOUNDS_NS: (u64, u64) = (1_000, 60_000_000_000);

/// What is done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Put,
    /// The bytes are compared.
    Get,
    Delete,
    /// Get, delete and put.
    Replace,
}

impl Operation {
    pub const ALL: [Operation; 4] = [Operation::Put, Operation::Get, Operation::Delete, Operation::Replace];

    pub fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Get => "get",
            Operation::Delete => "delete",
            Operation::Replace => "read, delete, put",
        }
    }
}

/// Shares of the operations, of 1. What is left are gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix {
    pub put: f64,
    pub delete: f64,
    pub replace: f64,
}

impl Mix {
    /// One operation alone.
    pub fn only(operation: Operation) -> Mix {
        let share = |of: Operation| if of == operation { 1.0 } else { 0.0 };
        Mix { put: share(Operation::Put), delete: share(Operation::Delete), replace: share(Operation::Replace) }
    }

    fn draw(&self, random: &mut Random) -> Operation {
        let at = random.unit();
        match () {
            () if at < self.put => Operation::Put,
            () if at < self.put + self.delete => Operation::Delete,
            () if at < self.put + self.delete + self.replace => Operation::Replace,
            () => Operation::Get,
        }
    }
}

/// How long a phase is.
#[derive(Clone)]
pub enum Limit {
    Count(u64),
    While(Arc<dyn Fn() -> bool + Send + Sync>),
}

impl Limit {
    pub fn time(duration: Duration) -> Limit {
        let end = clock::now() + duration;
        Limit::While(Arc::new(move || clock::now() < end))
    }
}

/// How long new objects are.
pub type Lengths = fn(&mut Random) -> usize;

/// What the workers do.
#[derive(Clone)]
pub struct Phase {
    pub workers: usize,
    pub mix: Mix,
    pub lengths: Lengths,
    pub limit: Limit,
}

impl Phase {
    pub fn of(operation: Operation, lengths: Lengths, workers: usize, count: u64) -> Phase {
        Phase { workers, mix: Mix::only(operation), lengths, limit: Limit::Count(count) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Object {
    number: u64,
    length: usize,
}

/// The objects that a subject has.
pub struct Catalogue {
    state: Mutex<State>,
}

struct State {
    random: Random,
    objects: Vec<Object>,
    next: u64,
    live_bytes: u64,
}

/// How long operations took, by their kinds.
pub struct Measured {
    pub latency: [Histogram<u64>; Operation::ALL.len()],
    pub took: Duration,
    /// Writes and flushes that the device was asked for.
    pub device_writes: u64,
}

impl Measured {
    fn new() -> Measured {
        let empty = || Histogram::new_with_bounds(BOUNDS_NS.0, BOUNDS_NS.1, 3).expect("bounds that a histogram can have");
        Measured { latency: Operation::ALL.map(|_| empty()), took: Duration::ZERO, device_writes: 0 }
    }

    pub fn of(&self, operation: Operation) -> &Histogram<u64> {
        &self.latency[operation as usize]
    }

    pub fn mean_ms(&self, operation: Operation) -> f64 {
        self.of(operation).mean() / 1e6
    }

    pub fn count(&self) -> u64 {
        self.latency.iter().map(|latency| latency.len()).sum()
    }

    /// Writes and flushes that the device was asked for, for each operation.
    pub fn writes_each(&self) -> f64 {
        self.device_writes as f64 / self.count() as f64
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.count() as f64 / self.took.as_secs_f64()
    }

    /// Takes another one's operations, too; they came after these.
    pub fn add(&mut self, other: &Measured) -> anyhow::Result<()> {
        for (latency, more) in self.latency.iter_mut().zip(&other.latency) {
            latency.add(more)?;
        }
        self.took += other.took;
        self.device_writes += other.device_writes;
        Ok(())
    }
}

impl Catalogue {
    pub fn new(seed: u64) -> Arc<Catalogue> {
        let state = State { random: Random::new(seed, 0), objects: Vec::new(), next: 1, live_bytes: 0 };
        Arc::new(Catalogue { state: Mutex::new(state) })
    }

    pub fn live_bytes(&self) -> u64 {
        self.state.lock().live_bytes
    }

    pub fn count(&self) -> u64 {
        self.state.lock().objects.len() as u64
    }

    /// Number and length of each object that no worker uses.
    pub fn objects(&self) -> Vec<(u64, usize)> {
        self.state.lock().objects.iter().map(|object| (object.number, object.length)).collect()
    }

    /// What a worker does next; none if there is no object for it.
    fn take(&self, phase: &Phase) -> Option<(Operation, Object)> {
        let mut state = self.state.lock();
        let operation = phase.mix.draw(&mut state.random);
        if operation == Operation::Put {
            let length = (phase.lengths)(&mut state.random);
            state.next += 1;
            return Some((operation, Object { number: state.next, length }));
        }
        if state.objects.is_empty() {
            return None;
        }
        let count = state.objects.len() as u64;
        let at = state.random.below(count) as usize;
        Some((operation, state.objects.swap_remove(at)))
    }

    fn give_back(&self, operation: Operation, object: Object) {
        let mut state = self.state.lock();
        match operation {
            Operation::Put => state.live_bytes += object.length as u64,
            Operation::Delete => state.live_bytes -= object.length as u64,
            Operation::Get | Operation::Replace => {}
        }
        if operation != Operation::Delete {
            state.objects.push(object);
        }
    }

    /// Has the workers of a phase work until its limit.
    pub async fn run(self: &Arc<Self>, subject: &Arc<dyn Subject>, phase: &Phase) -> anyhow::Result<Measured> {
        let (measured, left) = (Arc::new(Mutex::new(Measured::new())), Arc::new(Mutex::new(phase.limit.clone())));
        let mut tasks = JoinSet::new();
        let writes_before = writes(&subject.device());
        let began = clock::now();
        for _ in 0..phase.workers {
            let (catalogue, subject, phase) = (self.clone(), subject.clone(), phase.clone());
            let (measured, left) = (measured.clone(), left.clone());
            tasks.spawn(async move {
                while goes_on(&mut left.lock()) {
                    let Some((operation, object)) = catalogue.take(&phase) else { break };
                    let took = timed(&*subject, operation, object).await?;
                    measured.lock().latency[operation as usize].saturating_record(took.as_nanos() as u64);
                    catalogue.give_back(operation, object);
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.context("a worker")??;
        }
        let mut measured = std::mem::replace(&mut *measured.lock(), Measured::new());
        measured.took = clock::now() - began;
        measured.device_writes = writes(&subject.device()) - writes_before;
        Ok(measured)
    }
}

fn writes(device: &DiskStats) -> u64 {
    device.writes + device.flushes
}

/// Counts an operation, if there may be one more.
fn goes_on(limit: &mut Limit) -> bool {
    match limit {
        Limit::Count(0) => false,
        Limit::Count(left) => {
            *left -= 1;
            true
        }
        Limit::While(goes_on) => goes_on(),
    }
}

/// The bytes of an object: no copy is made.
pub fn content(number: u64, length: usize) -> Bytes {
    static POOL: OnceLock<Bytes> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let mut random = Random::new(1, 1);
        (0..POOL_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect::<Vec<u8>>().into()
    });
    let start = mix64(number) as usize % (POOL_BYTES - length);
    pool.slice(start..start + length)
}

async fn timed(subject: &dyn Subject, operation: Operation, object: Object) -> anyhow::Result<Duration> {
    // A read from the page cache never waits: others get their turn.
    tokio::task::yield_now().await;
    let Object { number, length } = object;
    let began: Instant = clock::now();
    match operation {
        Operation::Put => subject.put(number, content(number, length)).await?,
        Operation::Get => check(subject, object).await?,
        Operation::Delete => subject.delete(number).await?,
        Operation::Replace => {
            check(subject, object).await?;
            subject.delete(number).await?;
            subject.put(number, content(number, length)).await?;
        }
    }
    Ok(clock::now() - began)
}

async fn check(subject: &dyn Subject, object: Object) -> anyhow::Result<()> {
    let found = subject.get(object.number).await?;
    ensure!(found == content(object.number, object.length), "object {} has other bytes", object.number);
    Ok(())
}
