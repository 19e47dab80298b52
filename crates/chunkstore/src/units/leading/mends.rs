//! Copies whose content can't be returned, or that their nodes doubt, are to get what another one has.
//!
//! Doubted they are where a header was torn or has rotted, and the one before it counts. After a power cut of all nodes that may be so with all copies of a chunk,
//! and one that counts as sound may be as old where its node has not told of it yet. So each mend compares all copies that there are; while the node of one is
//! silent, which may have the newest, some can be mended and others wait for it, until it is back or its devices are lost.

use env::Instant;
use format::chunk_block::Era;
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use manager::Snapshot;

use super::ailing::Found;
use super::healing::is_in_place;
use super::{Leading, node_of};
use crate::limits::{MAX_REPAIRS, MEND_PATIENCE};
use crate::maintenance::MaintenanceUnit;
use crate::placement::Random;

/// A copy that is to get the content that another one has.
pub struct Mend {
    pub id: ChunkId,
    pub rotten: BlockPlace,
    /// Of the chunk, when this was found to be done.
    pub era: Option<Era>,
    /// Other copies that can be asked what they have.
    pub others: Vec<BlockPlace>,
    /// These are all, and its own node is there; otherwise one may have something newer, and is silent.
    pub is_whole: bool,
}

impl Leading {
    /// Rotten copies that are to be written again, some at a time; and those with which that was tried for too long.
    pub(super) fn mend(
        &mut self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        found: &Found,
        random: &mut Random<'_>,
    ) -> (Vec<Mend>, Vec<(ChunkId, BlockPlace)>) {
        self.looked.rotten.retain(|copy, _| found.rotten.contains(copy));
        let (mut mends, mut hopeless, mut doubtful) = (Vec::new(), Vec::new(), Vec::new());
        for copy in found.rotten.iter().copied().filter(|copy| is_in_place(unit, copy)) {
            let mend = self.mend_of(now, state, unit, found, copy);
            if !mend.is_whole {
                // A relocation would wait for the same node, and modifications of the chunk for the relocation.
                self.looked.rotten.remove(&copy);
            }
            let since = self.looked.rotten.get(&copy).copied();
            match since.is_none_or(|since| now.saturating_duration_since(since) < MEND_PATIENCE) {
                _ if !mend.is_whole || self.sound_copies(state, unit, found, copy.0).next().is_none() => doubtful.push(mend),
                true if mends.len() < MAX_REPAIRS => {
                    // Not before: what had no turn yet can still be written again.
                    self.looked.rotten.entry(copy).or_insert(now);
                    mends.push(mend);
                }
                true => {}
                false => hopeless.push(copy),
            }
        }
        // These are tried for as long as it takes. Each time with others first: those that can't be helped hide none.
        if !doubtful.is_empty() {
            let first = random() as usize % doubtful.len();
            doubtful.rotate_left(first);
        }
        let room = MAX_REPAIRS - mends.len();
        mends.extend(doubtful.into_iter().take(room));
        (mends, hopeless)
    }

    /// All other copies but for those of which nothing is to be had.
    fn mend_of(
        &self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        found: &Found,
        (id, rotten): (ChunkId, BlockPlace),
    ) -> Mend {
        let is_left =
            |place: &BlockPlace| *place != rotten && !self.leader.lost().holds(*place) && !found.blocks.contains_key(place);
        // Nobody has had the time to report to a new leader.
        let is_up = |node| self.is_new(now) || !self.is_silent(now, state, id.shard, node);
        let left = unit.places_of(id).into_iter().flat_map(|places| places.iter().filter(is_left).collect::<Vec<_>>());
        let is_there = |place: &BlockPlace| node_of(state, *place).is_some_and(is_up);
        let (others, silent): (Vec<_>, Vec<_>) = left.partition(is_there);
        Mend { id, rotten, era: unit.era_of(id), others, is_whole: silent.is_empty() && is_there(&rotten) }
    }
}

#[cfg(test)]
mod tests;
