//! Calls over a connection that is made when it is needed, and made again when it breaks.
//!
//! ```text
//!   call ─ permit ─► queue ─► writer ─► peer        one task owns the connection: it connects, writes what is queued and reads answers;
//!     ▲                         │ notes             when the connection ends, all that was sent on it is unanswered, and what is still
//!     └─── answer ◄── reader ◄──┴─ pending          queued goes out on the next one
//! ```

use crate::call::{BoxFuture, CallError, Caller, Refusal};
use crate::connection::{ConnectionError, FrameReader, FrameWriter};
use crate::frame::{FrameKind, MAX_PAYLOAD_BYTES};
use crate::hello::{End, Identity, greet};
use crate::network::Network;
use crate::router::ServiceTag;
use bytes::Bytes;
use env::{Env, Instant};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use types::NodeIdentity;

/// Calls of one caller that wait for their answers; more wait for one of them to end.
pub const MAX_CALLS_IN_FLIGHT: usize = 256;
/// The peer must say something within this time after a request, also if its caller has stopped waiting; a living one does so at least every
/// [`crate::server::ALIVE_INTERVAL`] until it has answered. A connection over a link that was cut is given up then: TCP would try again ever less
/// often, and be late when the link is back.
const SILENCE_LIMIT: Duration = Duration::from_secs(3);
const _: () = assert!(SILENCE_LIMIT.as_secs() >= 3 * crate::server::ALIVE_INTERVAL.as_secs());
/// Waiting between two attempts to connect: doubled from the first to the longest, less up to a half by chance.
const FIRST_RECONNECT_WAIT: Duration = Duration::from_millis(10);
const LONGEST_RECONNECT_WAIT: Duration = Duration::from_millis(500);
/// How long an attempt to connect may take. TCP tries twice within it.
const CONNECT_LIMIT: Duration = Duration::from_millis(1_500);

/// Calls the service at one address.
pub struct RemoteCaller {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Queued>,
    task: JoinHandle<()>,
}

struct Shared {
    env: Env,
    network: Arc<dyn Network>,
    address: String,
    identity: Identity,
    expected: Option<NodeIdentity>,
    permits: Arc<Semaphore>,
    next_id: AtomicU64,
    pending: Mutex<Calls>,
}

/// Calls that were sent and have no answer.
#[derive(Default)]
struct Calls {
    by_id: BTreeMap<u64, Pending>,
    /// Since when the peer should have said something; none if it need not.
    silent_since: Option<Instant>,
}

/// The permit goes with the entry.
struct Pending {
    answer: oneshot::Sender<Result<Bytes, CallError>>,
    _permit: OwnedSemaphorePermit,
}

struct Queued {
    id: u64,
    tag: Option<ServiceTag>,
    payload: Bytes,
    deadline: Instant,
    pending: Pending,
    fate: Arc<Fate>,
}

/// Whether a call was sent or given up: whichever comes first.
#[derive(Default)]
struct Fate(AtomicU8);

impl Fate {
    const QUEUED: u8 = 0;
    const SENT: u8 = 1;
    const GIVEN_UP: u8 = 2;

    /// From here on the peer may see it; false if it was given up.
    fn send(&self) -> bool {
        self.decide(Self::SENT)
    }

    /// The peer will never see it; false if it may have.
    fn give_up(&self) -> bool {
        self.decide(Self::GIVEN_UP)
    }

