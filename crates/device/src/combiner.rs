//! The append combiner: group commit without a timer, a channel or a task.
//!
//! Each core has one combiner for each class. An append composes its frame straight into the combiner's aligned batch, under a
//! lock that nobody but this core and its completions take. If no write of this combiner is in flight, the batch is submitted
//! at once; otherwise it goes when that write ends, with all that queued meanwhile. Who appends several frames at a time holds the
//! combiner until the last of them.
//!
//! ```text
//!            append: submit                     submit returned
//!  Idle ───────────────────────► Launching ────────────────────────► InFlight
//!   ▲                             │     ▲                               │
//!   │              ended inline   ▼     │ more queued                   │ ended, more queued:
//!   └──────────────────────── EndedInLaunch                             │ Launching again
//!   └───────────────────────────────────────────────────────────────────┘ ended, nothing queued
//! ```
//!
//! `EndedInLaunch` keeps a disk that answers within `submit` from nesting one launch in another without bound: whoever
//! launches goes round a loop instead.

use std::collections::VecDeque;
use std::sync::Arc;

use disk::AlignedBuf;
use parking_lot::{Mutex, MutexGuard};

use crate::class::{AppendClass, CLASSES};
use crate::error::AppendError;
use crate::inner::Inner;
use crate::launch::{self, Launch, Origin, Pending};
use crate::limits::MAX_QUEUED_BATCHES;

#[derive(Default)]
pub(crate) struct Combiner {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// More comes at once: no write begins for less than a full batch.
    is_held: bool,
    /// Takes the next frame.
    filling: Option<Batch>,
    /// Full ones, first in first out.
    full: VecDeque<Batch>,
    /// Memory of a batch that has been written.
    spare: Option<AlignedBuf>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Launching,
    EndedInLaunch,
    InFlight,
}

struct Batch {
    buf: AlignedBuf,
    frames: Vec<Pending>,
}

impl State {
    fn take_batch(&mut self) -> Option<Batch> {
        self.full.pop_front().or_else(|| self.filling.take())
    }
}

/// Composes a frame into the calling core's batch and sees to its being written. `pending.start` is set here.
pub(crate) fn append(
    inner: &Arc<Inner>,
    class: AppendClass,
    compose: impl FnOnce(&mut [u8]),
    mut pending: Pending,
) -> Result<(), AppendError> {
    let index = first_of_core(inner) + class.index();
    let batch_bytes = inner.batch_bytes();
    let mut state = inner.combiners[index].state.lock();
    if let Some(batch) = &state.filling
        && batch.buf.len() + pending.frame_bytes > batch_bytes
    {
        if state.full.len() >= MAX_QUEUED_BATCHES {
            return Err(AppendError::Busy { device: inner.device() });
        }
        let batch = state.filling.take().expect("looked at above");
        state.full.push_back(batch);
    }
    let mut batch = state.filling.take().unwrap_or_else(|| {
        let buf = state.spare.take().unwrap_or_else(|| AlignedBuf::with_capacity(batch_bytes));
        Batch { buf, frames: Vec::new() }
    });
    pending.start = batch.buf.len();
    batch.buf.resize(pending.start + pending.frame_bytes);
    compose(&mut batch.buf[pending.start..]);
    batch.frames.push(pending);
    state.filling = Some(batch);
    let begins = state.phase == Phase::Idle && (!state.is_held || !state.full.is_empty());
    launch_if(begins, inner, index, state);
    Ok(())
}

/// Launches what an idle combiner has, first in first out.
fn launch_if(begins: bool, inner: &Arc<Inner>, index: usize, mut state: MutexGuard<'_, State>) {
    if begins && let Some(batch) = state.take_batch() {
        state.phase = Phase::Launching;
        drop(state);
        launch_all(inner, AppendClass::ALL[index % CLASSES], index, batch);
    }
}

/// Appends of this core that come while it exists go in one write, as far as a batch holds them.
pub(crate) struct Hold<'a> {
    inner: &'a Arc<Inner>,
    first: usize,
}

impl<'a> Hold<'a> {
    pub fn new(inner: &'a Arc<Inner>) -> Hold<'a> {
        let first = first_of_core(inner);
        (first..first + CLASSES).for_each(|index| inner.combiners[index].state.lock().is_held = true);
        Hold { inner, first }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        for index in self.first..self.first + CLASSES {
            let mut state = self.inner.combiners[index].state.lock();
            state.is_held = false;
            launch_if(state.phase == Phase::Idle, self.inner, index, state);
        }
    }
}

/// The first of the calling core's combiners, one for each class.
fn first_of_core(inner: &Inner) -> usize {
    inner.env.core_index() % inner.env.core_count() * CLASSES
}

/// The write of combiner `index` has ended, well or not; `buf` is its memory.
pub(crate) fn write_ended(inner: &Arc<Inner>, index: usize, buf: Option<AlignedBuf>) {
    let mut state = inner.combiners[index].state.lock();
    if let Some(mut buf) = buf {
        buf.clear();
        state.spare = Some(buf);
    }
    match state.phase {
        Phase::Launching => state.phase = Phase::EndedInLaunch,
        Phase::InFlight => match state.take_batch() {
            Some(batch) => {
                state.phase = Phase::Launching;
                drop(state);
                launch_all(inner, AppendClass::ALL[index % CLASSES], index, batch);
            }
            None => state.phase = Phase::Idle,
        },
        Phase::Idle | Phase::EndedInLaunch => panic!("a combiner's write ended twice"),
    }
}

/// Launches `batch`, and the next ones as long as each has ended by the time its launch returns.
fn launch_all(inner: &Arc<Inner>, class: AppendClass, index: usize, mut batch: Batch) {
    loop {
        let Batch { buf, frames } = batch;
        launch::place(inner, Launch { class, origin: Origin::Combiner { index }, buf, frames });
        let mut state = inner.combiners[index].state.lock();
        match state.phase {
            Phase::Launching => {
                state.phase = Phase::InFlight;
                return;
            }
            Phase::EndedInLaunch => match state.take_batch() {
                Some(next) => {
                    state.phase = Phase::Launching;
                    batch = next;
                }
                None => {
                    state.phase = Phase::Idle;
                    return;
                }
            },
            Phase::Idle | Phase::InFlight => panic!("two launches of one combiner"),
        }
    }
}
