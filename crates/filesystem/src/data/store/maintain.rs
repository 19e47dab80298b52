//! What a store does when nothing is asked of it: it settles what is done, and gives space back to the device.

use std::sync::Arc;

use device::Finishing;

use super::layout::BLOCK;
use super::limits::{AHEAD_SHARE, CHECKPOINT_BLOCKS, MAINTAIN_INTERVAL, OVERWRITE_BLOCKS};
use super::record::Change;
use super::{ExtentStore, Inner};
use crate::data::DataError;

impl ExtentStore {
    /// Settles and gives space back now and then, for as long as it is polled.
    pub async fn maintain(&self) {
        loop {
            self.inner.env.sleep(MAINTAIN_INTERVAL).await;
            if let Err(error) = Finishing::new(&self.inner.env, self.inner.clone().maintain_once()).await {
                tracing::warn!(device = self.device().0, %error, "space of files was not given back");
            }
        }
    }
}

impl Inner {
    pub(super) async fn maintain_once(self: Arc<Self>) -> Result<(), DataError> {
        if self.journal.get().is_none() || self.state.lock().check_writable().is_err() {
            return Ok(());
        }
        self.settle().await?;
        if self.state.lock().owes_settled(self.settling.settled_below()) {
            self.commit(Change::Settled, Vec::new()).await?;
        }
        if self.is_checkpoint_worth_it() {
            self.checkpoint().await?;
        }
        self.return_units().await
    }

    /// Whether a checkpoint now gets units empty: pages of what was given back stand in them until the next one. Only when nothing was asked of the store
    /// since the last look, and not for less than the directory that it writes.
    fn is_checkpoint_worth_it(&self) -> bool {
        let mut state = self.state.lock();
        let is_idle = state.looked_at_record == state.next_record;
        state.looked_at_record = state.next_record;
        let directory_blocks = state.superblock.map_or(0, |superblock| superblock.directory_bytes / BLOCK);
        is_idle && state.freed_blocks > directory_blocks
    }

    /// Gives units back in which all is free. Those stay that the next checkpoint and overwrites need.
    async fn return_units(self: &Arc<Self>) -> Result<(), DataError> {
        let _turn = self.growing.lock().await;
        let empty = self.state.lock().space.empty_units();
        for unit in empty {
            {
                let mut state = self.state.lock();
                let needed = state.table.checkpoint_blocks() + CHECKPOINT_BLOCKS + OVERWRITE_BLOCKS;
                let ahead = self.layout.unit_blocks + self.layout.unit_blocks / AHEAD_SHARE;
                let is_needed = state.table.len() > 0 && state.space.free_blocks() < needed + ahead;
                if state.is_closed || is_needed || !state.space.lose_unit(unit) {
                    continue;
                }
            }
            // What gave its blocks up stands on the medium before other owners write there.
            self.volume.flush().await.map_err(|error| super::refusal(&error))?;
            self.volume.give_back(unit).await.map_err(|error| super::refusal(&error))?;
        }
        Ok(())
    }
}
