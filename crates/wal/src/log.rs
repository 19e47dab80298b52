//! The log in use: a queue of records, and one task that writes them while there are any.
//!
//! ```text
//!   append -> queue -> [ frame ] -> durable write -> the futures of its records complete
//!                        ^ all that queued up during the write before
//! ```
//!
//! The task is started by the record that finds the log idle and ends when the queue is empty. It is a task, not the first
//! appender itself, so that a caller may drop its future without stopping everybody behind it.
//!
//! A record that is kept in the log's tail may wait for others, for [`KEPT_DELAY`], unless something waits for it.

mod keeping;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use disk::{DiskExt, Durability};
use env::{Env, Instant};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use self::keeping::SettleWaiter;
use crate::error::{AppendError, Failure, OpenError};
use crate::layout::{
    FRAME_HEADER_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentSequence, encode_frame, frame_bytes,
    record_bytes,
};
use crate::recovery::{LiveSegment, Replay, recover};
use crate::store::{Segment, SegmentStore};
use crate::tail::{Ring, Tail};
use crate::{INITIAL_SEGMENTS, LogId, Lsn, MAX_FRAME_BYTES, MAX_QUEUE_UNITS, MAX_SEGMENTS, QUEUE_UNIT_BYTES};

/// How often a log that waits for room in its file system tries again.
const SPACE_LOOK: Duration = Duration::from_secs(1);

/// How long kept records gather before they are written.
pub const KEPT_DELAY: Duration = Duration::from_millis(2);

/// What the owner knows of the log before it is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// The first record that the owner still needs: the one after what its own durable state covers. The log must hold it or
    /// be about to: if not, either has lost something, and the log is not opened.
    pub keep_from: Lsn,
    /// The number of the first record of a log that does not exist yet.
    pub begin_at: Lsn,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { keep_from: Lsn::FIRST, begin_at: Lsn::FIRST }
    }
}

/// A log. Clones share it.
#[derive(Clone)]
pub struct Wal {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    store: Arc<dyn SegmentStore>,
    log_id: LogId,
    max_record_bytes: usize,
    room: Arc<Semaphore>,
    state: Mutex<State>,
    /// Something waits for a record that the writer has let wait.
    hurried: Notify,
}

struct State {
    queue: VecDeque<Queued>,
    /// What the next record will be called.
    next_lsn: Lsn,
    /// Every record up to this one is durable.
    durable_lsn: Lsn,
    writing: bool,
    /// The writer waits for room in the file system.
    waits_for_room: bool,
    failure: Option<Arc<Failure>>,
    /// Oldest first; frames go to the last.
    live: VecDeque<LiveSegment>,
    free: VecDeque<Segment>,
    write_offset: u64,
    ring: Option<Ring>,
    /// Records go into the ring.
    keeps: bool,
    /// The last record that was kept for an appender that does not wait.
    last_kept: Lsn,
    /// Something waits for all records through this one.
    hurry: Lsn,
    /// When the oldest kept record was queued that waits for others.
    kept_since: Option<Instant>,
    settling: Vec<SettleWaiter>,
}

struct Queued {
    payload: Vec<u8>,
    waiter: Waiter,
}

/// Who waits for a record, and its room in the queue, given back when the record is written.
struct Waiter {
    lsn: Lsn,
    done: oneshot::Sender<Result<Lsn, AppendError>>,
    _room: OwnedSemaphorePermit,
}

impl Wal {
    /// Opens the log of `store`, or begins it, and hands `replay` every record from `options.keep_from` on, in order.
    /// What it was handed before an error counts for nothing.
    pub async fn open(
        env: &Env,
        store: Arc<dyn SegmentStore>,
        options: OpenOptions,
        replay: Replay<'_>,
    ) -> Result<Wal, OpenError> {
        Wal::open_keeping(env, store, None, options, replay).await
    }

