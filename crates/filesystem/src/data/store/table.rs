//! The extents in memory: lengths, places and checksums of all blocks. 8 bytes a run of blocks and 4 bytes a block.
//!
//! Invariants:
//! - The table says what is durable, content and record.
//! - A block of the volume stands once.
//! - Below an extent's length a block without a place was given back, or its page was lost.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use disk::BLOCK_BYTES;

use super::directory::{ENTRY_BYTES, PAGE_BYTES};
use super::layout::BLOCK;
use super::page::{Mapped, PAGE_BLOCKS, Page};
use crate::data::PartitionUse;
use crate::ids::ExtentId;

#[derive(Default)]
pub struct Extent {
    pub len: u64,
    pub pages: BTreeMap<u32, Page>,
}

/// A block that has no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub block: u64,
    pub is_lost: bool,
}

#[derive(Default)]
pub struct Table {
    extents: BTreeMap<ExtentId, Extent>,
    pages: u64,
    dirty_pages: u64,
    blocks: u64,
    /// Of each partition that has extents.
    partitions: BTreeMap<u32, PartitionUse>,
}

impl Extent {
    pub fn get(&self, block: u64) -> Option<Mapped> {
        self.pages.get(&index_of(block))?.get(in_page(block))
    }

    /// What a range of blocks has.
    pub fn look(&self, blocks: Range<u64>) -> Result<Vec<Mapped>, Gap> {
        blocks.map(|block| self.get(block).ok_or_else(|| self.gap_at(block))).collect()
    }

    /// A block that has no content.
    pub fn gap(&self, block: u64) -> Option<Gap> {
        self.get(block).is_none().then(|| self.gap_at(block))
    }

    fn gap_at(&self, block: u64) -> Gap {
        Gap { block, is_lost: self.pages.get(&index_of(block)).is_some_and(|page| page.is_lost) }
    }

    /// All blocks that have a place.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, Mapped)> {
        self.pages.iter().flat_map(|(index, page)| {
            page.blocks().map(|(block, mapped)| (u64::from(*index) * PAGE_BLOCKS + u64::from(block), mapped))
        })
    }

    pub fn block_count(&self) -> u64 {
        self.pages.values().map(Page::block_count).sum()
    }
}

impl Table {
    pub fn get(&self, id: ExtentId) -> Option<&Extent> {
        self.extents.get(&id)
    }

    pub fn extents(&self) -> &BTreeMap<ExtentId, Extent> {
        &self.extents
    }

    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Blocks that have a place.
    pub fn block_count(&self) -> u64 {
        self.blocks
    }

    /// What a partition has.
    pub fn used(&self, partition: u32) -> PartitionUse {
        self.partitions.get(&partition).copied().unwrap_or_default()
    }

    fn count_blocks(&mut self, id: ExtentId, more: u64, fewer: u64) {
        self.blocks = self.blocks + more - fewer;
        let used = self.partitions.entry(id.partition).or_default();
        used.bytes = used.bytes + more * BLOCK - fewer * BLOCK;
    }

    /// Most blocks that a checkpoint now would write: dirty pages, and the directory.
    pub fn checkpoint_blocks(&self) -> u64 {
        let entries = self.extents.len() as u64 * ENTRY_BYTES as u64;
        let pages = self.pages * (PAGE_BYTES + ENTRY_BYTES / super::limits::SLICE_PAGES + 1) as u64;
        self.dirty_pages + (entries + pages).div_ceil(BLOCK_BYTES as u64 / 2)
    }

    pub fn create(&mut self, id: ExtentId) {
        if let Entry::Vacant(place) = self.extents.entry(id) {
            place.insert(Extent::default());
            self.partitions.entry(id.partition).or_default().extents += 1;
        }
    }

    /// Blocks stand in new places, and the extent is at least so long; the places where they stood. None if there is no such extent.
    pub fn put(&mut self, id: ExtentId, first: u64, len: u64, blocks: &[Option<Mapped>]) -> Option<Vec<u32>> {
        let extent = self.extents.get_mut(&id)?;
        extent.len = extent.len.max(len);
        let former = change(extent, first, blocks, &mut self.pages, &mut self.dirty_pages);
        self.count_blocks(id, blocks.iter().flatten().count() as u64, former.len() as u64);
        Some(former)
    }

