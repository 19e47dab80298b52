//! The machine.
//!
//! Invariants:
//! - A key is pending, or in limbo, or unknown here: published or free.
//! - A key leaves limbo by [`Reserve::drained`] and in no other way.
//! - `deadlines` has one row for each pending key that has a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A moment in the milliseconds of the caller's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(pub u64);

/// Why nothing was reserved or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The key is pending already.
    Pending,
    /// The key is in limbo.
    Limbo,
    /// As much is pending as may be.
    Full { limit: usize },
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReserveError::Pending => f.write_str("it is reserved already"),
            ReserveError::Limbo => f.write_str("it was given up and is not drained yet"),
            ReserveError::Full { limit } => write!(f, "{limit} reservations are pending, which is the limit"),
        }
    }
}

impl std::error::Error for ReserveError {}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pending<V> {
    value: V,
    deadline: Option<Deadline>,
}

/// What is pending and what is in limbo: keys, each with a value of the caller's (what it reserves).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve<K, V> {
    pending: BTreeMap<K, Pending<V>>,
    deadlines: BTreeSet<(Deadline, K)>,
    limbo: BTreeMap<K, V>,
    limit: usize,
}

impl<K: Copy + Ord, V> Reserve<K, V> {
    /// Nothing, with room for `limit` pending reservations. Limbo has no limit of its own: it holds what was pending or published.
    pub fn new(limit: usize) -> Self {
        Reserve { pending: BTreeMap::new(), deadlines: BTreeSet::new(), limbo: BTreeMap::new(), limit }
    }

    /// Begins a reservation. Without a deadline it stays until it is committed or revoked.
    pub fn reserve(&mut self, key: K, value: V, deadline: Option<Deadline>) -> Result<(), ReserveError> {
        self.check_unknown(key)?;
        if self.pending.len() >= self.limit {
            return Err(ReserveError::Full { limit: self.limit });
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, key)));
        self.pending.insert(key, Pending { value, deadline });
        Ok(())
    }

    /// Ends a reservation: the key is published, and its value the caller's. None if it is not pending (any more).
    pub fn commit(&mut self, key: K) -> Option<V> {
        let Pending { value, deadline } = self.pending.remove(&key)?;
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, key));
        }
        Some(value)
    }

    /// Gives a reservation up; whether it was pending.
    pub fn revoke(&mut self, key: K) -> bool {
        let value = self.commit(key);
        let was_pending = value.is_some();
        self.limbo.extend(value.map(|value| (key, value)));
        was_pending
    }

    /// Gives up what has a deadline that is not later than `now`; these keys, the earliest deadline first.
    pub fn expire(&mut self, now: Deadline) -> Vec<K> {
        let mut expired = Vec::new();
        while let Some((deadline, key)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.revoke(key);
            expired.push(key);
        }
        expired
    }

    /// Gives up what is published.
    pub fn release(&mut self, key: K, value: V) -> Result<(), ReserveError> {
        self.check_unknown(key)?;
        self.limbo.insert(key, value);
        Ok(())
    }

    /// Nothing can touch it any more: it is free, and its value the caller's. None if it is not in limbo (any more).
    pub fn drained(&mut self, key: K) -> Option<V> {
        self.limbo.remove(&key)
    }

    pub fn is_pending(&self, key: K) -> bool {
        self.pending.contains_key(&key)
    }

    /// The value of a pending key.
    pub(crate) fn pending_mut(&mut self, key: K) -> Option<&mut V> {
        self.pending.get_mut(&key).map(|pending| &mut pending.value)
    }

    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The value of a key in limbo.
    pub fn in_limbo(&self, key: K) -> Option<&V> {
        self.limbo.get(&key)
    }

    /// The least of the pending keys.
    pub fn first_pending(&self) -> Option<K> {
        self.pending.keys().next().copied()
    }

    /// When a pending key's reservation ends, if it has an end.
    pub fn deadline(&self, key: K) -> Option<Deadline> {
        self.pending.get(&key)?.deadline
    }

    /// All pending keys, in their order.
    pub fn pending(&self) -> impl Iterator<Item = (K, &V)> {
        self.pending.iter().map(|(key, pending)| (*key, &pending.value))
    }

    /// All keys in limbo, in their order.
    pub fn limbo(&self) -> impl Iterator<Item = (K, &V)> {
        self.limbo.iter().map(|(key, value)| (*key, value))
    }

    /// When [`expire`](Self::expire) has something to do again.
    pub fn next_deadline(&self) -> Option<Deadline> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Refuses a key that is pending or in limbo.
    pub(crate) fn check_unknown(&self, key: K) -> Result<(), ReserveError> {
        if self.pending.contains_key(&key) {
            return Err(ReserveError::Pending);
        }
        if self.limbo.contains_key(&key) { Err(ReserveError::Limbo) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
