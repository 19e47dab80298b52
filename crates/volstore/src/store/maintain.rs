//! What a store does when nothing is asked of it: it settles what is done, notes that, and gives space back to the devices.

use std::sync::Arc;

use ::engine::EngineError;
use device::Finishing;

use super::{Inner, Store};
use crate::limits::{AHEAD_SHARE, MAINTAIN_INTERVAL};
use crate::record::Mutation;

impl Store {
    /// Gives back to the device what can be given back now: another group needs it.
    pub async fn give_space_back(&self) -> Result<(), EngineError> {
        let inner = self.inner.clone();
        let work = async move {
            if !inner.is_founded() || inner.state.lock().check_writable().is_err() {
                return Ok(());
            }
            inner.settle().await?;
            inner.return_units().await
        };
        Finishing::new(&self.inner.env, work).await
    }

    /// Looks after the store now and then, for as long as it is polled.
    pub async fn maintain(&self) {
        loop {
            self.inner.env.sleep(MAINTAIN_INTERVAL).await;
            self.maintain_now().await;
        }
    }

    /// Settles what is done, and notes that it is: a start need not compare it with its sums then.
    pub async fn maintain_now(&self) {
        if let Err(error) = Finishing::new(&self.inner.env, self.inner.clone().maintain_once()).await {
            tracing::warn!(%error, "the space of volume buckets was not looked after");
        }
    }
}

impl Inner {
    pub(super) async fn maintain_once(self: Arc<Self>) -> Result<(), EngineError> {
        if !self.is_founded() || self.state.lock().check_writable().is_err() {
            return Ok(());
        }
        self.settle().await?;
        let settled_below = self.medium.settled_below();
        let owes_mark = {
            let state = self.state.lock();
            state.told_settled <= state.last_content && state.last_content < settled_below
        };
        if owes_mark {
            self.commit(Mutation::Mark, Default::default(), None).await?;
        }
        self.return_units().await
    }

    /// Gives units back in which all is free. What the next dump needs stays, and a part of a unit for puts to come.
    async fn return_units(&self) -> Result<(), EngineError> {
        let _turn = self.growing.lock().await;
        let kept = {
            let mut state = self.state.lock();
            let is_used = state.pg.object_count() > 0;
            let needed = state.pg.space().unit_blocks() + state.pg.space().unit_blocks() / AHEAD_SHARE;
            let mut has_lost = false;
            for unit in state.pg.space().empty_units() {
                if !state.is_closed && (!is_used || state.pg.spare_blocks() >= needed) {
                    has_lost |= state.pg.space().lose_unit(unit);
                }
            }
            if !has_lost {
                return Ok(());
            }
            state.pg.space().units().collect()
        };
        // What gave its blocks up stands on the medium before other owners write there.
        self.medium.volume.flush().await.map_err(|error| self.refuse(&error))?;
        self.medium.volume.keep_units(kept).await.map_err(|error| self.refuse(&error))
    }
}
