//! Space that chunks need no more, given back to the device: others of its owners may have it.
//!
//! A unit of the volume goes back when nothing is in the blocks that stand in it. A block whose whole header goes with it begins anew. A header that
//! stands in two units keeps both: of one slot alone a start could not tell that the other one was given back.

use std::collections::BTreeSet;

use device::HeaderIn;
use format::chunk_block::BLOCK_STRIDE_BYTES;
use format::chunk_fences::FENCES_AREA_BYTES;

use super::layout::STRIDES;
use super::limits::RETURN_INTERVAL;
use super::{BlockStore, Inner};
use crate::protocol::DeviceRoom;

impl BlockStore {
    /// Gives space back now and then, for as long as it is polled.
    pub async fn return_space(&self) {
        loop {
            self.inner.env.sleep(RETURN_INTERVAL).await;
            self.inner.return_vacant().await;
        }
    }

    /// The space that the device has.
    pub fn room(&self) -> DeviceRoom {
        let volume = &self.inner.volume;
        let blocks = (volume.room_bytes() / BLOCK_STRIDE_BYTES).min(u64::from(self.inner.block_count)) as u32;
        DeviceRoom { device: volume.device(), blocks, span_bytes: volume.unit_bytes() }
    }

    /// The longest gap of each of these blocks. None where space would have to be had first: another owner may be faster.
    pub fn gaps(&self, blocks: &[u32]) -> Vec<u32> {
        let inner = &self.inner;
        let has_space = |block: u32| {
            let is_its = block < inner.block_count && !inner.ailing.is_damaged(block);
            is_its && inner.volume.is_reserved(STRIDES.block_start(block), BLOCK_STRIDE_BYTES)
        };
        let work = inner.work.lock();
        let gap = |block: &u32| {
            let is_open = has_space(*block) && !work.is_closed && !work.returning.contains(block);
            if is_open { work.machine.longest_gap(*block) } else { 0 }
        };
        blocks.iter().map(gap).collect()
    }
}

impl Inner {
    /// Gives all units back in which nothing is.
    pub(super) async fn return_vacant(&self) {
        let unit_bytes = self.volume.unit_bytes();
        let vacant = std::mem::take(&mut self.work.lock().vacant);
        let units: BTreeSet<u32> = vacant.into_iter().flat_map(|block| STRIDES.units_of(block, unit_bytes)).collect();
        for unit in self.volume.units().into_iter().filter(|unit| units.contains(unit)) {
            let Some(blocks) = self.begin_return(unit) else { continue };
            if let Err(error) = self.volume.give_back(unit).await {
                tracing::warn!(device = self.volume.device().0, unit, %error, "space was not given back");
            }
            let mut work = self.work.lock();
            work.returning.retain(|block| !blocks.contains(block));
            drop(work);
            self.idle.notify_waiters();
        }
    }

    /// The blocks of a unit, none of which is written to from now on; none if something is in it.
    fn begin_return(&self, unit: u32) -> Option<Vec<u32>> {
        let unit_bytes = self.volume.unit_bytes();
        if u64::from(unit) * unit_bytes < FENCES_AREA_BYTES {
            return None;
        }
        let blocks: Vec<u32> = STRIDES.blocks_of(unit, unit_bytes, self.block_count).collect();
        let mut work = self.work.lock();
        let can_go = |block: &u32| {
            let is_free = work.machine.is_vacant(*block) && !self.ailing.is_damaged(*block);
            is_free && STRIDES.header_in(unit, unit_bytes, *block) != HeaderIn::Part
        };
        if work.is_closed || !blocks.iter().all(can_go) {
            return None;
        }
        for block in &blocks {
            if STRIDES.header_in(unit, unit_bytes, *block) == HeaderIn::All {
                work.machine.vacate(*block);
            }
            work.returning.insert(*block);
        }
        Some(blocks)
    }
}
