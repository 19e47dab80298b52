//! One thread's loop over its connections.
//!
//! ```text
//!            connect                 request               answer
//!   down ───────────────► idle ───────────────► busy ───────────────► idle
//!    ▲                                            │
//!    └──────── failure, after a pause ────────────┘
//! ```
//! Closed loop: an idle connection sends at once. Open loop: requests have times of their own, `gap` apart, whatever the
//! server does; an idle connection takes the oldest time that has come, and the latency counts from that time, so a
//! stalled server is charged for the requests it kept waiting (no coordinated omission). The queue of due requests is
//! only the distance between the clock and the next time: it needs no memory.
//!
//! Requests whose intended start lies in the measured window count, and the loop ends when the last of them is answered.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};

use super::connection::{Body, Connection, Verdict};
use super::content::Content;
use super::list;
use super::mix::Op;
use super::request::{Namespace, RequestWriter};
use super::source::{Key, Source, Step};
use super::tally::{Failure, Tally};
use crate::clock;
use crate::random::Random;

/// How often requests without an answer are looked for and failed connections are opened again, and the longest wait of
/// the loop.
pub const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes read at once; small enough to stay in the second-level cache.
pub const READ_BUFFER_BYTES: usize = 128 * 1024;

/// Events taken at once.
const EVENTS_LIMIT: usize = 256;

const TIMER: u64 = u64::MAX;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As soon as a connection is idle.
    Closed,
    /// At times of their own.
    Open {
        /// Mean time between two requests of this worker.
        gap: Duration,
        /// Exponential gaps instead of equal ones.
        poisson: bool,
    },
}

/// What all workers of a phase share.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server.
    pub address: SocketAddr,
    /// Whether bodies and listings are checked.
    pub verify: bool,
    /// Statuses outside 2xx that count as success.
    pub expected: Vec<u16>,
    /// Time limit of one request.
    pub timeout: Duration,
}

/// The measured window; requests before it warm up.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// When measuring begins.
    pub from: Instant,
    /// When no more requests are begun.
    pub until: Instant,
}

/// One thread's part of the load.
pub struct Worker<'a> {
    settings: &'a Settings,
    namespace: &'a Namespace,
    writer: RequestWriter,
    source: Source,
    epoll: OwnedFd,
    timer: Option<OwnedFd>,
    slots: Vec<Slot>,
    idle: VecDeque<usize>,
    busy: usize,
    buffer: Vec<u8>,
    tally: Tally,
    last_answer: Option<Instant>,
}

struct Slot {
    connection: Option<Connection>,
    state: SlotState,
    list_token: Option<String>,
}

#[derive(Clone, Copy)]
enum SlotState {
    Down,
    Idle,
    Busy(Pending),
}

/// A request on its way.
#[derive(Clone, Copy)]
struct Pending {
    op: Op,
    key: Option<Key>,
    intended: Instant,
    deadline: Instant,
    measured: bool,
    payload_bytes: u64,
}

/// What a worker leaves behind.
pub struct Outcome {
    /// Counts and latencies.
    pub tally: Tally,
    /// When the last answer came, if any did.
    pub last_answer: Option<Instant>,
}

impl<'a> Worker<'a> {
    /// Opens the connections; fails if the first of them does.
    pub fn open(
        settings: &'a Settings,
        namespace: &'a Namespace,
        writer: RequestWriter,
        source: Source,
        connections: usize,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut worker = Worker {
            settings,
            namespace,
            writer,
            source,
            epoll,
            timer: None,
            slots: Vec::with_capacity(connections),
            idle: VecDeque::with_capacity(connections),
            busy: 0,
            buffer: vec![0; READ_BUFFER_BYTES],
            tally: Tally::new(),
            last_answer: None,
        };
        for index in 0..connections {
            worker.slots.push(Slot { connection: None, state: SlotState::Idle, list_token: None });
            worker.connect(index)?;
        }
        Ok(worker)
    }

    /// Runs to the end of the window, or of the source, and waits for the answers still due.
    pub fn run(mut self, window: Window, mut pace: Ticker) -> io::Result<Outcome> {
        if pace.is_open() {
            self.arm_timer_support()?;
        }
        let mut events = Vec::with_capacity(EVENTS_LIMIT);
        let mut finished = false;
        let mut next_housekeeping = clock::now() + HOUSEKEEPING_INTERVAL;
        loop {
            let now = clock::now();
            if now >= next_housekeeping {
                self.housekeep(now);
                next_housekeeping = now + HOUSEKEEPING_INTERVAL;
            }
            finished = finished || now >= window.until;
            while !finished && !self.idle.is_empty() {
                let Some(due) = pace.take_due(window) else { break };
                let slot = self.idle.pop_front().expect("checked not to be empty");
                finished = !self.begin(slot, due, window);
            }
            if finished && self.busy == 0 {
                break;
            }
            self.wait(&mut events, &pace, finished)?;
            for event in events.drain(..) {
                if event.data.u64() != TIMER {
                    self.progress(event.data.u64() as usize, event.flags);
                }
            }
        }
        self.tally.unsent = pace.left_before(window.until.min(clock::now()));
        Ok(Outcome { tally: self.tally, last_answer: self.last_answer })
    }

