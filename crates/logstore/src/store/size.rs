//! What an operator sees of the engine: how large its maps are, and what it waits for.

use super::LogStore;
use crate::index::IndexLen;
use types::{DeviceId, Epoch};

/// How large the engine's maps are at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStoreSize {
    /// Keys of all maps; one overwritten since the last checkpoint, or the last sealing, counts twice.
    pub keys: usize,
    /// Of those, the ones that no checkpoint covers.
    pub unsaved_keys: usize,
    /// Of those, the ones that are kept without their hashes.
    pub sealed_keys: usize,
    /// Memory of what is saved.
    pub full_map_bytes: usize,
    /// Names that no checkpoint covers.
    pub unsaved_names: usize,
    pub epoch: Epoch,
    /// Keys of which a record was found that a missing device makes undecidable.
    pub undecidable_keys: usize,
    /// The share of all keys, existing or not, that missing devices make undecidable: 0 to 1.
    pub undecidable_share: f64,
    /// Parts of the index, and the runs as one, that this gateway, as leader, is still to look through for what lacks copies.
    pub repair_left: usize,
    /// Copies that were found damaged and wait to be made again.
    pub suspect_copies: usize,
}

impl LogStore {
    /// The missing devices without which something can't be answered; empty in normal life.
    pub fn waits_for(&self) -> Vec<DeviceId> {
        self.inner.undecidable.lists_wait_for()
    }

    /// Whether a checkpoint has what this start decided, and what it found. Until then a gateway that has not its maps could not take over from
    /// it: that one would decide by what stands on the devices behind the last checkpoint, which others than this gateway may have written.
    pub fn has_settled(&self) -> bool {
        self.inner.remembered.epoch() >= self.inner.first_epoch
    }

    /// The size of the maps. Takes each shard's lock for a moment.
    pub fn size(&self) -> LogStoreSize {
        let inner = &self.inner;
        let mut size = LogStoreSize {
            unsaved_names: inner.names.unsaved(),
            epoch: inner.epochs.present(),
            undecidable_keys: inner.undecidable.keys(),
            undecidable_share: inner.undecidable.share(),
            repair_left: inner.repair_left(),
            suspect_copies: inner.suspects.len(),
            ..LogStoreSize::default()
        };
        for shard in &inner.shards {
            let shard = shard.lock();
            let IndexLen { unsaved, exact, sealed } = shard.index().len();
            size.keys += unsaved + exact + sealed;
            size.unsaved_keys += unsaved;
            size.sealed_keys += sealed;
            size.full_map_bytes += shard.index().saved_bytes();
        }
        size.full_map_bytes += inner.sealing.memory_bytes();
        size
    }
}
