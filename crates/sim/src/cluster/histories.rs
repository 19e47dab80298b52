//! What clients asked and heard: a history for each key.

use crate::trace::Trace;
use env::Env;
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Values are never written twice, so that a read tells which write it saw.
pub type Value = u64;

/// The histories of all keys of a run. One observer sees all calls and answers, so they have one order.
pub struct Histories {
    env: Env,
    trace: Arc<Trace>,
    keys: Mutex<Vec<History<Register<Value>>>>,
    next: Mutex<Value>,
    violation: Mutex<Option<String>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Histories {
    pub fn new(env: &Env, trace: &Arc<Trace>, keys: usize) -> Arc<Histories> {
        Arc::new(Histories {
            env: env.clone(),
            trace: trace.clone(),
            keys: Mutex::new(vec![History::default(); keys]),
            next: Mutex::default(),
            violation: Mutex::default(),
            counts: Mutex::default(),
        })
    }

    pub fn keys(&self) -> usize {
        self.keys.lock().len()
    }

    pub fn next_value(&self) -> Value {
        let mut next = self.next.lock();
        *next += 1;
        *next
    }

    pub fn call(&self, at: usize, call: Call<Value>) -> CallId {
        let id = self.keys.lock()[at].call(call.clone());
        self.note(format_args!("{} {id:?}: {call:?}", name(at)));
        id
    }

    pub fn answer(&self, at: usize, id: CallId, outcome: Outcome<Value>) {
        self.note(format_args!("{} {id:?}: {outcome:?}", name(at)));
        self.keys.lock()[at].answer(id, outcome);
    }

    /// The call had no effect and told nothing.
    pub fn withdraw(&self, at: usize, id: CallId) {
        self.note(format_args!("{} {id:?}: withdrawn", name(at)));
        self.keys.lock()[at].withdraw(id);
    }

    /// Something that must never be.
    pub fn violate(&self, what: String) {
        self.note(format_args!("VIOLATION: {what}"));
        self.violation.lock().get_or_insert(what);
    }

    pub fn violation(&self) -> Option<String> {
        self.violation.lock().clone()
    }

    pub fn count(&self, what: &'static str) {
        *self.counts.lock().entry(what).or_default() += 1;
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().clone()
    }

    pub fn calls(&self) -> usize {
        self.keys.lock().iter().map(History::len).sum()
    }

    /// Whether every key's history has an explanation.
    pub fn judge(&self) -> Result<(), String> {
        if let Some(violation) = self.violation() {
            return Err(violation);
        }
        for (at, history) in self.keys.lock().iter().enumerate() {
            history.check(None).map_err(|violation| format!("{}: {violation}", name(at)))?;
        }
        Ok(())
    }

    pub fn note(&self, what: std::fmt::Arguments<'_>) {
        let elapsed = self.env.simulation().map(|simulation| simulation.elapsed()).unwrap_or_default();
        self.trace.note(elapsed, &what);
    }
}

/// The name of a key.
pub fn name(at: usize) -> String {
    format!("key-{at:02}")
}