    /// The same of a log with a tail: the records there that follow those of the segments are its last ones.
    pub async fn open_keeping(
        env: &Env,
        store: Arc<dyn SegmentStore>,
        tail: Option<Arc<dyn Tail>>,
        options: OpenOptions,
        replay: Replay<'_>,
    ) -> Result<Wal, OpenError> {
        let segment_bytes = store.segment_bytes();
        let mut recovered = recover(store.segments().await?, segment_bytes, options.keep_from, &mut *replay).await?;
        if recovered.live.is_empty() {
            if options.keep_from > options.begin_at {
                let (first, last) = (options.begin_at, options.begin_at.previous());
                return Err(OpenError::Missing { first, last, needed: options.keep_from });
            }
            while recovered.free.len() < INITIAL_SEGMENTS {
                recovered.free.push_back(store.create().await?);
            }
            let mut id = [0; 16];
            env.fill_random(&mut id);
            let sequence = SegmentSequence(1);
            let header = SegmentHeader { log_id: LogId(id), sequence, first_lsn: options.begin_at, segment_bytes };
            let segment = recovered.free.pop_front().expect("a new log was given segments");
            segment.disk.write(0, header.encode(), Durability::Durable).await?;
            recovered.live.push_back(LiveSegment { header, segment });
            recovered.write_offset = SEGMENT_HEADER_BYTES as u64;
            recovered.next_lsn = options.begin_at;
        }
        let frame_overhead = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + RECORD_HEADER_BYTES;
        let most_queued = MAX_QUEUE_UNITS * QUEUE_UNIT_BYTES - QUEUE_UNIT_BYTES;
        let inner = Inner {
            env: env.clone(),
            store,
            log_id: recovered.live[0].header.log_id,
            max_record_bytes: (segment_bytes as usize - frame_overhead).min(most_queued),
            room: Arc::new(Semaphore::new(MAX_QUEUE_UNITS)),
            state: Mutex::new(State {
                queue: VecDeque::new(),
                next_lsn: recovered.next_lsn,
                durable_lsn: recovered.next_lsn.previous(),
                writing: false,
                waits_for_room: false,
                failure: None,
                live: recovered.live,
                free: recovered.free,
                write_offset: recovered.write_offset,
                ring: None,
                keeps: false,
                last_kept: Lsn(0),
                hurry: Lsn(0),
                kept_since: None,
                settling: Vec::new(),
            }),
            hurried: Notify::new(),
        };
        let wal = Wal { inner: Arc::new(inner) };
        if let Some(tail) = tail {
            wal.take_tail(tail, replay).await?;
        }
        Ok(wal)
    }

    /// Appends a record and waits until it is durable. Records of one caller keep their order if it awaits each, or uses
    /// [`Wal::reserve`].
    pub async fn append(&self, payload: Vec<u8>) -> Result<Lsn, AppendError> {
        self.reserve(payload.len()).await?.append(payload)?.await
    }

    /// Waits for room in the queue for one record of up to `bytes`. What follows needs no waiting, so that a caller can number
    /// records under a lock of its own.
    pub async fn reserve(&self, bytes: usize) -> Result<Reservation, AppendError> {
        let units = self.units_of(bytes)?;
        let room = Arc::clone(&self.inner.room).acquire_many_owned(units).await.expect("the queue's semaphore is never closed");
        Ok(Reservation { inner: Arc::clone(&self.inner), bytes, room })
    }

    /// The same without waiting; none if there is no room at the moment.
    pub fn try_reserve(&self, bytes: usize) -> Result<Option<Reservation>, AppendError> {
        let units = self.units_of(bytes)?;
        let room = Arc::clone(&self.inner.room).try_acquire_many_owned(units).ok();
        Ok(room.map(|room| Reservation { inner: Arc::clone(&self.inner), bytes, room }))
    }

    /// Units of the queue's limit that a record takes.
    fn units_of(&self, bytes: usize) -> Result<u32, AppendError> {
        let most = self.inner.max_record_bytes;
        match bytes > most {
            true => Err(AppendError::RecordLength { found: bytes, most }),
            false => Ok((bytes / QUEUE_UNIT_BYTES + 1) as u32),
        }
    }

    /// Every record up to this one is durable.
    pub fn durable_lsn(&self) -> Lsn {
        self.inner.state.lock().durable_lsn
    }

    /// The oldest record that the log still holds; the next one if it holds none.
    pub fn first_lsn(&self) -> Lsn {
        self.inner.state.lock().live[0].header.first_lsn
    }

    /// Where the log would begin without its oldest segment; none if it has no other.
    pub fn second_segment_lsn(&self) -> Option<Lsn> {
        self.inner.state.lock().live.get(1).map(|second| second.header.first_lsn)
    }

    /// Whether the log's file system is full: what is queued is not durable before there is room.
    pub fn waits_for_room(&self) -> bool {
        self.inner.state.lock().waits_for_room
    }

    /// Longest record.
    pub fn max_record_bytes(&self) -> usize {
        self.inner.max_record_bytes
    }

    /// Number of segments, those that wait for reuse included.
    pub fn segment_count(&self) -> usize {
        let state = self.inner.state.lock();
        state.live.len() + state.free.len()
    }

