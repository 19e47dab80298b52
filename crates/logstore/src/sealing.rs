//! Sealing saved records: keeping where they stand without their keys (docs/rfd/0013-ludo-index.md).
//!
//! ```text
//!   checkpoints' lock ─► rows of all runs, oldest first ─► newest of each key of a window of shards ─► units, shard by shard
//! ```
//!
//! The runs are the saved records, exactly: what a checkpoint settles is in a run, and what is forgotten has no row that counts. Under the
//! checkpoints' lock neither changes.

use crate::checkpoint::forgotten_with;
use crate::index::{Dictionaries, Gather, IndexForm, IndexLen, LudoForm, Sealed};
use crate::names::{Run, corrupt_run};
use crate::store::{Inner, SHARDS, shard_of};
use engine::EngineError;
use format::entry::EntryState;
use format::name_entry::Row;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::{Arc, Weak};
use types::{DeviceId, ZoneIndex};

/// Rows that a sealing holds in memory at a time, 56 bytes each, unless one shard has more.
const MAX_ROWS_GATHERED: u64 = 4 * 1024 * 1024;
/// A sealing is due when the saved records with their keys are more than this part of those without.
const EXACT_PART: usize = 16;
/// How often a window is gathered because a zone was reset meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// The dictionaries in use, which must hear of every zone that is reset.
#[derive(Default)]
pub(crate) struct Sealing(Mutex<InUse>);

#[derive(Default)]
struct InUse {
    dictionaries: Vec<Weak<Dictionaries>>,
    /// Zones reset so far.
    resets: u64,
}

impl Sealing {
    /// To be called before a zone is reset.
    pub fn note_reset(&self, device: DeviceId, zone: ZoneIndex) {
        let mut in_use = self.0.lock();
        in_use.resets += 1;
        in_use.dictionaries.iter().filter_map(Weak::upgrade).for_each(|known| known.mark_reset(device, zone));
    }

    fn resets(&self) -> u64 {
        self.0.lock().resets
    }

    /// From here on these dictionaries hear of resets; false if they have missed one since there were `resets` of them.
    fn has_heard_all(&self, resets: u64, dictionaries: &Arc<Dictionaries>) -> bool {
        let mut in_use = self.0.lock();
        in_use.dictionaries.retain(|known| known.strong_count() > 0);
        if in_use.resets == resets {
            in_use.dictionaries.push(Arc::downgrade(dictionaries));
        }
        in_use.resets == resets
    }

    /// Of the dictionaries.
    pub fn memory_bytes(&self) -> usize {
        let in_use = self.0.lock();
        in_use.dictionaries.iter().filter_map(Weak::upgrade).map(|known| known.memory_bytes()).sum()
    }
}

impl Inner {
    /// Seals the saved records if many have their keys beside them.
    pub(crate) async fn seal_if_due(self: &Arc<Self>) -> Result<(), EngineError> {
        let IndexForm::Ludo(form) = self.config.index else { return Ok(()) };
        // Orders of sealed records tell that a missing device may hold newer ones: they must be older than this start.
        if !self.undecidable.is_empty() {
            return Ok(());
        }
        let IndexLen { exact, sealed, .. } = self.index_len();
        if exact < form.seal_entries.max(sealed / EXACT_PART) {
            return Ok(());
        }
        let _no_checkpoint = self.checkpoints.lock().await;
        let runs = self.names.layers().runs;
        self.seal(form, &runs, &mut |_| {}).await
    }

    /// Seals what these runs, newest first, hold: all that is saved. The caller has the checkpoints' lock. Every row is shown to `visit`,
    /// those of older runs first; more than once if it is read again.
    pub(crate) async fn seal(
        self: &Arc<Self>,
        form: LudoForm,
        runs: &[Arc<Run>],
        visit: &mut (dyn FnMut(&Row<'_>) + Send),
    ) -> Result<(), EngineError> {
        for shards in windows(0..SHARDS, runs) {
            self.seal_window(form, shards, runs, visit).await?;
        }
        self.stats.sealings.add(1);
        Ok(())
    }

    async fn seal_window(
        self: &Arc<Self>,
        form: LudoForm,
        shards: Range<usize>,
        runs: &[Arc<Run>],
        visit: &mut (dyn FnMut(&Row<'_>) + Send),
    ) -> Result<(), EngineError> {
        for _ in 0..MAX_ATTEMPTS {
            let resets = self.sealing.resets();
            let (dictionaries, gathered) = self.gather(shards.clone(), runs, visit).await?.finish();
            if !self.sealing.has_heard_all(resets, &dictionaries) {
                continue;
            }
            for gathered in gathered {
                let shard = gathered.shard;
                let parts = Sealed::build(&dictionaries, gathered, form.fingerprint_bits, self.env.random_u64());
                self.shards[shard].lock().index_mut().seal(parts);
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        Err(EngineError::Busy { reason: "zones are reset all the time".to_owned() })
    }

    async fn gather(
        &self,
        shards: Range<usize>,
        runs: &[Arc<Run>],
        visit: &mut (dyn FnMut(&Row<'_>) + Send),
    ) -> Result<Gather, EngineError> {
        let mut gather = Gather::new(shards.clone());
        let covered = self.remembered.covered();
        self.each_row(runs, &mut |row| {
            let shard = shard_of(&row.hash());
            if shards.contains(&shard) {
                visit(row);
                let entry = row.entry();
                let is_forgettable =
                    entry.state == EntryState::Tombstone && forgotten_with(row.space(), entry.epoch) <= covered;
                gather.push(shard, &entry, is_forgettable);
            }
        })
        .await?;
        Ok(gather)
    }

    /// Goes through all rows of these runs, newest first in the list, the oldest run's first.
    pub(crate) async fn each_row(
        &self,
        runs: &[Arc<Run>],
        visit: &mut (dyn FnMut(&Row<'_>) + Send),
    ) -> Result<(), EngineError> {
        for run in runs.iter().rev() {
            for number in 0..run.blocks() {
                let block = run.block(self, number).await?;
                let mut rows = block.rows();
                while let Some(row) = rows.next() {
                    let row = row.map_err(|error| corrupt_run(run.id(), &error))?;
                    visit(&row);
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Keys of all shards, by where they are.
    pub(crate) fn index_len(&self) -> IndexLen {
        let mut all = IndexLen::default();
        for shard in &self.shards {
            let len = shard.lock().index().len();
            all.unsaved += len.unsaved;
            all.exact += len.exact;
            all.sealed += len.sealed;
        }
        all
    }
}

/// Parts of a range of shards whose rows in these runs fit into memory.
pub(crate) fn windows(shards: Range<usize>, runs: &[Arc<Run>]) -> impl Iterator<Item = Range<usize>> + use<> {
    let rows: u64 = runs.iter().map(|run| run.summary.entries).sum();
    let rows = rows * shards.len() as u64 / SHARDS as u64;
    let parts = (rows.div_ceil(MAX_ROWS_GATHERED).max(1) as usize).min(shards.len());
    let (start, len) = (shards.start, shards.len());
    (0..parts).map(move |part| start + part * len / parts..start + (part + 1) * len / parts)
}
