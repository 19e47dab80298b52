//! Serving requests: connections are accepted up to a limit, requests of each are begun in order up to a limit, and a peer that takes no answers
//! is read no further.

use crate::call::{BoxFuture, Refusal, Request, Service};
use crate::connection::{ConnectionError, FrameReader, FrameWriter};
use crate::frame::{FrameKind, MAX_PAYLOAD_BYTES};
use crate::guests::Guests;
use crate::handshakes::Handshakes;
use crate::hello::{End, Greeted, Identity, greet};
use crate::network::Listener;
use bytes::Bytes;
use env::Env;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Connections of one server, a few more where they were greeted at the same time; others wait in the operating system's backlog.
pub const MAX_CONNECTIONS: usize = 1024;
/// Connections of guests, besides those of nodes: guests leave room for nodes. One more is refused.
pub const MAX_GUESTS: usize = 768;
/// Requests of one connection that are being carried out; more are not read.
pub const MAX_REQUESTS_PER_CONNECTION: usize = 256;
/// Answers of one connection that wait to be written.
const MAX_QUEUED_ANSWERS: usize = 64;
/// How often a connection says that its requests are still being carried out.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer that may wait does so, while requests are being carried out whose answers may not.
pub(crate) const RIDE_TIME: Duration = Duration::from_millis(1);
/// How long the server waits after an accept that failed, for example for want of file descriptors.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// Serves connections until the future is dropped; then all of them end.
pub fn serve(env: Env, listener: Box<dyn Listener>, service: Arc<dyn Service>, identity: Identity) -> BoxFuture<'static, ()> {
    serve_with_guests(env, listener, service, identity, None)
}

/// As [`serve`], and to guests what is theirs.
pub fn serve_with_guests(
    env: Env,
    mut listener: Box<dyn Listener>,
    service: Arc<dyn Service>,
    identity: Identity,
    guests: Option<Arc<dyn Guests>>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        // Those of strangers, who have not shown that they are of the cluster, take no place among the others.
        let (mut greetings, mut connections, mut guests_here) = (Handshakes::new(), JoinSet::new(), JoinSet::new());
        let address = listener.address();
        loop {
            tokio::select! {
                biased;
                Some(greeted) = greetings.next() => match greeted {
                    Ok(Greeted { reader, writer, service: None }) => {
                        let connection = serve_connection(env.clone(), reader, writer, service.clone());
                        connections.spawn(env.within(connection));
                    }
                    Ok(Greeted { reader, writer, service: Some(of_guest) }) if guests_here.len() < MAX_GUESTS => {
                        guests_here.spawn(env.within(serve_connection(env.clone(), reader, writer, of_guest)));
                    }
                    Ok(Greeted { .. }) => tracing::warn!(address, "a guest is refused: {MAX_GUESTS} are connected"),
                    Err(ConnectionError::Closed) => {}
                    Err(error) => tracing::info!(address, %error, "a connection is refused"),
                },
                accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok(stream) => {
                        let (greeter, guests) = (env.clone(), guests.clone());
                        let greeting = async move { greet(&greeter, stream, identity, End::Acceptor(guests.as_deref())).await };
                        greetings.begin(&address, env.within(greeting));
                    }
                    Err(error) => {
                        tracing::warn!(address, %error, "a connection was not accepted");
                        env.sleep(ACCEPT_WAIT).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                Some(_) = guests_here.join_next() => {}
            }
        }
    })
}

async fn serve_connection(env: Env, reader: FrameReader, writer: FrameWriter, service: Arc<dyn Service>) {
    let ended = async {
        let (answers, queued) = mpsc::channel(MAX_QUEUED_ANSWERS);
        let running = Running::default();
        tokio::select! {
            biased;
            ended = read_requests(&env, reader, &*service, answers, &running) => ended,
            ended = write_answers(&env, writer, queued, &running) => ended,
        }
    };
    match ended.await {
        Ok(()) | Err(ConnectionError::Closed) => {}
        Err(error) => tracing::info!(%error, "a connection ended"),
    }
}

struct Answer {
    id: u64,
    outcome: Result<Bytes, Refusal>,
    may_wait: bool,
}

/// Requests of a connection that are being carried out.
#[derive(Default)]
struct Running {
    all: AtomicUsize,
    /// Those whose answers are not written and may not wait.
    urgent: AtomicUsize,
    /// Some have ended without an answer since it was last said that this end is alive.
    some_unanswered: AtomicBool,
}

