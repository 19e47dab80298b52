//! Appends on their way to another node.

use std::collections::VecDeque;
use std::sync::Arc;

use device::{AppendClass, AppendDone, AppendError, Appended};
use env::Instant;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use net::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use types::{DeviceId, ErrorKind};

use crate::limits::{
    APPEND_DEADLINE, BATCH_BYTES, CALL_DEADLINE, JOIN_TIME, MAX_APPENDS_QUEUED, MAX_BATCHES_IN_FLIGHT, MAX_BYTES_QUEUED,
    SESSION_PAUSE,
};
use crate::log::LogAppend;
use crate::remote::{AskError, Far};
use crate::wire::{AppendAnswer, AppendAnswers, AppendRequest, Ask, Failure, Fault};

/// Who waits for an append's answer. Gets one in any case.
struct Unanswered {
    device: DeviceId,
    class: AppendClass,
    done: Option<Arc<dyn AppendDone>>,
    tag: u64,
    /// The target may have seen it.
    was_sent: bool,
}

impl Unanswered {
    fn new(device: DeviceId, class: AppendClass, done: Arc<dyn AppendDone>, tag: u64) -> Unanswered {
        Unanswered { device, class, done: Some(done), tag, was_sent: false }
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

/// Appends that go in one request. It has not been sent, or may be sent again.
struct Batch {
    request: AppendRequest,
    /// In the order of the request's appends, which it has at least one of.
    who: Vec<Unanswered>,
    deadline: Instant,
}

/// The queue before the network.
pub(super) struct Lane {
    far: Arc<Far>,
    queue: Mutex<Queue>,
    pushed: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Batch>,
    appends: usize,
    bytes: usize,
}

impl Queue {
    fn pop(&mut self) -> Option<Batch> {
        let batch = self.waiting.pop_front()?;
        self.appends -= batch.who.len();
        self.bytes -= batch.request.bytes();
        Some(batch)
    }
}

impl Lane {
    pub fn new(far: Arc<Far>) -> Lane {
        Lane { far, queue: Mutex::default(), pushed: Notify::new() }
    }

    /// Queues an append, whose frame `fill` writes. It joins the appends that wait: the busier the target, the longer the requests.
    pub fn push(&self, append: LogAppend, fill: impl FnOnce(&mut [u8])) -> Result<(), AppendError> {
        let LogAppend { class, frame_bytes, done, tag } = append;
        let device = self.far.link.device;
        let alone_bytes = AppendRequest::bytes_of_one(frame_bytes);
        if alone_bytes > net::MAX_PAYLOAD_BYTES {
            let most = net::MAX_PAYLOAD_BYTES - (alone_bytes - frame_bytes);
            return Err(AppendError::TooLarge { frame_bytes, most });
        }
        let deadline = self.far.link.env.now() + APPEND_DEADLINE;
        let mut queue = self.queue.lock();
        let Queue { waiting, appends, bytes } = &mut *queue;
        if *appends >= MAX_APPENDS_QUEUED || *bytes + frame_bytes > MAX_BYTES_QUEUED {
            return Err(AppendError::Busy { device });
        }
        let joins = |last: &Batch| {
            last.request.bytes() + alone_bytes <= BATCH_BYTES && deadline.saturating_duration_since(last.deadline) <= JOIN_TIME
        };
        if !waiting.back().is_some_and(joins) {
            let request = AppendRequest::new(device, self.far.writer, frame_bytes);
            *bytes += request.bytes();
            waiting.push_back(Batch { request, who: Vec::new(), deadline });
        }
        let batch = waiting.back_mut().expect("made above");
        let before = batch.request.bytes();
        batch.request.add(class, frame_bytes, fill);
        batch.who.push(Unanswered::new(device, class, done, tag));
        *bytes += batch.request.bytes() - before;
        *appends += 1;
        drop(queue);
        self.pushed.notify_one();
        Ok(())
    }

    /// It goes before all others again: nothing was done about it.
    fn push_back(&self, batch: Batch) {
        let mut queue = self.queue.lock();
        queue.appends += batch.who.len();
        queue.bytes += batch.request.bytes();
        queue.waiting.push_front(batch);
    }

    fn pop(&self) -> Option<Batch> {
        self.queue.lock().pop()
    }

    /// When the first of the queue must have been sent; none if nothing waits.
    fn first_deadline(&self) -> Option<Instant> {
        self.queue.lock().waiting.front().map(|batch| batch.deadline)
    }

    /// Refuses what waits, or what of it has waited too long.
    fn refuse_waiting(&self, expired_at: Option<Instant>, kind: ErrorKind, reason: &str) {
        loop {
            let refused = {
                let mut queue = self.queue.lock();
                let is_due = |batch: &Batch| expired_at.is_none_or(|now| batch.deadline <= now);
                queue.waiting.front().is_some_and(is_due).then(|| queue.pop()).flatten()
            };
            // Told without the lock: who is told may append again.
            let Some(refused) = refused else { return };
            refuse(refused.who, kind, reason);
        }
    }

    /// Begins a session. All appends of the one before have ended then.
    async fn open_session(&self) -> Result<u64, AskError> {
        self.far.link.ask(Ask::OpenSession { writer: self.far.writer }, CALL_DEADLINE).await
    }

    /// Sends one request and tells its appends' outcomes.
    async fn carry_out(&self, batch: Batch, session: u64) -> Ended {
        let Batch { request, mut who, deadline } = batch;
        if deadline <= self.far.link.env.now() {
            refuse(who, ErrorKind::Timeout, "the deadline passed before the append could be sent");
            return Ended::Settled;
        }
        let message = request.under(session);
        who.iter_mut().for_each(|append| append.was_sent = true);
        let outcome = self.far.link.send::<AppendAnswers>(message.clone(), deadline).await;
        let device = self.far.link.device;
        let error = match outcome {
            Ok(answers) if are_of(&answers, device, who.len()) => {
                who.into_iter().zip(answers).for_each(|(append, answer)| self.settle(append, answer));
                return Ended::Settled;
            }
            Ok(_) => AppendError::Unanswered { device, reason: "the answer is about other appends".into() },
            Err(AskError::Failed(Failure { fault: Fault::OtherSession, .. })) => {
                who.iter_mut().for_each(|append| append.was_sent = false);
                let request = AppendRequest::again(message, who.len());
                self.push_back(Batch { request, who, deadline });
                return Ended::OtherSession(session);
            }
            Err(AskError::Failed(failure)) => {
                who.into_iter().for_each(|append| self.settle(append, Err(failure.clone())));
                return Ended::Settled;
            }
            Err(error) if error.is_definite() => {
                refuse(who, error.kind(), &error.to_string());
                return Ended::Settled;
            }
            Err(error) => AppendError::Unanswered { device, reason: error.to_string().into() },
        };
        Ended::Lost { session, who, error }
    }

    /// Tells an append what its target has answered.
    fn settle(&self, append: Unanswered, answer: Result<AppendAnswer, Failure>) {
        let class = append.class;
        let outcome = match answer {
            Ok(answer) => {
                self.far.note(&answer, class.stream());
                Ok(answer.appended)
            }
            Err(failure) => {
                // It has something to tell: full, or failed.
                self.far.is_state_wanted.notify_one();
                Err(told(self.far.link.device, class, &failure))
            }
        };
        append.answer(outcome);
    }
}

/// Whether these can be the answers to so many appends on this device.
fn are_of(answers: &AppendAnswers, device: DeviceId, appends: usize) -> bool {
    let is_other =
        |answer: &Result<AppendAnswer, Failure>| matches!(answer, Ok(answer) if answer.appended.place.device != device);
    answers.len() == appends && !answers.iter().any(is_other)
}

/// Nothing was appended.
fn refuse(who: Vec<Unanswered>, kind: ErrorKind, reason: &str) {
    who.into_iter().for_each(|append| append.refuse(kind, reason));
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

/// How the sending of a request ended.
enum Ended {
    /// Its appends' outcomes are told.
    Settled,
    /// It waits again: this session is not the present one.
    OtherSession(u64),
    /// Whether its appends were carried out is not known. Told when the session has ended, so that nothing that follows is sent under it.
    Lost { session: u64, who: Vec<Unanswered>, error: AppendError },
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
            && sending.len() < MAX_BATCHES_IN_FLIGHT
            && let Some(batch) = lane.pop()
        {
            sending.push(lane.carry_out(batch, session));
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
                    who.into_iter().for_each(|append| append.answer(Err(error.clone())));
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
