//! Space that blobs need no more, given back to the device: others of its owners may have it.
//!
//! A unit of the volume goes back when nothing is in the blocks that stand in it. A block whose whole header goes with it begins anew. A header that
//! stands in two units keeps both, once it was written: of one slot alone a start could not tell that the other one was given back.

use std::collections::BTreeSet;
use std::sync::Arc;

use device::{Finishing, HeaderIn};

use super::layout::STRIDES;
use super::limits::RETURN_INTERVAL;
use super::work::{Begun, Right};
use super::{BlobStore, Inner};

impl BlobStore {
    /// Gives space back now and then, for as long as it is polled.
    pub async fn return_space(&self) {
        loop {
            self.inner.env.sleep(RETURN_INTERVAL).await;
            self.inner.return_vacant().await;
        }
    }

    /// Blocks that could get space now.
    pub fn room(&self) -> u32 {
        let blocks = STRIDES.block_count(self.inner.volume.room_bytes());
        blocks.min(u64::from(self.inner.block_count)) as u32
    }
}

impl Inner {
    /// Gives all units back in which nothing is.
    pub(super) async fn return_vacant(self: &Arc<Self>) {
        let unit_bytes = self.volume.unit_bytes();
        let vacant = self.state.lock().table.take_vacant();
        let units: BTreeSet<u32> = vacant.into_iter().flat_map(|block| STRIDES.units_of(block, unit_bytes)).collect();
        for unit in self.volume.units().into_iter().filter(|unit| units.contains(unit)) {
            Finishing::new(&self.env, self.clone().return_unit(unit)).await;
        }
    }

    async fn return_unit(self: Arc<Self>, unit: u32) {
        let _space = self.space.lock().await;
        let Some((begun, blocks)) = self.begin_return(unit) else { return };
        let given_back = self.volume.give_back(unit).await;
        let mut state = self.state.lock();
        match given_back {
            Ok(()) => {
                let is_gone = |block: &&u32| STRIDES.header_in(unit, self.volume.unit_bytes(), **block) == HeaderIn::All;
                blocks.iter().filter(is_gone).for_each(|block| state.table.forget(*block));
            }
            // The device takes no writes any more: it does not matter what they had.
            Err(error) => tracing::warn!(device = self.volume.device().0, unit, %error, "space was not given back"),
        }
        drop(state);
        drop(begun);
    }

    /// The blocks of a unit, in none of which anything is made from now on; none if something is in it.
    fn begin_return(self: &Arc<Self>, unit: u32) -> Option<(Begun, Vec<u32>)> {
        let unit_bytes = self.volume.unit_bytes();
        let blocks: Vec<u32> = STRIDES.blocks_of(unit, unit_bytes, self.block_count).collect();
        let mut state = self.state.lock();
        let can_go = |block: &u32| {
            let is_in_two = STRIDES.header_in(unit, unit_bytes, *block) == HeaderIn::Part;
            state.table.is_free(*block) && (!is_in_two || state.table.is_blank(*block))
        };
        if state.is_closed || !blocks.iter().all(can_go) {
            return None;
        }
        for block in &blocks {
            state.table.lose_space(*block);
        }
        Some((state.begin(self, None, None, Right::Writes, None), blocks))
    }
}