    /// Number of segments that hold records which were not given up.
    pub fn live_segment_count(&self) -> usize {
        self.inner.state.lock().live.len()
    }

    /// Ends the log because of something beside it: it takes no more records until it is opened anew, and who waits is told.
    pub fn end(&self, reason: String) {
        self.inner.end(Failure::Owner { reason });
    }

    /// Gives up the records before `lsn`; their segments are used again once no other record stands in them. The owner must
    /// open the log with a `keep_from` of at least this from now on.
    pub fn truncate_before(&self, lsn: Lsn) {
        let mut state = self.inner.state.lock();
        while state.live.len() > 1 && state.live[1].header.first_lsn <= lsn {
            let ended = state.live.pop_front().expect("there are two");
            state.free.push_back(ended.segment);
        }
    }
}

/// Room in the queue for one record.
pub struct Reservation {
    inner: Arc<Inner>,
    bytes: usize,
    room: OwnedSemaphorePermit,
}

impl Reservation {
    /// Queues the record. Its number is fixed now: in the order of these calls.
    pub fn append(self, payload: Vec<u8>) -> Result<Pending, AppendError> {
        self.queue(payload, false)
    }

    /// The same for an appender that does not wait where the record outlives the process at once: [`Pending::is_kept`].
    pub fn append_kept(self, payload: Vec<u8>) -> Result<Pending, AppendError> {
        self.queue(payload, true)
    }

    fn queue(self, payload: Vec<u8>, may_wait: bool) -> Result<Pending, AppendError> {
        if payload.len() > self.bytes {
            return Err(AppendError::RecordLength { found: payload.len(), most: self.bytes });
        }
        let (done, receiver) = oneshot::channel();
        let (lsn, start, is_kept) = {
            let mut state = self.inner.state.lock();
            if let Some(failure) = &state.failure {
                return Err(AppendError::Poisoned(Arc::clone(failure)));
            }
            let lsn = state.next_lsn;
            state.next_lsn = lsn.next();
            let is_kept = state.keep(lsn, &payload) && may_wait;
            if is_kept {
                state.last_kept = lsn;
                state.kept_since.get_or_insert(self.inner.env.now());
            } else {
                state.hurry = lsn;
            }
            state.queue.push_back(Queued { payload, waiter: Waiter { lsn, done, _room: self.room } });
            (lsn, !std::mem::replace(&mut state.writing, true), is_kept)
        };
        if start {
            let writer = Writer { inner: Arc::clone(&self.inner), carried: Vec::new(), ended: false };
            self.inner.env.spawn(writer.run());
        } else if !is_kept {
            self.inner.hurried.notify_one();
        }
        Ok(Pending { lsn, receiver, is_kept })
    }
}

/// A queued record; completes when it is durable. Dropping it does not take the record back.
#[derive(Debug)]
pub struct Pending {
    lsn: Lsn,
    receiver: oneshot::Receiver<Result<Lsn, AppendError>>,
    is_kept: bool,
}

impl Pending {
    /// Whether it was appended by [`Reservation::append_kept`], and outlives the process now, with all records before it.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// The record's number.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Future for Pending {
    type Output = Result<Lsn, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let abandoned = |_| Err(AppendError::Poisoned(Arc::new(Failure::Abandoned)));
        Pin::new(&mut self.receiver).poll(context).map(|outcome| outcome.unwrap_or_else(abandoned))
    }
}

/// The task that writes. There is one exactly while `State::writing` is set.
struct Writer {
    inner: Arc<Inner>,
    /// Who waits for the frame on its way.
    carried: Vec<Waiter>,
    ended: bool,
}

impl Writer {
    async fn run(mut self) {
        while let Some(batch) = self.next_batch().await {
            if let Err(failure) = self.write(batch).await {
                return self.fail(failure);
            }
            let mut state = self.inner.state.lock();
            for waiter in self.carried.drain(..) {
                state.durable_lsn = waiter.lsn;
                // The appender may have lost interest.
                drop(waiter.done.send(Ok(waiter.lsn)));
            }
            state.tell_settled();
        }
    }

    /// As many queued records as one frame takes, at least one. None ends the task.
    fn take_batch(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut state = self.inner.state.lock();
        let room = (self.inner.store.segment_bytes() - state.write_offset) as usize;
        let most = room.min(MAX_FRAME_BYTES);
        let mut payloads = Vec::new();
        let mut bytes = 0;
        while let Some(next) = state.queue.front() {
            bytes += record_bytes(next.payload.len());
            if !payloads.is_empty() && frame_bytes(bytes) > most {
                break;
            }
            let Queued { payload, waiter } = state.queue.pop_front().expect("there is a front");
            payloads.push(payload);
            self.carried.push(waiter);
        }
        if state.queue.is_empty() {
            state.kept_since = None;
        }
        state.writing = !payloads.is_empty();
        self.ended = !state.writing;
        state.writing.then_some(payloads)
    }

