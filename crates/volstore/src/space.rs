//! Free blocks of one logical volume, in units that have space.
//!
//! Invariants:
//! - Only blocks of units with space are free.
//! - Blocks below `fixed_blocks` are never free.

use std::collections::BTreeSet;
use std::ops::Range;

use reserve::Bitmap;

use crate::limits::RUNS_LOOKED_AT;

/// A volume's blocks.
#[derive(Clone, Debug)]
pub struct Space {
    unit_blocks: u64,
    blocks: u64,
    fixed_blocks: u64,
    free: Bitmap,
    free_blocks: u64,
    lent: BTreeSet<u32>,
    /// Where the last blocks were taken: the next ones are looked for from there on, so that blocks rest before they are written again.
    cursor: u64,
}

impl Space {
    /// A volume of so many blocks, without any space yet. The first `fixed_blocks` are never free.
    pub fn new(unit_blocks: u64, blocks: u64, fixed_blocks: u64) -> Space {
        let blocks = blocks.min(u64::from(u32::MAX));
        Space { unit_blocks, blocks, fixed_blocks, free: Bitmap::new(blocks), free_blocks: 0, lent: BTreeSet::new(), cursor: 0 }
    }

    pub fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    pub fn unit_blocks(&self) -> u64 {
        self.unit_blocks
    }

    /// The units that have space.
    pub fn units(&self) -> impl Iterator<Item = u32> {
        self.lent.iter().copied()
    }

    /// Blocks of units that have space, but for the fixed ones.
    pub fn lent_blocks(&self) -> u64 {
        self.lent.iter().map(|unit| self.usable(*unit)).map(|blocks| blocks.end - blocks.start).sum()
    }

    /// The blocks of a unit that may have content.
    fn usable(&self, unit: u32) -> Range<u64> {
        let start = u64::from(unit) * self.unit_blocks;
        let end = (start + self.unit_blocks).min(self.blocks);
        start.max(self.fixed_blocks).min(end)..end
    }

    /// A unit has space.
    pub fn add_unit(&mut self, unit: u32) {
        if self.lent.insert(unit) {
            let blocks = self.usable(unit);
            self.free_blocks += blocks.end - blocks.start;
            self.free.insert(blocks);
        }
    }

    /// The lowest unit without space.
    pub fn next_unit(&self) -> Option<u32> {
        let count = self.blocks.div_ceil(self.unit_blocks) as u32;
        (0..count).find(|unit| !self.lent.contains(unit))
    }

    /// Units in which all is free, the last first.
    pub fn empty_units(&self) -> Vec<u32> {
        let is_empty = |unit: &u32| {
            let is_fixed = u64::from(*unit) * self.unit_blocks < self.fixed_blocks;
            !is_fixed && self.free.holds(self.usable(*unit)) == Some(true)
        };
        self.lent.iter().rev().copied().filter(is_empty).collect()
    }

    /// Nothing is put into a unit any more; whether all in it was free.
    pub fn lose_unit(&mut self, unit: u32) -> bool {
        let blocks = self.usable(unit);
        if blocks.is_empty() || self.free.holds(blocks.clone()) != Some(true) || !self.lent.remove(&unit) {
            return false;
        }
        self.free_blocks -= blocks.end - blocks.start;
        self.free.remove(blocks);
        true
    }

    /// Takes blocks in as few runs as are found soon. There are as many.
    pub fn take(&mut self, count: u64) -> Vec<Range<u64>> {
        assert!(count <= self.free_blocks, "{count} of {} free blocks", self.free_blocks);
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut missing = count;
        while missing > 0 {
            let run = self.best_run(missing);
            missing -= run.end - run.start;
            self.cursor = run.end;
            self.free.remove(run.clone());
            match runs.last_mut().filter(|last| last.end == run.start) {
                Some(last) => last.end = run.end,
                None => runs.push(run),
            }
        }
        self.free_blocks -= count;
        runs
    }

    /// The first run of so many free blocks from the cursor on and then from the start, or the longest of those that were looked at.
    fn best_run(&self, count: u64) -> Range<u64> {
        let mut best = 0..0;
        for from in [self.cursor, 0] {
            let mut at = from;
            for _ in 0..RUNS_LOOKED_AT {
                let Some(start) = self.free.next_from(at) else { break };
                at = self.free.next_absent(start, start + count);
                if at - start > best.end - best.start {
                    best = start..at;
                }
                if best.end - best.start == count {
                    return best;
                }
            }
        }
        best
    }

    /// Blocks that nothing names are free.
    pub fn give(&mut self, blocks: Range<u64>) {
        assert!(self.is_used(blocks.clone()), "blocks {blocks:?} are free, or have no space");
        self.free_blocks += blocks.end - blocks.start;
        self.free.insert(blocks);
    }

    /// Blocks are used, as a record says; whether they were free.
    pub fn claim(&mut self, blocks: Range<u64>) -> bool {
        let is_free = blocks.end <= self.blocks && self.free.holds(blocks.clone()) == Some(true);
        if is_free {
            self.free_blocks -= blocks.end - blocks.start;
            self.free.remove(blocks);
        }
        is_free
    }

    /// Whether all of these blocks have space and none is free.
    fn is_used(&self, blocks: Range<u64>) -> bool {
        if blocks.is_empty() || blocks.end > self.blocks || blocks.start < self.fixed_blocks {
            return false;
        }
        let (first, last) = (blocks.start / self.unit_blocks, (blocks.end - 1) / self.unit_blocks);
        let has_space = (first..=last).all(|unit| self.lent.contains(&(unit as u32)));
        has_space && self.free.holds(blocks) == Some(false)
    }

    /// The same volume with all blocks free that have space: what owners are counted against.
    pub fn emptied(&self) -> Space {
        let mut space = Space::new(self.unit_blocks, self.blocks, self.fixed_blocks);
        self.lent.iter().for_each(|unit| space.add_unit(*unit));
        space
    }

    /// Whether the same blocks are free.
    pub fn has_same_free(&self, other: &Space) -> bool {
        self.free == other.free && self.free_blocks == other.free_blocks
    }
}

#[cfg(test)]
mod tests;
