//! Damaged blocks are condemned, some at a time, when no chunk has its last copy there.
//!
//! ```text
//!   damaged ─► sought: the rows of its chunks come into the state ─┬─► no last copy ─► its node is to condemn it ─► not damaged any more, but lost
//!      ▲                                                           │                              │ it can't, or is away
//!      │                                                           └─► a last copy ──────────────┴─► rests, so that others are sought ─┐
//!      └──────────────────────── after a while: the other copies, or the node, may be back ◄───────────────────────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};

use env::Instant;
use format::chunk_block::MAX_BLOCK_ENTRIES;
use format::chunk_place::BlockPlace;
use manager::Snapshot;

use super::Leading;
use super::ailing::Found;
use crate::limits::{CONDEMN_LOOK, LOST_LOOK, MAX_CONDEMN_TRIES, MAX_SOUGHT_BLOCKS, MAX_SWEPT};
use crate::maintenance::{Duty, MaintenanceUnit, Move};

/// Whatever is in them, there is room for the rows of their chunks.
const _: () = assert!(MAX_SOUGHT_BLOCKS * MAX_BLOCK_ENTRIES <= MAX_SWEPT / 2);

/// What a leader knows of damaged blocks.
#[derive(Debug, Default)]
pub struct Condemning {
    /// All of their chunks' rows are to be in the state.
    sought: BTreeSet<BlockPlace>,
    /// Blocks about which it was decided, and when: chunks have their last copies there, or their nodes were asked and have not done it.
    rests: BTreeMap<BlockPlace, Instant>,
    /// How often those that are sought were handed out, and when they were looked at.
    handed_out: u32,
    looked: Option<Instant>,
}

impl Condemning {
    /// These are damaged now. Further ones are sought when it is decided about those before.
    pub fn choose(&mut self, now: Instant, damaged: &BTreeSet<BlockPlace>) {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < LOST_LOOK;
        self.rests.retain(|place, at| damaged.contains(place) && is_recent(*at));
        self.sought.retain(|place| damaged.contains(place));
        if self.sought.is_empty() {
            let new = damaged.iter().filter(|place| !self.rests.contains_key(place));
            self.sought = new.take(MAX_SOUGHT_BLOCKS).copied().collect();
            (self.handed_out, self.looked) = (0, None);
        }
    }

    pub fn sought(&self) -> &BTreeSet<BlockPlace> {
        &self.sought
    }

    /// Whether to look at the sought ones now.
    pub fn is_due(&self, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < CONDEMN_LOOK;
        !self.sought.is_empty() && !self.looked.is_some_and(is_recent)
    }

    /// Chunks have their last copies in these, of those that are sought. The others, which can be condemned.
    pub fn decide(&mut self, now: Instant, kept: &BTreeSet<BlockPlace>) -> Vec<BlockPlace> {
        self.looked = Some(now);
        self.sought.retain(|place| !kept.contains(place));
        self.rests.extend(kept.iter().map(|place| (*place, now)));
        let condemned: Vec<BlockPlace> = self.sought.iter().copied().collect();
        self.handed_out += 1;
        if self.handed_out >= MAX_CONDEMN_TRIES {
            self.rests.extend(std::mem::take(&mut self.sought).into_iter().map(|place| (place, now)));
        }
        condemned
    }
}

impl Leading {
    /// Damaged blocks whose chunks all have another copy that is to be had: what its node does not say to be there may be gone, and a damaged block may be
    /// readable after the next start. Looks at all chunks, when those in pages that have copies there came into the state.
    pub(super) fn condemnable(
        &mut self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        found: &Found,
    ) -> Vec<BlockPlace> {
        let sought = self.condemning.sought();
        let shard = unit.shard();
        if !self.condemning.is_due(now) || !self.sweep.has_found(unit, sought) || self.is_unheard(now, state, shard) {
            return Vec::new();
        }
        let (mut last_copies, mut kept) = (0_u64, BTreeSet::new());
        for (id, places) in unit.index() {
            // What ends is wanted by nobody; what is pending may yet be committed.
            let is_touched = places.iter().any(|place| sought.contains(&place)) && !unit.is_ending(id);
            if !is_touched {
                continue;
            }
            let sound: Vec<BlockPlace> = self.sound_copies(state, unit, found, id).collect();
            last_copies += u64::from(sound.is_empty());
            if !sound.iter().any(|place| self.is_heard(now, state, shard, *place)) {
                kept.extend(places.iter().filter(|place| sought.contains(place)));
            }
        }
        for duty in unit.duties() {
            let Duty::Move(Move { id, from, to: Some(to), .. }) = duty else { continue };
            // What was brought there is all that there is when the source is forgotten, or is lost.
            let mut stay = self.sound_copies(state, unit, found, id).filter(|place| Some(*place) != from);
            if sought.contains(&to) && !stay.any(|place| self.is_heard(now, state, shard, place)) {
                kept.insert(to);
            }
        }
        if last_copies > 0 {
            tracing::error!(shard = shard.0, last_copies, "chunks have their last copy in blocks whose headers were lost");
        }
        self.condemning.decide(now, &kept)
    }
}

#[cfg(test)]
mod tests;
