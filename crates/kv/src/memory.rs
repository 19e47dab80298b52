//! The in-memory twin for simulation.
//!
//! It keeps two states: what readers see, and what would survive a crash. A commit changes the first and is noted; a persist
//! carries the notes into the second. A crash ends this handle and gives a new one on what survived, as a restart would.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::batch::Batch;
use crate::error::{CommitError, PersistError, ReadError, check};
use crate::{Kv, KvRead, Visit, is_empty_range};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store in memory that loses everything since the last persist when it crashes.
#[derive(Debug, Default)]
pub struct MemoryKv {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What readers see. Snapshots share it; the next commit then works on a copy.
    visible: Arc<Entries>,
    persisted: Entries,
    /// Batches that are visible and not persisted, oldest first.
    pending: Vec<Batch>,
    health: Health,
    is_full: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Good,
    /// The next persist fails, as on a disk that refuses a flush.
    PersistWillFail,
    Poisoned,
    Crashed,
}

impl MemoryKv {
    /// An empty store.
    pub fn new() -> Self {
        MemoryKv::default()
    }

    /// Cuts the power. This handle answers nothing any more; the returned one holds what the last persist covered.
    pub fn crash(&self) -> MemoryKv {
        self.crash_keeping(0)
    }

    /// Cuts the power when the first `batches` since the last persist had reached the medium by chance: the other outcome that
    /// the contract allows. The rest is lost.
    pub fn crash_keeping(&self, batches: usize) -> MemoryKv {
        let mut state = self.state.lock();
        assert!(state.health != Health::Crashed, "a store crashes once; use the handle that the crash returned");
        state.health = Health::Crashed;
        let pending = std::mem::take(&mut state.pending);
        let mut survived = std::mem::take(&mut state.persisted);
        for batch in pending.into_iter().take(batches) {
            apply(&mut survived, batch);
        }
        let state = State { visible: Arc::new(survived.clone()), persisted: survived, ..State::default() };
        MemoryKv { state: Mutex::new(state) }
    }

    /// Number of batches that a crash now would lose.
    pub fn pending_batches(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Makes the next persist fail, after which the store accepts no writes.
    pub fn fail_next_persist(&self) {
        self.state.lock().health = Health::PersistWillFail;
    }

    /// Says from now on whether it is full. A commit is taken all the same.
    pub fn set_full(&self, is_full: bool) {
        self.state.lock().is_full = is_full;
    }

    fn visible(&self) -> Result<Arc<Entries>, ReadError> {
        let state = self.state.lock();
        if state.health == Health::Crashed {
            return Err(ReadError::Crashed);
        }
        Ok(Arc::clone(&state.visible))
    }
}

impl KvRead for MemoryKv {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.visible()?.get(key).cloned())
    }

    fn scan(&self, start: Bound<&[u8]>, end: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), ReadError> {
        scan(&*self.visible()?, start, end, visit);
        Ok(())
    }
}

impl Kv for MemoryKv {
    fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        check(&batch)?;
        let mut state = self.state.lock();
        match state.health {
            Health::Good | Health::PersistWillFail => {}
            Health::Poisoned => return Err(CommitError::Poisoned),
            Health::Crashed => return Err(CommitError::Crashed),
        }
        apply(Arc::make_mut(&mut state.visible), batch.clone());
        state.pending.push(batch);
        Ok(())
    }

    fn persist(&self) -> Result<(), PersistError> {
        let mut state = self.state.lock();
        match state.health {
            Health::Good => {}
            Health::PersistWillFail => {
                state.health = Health::Poisoned;
                return Err(PersistError::Poisoned);
            }
            Health::Poisoned => return Err(PersistError::Poisoned),
            Health::Crashed => return Err(PersistError::Crashed),
        }
        let pending = std::mem::take(&mut state.pending);
        for batch in pending {
            apply(&mut state.persisted, batch);
        }
        Ok(())
    }

    fn has_room(&self, _: usize) -> bool {
        !self.state.lock().is_full
    }

    fn persist_waits(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Result<Box<dyn KvRead>, ReadError> {
        Ok(Box::new(MemorySnapshot(self.visible()?)))
    }
}

struct MemorySnapshot(Arc<Entries>);

impl KvRead for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, start: Bound<&[u8]>, end: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), ReadError> {
        scan(&self.0, start, end, visit);
        Ok(())
    }
}

fn apply(entries: &mut Entries, batch: Batch) {
    for (key, value) in batch.into_changes() {
        match value {
            Some(value) => entries.insert(key, value),
            None => entries.remove(&key),
        };
    }
}

fn scan(entries: &Entries, start: Bound<&[u8]>, end: Bound<&[u8]>, visit: Visit<'_>) {
    if is_empty_range(start, end) {
        return;
    }
    for (key, value) in entries.range::<[u8], _>((start, end)) {
        if let ControlFlow::Break(()) = visit(key, value) {
            return;
        }
    }
}
