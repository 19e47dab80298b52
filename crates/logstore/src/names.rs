//! The key list: every name with what a list says of it, newest layer first (paper section 3.3; RFD 2, decision 14).
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

pub(crate) use block_cache::{BlockCache, RowSummary, Rows, ScanBlocks};
pub(crate) use memtable::Memtable;
pub(crate) use merge::{Merged, Merger, Missing};
pub(crate) use run::{Run, RunWriter, corrupt as corrupt_run};

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
    /// Newest epoch first; one or two, but where checkpoints fail or other gateways are ahead.
    pub memtables: Vec<Arc<Memtable>>,
    /// Newest first.
    pub runs: Vec<Arc<Run>>,
}

impl Names {
    pub fn new(epoch: Epoch) -> Self {
        let layers = Layers { memtables: vec![Arc::new(Memtable::new(epoch))], runs: Vec::new() };
        Names { layers: RwLock::new(layers), cache: BlockCache::default() }
    }

    /// Notes a name that was published in `epoch`. Another gateway may have begun an epoch that this one has not, and a removed one may
    /// have left an entry of an epoch that is over: that one is noted with the oldest that is not written down.
    pub fn insert(&self, epoch: Epoch, entry: NameEntry) {
        {
            let layers = self.layers.read();
            let known = layers.memtables.iter().find(|memtable| memtable.epoch() <= epoch).or(layers.memtables.last());
            let memtable = known.expect("there is always a memtable");
            if memtable.epoch() >= epoch {
                return memtable.insert(entry);
            }
        }
        self.begin_epoch(epoch);
        self.insert(epoch, entry);
    }

    /// The greatest epoch that any entry may be of.
    pub fn newest_epoch(&self) -> Epoch {
        self.layers.read().memtables.iter().map(|memtable| memtable.epoch()).max().unwrap_or_default()
    }

    /// The tag of a name whose newest record is in no checkpoint yet, if that record has this order.
    pub fn unsaved_etag(&self, name: &EntryName, order: Order) -> Option<ETag> {
        let layers = self.layers.read();
        layers.memtables.iter().find_map(|memtable| memtable.etag(name, order))
    }

    pub fn layers(&self) -> Layers {
        self.layers.read().clone()
    }

    /// Whether all these runs are layers. If not, they may be gone from their zones, and what is read there is something else.
    pub fn has_layers(&self, runs: &[Arc<Run>]) -> bool {
        let layers = self.layers.read();
        runs.iter().all(|run| layers.runs.iter().any(|known| Arc::ptr_eq(known, run)))
    }

    /// Sets the runs that a start has read, newest first.
    pub fn set_runs(&self, runs: Vec<Arc<Run>>) {
        self.layers.write().runs = runs;
    }

    /// Opens the memtable of an epoch, unless it is open. To be called before the epoch advances.
    pub fn begin_epoch(&self, epoch: Epoch) {
        let mut layers = self.layers.write();
        let at = layers.memtables.iter().position(|memtable| memtable.epoch() <= epoch).unwrap_or(layers.memtables.len());
        if layers.memtables.get(at).is_none_or(|memtable| memtable.epoch() < epoch) {
            layers.memtables.insert(at, Arc::new(Memtable::new(epoch)));
        }
    }

    /// Makes one memtable of those whose epochs have ended; nothing is noted in them any more.
    pub fn fold(&self, ended: Epoch) -> Arc<Memtable> {
        let mut layers = self.layers.write();
        let over: Vec<Arc<Memtable>> = layers.memtables.iter().filter(|memtable| memtable.epoch() <= ended).cloned().collect();
        if let [only] = &over[..] {
            return only.clone();
        }
        let folded = Arc::new(Memtable::new(ended));
        for memtable in over.iter().rev() {
            memtable.read().values().for_each(|entry| folded.insert(entry.clone()));
        }
        layers.memtables.retain(|memtable| memtable.epoch() > ended);
        layers.memtables.push(folded.clone());
        folded
    }

    /// Replaces what is written down by now: memtables of ended epochs, and all runs.
    pub fn replace(&self, ended: Epoch, runs: Vec<Arc<Run>>) {
        let mut layers = self.layers.write();
        layers.memtables.retain(|memtable| memtable.epoch() > ended);
        assert!(!layers.memtables.is_empty(), "the present epoch is not over");
        layers.runs = runs;
    }

    /// Drops what is of this epoch or before: the runs have it, or what replaced it.
    pub fn drop_covered(&self, epoch: Epoch) {
        self.layers.read().memtables.iter().for_each(|memtable| memtable.drop_covered(epoch));
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
