//! The way of a write: from a batch of composed frames to its place, to the disk, and back to those who wait.
//!
//! Invariants:
//! - A frame is sealed after its place is reserved and before the write is submitted, so no two frames ever have one place.
//! - Each pending append is answered exactly once, and never while a lock is held.
//! - A write is never submitted twice. After a failed one nothing is submitted any more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::{AlignedBuf, Completion, Request};
use env::Instant;
use format::frame;
use types::limits::UNIT_BYTES;
use types::{Place, Position, ZoneOffset};

use crate::admission::Ticket;
use crate::book::{Placement, Reserved};
use crate::class::{AppendClass, stream_index};
use crate::combiner;
use crate::error::AppendError;
use crate::inner::Inner;
use crate::limits::{MAX_LARGE_IN_FLIGHT, MAX_LARGE_QUEUED};
use crate::zone_io;

/// Where an append landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub place: Place,
    pub position: Position,
    pub frame_bytes: usize,
}

/// Who is told about appends. Called once for each, on whatever thread the disk answers on, or within the append itself; it
/// must not block, and may append again.
pub trait AppendDone: Send + Sync {
    /// `token` is the one given with the append.
    fn appended(&self, token: u64, result: Result<Appended, AppendError>);
}

/// One composed frame that waits for its answer.
pub(crate) struct Pending {
    /// Where it stands in its batch.
    pub(crate) start: usize,
    pub(crate) frame_bytes: usize,
    pub(crate) done: Arc<dyn AppendDone>,
    pub(crate) token: u64,
    pub(crate) deadline: Option<Instant>,
    /// Held until the answer has been given.
    pub(crate) ticket: Option<Ticket>,
}

impl Pending {
    fn answer(self, result: Result<Appended, AppendError>) {
        self.done.appended(self.token, result);
        drop(self.ticket);
    }
}

/// Who gets the next turn when a write ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Combiner { index: usize },
    Large,
}

/// One write, composed but without a place.
pub(crate) struct Launch {
    pub(crate) class: AppendClass,
    pub(crate) origin: Origin,
    pub(crate) buf: AlignedBuf,
    pub(crate) frames: Vec<Pending>,
}

/// Large frames: a bounded number in flight, a bounded number waiting.
#[derive(Default)]
pub(crate) struct LargeLane {
    in_flight: usize,
    queue: VecDeque<Launch>,
}

/// Starts a large frame's write, or queues it.
pub(crate) fn start_large(inner: &Arc<Inner>, launch: Launch) -> Result<(), AppendError> {
    let mut lane = inner.large.lock();
    if lane.in_flight >= MAX_LARGE_IN_FLIGHT {
        if lane.queue.len() >= MAX_LARGE_QUEUED {
            return Err(AppendError::Busy { device: inner.device() });
        }
        lane.queue.push_back(launch);
        return Ok(());
    }
    lane.in_flight += 1;
    drop(lane);
    place(inner, launch);
    Ok(())
}

/// Finds a place for a write and submits it, or lets it wait for a zone, or fails it.
pub(crate) fn place(inner: &Arc<Inner>, mut launch: Launch) {
    if let Some(refusal) = inner.refusal() {
        return fail(inner, launch, &refusal);
    }
    drop_expired(inner, &mut launch);
    if launch.frames.is_empty() {
        return next_turn(inner, launch.origin, Some(launch.buf));
    }
    launch.buf.pad_to_block();
    let bytes = launch.buf.len() as u64;
    let class = launch.class;

    let mut zones = inner.zones.lock();
    let (placement, plan) = zones.book.reserve(class, bytes, || inner.env.now());
    let placed = match placement {
        Placement::At(reserved) => {
            inner.table.write_begins(reserved.zone);
            Some((launch, reserved))
        }
        Placement::Wait => {
            inner.stats.zone_waits.add(1);
            zones.waiting[stream_index(class.stream())].push_back(launch);
            None
        }
        Placement::Full => {
            // Later appends of the class are refused at once, until a zone is freed. Not so where the file could not grow:
            // that may end without our doing.
            if !zones.book.growth_was_refused() {
                inner.refused[class.index()].store(true, Ordering::Release);
            }
            drop(zones);
            fail(inner, launch, &AppendError::Full { device: inner.device(), class });
            return zone_io::carry_out(inner, plan);
        }
    };
    drop(zones);
    match placed {
        Some((launch, reserved)) => submit(inner, launch, reserved),
        // The end of all writing may have come between the first look and the queue, after the queue was emptied.
        None if inner.refusal().is_some() => inner.retry_waiting(),
        None => {}
    }
    zone_io::carry_out(inner, plan);
}

