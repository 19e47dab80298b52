//! Which rows in pages a leader is looking for: those with a copy in a place that is lost, damaged, or to be emptied. Those without any copy stay there: there
//! is nothing to do about them, and there is not room in memory for all that a device had.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_id::ChunkNumber;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use crate::limits::MAX_GROWTH_ROWS;
use crate::maintenance::{MaintenanceUnit, PageRef};

/// A look through all pages, one after the other, begun anew when there is more to look for. A page that is committed meanwhile, or later, has not been
/// looked at: rows that were looked for may have left with it.
#[derive(Debug, Default)]
pub struct Sweep {
    devices: BTreeSet<DeviceId>,
    blocks: BTreeSet<BlockPlace>,
    /// Numbers of pages that were looked at.
    passed: BTreeSet<ChunkNumber>,
    /// Rows of these without a copy.
    gone: BTreeMap<ChunkNumber, usize>,
    /// The page that is being looked at, and whether for chunks that are to have more copies.
    under_way: Option<(ChunkNumber, bool)>,
    /// Where the page begins that was to be looked at last: the next ones come first, however long it takes to find that some can't be read.
    tried: Option<ChunkNumber>,
    /// Hosts that can take further copies; and pages that were looked at for chunks to which they can give some.
    open_hosts: BTreeSet<u32>,
    grown: BTreeSet<ChunkNumber>,
}

impl Sweep {
    /// From now on these are looked for.
    pub fn look_for(&mut self, devices: BTreeSet<DeviceId>, blocks: BTreeSet<BlockPlace>) {
        if !devices.is_subset(&self.devices) || !blocks.is_subset(&self.blocks) {
            self.passed.clear();
            self.gone.clear();
            (self.under_way, self.tried) = (None, None);
        }
        (self.devices, self.blocks) = (devices, blocks);
    }

    /// From now on copies can be added on these hosts. Only pages are looked at that have chunks with too few.
    pub fn look_for_growth(&mut self, open_hosts: &BTreeSet<u32>) {
        if self.open_hosts != *open_hosts {
            self.grown.clear();
            self.open_hosts.clone_from(open_hosts);
            // What is being looked at was chosen for the former ones.
            if self.is_for_growth() {
                self.under_way = None;
            }
        }
    }

    /// Whether the page that is being looked at is for chunks that are to have more copies.
    pub fn is_for_growth(&self) -> bool {
        matches!(self.under_way, Some((_, true)))
    }

    /// Whether a chunk is looked for: its row is to be in the state.
    pub fn wants(&self, places: &ChunkPlaces) -> bool {
        let is_wanted = |place: BlockPlace| self.devices.contains(&place.device()) || self.blocks.contains(&place);
        places.iter().any(is_wanted) && !self.is_gone(places)
    }

    /// Whether all copies were on devices that are lost.
    pub fn is_gone(&self, places: &ChunkPlaces) -> bool {
        places.iter().all(|place| self.devices.contains(&place.device()))
    }

    /// Rows without a copy in the pages that were looked at.
    pub fn gone(&self) -> usize {
        self.gone.values().sum()
    }

    /// Whether all rows with a copy in one of these blocks are in the state.
    pub fn has_found(&self, unit: &MaintenanceUnit, blocks: &BTreeSet<BlockPlace>) -> bool {
        blocks.is_subset(&self.blocks) && self.left(unit).next().is_none()
    }

    /// Pages that have not been looked at.
    fn left<'a>(&'a self, unit: &'a MaintenanceUnit) -> impl Iterator<Item = PageRef> + 'a {
        let is_sought = !self.devices.is_empty() || !self.blocks.is_empty();
        unit.pages().filter(move |_| is_sought).filter(|page| !self.passed.contains(&page.id.number))
    }

    /// The page to look at now, if there is room for what it has; not one of these, which can't be read.
    pub fn due(&mut self, unit: &MaintenanceUnit, unread: &BTreeSet<ChunkNumber>) -> Option<PageRef> {
        if unit.is_crowded() {
            return None;
        }
        let is_due = |page: &PageRef| !unread.contains(&page.id.number);
        let is_behind = |page: &PageRef| self.tried.is_none_or(|tried| page.range.first > tried);
        let behind = self.left(unit).find(|page| is_due(page) && is_behind(page));
        let page = behind.or_else(|| self.left(unit).find(is_due));
        if page.is_none() {
            // Pages that there are not any more are forgotten.
            let current: BTreeSet<ChunkNumber> = unit.pages().map(|page| page.id.number).collect();
            self.passed.retain(|page| current.contains(page));
            self.gone.retain(|page, _| current.contains(page));
            self.grown.retain(|page| current.contains(page));
        }
        let growing = if page.is_none() { self.due_for_growth(unit, unread) } else { None };
        self.under_way = page.or(growing).map(|page| (page.id.number, growing.is_some()));
        self.tried = page.map(|page| page.range.first);
        page.or(growing)
    }

    /// When all is found that is looked for otherwise, and as long as few rows are here that are to grow.
    fn due_for_growth(&self, unit: &MaintenanceUnit, unread: &BTreeSet<ChunkNumber>) -> Option<PageRef> {
        if self.open_hosts.is_empty() || unit.short_here() >= MAX_GROWTH_ROWS {
            return None;
        }
        let is_due = |page: &PageRef| !self.grown.contains(&page.id.number) && !unread.contains(&page.id.number);
        unit.short_pages().find(is_due)
    }

    /// The rows of this page that were looked for are in the state; so many have no copy.
    pub fn pass(&mut self, page: ChunkNumber, gone: usize) {
        // Not if there is more to look for since it was begun.
        match self.under_way.take() {
            Some((under_way, false)) if under_way == page => {
                self.passed.insert(page);
                self.gone.insert(page, gone);
            }
            Some((under_way, true)) if under_way == page => _ = self.grown.insert(page),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