async fn read_requests(
    env: &Env,
    mut reader: FrameReader,
    service: &dyn Service,
    answers: mpsc::Sender<Answer>,
    counted: &Running,
) -> Result<(), ConnectionError> {
    let mut running = FuturesUnordered::new();
    loop {
        counted.all.store(running.len(), Ordering::Relaxed);
        tokio::select! {
            // Answers first: they make room.
            biased;
            Some(()) = running.next() => {}
            frame = reader.next(), if running.len() < MAX_REQUESTS_PER_CONNECTION => {
                let (header, payload) = frame?;
                if header.kind != FrameKind::Request {
                    return Err(ConnectionError::Unexpected(header.kind));
                }
                let deadline = env.now() + Duration::from_millis(u64::from(header.budget_ms));
                let (answers, request) = (&answers, Request { payload, deadline });
                let may_wait = service.answer_may_wait(&request);
                counted.urgent.fetch_add(usize::from(!may_wait), Ordering::Relaxed);
                running.push(async move {
                    match carry_out(env, service, request).await {
                        // The writer has ended only if the connection has.
                        Some(outcome) => answers.send(Answer { id: header.id, outcome, may_wait }).await.unwrap_or_default(),
                        None => {
                            counted.urgent.fetch_sub(usize::from(!may_wait), Ordering::Relaxed);
                            counted.some_unanswered.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        }
    }
}

/// None at the request's deadline, when its caller has given it up: what its service still waits for, a disk that hangs perhaps, keeps no room of the
/// connection. It is not refused: what was begun may yet be done, and a refusal says that it will not.
async fn carry_out(env: &Env, service: &dyn Service, request: Request) -> Option<Result<Bytes, Refusal>> {
    let deadline = request.deadline;
    if env.now() >= deadline {
        return Some(Err(Refusal::new("the deadline passed before the request began")));
    }
    let outcome = tokio::select! {
        biased;
        outcome = service.handle(request) => outcome,
        () = env.sleep_until(deadline) => return None,
    };
    let is_fit = outcome.as_ref().is_ok_and(|answer| answer.len() <= MAX_PAYLOAD_BYTES) || outcome.is_err();
    assert!(is_fit, "a service's answer fits a frame");
    Some(outcome)
}

async fn write_answers(
    env: &Env,
    mut writer: FrameWriter,
    mut queued: mpsc::Receiver<Answer>,
    running: &Running,
) -> Result<(), ConnectionError> {
    // Set anew when it rings, not with every answer: a peer that gets answers hears it is alive a little more often than it must.
    let mut alive = pin!(env.sleep(ALIVE_INTERVAL));
    // Set when the first of the answers that are gathered begins to wait.
    let mut ride = pin!(env.sleep(RIDE_TIME));
    let mut waits = false;
    loop {
        tokio::select! {
            biased;
            answer = queued.recv() => {
                if answer.is_none() {
                    return Ok(());
                }
                // Other requests that end at this moment are answered with the first.
                tokio::task::yield_now().await;
                let (mut next, mut may_wait) = (answer, true);
                while let Some(answer) = next.take() {
                    let id = answer.id;
                    may_wait &= answer.may_wait;
                    running.urgent.fetch_sub(usize::from(!answer.may_wait), Ordering::Relaxed);
                    match answer.outcome {
                        Ok(payload) => writer.gather(FrameKind::Response, id, 0, &payload).await?,
                        Err(Refusal { reason, is_early }) => {
                            let kind = if is_early { FrameKind::EarlyRefusal } else { FrameKind::Refusal };
                            writer.gather(kind, id, 0, reason.as_bytes()).await?;
                        }
                    }
                    if !writer.is_full() {
                        next = queued.try_recv().ok();
                    }
                }
                if may_wait && !writer.is_full() && running.urgent.load(Ordering::Relaxed) > 0 {
                    if !std::mem::replace(&mut waits, true) {
                        ride.set(env.sleep(RIDE_TIME));
                    }
                    continue;
                }
                waits = false;
                writer.flush().await?;
            }
            () = ride.as_mut(), if waits => {
                waits = false;
                writer.flush().await?;
            }
            () = alive.as_mut() => {
                alive.set(env.sleep(ALIVE_INTERVAL));
                if running.some_unanswered.swap(false, Ordering::Relaxed) || running.all.load(Ordering::Relaxed) > 0 {
                    writer.write(FrameKind::Alive, 0, 0, &[]).await?;
                }
            }
        }
    }
}
