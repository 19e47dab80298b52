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

use crate::limits::{CONDEMN_LOOK, LOST_LOOK, MAX_CONDEMN_TRIES, MAX_SOUGHT_BLOCKS, MAX_SWEPT};

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

#[cfg(test)]
mod tests;