    fn arm_timer_support(&mut self) -> io::Result<()> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &timer, epoll::EventData::new_u64(TIMER), flags)?;
        self.timer = Some(timer);
        Ok(())
    }

    /// Waits for answers, for the next intended start if a connection is free for it, or for housekeeping.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, pace: &Ticker, finished: bool) -> io::Result<()> {
        if let (Some(timer), Some(next), false, false) = (&self.timer, pace.next_due(), finished, self.idle.is_empty()) {
            // A timer of its own, because a wait's own time limit is rounded to milliseconds.
            let left = next.saturating_duration_since(clock::now()).max(Duration::from_nanos(1));
            let it_value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
        }
        let limit = Timespec { tv_sec: 0, tv_nsec: HOUSEKEEPING_INTERVAL.as_nanos() as i64 };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn connect(&mut self, index: usize) -> io::Result<()> {
        let connection = Connection::open(self.settings.address)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &connection, epoll::EventData::new_u64(index as u64), flags)?;
        self.slots[index].connection = Some(connection);
        self.slots[index].state = SlotState::Idle;
        self.idle.push_back(index);
        Ok(())
    }

    /// Sends the next request on an idle connection; false when the source has none.
    fn begin(&mut self, index: usize, due: Due, window: Window) -> bool {
        let step = self.source.next_step();
        let slot = &mut self.slots[index];
        let connection = slot.connection.as_mut().expect("an idle slot is connected");
        let verify = self.settings.verify;
        let (op, key, content) = match step {
            Step::Finished => {
                self.idle.push_back(index);
                return false;
            }
            Step::On(op, key) => (op, Some(key), self.writer.write_object(op, key, connection.head_buffer())),
            Step::List => {
                self.writer.write_list(slot.list_token.as_deref(), connection.head_buffer());
                (Op::List, None, Content::empty())
            }
        };
        let body = if op == Op::Put { content } else { Content::empty() };
        let expect = match op {
            Op::Get if verify => Body::Check(content),
            Op::List => Body::Keep,
            _ => Body::Discard,
        };
        let payload_bytes = if op == Op::Put || op == Op::Head { content.size() } else { 0 };
        let now = clock::now();
        let intended = match due {
            Due::Now => now,
            Due::At(time) => time,
        };
        let measured = intended >= window.from && intended < window.until;
        let deadline = now + self.settings.timeout;
        slot.state = SlotState::Busy(Pending { op, key, intended, deadline, measured, payload_bytes });
        self.busy += 1;
        if let Err(failure) = connection.start(body, op == Op::Head, expect) {
            // The server may have answered before it hung up.
            let received = connection.receive(&mut self.buffer, true);
            self.settle(index, Err(failure), received);
        }
        true
    }

    /// Something has happened on a connection.
    fn progress(&mut self, index: usize, flags: epoll::EventFlags) {
        let slot = &mut self.slots[index];
        let Some(connection) = slot.connection.as_mut() else { return };
        let closing = flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        match slot.state {
            SlotState::Busy(_) => {
                let sending = if connection.is_sent() { Ok(()) } else { connection.send() };
                let mut received = Ok(false);
                if closing || flags.contains(epoll::EventFlags::IN) {
                    received = connection.receive(&mut self.buffer, closing);
                }
                self.settle(index, sending, received);
            }
            // The server may close an idle connection: it is opened again, and no request has failed.
            SlotState::Idle if closing => {
                self.idle.retain(|idle| *idle != index);
                self.slots[index].connection = None;
                self.reconnect(index);
            }
            SlotState::Idle | SlotState::Down => {}
        }
    }

    /// Ends a busy request if its answer or a failure is there. An answer counts even if the rest of the request could not
    /// be sent: it says why.
    fn settle(&mut self, index: usize, sending: Result<(), Failure>, received: Result<bool, Failure>) {
        match (received, sending) {
            (Ok(true), _) => self.complete(index),
            (Err(failure), _) | (Ok(false), Err(failure)) => self.fail(index, &failure),
            (Ok(false), Ok(())) => {}
        }
    }

    /// The answer is there.
    fn complete(&mut self, index: usize) {
        let now = clock::now();
        let slot = &mut self.slots[index];
        let SlotState::Busy(pending) = slot.state else { return };
        let connection = slot.connection.as_mut().expect("a busy slot is connected");
        let mut names = 0;
        let mut verdict = connection.answer.verdict(&self.settings.expected);
        match (verdict == Ok(Verdict::Done), pending.op) {
            (true, Op::Head) if self.settings.verify => verdict = check_length(connection, pending.payload_bytes),
            (true, Op::List) => match list::scan(&connection.answer.kept).filter(|page| page.ascending) {
                Some(page) => {
                    names = page.names;
                    slot.list_token = page.next;
                }
                None => verdict = Err(Failure::BadListing),
            },
            _ => {}
        }
        let reusable = connection.is_reusable();
        let bytes = if pending.op == Op::Put { pending.payload_bytes } else { connection.answer.bytes };
        self.busy -= 1;
        self.last_answer = Some(now);
        match &verdict {
            Ok(_) => {
                if let (Op::Put, Some(key)) = (pending.op, pending.key) {
                    self.source.stored(key);
                }
                if pending.measured {
                    self.tally.success(pending.op, now.saturating_duration_since(pending.intended), bytes, names);
                }
            }
            Err(failure) => self.count_failure(index, &pending, failure),
        }
        if reusable {
            self.slots[index].state = SlotState::Idle;
            self.idle.push_back(index);
        } else {
            self.slots[index].connection = None;
            self.reconnect(index);
        }
    }

    /// The request has failed and its connection is of no more use.
    fn fail(&mut self, index: usize, failure: &Failure) {
        let SlotState::Busy(pending) = self.slots[index].state else { return };
        self.busy -= 1;
        self.count_failure(index, &pending, failure);
        self.slots[index].connection = None;
        self.slots[index].state = SlotState::Down;
    }

    fn count_failure(&mut self, index: usize, pending: &Pending, failure: &Failure) {
        self.slots[index].list_token = None;
        if pending.measured {
            let namespace = self.namespace;
            let name = || pending.key.map_or_else(|| namespace.prefix.clone(), |key| namespace.name(key));
            self.tally.failure(pending.op, failure, name);
        }
    }

    fn reconnect(&mut self, index: usize) {
        match self.connect(index) {
            Ok(()) => self.tally.reconnects += 1,
            Err(error) => {
                self.tally.connect_failure(error.kind());
                self.slots[index].state = SlotState::Down;
            }
        }
    }

    /// Opens what is down and gives up on what has taken too long.
    fn housekeep(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            match self.slots[index].state {
                SlotState::Down => self.reconnect(index),
                SlotState::Busy(pending) if pending.deadline <= now => self.fail(index, &Failure::Timeout),
                _ => {}
            }
        }
    }
}

