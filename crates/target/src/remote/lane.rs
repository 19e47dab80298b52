//! Appends on their way to another node.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use device::{AppendClass, AppendDone, AppendError, Appended};
use env::Instant;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use net::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use types::{DeviceId, ErrorKind};

use crate::limits::{CALL_DEADLINE, MAX_APPENDS_IN_FLIGHT, MAX_APPENDS_QUEUED, MAX_BYTES_QUEUED, SESSION_PAUSE};
use crate::remote::{AskError, Far};
use crate::wire::{AppendAnswer, Ask, Failure, Fault, set_session};

/// Who waits for an append's answer. Gets one in any case.
pub(super) struct Unanswered {
    device: DeviceId,
    done: Option<Arc<dyn AppendDone>>,
    tag: u64,
    /// The target may have seen it.
    was_sent: bool,
}

impl Unanswered {
    pub fn new(device: DeviceId, done: Arc<dyn AppendDone>, tag: u64) -> Unanswered {
        Unanswered { device, done: Some(done), tag, was_sent: false }
    }

    fn answer(mut self, outcome: Result<Appended, AppendError>) {
        if let Some(done) = self.done.take() {
            done.appended(self.tag, outcome);
        }
    }

    /// Nothing was appended.
    fn refuse(self, kind: ErrorKind, reason: &str) {
        let refused = AppendError::Refused { device: self.device, kind, reason: reason.into() };
        self.answer(Err(refused));
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let Some(done) = self.done.take() else { return };
        let (device, reason) = (self.device, "the hold on the target was given up".into());
        done.appended(
            self.tag,
            Err(match self.was_sent {
                true => AppendError::Unanswered { device, reason },
                false => AppendError::Refused { device, kind: ErrorKind::Unavailable, reason },
            }),
        );
    }
}

/// An append that has not been sent, or may be sent again.
struct Waiting {
    message: BytesMut,
    class: AppendClass,
    deadline: Instant,
    who: Unanswered,
}

/// The queue before the network.
pub(super) struct Lane {
    far: Arc<Far>,
    queue: Mutex<Queue>,
    pushed: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Queue {
    fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.bytes -= waiting.message.len();
        Some(waiting)
    }
}

impl Lane {
    pub fn new(far: Arc<Far>) -> Lane {
        Lane { far, queue: Mutex::default(), pushed: Notify::new() }
    }

    /// Whether an append may join the queue.
    pub fn check_room(&self, frame_bytes: usize) -> Result<(), AppendError> {
        let queue = self.queue.lock();
        match queue.waiting.len() >= MAX_APPENDS_QUEUED || queue.bytes + frame_bytes > MAX_BYTES_QUEUED {
            true => Err(AppendError::Busy { device: self.far.link.device }),
            false => Ok(()),
        }
    }

    pub fn push(&self, message: BytesMut, class: AppendClass, deadline: Instant, who: Unanswered) {
        let mut queue = self.queue.lock();
        queue.bytes += message.len();
        queue.waiting.push_back(Waiting { message, class, deadline, who });
        drop(queue);
        self.pushed.notify_one();
    }

    /// It goes before all others again: nothing was done about it.
    fn push_back(&self, waiting: Waiting) {
        let mut queue = self.queue.lock();
        queue.bytes += waiting.message.len();
        queue.waiting.push_front(waiting);
    }

    fn pop(&self) -> Option<Waiting> {
        self.queue.lock().pop()
    }

    /// When the first of the queue must have been sent; none if nothing waits.
    fn first_deadline(&self) -> Option<Instant> {
        self.queue.lock().waiting.front().map(|waiting| waiting.deadline)
    }

    /// Refuses what waits, or what of it has waited too long.
    fn refuse_waiting(&self, expired_at: Option<Instant>, kind: ErrorKind, reason: &str) {
        loop {
            let refused = {
                let mut queue = self.queue.lock();
                let is_due = |waiting: &Waiting| expired_at.is_none_or(|now| waiting.deadline <= now);
                queue.waiting.front().is_some_and(is_due).then(|| queue.pop()).flatten()
            };
            // Told without the lock: who is told may append again.
            let Some(refused) = refused else { return };
            refused.who.refuse(kind, reason);
        }
    }

    /// Begins a session. All appends of the one before have ended then.
    async fn open_session(&self) -> Result<u64, AskError> {
        self.far.link.ask(Ask::OpenSession { writer: self.far.writer }, CALL_DEADLINE).await
    }

