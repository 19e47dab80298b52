//! The key list: every name with what a list says of it, newest layer first (paper section 3.3; zstore.md, decision 14).
//!
//! ```text
//!   memtable of the present epoch      written by every publication
//!   memtable of the epoch before       while a checkpoint writes it down
//!   run, run, run ...                  sorted, on the log, newest first
//! ```
//!
//! A name may stand in several layers; its newest order counts, and among rows of one order (a relocation) the newest layer.
//! A tombstone hides what is below it. The layers change only as a whole, so a list sees either a memtable or the run
//! that was made of it.

mod block_cache;
mod memtable;
mod merge;
mod run;

pub(crate) use block_cache::{BlockCache, RowSummary, Rows};
pub(crate) use memtable::Memtable;
pub(crate) use merge::{Merged, Merger, Missing};
pub(crate) use run::{Run, RunWriter};

use format::attributes::ETag;
use format::name_entry::NameEntry;
use format::record::EntryName;
use parking_lot::RwLock;
use std::sync::Arc;
use types::{Epoch, Order};

/// The layers of the key list.
pub(crate) struct Names {
    layers: RwLock<Layers>,
    pub cache: BlockCache,
}

/// One consistent set of layers.
#[derive(Clone)]
pub(crate) struct Layers {
    /// Newest epoch first; one or two.
    pub memtables: Vec<Arc<Memtable>>,
    /// Newest first.
    pub runs: Vec<Arc<Run>>,
}

impl Names {
    pub fn new(epoch: Epoch) -> Self {
        let layers = Layers { memtables: vec![Arc::new(Memtable::new(epoch))], runs: Vec::new() };
        Names { layers: RwLock::new(layers), cache: BlockCache::default() }
    }

    /// Notes a name that was published in `epoch`, which is the present one or the one before.
    pub fn insert(&self, epoch: Epoch, entry: NameEntry) {
        let layers = self.layers.read();
        let memtable = layers.memtables.iter().find(|memtable| memtable.epoch() == epoch);
        memtable.expect("an epoch has its memtable until it is checkpointed").insert(entry);
    }

    /// The tag of a name whose newest record is in no checkpoint yet, if that record has this order.
    pub fn unsaved_etag(&self, name: &EntryName, order: Order) -> Option<ETag> {
        let layers = self.layers.read();
        layers.memtables.iter().find_map(|memtable| memtable.etag(name, order))
    }

    pub fn layers(&self) -> Layers {
        self.layers.read().clone()
    }

    /// Sets the runs that a start has read, newest first.
    pub fn set_runs(&self, runs: Vec<Arc<Run>>) {
        self.layers.write().runs = runs;
    }

    /// Opens the memtable of the next epoch. To be called before the epoch advances.
    pub fn begin_epoch(&self, epoch: Epoch) {
        let mut layers = self.layers.write();
        assert!(layers.memtables.len() == 1, "the epoch before the last is checkpointed first");
        layers.memtables.insert(0, Arc::new(Memtable::new(epoch)));
    }

    /// Replaces the memtable of a checkpointed epoch by its run.
    pub fn end_epoch(&self, epoch: Epoch, run: Option<Arc<Run>>) {
        let mut layers = self.layers.write();
        layers.memtables.retain(|memtable| memtable.epoch() > epoch);
        if let Some(run) = run {
            layers.runs.insert(0, run);
        }
    }

    /// Replaces neighbouring runs by the one that was made of them.
    pub fn merge_runs(&self, merged: &[Arc<Run>], into: Option<Arc<Run>>) {
        let mut layers = self.layers.write();
        let at = layers.runs.iter().position(|run| run.id() == merged[0].id()).expect("merged runs are layers");
        layers.runs.drain(at..at + merged.len());
        if let Some(run) = into {
            layers.runs.insert(at, run);
        }
    }

    /// Names in no checkpoint yet.
    pub fn unsaved(&self) -> usize {
        self.layers.read().memtables.iter().map(|memtable| memtable.len()).sum()
    }
}
