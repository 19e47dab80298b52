//! What a start must not forget, in the manifest (docs/rfd/0004-what-a-start-remembers.md).
//!
//! ```text
//!   start ─► walk ─► record the table of this start ─► write
//!                            a device fails ─► record the table without it ─► write to the others
//!                            checkpoint ─► all is decided: forget the tables before, move vectors
//!                                       └► something is not: keep tables, vectors and what counts as covered
//! ```
//!
//! Invariants:
//! - A table is in the installed manifest before the first write that goes by it.
//! - It stays there until a checkpoint of a start that could decide everything has covered the writes that went by it.
//! - Of the manifest, tables and cover change here only; runs and vectors are the checkpoints'.

use crate::manifests::Manifests;
use crate::store::Inner;
use engine::EngineError;
use format::manifest::{Manifest, RecordedTable};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use topology::ReplicaTable;
use types::{Epoch, Generation};

/// Generations of one start: its first, and one more for each device that fails meanwhile.
const GENERATIONS_PER_INCARNATION: u32 = 1 << 8;
/// Starts of a cell: then generations and sequences are used up.
pub(crate) const MAX_INCARNATIONS: u64 = 1 << 24;
/// Most tables that wait to be covered. Each is another set of devices under which a start wrote.
const MAX_TABLES: usize = 256;

/// The first generation of a start; none if generations are used up.
pub(crate) fn first_generation(incarnation: u64) -> Option<Generation> {
    (incarnation < MAX_INCARNATIONS).then(|| Generation(incarnation as u32 * GENERATIONS_PER_INCARNATION))
}

/// The generation after a failure; none if this start has used up its share.
pub(crate) fn next_generation(generation: Generation) -> Option<Generation> {
    let next = generation.0.checked_add(1)?;
    (!next.is_multiple_of(GENERATIONS_PER_INCARNATION)).then_some(Generation(next))
}

/// The manifest, as far as it is about what can't be decided.
pub(crate) struct Remembered {
    manifests: Arc<dyn Manifests>,
    /// Its lock puts installations in an order.
    installed: tokio::sync::Mutex<Manifest>,
    /// This start could not decide everything.
    holds_back: bool,
    covered: AtomicU64,
    newest: AtomicU64,
    /// The newest epoch in which a record got other places that is known of.
    moved_in: AtomicU64,
    /// The table's generation when the newest epoch to end ended.
    ended_with: AtomicU32,
    /// Whether the last installation did not end well: it may be in force, if not now then after a restart of the manager.
    is_in_doubt: AtomicBool,
}

impl Remembered {
    pub fn new(manifests: Arc<dyn Manifests>, installed: Manifest, holds_back: bool) -> Self {
        Remembered {
            manifests,
            covered: AtomicU64::new(installed.covered.0),
            newest: AtomicU64::new(installed.epoch.0),
            moved_in: AtomicU64::new(installed.epoch.0),
            ended_with: AtomicU32::new(installed.generation.0),
            installed: tokio::sync::Mutex::new(installed),
            holds_back,
            is_in_doubt: AtomicBool::new(false),
        }
    }