    async fn write(&self, payloads: Vec<Vec<u8>>) -> Result<(), Failure> {
        let records_bytes = payloads.iter().map(|payload| record_bytes(payload.len())).sum();
        let first_lsn = self.carried[0].lsn;
        if frame_bytes(records_bytes) as u64 > self.inner.store.segment_bytes() - self.inner.state.lock().write_offset {
            self.change_segment(first_lsn).await?;
        }
        let (seed, disk, offset) = {
            let state = self.inner.state.lock();
            let active = state.live.back().expect("a log has an active segment");
            (active.header.seed(), Arc::clone(&active.segment.disk), state.write_offset)
        };
        let frame = encode_frame(&seed, offset, first_lsn, &payloads);
        let length = frame.len() as u64;
        disk.write(offset, frame, Durability::Durable).await?;
        self.inner.state.lock().write_offset = offset + length;
        Ok(())
    }

    /// Begins the next segment, with the record `first_lsn`.
    async fn change_segment(&self, first_lsn: Lsn) -> Result<(), Failure> {
        let (reused, sequence, count) = {
            let mut state = self.inner.state.lock();
            let active = state.live.back().expect("a log has an active segment");
            let sequence = active.header.sequence.next();
            let count = state.live.len() + state.free.len();
            (state.free.pop_front(), sequence, count)
        };
        let segment = match reused {
            Some(segment) => segment,
            None if count < MAX_SEGMENTS => self.another_segment().await?,
            None => return Err(Failure::Full),
        };
        let segment_bytes = self.inner.store.segment_bytes();
        let header = SegmentHeader { log_id: self.inner.log_id, sequence, first_lsn, segment_bytes };
        segment.disk.write(0, header.encode(), Durability::Durable).await?;
        let mut state = self.inner.state.lock();
        state.live.push_back(LiveSegment { header, segment });
        state.write_offset = SEGMENT_HEADER_BYTES as u64;
        state.waits_for_room = false;
        Ok(())
    }

    /// Makes a segment. A full file system is waited for, and descriptors are: nothing of the log has been touched, and its owner would not
    /// survive a failure that a person, or the end of some connections, can end.
    async fn another_segment(&self) -> Result<Segment, Failure> {
        loop {
            let error = match self.inner.store.create().await {
                Err(error) if error.may_pass() => error,
                made => return Ok(made?),
            };
            let is_told = std::mem::replace(&mut self.inner.state.lock().waits_for_room, true);
            if !is_told {
                if error.is_no_space() {
                    tracing::error!(%error, cause = %error.cause, "the log waits for room in its file system: free some");
                } else {
                    tracing::error!(%error, cause = %error.cause, "the log waits until it can make another segment");
                }
            }
            self.inner.env.sleep(SPACE_LOOK).await;
            let mut state = self.inner.state.lock();
            if state.failure.is_some() {
                // What ended the log meanwhile is what counts.
                return Err(Failure::Abandoned);
            }
            if let Some(given_up) = state.free.pop_front() {
                return Ok(given_up);
            }
        }
    }

    /// Ends the log: everybody who waits, and everybody who will come, is told.
    fn fail(&mut self, failure: Failure) {
        self.ended = true;
        let failure = self.inner.end(failure);
        self.inner.state.lock().writing = false;
        for waiter in self.carried.drain(..) {
            drop(waiter.done.send(Err(AppendError::Poisoned(Arc::clone(&failure)))));
        }
    }
}

impl Inner {
    /// Ends the log: everybody who waits in the queue, and everybody who will come, is told. What ended it, which may be something earlier.
    fn end(&self, failure: Failure) -> Arc<Failure> {
        let mut state = self.state.lock();
        let failure = Arc::clone(state.failure.get_or_insert_with(|| Arc::new(failure)));
        for queued in std::mem::take(&mut state.queue) {
            drop(queued.waiter.done.send(Err(AppendError::Poisoned(Arc::clone(&failure)))));
        }
        state.end_settling(&failure);
        failure
    }
}

impl Drop for Writer {
    /// A task that is dropped half way, with its runtime or by a panic, must not leave others waiting for ever.
    fn drop(&mut self) {
        if !self.ended {
            self.fail(Failure::Abandoned);
        }
    }
}