    /// Sends one append and tells its outcome.
    async fn carry_out(&self, mut waiting: Waiting, session: u64) -> Ended {
        if waiting.deadline <= self.far.link.env.now() {
            waiting.who.refuse(ErrorKind::Timeout, "the deadline passed before the append could be sent");
            return Ended::Settled;
        }
        set_session(&mut waiting.message, session);
        let Waiting { message, class, deadline, mut who } = waiting;
        let message: Bytes = message.freeze();
        who.was_sent = true;
        let outcome = self.far.link.send::<AppendAnswer>(message.clone(), deadline).await;
        let device = self.far.link.device;
        let error = match outcome {
            Ok(answer) if answer.appended.place.device == device => {
                self.far.note(&answer, class.stream());
                who.answer(Ok(answer.appended));
                return Ended::Settled;
            }
            Ok(_) => AppendError::Unanswered { device, reason: "the answer is about another device".into() },
            Err(AskError::Failed(Failure { fault: Fault::OtherSession, .. })) => {
                who.was_sent = false;
                let message = message.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                self.push_back(Waiting { message, class, deadline, who });
                return Ended::OtherSession(session);
            }
            Err(AskError::Failed(failure)) => {
                // It has something to tell: full, or failed.
                self.far.is_state_wanted.notify_one();
                who.answer(Err(told(device, class, &failure)));
                return Ended::Settled;
            }
            Err(error) if error.is_definite() => {
                who.refuse(error.kind(), &error.to_string());
                return Ended::Settled;
            }
            Err(error) => AppendError::Unanswered { device, reason: error.to_string().into() },
        };
        Ended::Lost { session, who, error }
    }
}

/// What a target has told about an append that it did not carry out, or not well.
fn told(device: DeviceId, class: AppendClass, failure: &Failure) -> AppendError {
    let reason = || failure.reason.as_str().into();
    match failure.fault {
        Fault::Refused(ErrorKind::Full) => AppendError::Full { device, class },
        Fault::Refused(ErrorKind::Busy) => AppendError::Busy { device },
        Fault::Refused(kind) => AppendError::Refused { device, kind, reason: reason() },
        Fault::OtherSession => AppendError::Refused { device, kind: ErrorKind::Conflict, reason: reason() },
        Fault::Unknown => AppendError::Unanswered { device, reason: reason() },
    }
}

/// How the sending of an append ended.
enum Ended {
    /// Its outcome is told.
    Settled,
    /// It waits again: this session is not the present one.
    OtherSession(u64),
    /// Whether it was carried out is not known. Told when the session has ended, so that nothing that follows is sent under it.
    Lost { session: u64, who: Unanswered, error: AppendError },
}

/// Sends what is queued, until it is dropped.
pub(super) async fn send(lane: Arc<Lane>) {
    let mut present: Option<u64> = None;
    // Said once, not at each attempt.
    let mut is_away = false;
    let mut opening: Option<BoxFuture<'_, Result<u64, AskError>>> = None;
    let mut sending = FuturesUnordered::new();
    loop {
        while let Some(session) = present
            && sending.len() < MAX_APPENDS_IN_FLIGHT
            && let Some(waiting) = lane.pop()
        {
            sending.push(lane.carry_out(waiting, session));
        }
        let waits_until = if present.is_none() { lane.first_deadline() } else { None };
        if present.is_none() && opening.is_none() && waits_until.is_some() {
            opening = Some(Box::pin(lane.open_session()));
        }
        tokio::select! {
            biased;
            Some(ended) = sending.next() => match ended {
                Ended::Settled => {}
                Ended::OtherSession(session) => present = present.filter(|known| *known != session),
                Ended::Lost { session, who, error } => {
                    present = present.filter(|known| *known != session);
                    who.answer(Err(error));
                }
            },
            opened = async { opening.as_mut().expect("looked at").await }, if opening.is_some() => {
                opening = None;
                match opened {
                    Ok(session) => {
                        present = Some(session);
                        is_away = false;
                    }
                    Err(error @ AskError::Failed(_)) => lane.refuse_waiting(None, error.kind(), &error.to_string()),
                    Err(error) => {
                        if !std::mem::replace(&mut is_away, true) {
                            tracing::info!(device = lane.far.link.device.0, %error, "no session with a target; it is tried again");
                        }
                        opening = Some(Box::pin(async {
                            lane.far.link.env.sleep(SESSION_PAUSE).await;
                            lane.open_session().await
                        }));
                    }
                }
            }
            () = async { lane.far.link.env.sleep_until(waits_until.expect("looked at")).await }, if waits_until.is_some() => {
                let reason = "the target did not answer in time";
                lane.refuse_waiting(Some(lane.far.link.env.now()), ErrorKind::Timeout, reason);
            }
            () = lane.pushed.notified() => {}
        }
    }
}