    /// Whether start vectors stay where they are.
    pub fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// The epoch of the newest checkpoint that this gateway knows.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.newest.load(Ordering::Acquire))
    }

    /// A record gets other places in this epoch. To be called before anybody can look them up, or under the shard's lock.
    pub fn note_move(&self, epoch: Epoch) {
        self.moved_in.fetch_max(epoch.0, Ordering::AcqRel);
    }

    /// The epoch of the checkpoint that has all places that records have got until now.
    pub fn moved_in(&self) -> Epoch {
        Epoch(self.moved_in.load(Ordering::Acquire))
    }

    /// Takes note of a manifest that another gateway has installed.
    pub async fn adopt(&self, manifest: &Manifest) {
        let mut installed = self.installed.lock().await;
        *installed = manifest.clone();
        self.covered.store(manifest.covered.0, Ordering::Release);
        self.newest.store(manifest.epoch.0, Ordering::Release);
    }

    /// What the manager has now: another gateway may have installed it.
    pub fn load(&self) -> Option<Vec<u8>> {
        self.manifests.load()
    }

    /// Fails if nothing can be installed at the moment.
    pub async fn reach(&self) -> Result<(), EngineError> {
        self.manifests.reach().await
    }

    /// Whether a manifest may be in force of which nothing is known here.
    pub fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Acquire)
    }

    /// Writes of this epoch and before are decided.
    pub fn covered(&self) -> Epoch {
        Epoch(self.covered.load(Ordering::Acquire))
    }

    /// To be called before an epoch ends: writes of the next one go by this table or a later one.
    pub fn note_end(&self, generation: Generation) {
        self.ended_with.store(generation.0, Ordering::Release);
    }

    /// Makes a table durable. Writes may go by it afterwards.
    pub async fn record(&self, table: &ReplicaTable) -> Result<(), EngineError> {
        let mut installed = self.installed.lock().await;
        let mut next = installed.clone();
        // Equal devices are equal sets, so one table says it for both.
        next.tables.retain(|known| known.devices != table.devices());
        if next.tables.len() >= MAX_TABLES {
            let reason = format!("starts with {MAX_TABLES} different sets of devices, and none with all of them");
            return Err(EngineError::Unavailable { reason });
        }
        next.tables.push(RecordedTable { generation: table.generation(), devices: table.devices().to_vec() });
        self.replace(installed.epoch, &next).await?;
        *installed = next;
        Ok(())
    }

    /// Installs what a checkpoint or a merge made; answers with the manifest as it is now.
    pub async fn install(&self, made: Manifest) -> Result<Manifest, EngineError> {
        let mut installed = self.installed.lock().await;
        let mut next = Manifest { covered: installed.covered, tables: installed.tables.clone(), ..made };
        let is_checkpoint = next.epoch > installed.epoch;
        if is_checkpoint && !self.holds_back {
            let ended_with = self.ended_with.load(Ordering::Acquire);
            next.covered = next.epoch;
            next.tables.retain(|table| table.generation.0 >= ended_with);
        }
        self.replace(installed.epoch, &next).await?;
        self.covered.store(next.covered.0, Ordering::Release);
        self.newest.store(next.epoch.0, Ordering::Release);
        *installed = next.clone();
        Ok(next)
    }

    async fn replace(&self, expected: Epoch, next: &Manifest) -> Result<(), EngineError> {
        self.is_in_doubt.store(true, Ordering::Release);
        self.manifests.install(expected, next.epoch, next.encode()).await?;
        self.is_in_doubt.store(false, Ordering::Release);
        Ok(())
    }
}

/// Puts a table without the failed devices in force whenever one fails, after recording it. Ends with the engine.
pub(crate) async fn keep_tables(inner: Weak<Inner>, mut failures: env::watch::Receiver<u64>) {
    while failures.changed().await.is_ok() {
        let count = *failures.borrow_and_update();
        let Some(inner) = inner.upgrade() else { return };
        if let Some(table) = inner.targets.next_table() {
            match inner.remembered.record(&table).await {
                Ok(()) => inner.set_table(table),
                Err(error) => {
                    tracing::error!(%error, "a device failed, and the table without it can't be recorded: writes fail")
                }
            }
        }
        inner.targets.settle_failures(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_of_two_starts_never_meet() {
        let first = first_generation(7).unwrap();
        let mut last = first;
        while let Some(next) = next_generation(last) {
            assert!(next > last);
            last = next;
        }
        assert_eq!(last.0 - first.0, GENERATIONS_PER_INCARNATION - 1);
        assert!(last < first_generation(8).unwrap());
        assert_eq!(first_generation(MAX_INCARNATIONS), None);
        let last = first_generation(MAX_INCARNATIONS - 1).unwrap();
        assert_eq!(next_generation(Generation(last.0 + (GENERATIONS_PER_INCARNATION - 1))), None);
    }
}
