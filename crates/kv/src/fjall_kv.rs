//! The store in a folder, on fjall.
//!
//! Traps that shape this file: fjall's commit holds a mutex across fsync, so batches are committed without durability and
//! [`Kv::persist`] alone asks for it; it drops a journal's tail silently at a bad record, so it must never be the only copy of
//! anything; its keyspaces are never cleared or dropped, and there is exactly one.

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use parking_lot::Mutex;

use crate::batch::Batch;
use crate::error::{CommitError, OpenError, PersistError, ReadError, check};
use crate::{Kv, KvRead, Visit, is_empty_range};

/// Bytes of fjall's block cache. Owners keep what is hot in their own memory.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of the memtable before it is flushed to a table.
const MEMTABLE_BYTES: u64 = 8 * 1024 * 1024;

/// Fjall's background threads: flushes and compactions of a small state.
const WORKER_THREADS: usize = 1;

/// Most bytes of fjall's journals (64 MiB is the least it accepts).
const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes that the file system keeps free: for a journal, and for tables that are merged.
const ROOM_BYTES: u64 = 2 * JOURNAL_BYTES;

/// A batch stands in the journal, then in a table, then in a merged one.
const WRITTEN_AGAIN: u64 = 3;

const KEYSPACE_NAME: &str = "state";

/// A store in a folder of a file system.
pub struct FjallKv {
    folder: PathBuf,
    database: Database,
    keyspace: Keyspace,
    /// Held over a persist. Fjall looks at its own failure mark before it takes the journal's lock: of two concurrent persists
    /// the first could fail and the second, already past the mark, report as durable what the kernel has dropped.
    persisting: Mutex<()>,
}

impl FjallKv {
    /// Opens the store in `folder`, which is made if absent.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let failed = |cause| OpenError { folder: folder.to_path_buf(), cause };
        let database = Database::builder(folder)
            .cache_size(CACHE_BYTES)
            .worker_threads(WORKER_THREADS)
            .max_journaling_size(JOURNAL_BYTES)
            .manual_journal_persist(true)
            .open()
            .map_err(failed)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES).manual_journal_persist(true);
        let keyspace = database.keyspace(KEYSPACE_NAME, options).map_err(failed)?;
        Ok(FjallKv { folder: folder.to_path_buf(), database, keyspace, persisting: Mutex::new(()) })
    }

    fn view(&self) -> FjallSnapshot {
        FjallSnapshot { folder: self.folder.clone(), snapshot: self.database.snapshot(), keyspace: self.keyspace.clone() }
    }
}

impl KvRead for FjallKv {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        match self.keyspace.get(key) {
            Ok(value) => Ok(value.map(|value| value.to_vec())),
            Err(cause) => Err(ReadError::Storage { folder: self.folder.clone(), cause }),
        }
    }

    fn scan(&self, start: Bound<&[u8]>, end: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), ReadError> {
        self.view().scan(start, end, visit)
    }
}

impl Kv for FjallKv {
    fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        check(&batch)?;
        let mut writes = self.database.batch();
        for (key, value) in batch.into_changes() {
            match value {
                Some(value) => writes.insert(&self.keyspace, key, value),
                None => writes.remove(&self.keyspace, key),
            }
        }
        writes.commit().map_err(|cause| match cause {
            fjall::Error::Poisoned => CommitError::Poisoned,
            cause => CommitError::Storage { folder: self.folder.clone(), cause },
        })
    }

    fn persist(&self) -> Result<(), PersistError> {
        let _alone = self.persisting.lock();
        self.database.persist(PersistMode::SyncAll).map_err(|cause| match cause {
            fjall::Error::Poisoned => PersistError::Poisoned,
            cause => PersistError::Storage { folder: self.folder.clone(), cause },
        })
    }

    fn persist_waits(&self) -> bool {
        true
    }

    /// A file system that does not say what is free counts as one with room.
    fn has_room(&self, bytes: usize) -> bool {
        let wanted = ROOM_BYTES.saturating_add(WRITTEN_AGAIN.saturating_mul(bytes as u64));
        rustix::fs::statvfs(&self.folder).map_or(true, |status| status.f_bavail * status.f_frsize >= wanted)
    }

    fn snapshot(&self) -> Result<Box<dyn KvRead>, ReadError> {
        Ok(Box::new(self.view()))
    }
}

struct FjallSnapshot {
    folder: PathBuf,
    snapshot: Snapshot,
    keyspace: Keyspace,
}

impl FjallSnapshot {
    fn failed(&self, cause: fjall::Error) -> ReadError {
        ReadError::Storage { folder: self.folder.clone(), cause }
    }
}

impl KvRead for FjallSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let value = self.snapshot.get(&self.keyspace, key).map_err(|cause| self.failed(cause))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(&self, start: Bound<&[u8]>, end: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), ReadError> {
        if is_empty_range(start, end) {
            return Ok(());
        }
        for entry in self.snapshot.range::<&[u8], _>(&self.keyspace, (start, end)) {
            let (key, value) = entry.into_inner().map_err(|cause| self.failed(cause))?;
            if let ControlFlow::Break(()) = visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}
