//! A fixed number of requests in flight, each completion submitting the next.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::Context;
use disk::{AlignedBuf, Completion, Disk, DiskError, DiskExt, Durability, ReadMode, Request};
use hdrhistogram::Histogram;
use tokio::sync::Notify;

use super::DiskArgs;
use super::case::{Access, Case, Pattern};
use crate::clock;
use crate::random::{Random, mix64};

/// Bytes of one request while a new file is written for the first time.
const FILL_REQUEST_BYTES: u64 = 1 << 20;

/// What one case measured.
#[derive(Debug)]
pub struct Measured {
    /// Requests that completed.
    pub requests: u64,
    /// From the first submission to the last completion.
    pub elapsed: Duration,
    /// Nanoseconds from submission to completion.
    pub latency_ns: Histogram<u64>,
}

/// Runs one case for the time that the options give it.
pub async fn run(disk: &Arc<dyn Disk>, case: &Case, args: &DiskArgs) -> anyhow::Result<Measured> {
    let started = clock::now();
    let loop_state = Loop {
        places: Places::new(*case, args.size, args.seed),
        latency_ns: Histogram::new(3).expect("three significant digits are supported"),
        in_flight: 0,
        last_completion: started,
        failure: None,
    };
    let read_mode = if args.cached { ReadMode::Cached } else { ReadMode::Direct };
    let shared = Arc::new(Shared {
        disk: disk.clone(),
        case: *case,
        read_mode,
        until: started + args.duration,
        state: Mutex::new(loop_state),
        idle: Notify::new(),
    });
    // The turn of its own holds the loop open until all requests of the depth are in flight.
    shared.lock().in_flight = 1;
    for slot in 0..case.depth {
        submit_next(&shared, filled_buffer(case.request_bytes, args.seed ^ u64::from(slot)));
    }
    let own_turn = end_turn(&mut shared.lock());
    if !own_turn {
        shared.idle.notified().await;
    }
    let mut state = shared.lock();
    if let Some(failure) = state.failure.take() {
        return Err(failure).with_context(|| case.name());
    }
    let elapsed = state.last_completion.saturating_duration_since(started);
    Ok(Measured { requests: state.latency_ns.len(), elapsed, latency_ns: state.latency_ns.clone() })
}

/// Writes every block once and makes it durable.
pub async fn write_all(disk: &Arc<dyn Disk>, size: u64) -> anyhow::Result<()> {
    let mut buffer = filled_buffer(FILL_REQUEST_BYTES, 0);
    let mut offset = 0;
    while offset < size {
        buffer.truncate((size - offset).min(FILL_REQUEST_BYTES) as usize);
        let length = buffer.len() as u64;
        buffer = disk.write(offset, buffer, Durability::Volatile).await.context("writing the file for the first time")?;
        offset += length;
    }
    disk.flush().await.context("flushing the new file")
}

struct Shared {
    disk: Arc<dyn Disk>,
    case: Case,
    read_mode: ReadMode,
    until: Instant,
    state: Mutex<Loop>,
    idle: Notify,
}

struct Loop {
    places: Places,
    latency_ns: Histogram<u64>,
    in_flight: u32,
    last_completion: Instant,
    failure: Option<DiskError>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Loop> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

/// Submits one request, unless there is no place left for it.
fn submit_next(shared: &Arc<Shared>, buf: AlignedBuf) {
    let offset = {
        let mut state = shared.lock();
        let Some(offset) = state.places.next_place() else { return };
        state.in_flight += 1;
        offset
    };
    let request = match shared.case.access {
        Access::Write(durability) => Request::Write { offset, buf, durability },
        Access::Read => Request::Read { offset, buf, mode: shared.read_mode },
    };
    let (then, started) = (shared.clone(), clock::now());
    shared.disk.submit(request, Box::new(move |completion| complete(&then, started, completion)));
}

fn complete(shared: &Arc<Shared>, started: Instant, completion: Completion) {
    let now = clock::now();
    let go_on = {
        let mut state = shared.lock();
        state.last_completion = state.last_completion.max(now);
        match completion.result {
            Ok(()) => {
                let nanoseconds = u64::try_from((now - started).as_nanos()).unwrap_or(u64::MAX >> 2).max(1);
                state.latency_ns.record(nanoseconds).expect("a histogram that grows takes any latency");
            }
            Err(error) => state.failure = Some(error),
        }
        state.failure.is_none() && now < shared.until
    };
    if let (true, Some(buf)) = (go_on, completion.buf) {
        submit_next(shared, buf);
    }
    if end_turn(&mut shared.lock()) {
        shared.idle.notify_one();
    }
}

/// One request less in flight; true if it was the last.
fn end_turn(state: &mut Loop) -> bool {
    state.in_flight -= 1;
    state.in_flight == 0
}

/// The places of a case's requests.
#[derive(Debug)]
pub(super) struct Places {
    pattern: Pattern,
    request_bytes: u64,
    slots: u64,
    next_slot: u64,
    random: Random,
}

impl Places {
    pub(super) fn new(case: Case, size: u64, seed: u64) -> Self {
        let slots = size / case.request_bytes;
        assert!(slots > 0, "the size is at least that of the largest request");
        let random = Random::new(seed, u64::from(case.depth));
        Places { pattern: case.pattern, request_bytes: case.request_bytes, slots, next_slot: 0, random }
    }

    /// The next offset; `None` when a growing file is full.
    pub(super) fn next_place(&mut self) -> Option<u64> {
        let slot = match self.pattern {
            Pattern::Random => self.random.below(self.slots),
            Pattern::Growing if self.next_slot == self.slots => return None,
            Pattern::Sequential | Pattern::Growing => {
                let slot = self.next_slot % self.slots;
                self.next_slot = slot + 1;
                slot
            }
        };
        Some(slot * self.request_bytes)
    }
}

/// Bytes that no device can compress or find twice.
fn filled_buffer(bytes: u64, seed: u64) -> AlignedBuf {
    let mut buf = AlignedBuf::with_capacity(bytes as usize);
    for word in 0..bytes / 8 {
        buf.extend_from_slice(&mix64(word ^ (seed << 32)).to_le_bytes());
    }
    buf
}