fn submit(inner: &Arc<Inner>, launch: Launch, reserved: Reserved) {
    let Launch { class, origin, mut buf, frames } = launch;
    for pending in &frames {
        let offset = ZoneOffset::from_bytes(reserved.offset + pending.start as u64);
        let seal = inner.table.seal(inner.device(), reserved.zone, offset).expect("a zone with a write in flight is not reset");
        frame::seal(&mut buf[pending.start..], &seal);
    }
    inner.stats.batches.add(1);
    inner.stats.written_bytes.add(buf.len() as u64);
    let offset = inner.geometry.disk_offset(reserved.zone, reserved.offset);
    let durability = inner.durability_of(class);
    let owner = inner.clone();
    inner.disk.submit(
        Request::Write { offset, buf, durability },
        Box::new(move |completion| written(&owner, origin, frames, reserved, completion)),
    );
}

/// The disk has answered.
fn written(inner: &Arc<Inner>, origin: Origin, frames: Vec<Pending>, reserved: Reserved, completion: Completion) {
    if inner.table.write_ends(reserved.zone) {
        inner.zone_changed.notify_waiters();
    }
    let device = inner.device();
    let failure = match completion.result {
        Ok(()) => {
            inner.dirty.store(true, Ordering::Release);
            None
        }
        Err(error) => Some(AppendError::OutcomeUnknown { device, cause: inner.poison(error) }),
    };
    // The disk's next work first, then those who wait: they may take a while.
    next_turn(inner, origin, completion.buf);
    match failure {
        Some(error) => answer_all(inner, frames, &error),
        None => acknowledge(inner, frames, reserved),
    }
}

fn acknowledge(inner: &Inner, frames: Vec<Pending>, reserved: Reserved) {
    inner.stats.appends.add(frames.len() as u64);
    for pending in frames {
        inner.stats.appended_bytes.add(pending.frame_bytes as u64);
        let offset = ZoneOffset::from_bytes(reserved.offset + pending.start as u64);
        let appended = Appended {
            place: Place { device: inner.device(), zone: reserved.zone, offset },
            position: Position { activation: reserved.activation, offset },
            frame_bytes: pending.frame_bytes,
        };
        pending.answer(Ok(appended));
    }
}

fn fail(inner: &Arc<Inner>, launch: Launch, error: &AppendError) {
    next_turn(inner, launch.origin, Some(launch.buf));
    answer_all(inner, launch.frames, error);
}

fn answer_all(inner: &Inner, frames: Vec<Pending>, error: &AppendError) {
    inner.stats.append_errors.add(frames.len() as u64);
    for pending in frames {
        pending.answer(Err(error.clone()));
    }
}

/// Answers the frames whose deadline has passed. Their bytes stay in the batch, without a header: a walk steps over them.
fn drop_expired(inner: &Inner, launch: &mut Launch) {
    if launch.frames.iter().all(|pending| pending.deadline.is_none()) {
        return;
    }
    let now = inner.env.now();
    let (expired, live): (Vec<Pending>, Vec<Pending>) =
        launch.frames.drain(..).partition(|pending| pending.deadline.is_some_and(|deadline| deadline <= now));
    launch.frames = live;
    for pending in &expired {
        launch.buf[pending.start..pending.start + UNIT_BYTES].fill(0);
    }
    answer_all(inner, expired, &AppendError::DeadlinePassed);
}

fn next_turn(inner: &Arc<Inner>, origin: Origin, buf: Option<AlignedBuf>) {
    match origin {
        Origin::Combiner { index } => combiner::write_ended(inner, index, buf),
        Origin::Large => {
            let mut lane = inner.large.lock();
            match lane.queue.pop_front() {
                Some(launch) => {
                    drop(lane);
                    place(inner, launch);
                }
                None => lane.in_flight -= 1,
            }
        }
    }
}