    fn decide(&self, fate: u8) -> bool {
        self.0.compare_exchange(Self::QUEUED, fate, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl RemoteCaller {
    /// A caller of `address`. Connects with the first call.
    pub fn new(env: &Env, network: Arc<dyn Network>, address: &str, identity: Identity) -> Self {
        Self::start(env, network, address, identity, None)
    }

    /// A caller of one node: another one that listens at its address is not called.
    pub fn of_node(env: &Env, network: Arc<dyn Network>, address: &str, identity: Identity, node: NodeIdentity) -> Self {
        Self::start(env, network, address, identity, Some(node))
    }

    fn start(env: &Env, network: Arc<dyn Network>, address: &str, identity: Identity, expected: Option<NodeIdentity>) -> Self {
        let shared = Arc::new(Shared {
            env: env.clone(),
            network,
            address: address.to_owned(),
            identity,
            expected,
            permits: Arc::new(Semaphore::new(MAX_CALLS_IN_FLIGHT)),
            next_id: AtomicU64::new(1),
            pending: Mutex::default(),
        });
        // A permit for each place in the queue: sending never waits.
        let (queue, queued) = mpsc::channel(MAX_CALLS_IN_FLIGHT);
        let task = env.spawn(run(shared.clone(), queued));
        RemoteCaller { shared, queue, task }
    }

    /// The way to one of the services at the address ([`crate::Router`]), on the same connection.
    pub fn service(self: &Arc<Self>, tag: ServiceTag) -> ServiceCaller {
        ServiceCaller { tag, caller: self.clone() }
    }

    async fn call_until(&self, tag: Option<ServiceTag>, payload: Bytes, deadline: Instant) -> Result<Bytes, CallError> {
        let shared = &self.shared;
        let bytes = tag.iter().len() + payload.len();
        if bytes > MAX_PAYLOAD_BYTES {
            return Err(CallError::TooLong { bytes, most: MAX_PAYLOAD_BYTES });
        }
        let permit = tokio::select! {
            biased;
            permit = shared.permits.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
            () = shared.env.sleep_until(deadline) => {
                return Err(shared.not_sent(format!("{MAX_CALLS_IN_FLIGHT} calls wait for answers")));
            }
        };
        let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let pending = Pending { answer, _permit: permit };
        let fate = Arc::new(Fate::default());
        if self.queue.try_send(Queued { id, tag, payload, deadline, pending, fate: fate.clone() }).is_err() {
            return Err(shared.not_sent("the connection's task has ended"));
        }
        // The call itself never waits longer than its deadline; the answer that comes later finds nobody.
        let mut withdrawal = Withdrawal { shared, id, fate, is_over: false };
        tokio::select! {
            biased;
            answer = answered => {
                withdrawal.is_over = true;
                answer.unwrap_or_else(|_| Err(shared.unanswered("the connection's task has ended")))
            }
            () = shared.env.sleep_until(deadline) => {
                if withdrawal.fate.give_up() {
                    Err(shared.not_sent("its deadline passed before it could be sent"))
                } else {
                    Err(shared.unanswered("its deadline has passed"))
                }
            }
        }
    }
}

impl Caller for RemoteCaller {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(self.call_until(None, payload, deadline))
    }
}

/// Calls one of several services at an address. What is ready for several of them at one moment goes out together.
pub struct ServiceCaller {
    tag: ServiceTag,
    caller: Arc<RemoteCaller>,
}

impl Caller for ServiceCaller {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(self.caller.call_until(Some(self.tag), payload, deadline))
    }
}

impl Drop for RemoteCaller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Forgets a call that nobody waits for any more, so that it holds no permit.
struct Withdrawal<'a> {
    shared: &'a Shared,
    id: u64,
    fate: Arc<Fate>,
    is_over: bool,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if !self.is_over && !self.fate.give_up() {
            self.shared.pending.lock().by_id.remove(&self.id);
        }
    }
}

impl Shared {
    fn not_sent(&self, reason: impl ToString) -> CallError {
        CallError::NotSent { address: self.address.clone(), reason: reason.to_string() }
    }

    fn unanswered(&self, reason: impl ToString) -> CallError {
        CallError::Unanswered { address: self.address.clone(), reason: reason.to_string() }
    }

    fn await_answer(&self, id: u64, pending: Pending, now: Instant) {
        let mut calls = self.pending.lock();
        calls.silent_since.get_or_insert(now);
        calls.by_id.insert(id, pending);
    }

    /// The peer has said something.
    fn heard(&self) {
        let now = self.env.now();
        let mut calls = self.pending.lock();
        calls.silent_since = (!calls.by_id.is_empty()).then_some(now);
    }

    /// How long the peer has said nothing while it should have.
    fn silence(&self) -> Duration {
        let since = self.pending.lock().silent_since;
        since.map_or(Duration::ZERO, |since| self.env.now().saturating_duration_since(since))
    }

    fn answer(&self, id: u64, outcome: Result<Bytes, CallError>) {
        // Nobody there: the deadline passed, and the caller knows.
        if let Some(pending) = self.pending.lock().by_id.remove(&id) {
            pending.answer.send(outcome).unwrap_or_default();
        }
    }

