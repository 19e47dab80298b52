//! What is known of every connection of a core, and the clockwork that ends silent ones.
//!
//! A timer per request would cost a timer-wheel entry and a clock call each. Instead every connection notes in plain atomics
//! what it waits for and since which tick, and one task per core looks at all of them once per tick.
//!
//! ```text
//!            first byte            headers complete           answer written
//!   Idle ───────────────▶ Head ───────────────────▶ Serving ───────────────▶ Idle
//!    │ idle time            │ head time               │ body or socket stalls for the stall time, or is slower
//!    ▼                      ▼                         ▼ than the minimum pace
//!   cut                    cut                 body: RequestTimeout is answered; socket: cut
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use hyper::body::Incoming;
use parking_lot::Mutex;

use super::body::BodyFailure;
use super::pace::Pace;
use crate::config::{MAX_LINGER_MS, Timeouts};

/// One core's connections and its count of ticks.
#[derive(Debug, Default)]
pub struct Pulse {
    /// From 1, so that 0 can mean "not waiting".
    tick: AtomicU32,
    connections: Mutex<Connections>,
    /// Woken when a connection ends.
    ended: AtomicWaker,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: HashMap<u64, Arc<Connection>>,
}

/// What one connection waits for. Written by its own task, read by the core's clockwork: relaxed atomics suffice, because
/// each field stands for itself and a tick of delay does no harm.
#[derive(Debug, Default)]
pub struct Connection {
    phase: AtomicU8,
    since: AtomicU32,
    write_blocked_since: AtomicU32,
    body_awaited_since: AtomicU32,
    body_stalled: AtomicBool,
    body_pace: Pace,
    write_pace: Pace,
    answer: AtomicU8,
    order: AtomicU8,
    task: AtomicWaker,
    body: AtomicWaker,
    /// What became of the present request's body.
    outcome: Mutex<BodyOutcome>,
    lingers: AtomicBool,
}

/// What became of a request's body.
#[derive(Debug, Default)]
pub enum BodyOutcome {
    /// There was none, or it was read to its end, or it is still being read.
    #[default]
    Settled,
    /// It was dropped before its end.
    Left(Incoming),
    /// It did not come to its end.
    Failed(BodyFailure),
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle = 0,
    Head = 1,
    Serving = 2,
    Lingering = 3,
}

/// How far the answer to the present request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// There is no request, or its answer is with the system.
    None = 0,
    /// Its handler works on it, or its body is still being read.
    Begun = 1,
    /// The HTTP library has all of it.
    Given = 2,
}

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Run = 0,
    /// Finish the request in hand, then end.
    Drain = 1,
    /// End now.
    Cut = 2,
}

/// A connection's entry among its core's; taken out when dropped.
#[derive(Debug)]
pub struct Registration {
    pulse: Arc<Pulse>,
    number: u64,
    pub connection: Arc<Connection>,
}

impl Pulse {
    pub fn new() -> Arc<Pulse> {
        let pulse = Pulse::default();
        pulse.tick.store(1, Ordering::Relaxed);
        Arc::new(pulse)
    }

    /// Enters a connection that has just been accepted.
    pub fn register(self: &Arc<Self>) -> Registration {
        let connection = Arc::new(Connection::default());
        connection.since.store(self.now(), Ordering::Relaxed);
        let mut connections = self.connections.lock();
        let number = connections.next;
        connections.next += 1;
        connections.open.insert(number, connection.clone());
        Registration { pulse: self.clone(), number, connection }
    }

    /// Connections open.
    pub fn open(&self) -> usize {
        self.connections.lock().open.len()
    }

