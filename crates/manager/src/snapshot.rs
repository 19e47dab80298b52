//! The whole state at one moment, and the only way to change it.
//!
//! Every table stands behind a reference count: a clone costs a few increments, and a change copies the one table that it
//! touches. So readers hold a snapshot without a lock, and a manifest that is replaced often copies no bucket.

use std::sync::Arc;

use crate::entry::{EntryKey, number_key, record_key};
use crate::kind::Kept;
use crate::limits::NUMBER_LIMIT;
pub use crate::modules::Snapshot;
use crate::modules::check_tables;

/// The number of a command in the manager's log: 1 for the first. 0 means "none yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandIndex(pub u64);

/// A state with a number that no manager can have handed out: what would be handed out next is in use, or comes round to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state has {what} {found}; expected a number below {limit}")]
pub struct ImpossibleNumber {
    pub what: &'static str,
    pub found: u64,
    pub limit: u64,
}

/// A state whose records contradict each other: no manager can have come to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImpossibleState {
    #[error(transparent)]
    Number(#[from] ImpossibleNumber),
    #[error("{kind} {key} has {what}")]
    Record { kind: &'static str, key: String, what: &'static str },
}

impl Snapshot {
    /// For a state that was read: whether it can have come about.
    pub(crate) fn check(&self) -> Result<(), ImpossibleState> {
        check_number("command", self.applied.0, NUMBER_LIMIT)?;
        check_tables(self)
    }

    /// The last command that this snapshot holds.
    pub fn applied(&self) -> CommandIndex {
        self.applied
    }
}

pub(crate) fn check_number(what: &'static str, found: u64, limit: u64) -> Result<(), ImpossibleNumber> {
    if found < limit { Ok(()) } else { Err(ImpossibleNumber { what, found, limit }) }
}

/// A state under change. It notes which entries were touched, so that exactly those are materialised.
pub(crate) struct Edit<'a> {
    pub(crate) state: &'a mut Snapshot,
    pub(crate) touched: &'a mut Vec<EntryKey>,
}

impl Edit<'_> {
    /// Gives out the kind's next number.
    pub(crate) fn take_number<R: Kept>(&mut self) -> u64 {
        self.touched.push(number_key(R::TAG));
        let next = &mut R::table_mut(self.state).next;
        *next += 1;
        *next - 1
    }

    /// Puts a record in, or in the place of the one before.
    pub(crate) fn set<R: Kept>(&mut self, key: R::Key, record: Arc<R>) -> Arc<R> {
        self.touched.push(record_key::<R>(&key));
        R::table_mut(self.state).records_mut().insert(key, Arc::clone(&record));
        record
    }

    /// Takes a record out, if it is there.
    pub(crate) fn remove<R: Kept>(&mut self, key: &R::Key) {
        if R::table(self.state).contains_key(key) {
            self.touched.push(record_key::<R>(key));
            R::table_mut(self.state).records_mut().remove(key);
        }
    }
}
