//! Finding out whether a sealed answer is the key's own: by the key list, in which names stand in full (docs/rfd/0013-ludo-index.md).

use crate::index::Located;
use crate::names::{Run, corrupt_run};
use crate::store::Inner;
use engine::EngineError;
use format::entry::EntryState;
use format::name_entry::SortKey;
use format::record::EntryName;
use std::sync::Arc;
use types::{KeyHash, Order};

impl Inner {
    /// After something was amiss with what the index said of a name: whether that was another key's record. The index does not say it
    /// again: look up once more.
    pub(crate) async fn disprove(&self, name: &EntryName, hash: &KeyHash, located: &Located) -> Result<bool, EngineError> {
        if !self.is_sealed_as(hash, located) {
            return Ok(false);
        }
        if self.newest_saved(name).await? == Some((located.order, EntryState::Live)) {
            return Ok(false);
        }
        self.stats.refuted.add(1);
        Ok(self.shard(hash).lock().index_mut().refute(hash, located))
    }

    /// Whether what the index said of a name, which nobody writes meanwhile, is its own record.
    pub(crate) async fn is_own(&self, name: &EntryName, hash: &KeyHash, located: &Located) -> Result<bool, EngineError> {
        // Other gateways know things that this index does not, and no gateway of a cell seals anything.
        if !self.is_alone() {
            return Ok(true);
        }
        // Somebody else may have disproved it: then it is not there any more.
        let is_there =
            |inner: &Inner| inner.shard(hash).lock().index().newest(hash).is_some_and(|newest| newest.order == located.order);
        Ok(!self.disprove(name, hash, located).await? && is_there(self))
    }

    /// Whether a sealed answer is another key's, by the record that stands there. One that can't be read is taken for the key's own.
    pub(crate) async fn is_of_another(&self, hash: &KeyHash, located: &Located) -> bool {
        if !self.is_sealed_as(hash, located) {
            return false;
        }
        matches!(self.read_copies(located).await, Ok(Some(frame)) if frame.record.hash != *hash)
    }

    /// Whether the index says this of a key, without the key beside it.
    pub(crate) fn is_sealed_as(&self, hash: &KeyHash, located: &Located) -> bool {
        self.shard(hash).lock().index().is_sealed_as(hash, located)
    }

    /// What the runs say of a name.
    async fn newest_saved(&self, name: &EntryName) -> Result<Option<(Order, EntryState)>, EngineError> {
        let key = SortKey::from(name);
        loop {
            let runs = self.names.layers().runs;
            let newest = self.newest_in(&runs, &key).await;
            // What was read of a run that was merged meanwhile does not count.
            if self.names.has_layers(&runs) {
                return newest;
            }
        }
    }

    async fn newest_in(&self, runs: &[Arc<Run>], key: &SortKey) -> Result<Option<(Order, EntryState)>, EngineError> {
        let mut newest: Option<(Order, EntryState)> = None;
        for run in runs {
            // A name has one row in a run: at the end of this block, or at the beginning of the next.
            let first = run.first_block_for(key.as_bytes());
            for number in first..run.blocks().min(first + 2) {
                let block = run.block(self, number).await?;
                let corrupt = |error| corrupt_run(run.id(), &error);
                let mut rows = block.seek(key).map_err(corrupt)?;
                let Some(row) = rows.next() else { continue };
                let row = row.map_err(corrupt)?;
                if row.sort_key() == key.as_bytes() && newest.is_none_or(|(order, _)| row.order() > order) {
                    newest = Some((row.order(), row.state()));
                }
                break;
            }
        }
        Ok(newest)
    }
}
