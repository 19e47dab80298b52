//! The memory that all uploads of a process have together.
//!
//! An upload holds bytes from their arrival until the engine has taken them. Without a bound, clients that stop in the middle
//! of their uploads would fill the memory with unfinished chunks. So every upload takes what it buffers from one total, segment by
//! segment, and its socket is not read while there is no room. The [`budget`] says who waits and who makes room: where memory is
//! short, the upload that has been silent for longest stages its unfinished chunk early, as a short one.
//!
//! A body that lies whole in its connection's buffer takes nothing: that buffer is bounded for itself.

mod budget;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use env::Env;
use futures_util::task::AtomicWaker;
use hashbrown::HashMap;
use parking_lot::Mutex;
use types::limits::CHUNK_BYTES;

use self::budget::{Budget, HolderId, Notice, Notices};
use crate::error::ObjectError;

/// Share of the machine's memory that uploads may have unless told otherwise: one part in so many.
const MEMORY_SHARE: u64 = 8;
/// They may have so much on a small machine too: a chunk for each of 64 uploads.
pub const LEAST_UPLOAD_MEMORY: usize = 64 * CHUNK_BYTES;
/// And no more on a large one: 128 uploads with all their chunks on the way to the devices.
const MOST_BY_DEFAULT: usize = 512 * CHUNK_BYTES;

/// How long an upload waits for memory before its client is told to slow down.
pub const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// The total, and who has how much of it. Clones share it.
#[derive(Clone)]
pub struct UploadMemory {
    shared: Arc<Shared>,
}

/// Figures of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadMemoryStats {
    pub limit_bytes: u64,
    /// Buffered by uploads, or on the way to the engine's devices.
    pub used_bytes: u64,
    /// Most that was used at once so far.
    pub peak_bytes: u64,
    /// Uploads that wait for memory.
    pub waiting: u64,
    /// Chunks that were staged before they were full.
    pub early_chunks: u64,
    /// Uploads that were told to slow down.
    pub refused: u64,
}

struct Shared {
    env: Env,
    state: Mutex<State>,
    early_chunks: AtomicU64,
    refused: AtomicU64,
}

struct State {
    budget: Budget,
    peak: usize,
    lines: HashMap<HolderId, Arc<Line>>,
}

/// What a holder is told, perhaps from another thread.
#[derive(Default)]
struct Line {
    is_asked: AtomicBool,
    is_granted: AtomicBool,
    waker: AtomicWaker,
}

/// One upload's part in the total.
pub(crate) struct Holder {
    memory: UploadMemory,
    /// From the first take on.
    entered: Option<(HolderId, Arc<Line>)>,
    waits: Option<Waits>,
}

