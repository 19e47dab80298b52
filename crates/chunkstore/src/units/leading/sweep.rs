//! Which rows in pages a leader is looking for: those with a copy in a place that is lost, damaged, or to be emptied.

use std::collections::BTreeSet;

use format::chunk_command::PageRange;
use format::chunk_id::ChunkNumber;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use crate::limits::MAX_SWEPT;
use crate::maintenance::{MaintenanceUnit, PageRef};

/// A look through all pages, one after the other, begun anew when there is more to look for.
#[derive(Debug, Default)]
pub struct Sweep {
    devices: BTreeSet<DeviceId>,
    blocks: BTreeSet<BlockPlace>,
    /// Pages from here on were not looked at yet; none when all were, or nothing is looked for.
    next: Option<ChunkNumber>,
    /// The page that is being looked at begins here.
    under_way: Option<ChunkNumber>,
}

impl Sweep {
    /// From now on these are looked for.
    pub fn look_for(&mut self, devices: BTreeSet<DeviceId>, blocks: BTreeSet<BlockPlace>) {
        if !devices.is_subset(&self.devices) || !blocks.is_subset(&self.blocks) {
            (self.next, self.under_way) = (Some(ChunkNumber(0)), None);
        }
        (self.devices, self.blocks) = (devices, blocks);
    }

    /// Whether a chunk is looked for: its row is to be in the state.
    pub fn wants(&self, places: &ChunkPlaces) -> bool {
        let is_wanted = |place: BlockPlace| self.devices.contains(&place.device()) || self.blocks.contains(&place);
        places.iter().any(is_wanted)
    }

    /// Whether all rows with a copy in one of these blocks are in the state.
    pub fn has_found(&self, blocks: &BTreeSet<BlockPlace>) -> bool {
        self.next.is_none() && blocks.is_subset(&self.blocks)
    }

    /// The page to look at now, if there is room for what it has.
    pub fn due(&mut self, unit: &MaintenanceUnit) -> Option<PageRef> {
        let page = unit.page_from(self.next?);
        if page.is_none() {
            self.next = None;
        }
        let page = page.filter(|_| unit.rows_here() < MAX_SWEPT);
        self.under_way = page.map(|page| page.range.first);
        page
    }

    /// The rows of this page that were looked for are in the state.
    pub fn pass(&mut self, range: PageRange) {
        // Not if there is more to look for since it was begun.
        if self.under_way.take() == Some(range.first) {
            self.next = Some(ChunkNumber(range.last.0 + 1));
        }
    }
}

#[cfg(test)]
mod tests;
