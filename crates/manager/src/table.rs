//! The state in `kv`: its entries ([`crate::entry`]).
//!
//! Invariant: a batch holds the number of the last command whose effects are in it. So what is found after a crash is the state
//! after exactly that command, and the log goes on from the next.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use kv::{Batch, Kv, ReadError};

use crate::entry::{self, EntryError, EntryKey};
use crate::snapshot::Snapshot;

/// The state could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Entry(#[from] EntryError),
}

/// The batch that brings `kv` from the state before to `state`, of which the entries `touched` differ.
pub(crate) fn batch(state: &Snapshot, touched: Vec<EntryKey>) -> Batch {
    let mut batch = Batch::new();
    let touched: BTreeSet<EntryKey> = touched.into_iter().collect();
    for key in touched {
        match entry::value(state, &key) {
            Some(value) => batch.put(key, value),
            None => batch.remove(key),
        }
    }
    let (key, value) = entry::applied(state);
    batch.put(key, value);
    batch
}

/// Every entry of a state.
pub(crate) fn all_entries(state: &Snapshot) -> Vec<EntryKey> {
    entry::all(state).into_iter().map(|(key, _)| key).collect()
}

/// Reads the state back. An empty store holds the state before the first command.
pub(crate) fn load(kv: &dyn Kv) -> Result<Snapshot, LoadError> {
    let mut state = Snapshot::default();
    let mut outcome = Ok(());
    kv.scan_prefix(&[], &mut |key, value| {
        outcome = entry::load(&mut state, key, value);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome?;
    state.check().map_err(EntryError::from)?;
    Ok(state)
}