/// A take that waits, and the end of its patience.
struct Waits {
    bytes: usize,
    patience: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Memory that was lent; dropped, it is given back.
pub(crate) struct Lent {
    shared: Arc<Shared>,
    bytes: usize,
}

/// How a take ended.
pub(crate) enum Taken {
    Lent(Lent),
    /// The unfinished chunk must be handed over first; then the take goes on where it stands in the queue.
    Asked,
}

impl UploadMemory {
    /// A total of so many bytes. There must be room for a whole chunk, which copies bring in one piece.
    pub fn new(limit_bytes: usize, env: &Env) -> UploadMemory {
        assert!(limit_bytes >= CHUNK_BYTES, "{limit_bytes} bytes are too few for one chunk");
        let state = Mutex::new(State { budget: Budget::new(limit_bytes), peak: 0, lines: HashMap::new() });
        let (early_chunks, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        UploadMemory { shared: Arc::new(Shared { env: env.clone(), state, early_chunks, refused }) }
    }

    /// The total of a machine with so much memory, unless a person sets another.
    pub fn default_bytes(machine_bytes: u64) -> usize {
        let share = usize::try_from(machine_bytes / MEMORY_SHARE).unwrap_or(usize::MAX);
        share.clamp(LEAST_UPLOAD_MEMORY, MOST_BY_DEFAULT)
    }

    pub fn stats(&self) -> UploadMemoryStats {
        let state = self.shared.state.lock();
        UploadMemoryStats {
            limit_bytes: state.budget.limit() as u64,
            used_bytes: state.budget.lent() as u64,
            peak_bytes: state.peak as u64,
            waiting: state.budget.waiting() as u64,
            early_chunks: self.shared.early_chunks.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
        }
    }

    /// For one upload. It costs nothing until memory is taken.
    pub(crate) fn holder(&self) -> Holder {
        Holder { memory: self.clone(), entered: None, waits: None }
    }
}

impl Shared {
    /// Changes the budget, and tells holders what comes of it.
    fn change<T>(&self, change: impl FnOnce(&mut State, &mut Notices) -> T) -> T {
        let mut notices = Notices::new();
        let mut state = self.state.lock();
        let outcome = change(&mut state, &mut notices);
        state.peak = state.peak.max(state.budget.lent());
        for notice in notices {
            let (Notice::Granted(id) | Notice::Asked(id)) = notice;
            let line = state.lines.get(&id).expect("a holder has its line until it leaves");
            match notice {
                Notice::Granted(_) => line.is_granted.store(true, Ordering::Release),
                Notice::Asked(_) => line.is_asked.store(true, Ordering::Release),
            }
            line.waker.wake();
        }
        outcome
    }
}

impl Holder {
    /// Takes so many bytes for the unfinished chunk, or goes on to wait for those that it wanted before. Error: there was no room
    /// for too long.
    pub(crate) async fn take(&mut self, bytes: usize) -> Result<Taken, ObjectError> {
        if self.waits.is_none() && self.take_now(bytes) {
            return Ok(Taken::Lent(self.lent(bytes)));
        }
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    /// Whether there is room at once; otherwise the take waits from now on.
    fn take_now(&mut self, bytes: usize) -> bool {
        let shared = self.memory.shared.clone();
        let id = self.enter();
        if shared.change(|state, notices| state.budget.take(id, bytes, notices)) {
            return true;
        }
        let env = shared.env.clone();
        self.waits = Some(Waits { bytes, patience: Box::pin(async move { env.sleep(ROOM_PATIENCE).await }) });
        false
    }

    fn enter(&mut self) -> HolderId {
        if let Some((id, _)) = &self.entered {
            return *id;
        }
        let line = Arc::new(Line::default());
        let mut state = self.memory.shared.state.lock();
        let id = state.budget.enter();
        state.lines.insert(id, line.clone());
        drop(state);
        self.entered = Some((id, line));
        id
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Taken, ObjectError>> {
        let (Some((_, line)), Some(waits)) = (&self.entered, &mut self.waits) else {
            unreachable!("a take that waits has entered");
        };
        line.waker.register(cx.waker());
        if line.is_granted.swap(false, Ordering::Acquire) {
            let bytes = waits.bytes;
            self.waits = None;
            return Poll::Ready(Ok(Taken::Lent(self.lent(bytes))));
        }
        if line.is_asked.load(Ordering::Acquire) {
            return Poll::Ready(Ok(Taken::Asked));
        }
        if waits.patience.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Err(self.refused()))
    }

    /// Whether the unfinished chunk must be handed over; the task is woken when it must.
    pub(crate) fn poll_asked(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((_, line)) = &self.entered else { return Poll::Pending };
        line.waker.register(cx.waker());
        match line.is_asked.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// The unfinished chunk is with the engine. What it holds comes back when the engine drops it.
    pub(crate) fn hand_over(&mut self) {
        let Some((id, line)) = &self.entered else { return };
        self.memory.shared.change(|state, _| {
            state.budget.hand_over(*id);
            line.is_asked.store(false, Ordering::Release);
        });
    }

    /// A chunk is handed over before it is full.
    pub(crate) fn note_early_chunk(&self) {
        self.memory.shared.early_chunks.fetch_add(1, Ordering::Relaxed);
    }

    /// What a client is told whose upload found no room, or would be cut into crumbs.
    pub(crate) fn refused(&self) -> ObjectError {
        self.memory.shared.refused.fetch_add(1, Ordering::Relaxed);
        ObjectError::SlowDown { reason: String::from("uploads use all the memory that they may have (upload_memory)") }
    }

    fn lent(&self, bytes: usize) -> Lent {
        Lent { shared: self.memory.shared.clone(), bytes }
    }
}

impl Lent {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let Some((id, line)) = self.entered.take() else { return };
        let waits = self.waits.take();
        self.memory.shared.change(|state, notices| {
            state.budget.leave(id, notices);
            state.lines.remove(&id);
            // Granted, and not fetched any more.
            if let Some(waits) = waits.filter(|_| line.is_granted.load(Ordering::Acquire)) {
                state.budget.give_back(waits.bytes, notices);
            }
        });
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.shared.change(|state, notices| state.budget.give_back(self.bytes, notices));
    }
}

impl fmt::Debug for UploadMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.stats(), f)
    }
}

#[cfg(test)]
mod tests;
