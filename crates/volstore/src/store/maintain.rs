//! What a store does when nothing is asked of it: it settles what is done, notes that, and gives space back to the devices.

use std::sync::Arc;

use ::engine::EngineError;
use device::Finishing;

use super::{Inner, Store};
use crate::content::VolumeIndex;
use crate::limits::{AHEAD_SHARE, MAINTAIN_INTERVAL};
use crate::record::Mutation;

impl Store {
    /// Looks after the store now and then, for as long as it is polled.
    pub async fn maintain(&self) {
        loop {
            self.inner.env.sleep(MAINTAIN_INTERVAL).await;
            if let Err(error) = Finishing::new(&self.inner.env, self.inner.clone().maintain_once()).await {
                tracing::warn!(%error, "the space of volume buckets was not looked after");
            }
        }
    }
}

impl Inner {
    pub(super) async fn maintain_once(self: Arc<Self>) -> Result<(), EngineError> {
        if self.log.get().is_none() || self.state.lock().check_writable().is_err() {
            return Ok(());
        }
        self.settle().await?;
        let settled_below = self.volumes.settled_below();
        let owes_mark = {
            let state = self.state.lock();
            state.told_settled <= state.last_content && state.last_content < settled_below
        };
        if owes_mark {
            self.commit(Mutation::Mark, Default::default(), None).await?;
        }
        let indices = self.state.lock().pg.indices();
        for index in indices {
            self.return_units(index).await?;
        }
        Ok(())
    }

    /// Gives units back in which all is free. What the next dump needs stays, and a part of a unit for puts to come.
    async fn return_units(&self, index: VolumeIndex) -> Result<(), EngineError> {
        let Ok(volume) = self.volumes.get(index) else { return Ok(()) };
        if !volume.gives_back() {
            return Ok(());
        }
        let _turn = self.growing.lock().await;
        let empty = self.state.lock().pg.space(index).map(|space| space.empty_units()).unwrap_or_default();
        for unit in empty {
            {
                let mut state = self.state.lock();
                let is_used = state.pg.object_count() > 0;
                let spare = state.pg.spare_blocks(index);
                let space = state.pg.space(index).expect("its device is there");
                let needed = space.unit_blocks() + space.unit_blocks() / AHEAD_SHARE;
                if state.is_closed || (is_used && spare < needed) {
                    continue;
                }
                if !state.pg.space(index).expect("its device is there").lose_unit(unit) {
                    continue;
                }
            }
            // What gave its blocks up stands on the medium before other owners write there.
            volume.flush().await.map_err(|error| self.refuse(&error))?;
            volume.give_back(unit).await.map_err(|error| self.refuse(&error))?;
        }
        Ok(())
    }
}
