//! Ordered key-value state: atomic batches, snapshots, prefix scans.
//!
//! What lies here is materialised state, never the first place where something becomes durable. The owner writes its log
//! (`wal`) first, then commits the effect here together with the index that it has applied, and shortens the log only after
//! [`Kv::persist`] has returned. After a crash the owner finds here the effect of some prefix of its batches, never a gap and
//! never half of a batch, and replays the rest from its log.
//!
//! Invariants:
//! - A batch is visible whole or not at all, to readers and after a crash.
//! - What [`Kv::persist`] covered survives; of what came later a prefix does, possibly an empty one.
//! - After a failed commit or persist the store refuses every further write; only opening it again clears that.
//!
//! Two implementations: [`FjallKv`] keeps a folder of a file system, [`MemoryKv`] is the twin for simulation, which forgets
//! everything since the last persist when it is told to crash. Both are one keyspace: owners tell their tables apart by the
//! first byte of the key, because every fjall keyspace costs its own memtable, flushes and descriptors.
#![forbid(unsafe_code)]

mod batch;
mod error;
mod fjall_kv;
mod memory;

#[cfg(test)]
mod tests;

use std::ops::{Bound, ControlFlow};

pub use batch::{Batch, MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES};
pub use error::{CommitError, OpenError, PersistError, ReadError};
pub use fjall_kv::FjallKv;
pub use memory::MemoryKv;

/// Called with each key and value of a scan, in ascending order of keys, until it breaks.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Reading: of the newest state through a store, of one moment through a snapshot.
pub trait KvRead: Send + Sync {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError>;

    /// Visits the entries between two bounds in ascending order. The whole scan sees one moment.
    fn scan(&self, start: Bound<&[u8]>, end: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), ReadError>;

    /// Visits the entries whose keys begin with `prefix`, in ascending order. The whole scan sees one moment.
    fn scan_prefix(&self, prefix: &[u8], visit: Visit<'_>) -> Result<(), ReadError> {
        match prefix_end(prefix) {
            Some(end) => self.scan(Bound::Included(prefix), Bound::Excluded(&end), visit),
            None => self.scan(Bound::Included(prefix), Bound::Unbounded, visit),
        }
    }
}

/// An ordered key-value store.
pub trait Kv: KvRead {
    /// Makes a batch visible, atomically. It is durable after the next [`Kv::persist`].
    fn commit(&self, batch: Batch) -> Result<(), CommitError>;

    /// Returns once every batch committed before the call is durable.
    fn persist(&self) -> Result<(), PersistError>;

    /// Whether [`Kv::persist`] waits for a device. A caller on an asynchronous runtime then moves it to a thread for blocking work;
    /// the twin does not wait, and stays on the simulation's one thread.
    fn persist_waits(&self) -> bool;

    /// Whether there is room for a batch of so many bytes, and for what the store does with it later. A commit without room fails, and the store with it.
    fn has_room(&self, bytes: usize) -> bool;

    /// The state of this moment, unaffected by later commits.
    fn snapshot(&self) -> Result<Box<dyn KvRead>, ReadError>;
}

/// The smallest key that is greater than every key with this prefix; none if the prefix is empty or all ones.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// True if no key can lie between the bounds. The ordered maps beneath panic on such bounds instead of finding nothing.
fn is_empty_range(start: Bound<&[u8]>, end: Bound<&[u8]>) -> bool {
    match (start, end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
    }
}