    /// Blocks are given back; the places where they stood.
    pub fn punch(&mut self, id: ExtentId, blocks: Range<u64>) -> Vec<u32> {
        let Some(extent) = self.extents.get_mut(&id) else { return Vec::new() };
        let mut former = Vec::new();
        let indices = index_of(blocks.start)..=index_of(blocks.end.saturating_sub(1).max(blocks.start));
        let present: Vec<u32> = extent.pages.range(indices).map(|(index, _)| *index).collect();
        for index in present {
            let start = u64::from(index) * PAGE_BLOCKS;
            let within = blocks.start.max(start)..blocks.end.min(start + PAGE_BLOCKS);
            let count = within.end.saturating_sub(within.start) as usize;
            former.extend(change(extent, within.start, &vec![None; count], &mut self.pages, &mut self.dirty_pages));
        }
        self.count_blocks(id, 0, former.len() as u64);
        former
    }

    /// An extent is no more; the places of its blocks.
    pub fn remove(&mut self, id: ExtentId) -> Vec<u32> {
        let Some(extent) = self.extents.remove(&id) else { return Vec::new() };
        self.pages -= extent.pages.len() as u64;
        self.dirty_pages -= extent.pages.values().filter(|page| page.is_dirty).count() as u64;
        let former: Vec<u32> = extent.blocks().map(|(_, mapped)| mapped.place).collect();
        self.count_blocks(id, 0, former.len() as u64);
        let used = self.partitions.entry(id.partition).or_default();
        used.extents -= 1;
        if used.extents == 0 {
            self.partitions.remove(&id.partition);
        }
        former
    }

    /// An extent turns out to be shorter; the places of what was behind.
    pub fn cut(&mut self, id: ExtentId, len: u64) -> Vec<u32> {
        let Some(extent) = self.extents.get_mut(&id).filter(|extent| len < extent.len) else { return Vec::new() };
        let blocks = len.div_ceil(BLOCK)..extent.len.div_ceil(BLOCK);
        extent.len = len;
        self.punch(id, blocks)
    }

    /// An extent as a checkpoint has it, or some pages of it.
    pub fn load(&mut self, id: ExtentId, len: u64, pages: impl IntoIterator<Item = (u32, Page)>) {
        self.create(id);
        let extent = self.extents.get_mut(&id).expect("it was made");
        extent.len = len;
        let mut blocks = 0;
        for (index, page) in pages {
            blocks += page.block_count();
            self.dirty_pages += u64::from(page.is_dirty);
            self.pages += u64::from(extent.pages.insert(index, page).is_none());
        }
        self.count_blocks(id, blocks, 0);
    }

    /// A page of an extent is saved as it is now.
    pub fn save(&mut self, id: ExtentId, index: u32, place: u32) {
        let page =
            self.extents.get_mut(&id).and_then(|extent| extent.pages.get_mut(&index)).expect("it was looked at under the lock");
        page.saved = Some(place);
        self.dirty_pages -= u64::from(std::mem::replace(&mut page.is_dirty, false));
    }
}

/// Changes blocks, page by page.
fn change(extent: &mut Extent, first: u64, blocks: &[Option<Mapped>], pages: &mut u64, dirty_pages: &mut u64) -> Vec<u32> {
    let mut former = Vec::new();
    let mut at = first;
    let mut left = blocks;
    while !left.is_empty() {
        let room = (PAGE_BLOCKS - at % PAGE_BLOCKS) as usize;
        let (here, rest) = left.split_at(room.min(left.len()));
        let index = index_of(at);
        let page = extent.pages.entry(index).or_insert_with(|| {
            *pages += 1;
            Page::default()
        });
        let was_dirty = page.is_dirty;
        former.extend(page.set(in_page(at), here));
        *dirty_pages += u64::from(!was_dirty);
        if page.is_empty() && !page.is_lost {
            extent.pages.remove(&index);
            *pages -= 1;
            *dirty_pages -= 1;
        }
        at += here.len() as u64;
        left = rest;
    }
    former
}

fn index_of(block: u64) -> u32 {
    (block / PAGE_BLOCKS) as u32
}

fn in_page(block: u64) -> u16 {
    (block % PAGE_BLOCKS) as u16
}