fn check_length(connection: &Connection, expected: u64) -> Result<Verdict, Failure> {
    match connection.answer.head.and_then(|head| head.content_length) {
        Some(found) if found == expected => Ok(Verdict::Done),
        found => Err(Failure::WrongLength { expected, found: found.unwrap_or(0) }),
    }
}

/// When a request should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// At once: latency counts from the moment it is ready to send.
    Now,
    /// At this time, which may have passed.
    At(Instant),
}

/// Says when requests start.
#[derive(Debug, Clone)]
pub struct Ticker {
    pace: Pace,
    next: Option<Instant>,
    random: Random,
}

impl Ticker {
    /// The first request is due at `start`.
    pub fn new(pace: Pace, start: Instant, random: Random) -> Self {
        Ticker { pace, next: (pace != Pace::Closed).then_some(start), random }
    }

    fn is_open(&self) -> bool {
        self.pace != Pace::Closed
    }

    fn next_due(&self) -> Option<Instant> {
        self.next
    }

    /// The start of the request to send now, if one is due within the window.
    fn take_due(&mut self, window: Window) -> Option<Due> {
        let Some(time) = self.next else { return Some(Due::Now) };
        if time >= window.until || time > clock::now() {
            return None;
        }
        self.next = Some(time + self.gap());
        Some(Due::At(time))
    }

    /// Counts and passes over the requests due before `end`.
    fn left_before(&mut self, end: Instant) -> u64 {
        let mut left = 0;
        while let Some(due) = self.next.filter(|due| *due < end) {
            self.next = Some(due + self.gap());
            left += 1;
        }
        left
    }

    fn gap(&mut self) -> Duration {
        match self.pace {
            Pace::Closed => Duration::ZERO,
            Pace::Open { gap, poisson: false } => gap,
            Pace::Open { gap, poisson: true } => gap.mul_f64(-(1.0 - self.random.unit()).ln()),
        }
    }
}