    /// Ticks so far.
    pub fn now(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Counts one tick and ends what has waited too long.
    pub fn beat(&self, timeouts: &Timeouts) {
        let now = self.tick.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.tick.store(now, Ordering::Relaxed);
        for connection in self.connections.lock().open.values() {
            connection.check(now, timeouts);
        }
    }

    /// Tells every connection.
    pub fn order(&self, order: Order) {
        for connection in self.connections.lock().open.values() {
            connection.tell(order);
        }
    }

    /// Ready when fewer than `limit` connections are open.
    pub fn poll_below(&self, limit: usize, waker: &Waker) -> bool {
        self.ended.register(waker);
        self.open() < limit
    }
}

impl Connection {
    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Serving,
            _ => Phase::Lingering,
        }
    }

    fn enter(&self, phase: Phase, now: u32) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
    }

    /// Bytes came.
    pub fn received(&self, now: u32) {
        if self.phase() == Phase::Idle {
            self.enter(Phase::Head, now);
        }
    }

    /// Bytes went.
    pub fn sent(&self, bytes: usize, now: u32) {
        self.write_pace.moved(bytes);
        self.since.store(now, Ordering::Relaxed);
        self.write_blocked_since.store(0, Ordering::Relaxed);
    }

    /// The client does not take bytes.
    pub fn send_blocked(&self, now: u32) {
        note_first(&self.write_blocked_since, now);
    }

    /// A request's headers are complete.
    pub fn serving(&self, now: u32) {
        self.enter(Phase::Serving, now);
        self.answer.store(Answer::Begun as u8, Ordering::Relaxed);
        self.body_stalled.store(false, Ordering::Relaxed);
        // The answers' pace goes on: with requests one behind the other, an answer may still be on its way.
        self.body_pace.restart();
    }

    /// The answer is on its way.
    pub fn answered(&self, now: u32) {
        self.body_awaited_since.store(0, Ordering::Relaxed);
        self.enter(Phase::Idle, now);
    }

    /// The HTTP library has all of the answer.
    pub fn answer_given(&self) {
        self.answer.store(Answer::Given as u8, Ordering::Relaxed);
    }

    /// The HTTP library has no byte left to send.
    pub fn flushed(&self) {
        if self.answer.load(Ordering::Relaxed) == Answer::Given as u8 {
            self.answer.store(Answer::None as u8, Ordering::Relaxed);
        }
    }

    /// Whether bytes that are sent now may belong to an answer of ours.
    pub fn is_answering(&self) -> bool {
        self.answer.load(Ordering::Relaxed) != Answer::None as u8
    }

    /// The body's next bytes are awaited; `true` if they have been for too long, or come too slowly.
    pub fn body_awaited(&self, now: u32, waker: &Waker) -> bool {
        note_first(&self.body_awaited_since, now);
        self.body.register(waker);
        self.body_stalled.load(Ordering::Relaxed)
    }

    /// The body's next bytes came; none at its end.
    pub fn body_received(&self, bytes: usize) {
        self.body_pace.moved(bytes);
        self.body_awaited_since.store(0, Ordering::Relaxed);
    }

    /// The body was dropped before its end.
    pub fn leave_body(&self, incoming: Incoming) {
        *self.outcome.lock() = BodyOutcome::Left(incoming);
    }

    /// The body did not come to its end.
    pub fn fail_body(&self, failure: BodyFailure) {
        *self.outcome.lock() = BodyOutcome::Failed(failure);
    }

    /// What became of the request's body; asked once, when its handler is done.
    pub fn take_outcome(&self) -> BodyOutcome {
        std::mem::take(&mut *self.outcome.lock())
    }

    /// This connection ends while its client may still be sending.
    pub fn linger_at_end(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub fn must_linger(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// Our side is shut; the client's bytes are thrown away.
    pub fn lingering(&self, now: u32) {
        self.enter(Phase::Lingering, now);
    }

    /// What this connection's task has to do; the task is woken when that changes.
    pub fn poll_order(&self, waker: &Waker) -> Order {
        self.task.register(waker);
        match self.order.load(Ordering::Acquire) {
            0 => Order::Run,
            1 => Order::Drain,
            _ => Order::Cut,
        }
    }

    fn tell(&self, order: Order) {
        if self.order.fetch_max(order as u8, Ordering::AcqRel) < order as u8 {
            self.task.wake();
        }
    }

    fn check(&self, now: u32, timeouts: &Timeouts) {
        let waited = |since: u32| Timeouts::TICK * now.saturating_sub(since);
        let blocked = self.write_blocked_since.load(Ordering::Relaxed);
        if blocked != 0 && (waited(blocked) > timeouts.stall || self.write_pace.is_too_slow(&timeouts.pace)) {
            return self.tell(Order::Cut);
        }
        let awaited = self.body_awaited_since.load(Ordering::Relaxed);
        if awaited != 0 && (waited(awaited) > timeouts.stall || self.body_pace.is_too_slow(&timeouts.pace)) {
            self.body_stalled.store(true, Ordering::Relaxed);
            self.body.wake();
        }
        let since = self.since.load(Ordering::Relaxed);
        let patience = match self.phase() {
            Phase::Idle => timeouts.idle,
            Phase::Head => timeouts.head,
            Phase::Serving => return,
            Phase::Lingering => Duration::from_millis(MAX_LINGER_MS),
        };
        if waited(since) > patience {
            self.tell(Order::Cut);
        }
    }
}

impl Registration {
    /// Ticks so far.
    pub fn now(&self) -> u32 {
        self.pulse.now()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.pulse.connections.lock().open.remove(&self.number);
        self.pulse.ended.wake();
    }
}

fn note_first(since: &AtomicU32, now: u32) {
    if since.load(Ordering::Relaxed) == 0 {
        since.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
