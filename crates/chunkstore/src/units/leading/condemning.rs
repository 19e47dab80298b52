//! Damaged blocks are condemned, some at a time, when no chunk has its last copy there.
//!
//! ```text
//!   damaged ─► sought: the rows of its chunks come into the state ─┬─► no last copy ─► its node condemns it ─► not damaged any more, but lost
//!      ▲                                                           └─► a last copy ─► kept ─┐
//!      └──────────────────────── after a while: the others may be back ◄────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};

use env::Instant;
use format::chunk_block::MAX_BLOCK_ENTRIES;
use format::chunk_place::BlockPlace;

use crate::limits::{CONDEMN_LOOK, LOST_LOOK, MAX_SOUGHT_BLOCKS, MAX_SWEPT};

/// Whatever is in them, there is room for the rows of their chunks.
const _: () = assert!(MAX_SOUGHT_BLOCKS * MAX_BLOCK_ENTRIES <= MAX_SWEPT / 2);

/// What a leader knows of damaged blocks.
#[derive(Debug, Default)]
pub struct Condemning {
    /// All of their chunks' rows are to be in the state.
    sought: BTreeSet<BlockPlace>,
    /// Blocks in which chunks have their last copies, and when that was seen.
    kept: BTreeMap<BlockPlace, Instant>,
    /// When those that are sought were looked at.
    looked: Option<Instant>,
}

impl Condemning {
    /// These are damaged now. Further ones are sought when it is decided about those before.
    pub fn choose(&mut self, now: Instant, damaged: &BTreeSet<BlockPlace>) {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < LOST_LOOK;
        self.kept.retain(|place, at| damaged.contains(place) && is_recent(*at));
        self.sought.retain(|place| damaged.contains(place));
        if self.sought.is_empty() {
            let new = damaged.iter().filter(|place| !self.kept.contains_key(place));
            self.sought = new.take(MAX_SOUGHT_BLOCKS).copied().collect();
            self.looked = None;
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
        self.kept.extend(kept.iter().map(|place| (*place, now)));
        self.sought.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests;
