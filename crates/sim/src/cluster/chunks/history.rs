//! What clients asked of chunks and heard.

use crate::trace::Trace;
use env::Env;
use format::chunk_id::ChunkId;
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::sync::Arc;

/// Written once, so that a read tells which write it saw.
pub type Value = u64;

/// The histories of all chunks of a run. One observer sees all calls and answers, so they have one order.
pub struct ChunkHistories {
    env: Env,
    trace: Arc<Trace>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    chunks: BTreeMap<ChunkId, History<Register<Value>>>,
    next: Value,
    violation: Option<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl ChunkHistories {
    pub fn new(env: &Env, trace: &Arc<Trace>) -> Arc<ChunkHistories> {
        Arc::new(ChunkHistories { env: env.clone(), trace: trace.clone(), inner: Mutex::default() })
    }

    pub fn next_value(&self) -> Value {
        let mut inner = self.inner.lock();
        inner.next += 1;
        inner.next
    }

    /// A put was acknowledged: nobody knew the id before.
    pub fn was_put(&self, id: ChunkId, value: Value) {
        self.note(format_args!("{id}: put {value}"));
        let mut history = History::default();
        let call = history.call(Call::Write(Some(value)));
        history.answer(call, Outcome::Written);
        if self.inner.lock().chunks.insert(id, history).is_some() {
            self.violate(format!("{id} was given twice"));
        }
    }

    pub fn ids(&self) -> Vec<ChunkId> {
        self.inner.lock().chunks.keys().copied().collect()
    }

    pub fn calls(&self) -> usize {
        self.inner.lock().chunks.values().map(History::len).sum()
    }

    pub fn call(&self, id: ChunkId, call: Call<Value>) -> CallId {
        let number = self.with(id, |history| history.call(call.clone()));
        self.note(format_args!("{id} {number:?}: {call:?}"));
        number
    }

    pub fn answer(&self, id: ChunkId, call: CallId, outcome: Outcome<Value>) {
        self.note(format_args!("{id} {call:?}: {outcome:?}"));
        self.with(id, |history| history.answer(call, outcome));
    }

    /// The call had no effect and told nothing.
    pub fn withdraw(&self, id: ChunkId, call: CallId) {
        self.note(format_args!("{id} {call:?}: withdrawn"));
        self.with(id, |history| history.withdraw(call));
    }

    fn with<T>(&self, id: ChunkId, work: impl FnOnce(&mut History<Register<Value>>) -> T) -> T {
        work(self.inner.lock().chunks.get_mut(&id).expect("only chunks that were put are asked for"))
    }

    /// Something that must never be.
    pub fn violate(&self, what: String) {
        self.note(format_args!("VIOLATION: {what}"));
        self.inner.lock().violation.get_or_insert(what);
    }

    pub fn violation(&self) -> Option<String> {
        self.inner.lock().violation.clone()
    }

    pub fn count(&self, what: &'static str) {
        self.note(format_args!("{what}"));
        *self.inner.lock().counts.entry(what).or_default() += 1;
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.inner.lock().counts.clone()
    }

    /// Whether every chunk's history has an explanation.
    pub fn judge(&self) -> Result<(), String> {
        let inner = self.inner.lock();
        if let Some(violation) = &inner.violation {
            return Err(violation.clone());
        }
        for (id, history) in &inner.chunks {
            history.check(None).map_err(|violation| format!("chunk {id}: {violation}"))?;
        }
        Ok(())
    }

    fn note(&self, what: Arguments<'_>) {
        let elapsed = self.env.simulation().map(|simulation| simulation.elapsed()).unwrap_or_default();
        self.trace.note(elapsed, &what);
    }
}
