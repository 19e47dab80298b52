//! Blocks of the primary's own copy that are damaged are written anew, with what another copy in sync has.
//!
//! Copies in sync are equal where nothing is under way. So the other copies need not hear of it.

use std::ops::Range;
use std::sync::Arc;

use super::ask::{Ask, Change, ChangeWhat, Copy, What};
use super::reign::Reign;
use crate::data::DataError;
use crate::ids::{BLOCK_BYTES as BLOCK, ExtentId};

impl Reign {
    /// Begins to write what is damaged in a range anew, unless that is done of another range now: then a later read finds it again.
    pub(super) fn mend_later(self: &Arc<Self>, extent: ExtentId, bytes: Range<u64>) {
        let Ok(turn) = self.mending.clone().try_acquire_owned() else { return };
        let reign = self.clone();
        self.env().spawn(async move {
            for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
                if let Err(error) = reign.mend_block(extent, block).await {
                    tracing::warn!(?extent, block, %error, "a damaged block of a file is not written anew");
                    break;
                }
            }
            drop(turn);
        });
    }

    async fn mend_block(&self, extent: ExtentId, block: u64) -> Result<(), DataError> {
        let _latch = self.latches.take(extent, block..block + 1).await;
        self.check()?;
        let own_len = self.own().sums(extent, block, 0).map_or(0, |sums| sums.len);
        let offset = block * BLOCK;
        let len = own_len.saturating_sub(offset).min(BLOCK) as usize;
        let Err(damaged @ DataError::Damaged { .. }) = self.own().read(extent, offset, len).await else { return Ok(()) };
        let data = self.read_elsewhere(extent, offset, len).await.ok_or(damaged)?;
        let change = Change { extent, what: ChangeWhat::Overwrite { offset, data } };
        let ask = Ask { pass: self.own_pass(), boot: self.realm.own.boot(), what: What::Change(change) };
        let written = self.realm.own.ask(ask).await;
        written.map_err(|error| DataError::Unavailable(error.to_string()))?;
        tracing::info!(?extent, block, "a damaged block of a file is written anew from another copy");
        Ok(())
    }
}