    async fn connect(&self) -> Result<(FrameReader, FrameWriter), ConnectionError> {
        let connect = async {
            let stream = self.network.connect(&self.address).await?;
            let greeted = greet(&self.env, stream, self.identity, End::Caller(self.expected)).await?;
            Ok((greeted.reader, greeted.writer))
        };
        tokio::select! {
            biased;
            connected = connect => connected,
            () = self.env.sleep(CONNECT_LIMIT) => Err(ConnectionError::Silent(CONNECT_LIMIT)),
        }
    }
}

/// Owns the connection.
async fn run(shared: Arc<Shared>, mut queue: mpsc::Receiver<Queued>) {
    let mut wait = FIRST_RECONNECT_WAIT;
    while let Some(first) = queue.recv().await {
        let mut next = Some(first);
        match shared.connect().await {
            Ok((reader, writer)) => {
                wait = FIRST_RECONNECT_WAIT;
                let ended = tokio::select! {
                    biased;
                    ended = write_requests(&shared, writer, &mut queue, &mut next) => ended,
                    ended = read_answers(&shared, reader) => ended,
                };
                let Err(error) = ended else { return };
                fail_pending(&shared, &error);
            }
            Err(error) => {
                // Whoever waits now has waited for this attempt; later calls get their own.
                while let Some(queued) = next.take().or_else(|| queue.try_recv().ok()) {
                    queued.pending.answer.send(Err(shared.not_sent(&error))).unwrap_or_default();
                }
                let less = shared.env.random_below(wait.as_nanos() as u64 / 2 + 1);
                shared.env.sleep(wait - Duration::from_nanos(less)).await;
                wait = (2 * wait).min(LONGEST_RECONNECT_WAIT);
            }
        }
        // Taken from the queue but not written: the connection ended first.
        if let Some(queued) = next {
            queued.pending.answer.send(Err(shared.not_sent("the connection ended"))).unwrap_or_default();
        }
    }
}

/// Ends well only when nobody can call any more.
async fn write_requests(
    shared: &Shared,
    mut writer: FrameWriter,
    queue: &mut mpsc::Receiver<Queued>,
    next: &mut Option<Queued>,
) -> Result<(), ConnectionError> {
    loop {
        if next.is_none() {
            *next = queue.recv().await;
        }
        if next.is_none() {
            return Ok(());
        }
        // Who else is ready to call goes out with the first.
        tokio::task::yield_now().await;
        while let Some(Queued { id, tag, payload, deadline, pending, fate }) = next.take() {
            if fate.send() {
                let now = shared.env.now();
                let budget = deadline.saturating_duration_since(now);
                let budget_ms = u32::try_from(budget.as_millis()).unwrap_or(u32::MAX);
                shared.await_answer(id, pending, now);
                let mark = tag.map(|tag| tag.0);
                writer.gather_marked(FrameKind::Request, id, budget_ms, mark, &payload).await?;
            }
            if writer.is_full() {
                break;
            }
            *next = queue.try_recv().ok();
        }
        writer.flush().await?;
    }
}

async fn read_answers(shared: &Shared, mut reader: FrameReader) -> Result<(), ConnectionError> {
    // One timer for many answers: it is set anew when it rings, not when something comes.
    let mut look = pin!(shared.env.sleep(SILENCE_LIMIT));
    loop {
        tokio::select! {
            biased;
            frame = reader.next() => {
                let (header, payload) = frame?;
                match header.kind {
                    FrameKind::Alive => {}
                    FrameKind::Response => shared.answer(header.id, Ok(payload)),
                    FrameKind::Refusal | FrameKind::EarlyRefusal => {
                        let reason = String::from_utf8_lossy(&payload).into_owned();
                        let refusal = Refusal { reason, is_early: header.kind == FrameKind::EarlyRefusal };
                        shared.answer(header.id, Err(CallError::Refused { address: shared.address.clone(), refusal }));
                    }
                    other => return Err(ConnectionError::Unexpected(other)),
                }
                shared.heard();
            }
            () = look.as_mut() => {
                let silence = shared.silence();
                if silence >= SILENCE_LIMIT {
                    return Err(ConnectionError::Silent(SILENCE_LIMIT));
                }
                look.set(shared.env.sleep(SILENCE_LIMIT - silence));
            }
        }
    }
}

fn fail_pending(shared: &Shared, error: &ConnectionError) {
    let calls = std::mem::take(&mut *shared.pending.lock());
    for pending in calls.by_id.into_values() {
        pending.answer.send(Err(shared.unanswered(error))).unwrap_or_default();
    }
}
