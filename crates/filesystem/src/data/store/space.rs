//! Blocks of the volume: free, used, or given up and not to be used again yet.
//!
//! ```text
//!   free ── take ─► used ── free_later ─► limbo ── release ─► free
//!    ▲ add_unit                                                │ lose_unit
//! ```
//!
//! Invariants:
//! - Only blocks of units with space are free.
//! - A block in limbo is free when the record that gave it up is settled: durable, with its content and all before it. Until then a power cut may lead
//!   back to it. And no read that may have found it is under way.

use std::collections::{BTreeMap, BTreeSet};

use reserve::Bitmap;

use super::layout::{Layout, Span, push_block};
use super::limits::RUNS_LOOKED_AT;

struct Given {
    generation: u64,
    spans: Vec<Span>,
}

pub struct Space {
    layout: Layout,
    free: Bitmap,
    free_blocks: u64,
    lent: BTreeSet<u32>,
    /// By the record that gave them up.
    limbo: BTreeMap<u64, Given>,
    limbo_blocks: u64,
    /// Counts what was given up.
    generation: u64,
    /// Reads under way, by the generation in which they began.
    readers: BTreeMap<u64, u32>,
}

impl Space {
    /// All of these units' blocks are free.
    pub fn new(layout: Layout, lent: impl IntoIterator<Item = u32>) -> Space {
        let mut space = Space {
            layout,
            free: Bitmap::new(layout.blocks),
            free_blocks: 0,
            lent: BTreeSet::new(),
            limbo: BTreeMap::new(),
            limbo_blocks: 0,
            generation: 0,
            readers: BTreeMap::new(),
        };
        lent.into_iter().for_each(|unit| space.add_unit(unit));
        space
    }

    pub fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    pub fn limbo_blocks(&self) -> u64 {
        self.limbo_blocks
    }

    /// A unit has space.
    pub fn add_unit(&mut self, unit: u32) {
        if self.lent.insert(unit) {
            let blocks = self.layout.content_of(unit);
            self.free_blocks += blocks.end.saturating_sub(blocks.start);
            self.free.insert(blocks);
        }
    }

    /// The lowest unit without space.
    pub fn next_unit(&self) -> Option<u32> {
        let count = self.layout.blocks.div_ceil(self.layout.unit_blocks) as u32;
        (0..count).find(|unit| !self.lent.contains(unit))
    }

    /// Units in which all is free, the last first.
    pub fn empty_units(&self) -> Vec<u32> {
        let is_empty =
            |unit: &u32| *unit >= self.layout.fixed_units() && self.free.holds(self.layout.content_of(*unit)) == Some(true);
        self.lent.iter().rev().copied().filter(is_empty).collect()
    }

    /// Nothing is put into a unit any more; whether all in it was free.
    pub fn lose_unit(&mut self, unit: u32) -> bool {
        let blocks = self.layout.content_of(unit);
        if self.free.holds(blocks.clone()) != Some(true) || !self.lent.remove(&unit) {
            return false;
        }
        self.free_blocks -= blocks.end - blocks.start;
        self.free.remove(blocks);
        true
    }

    /// Whether a block can have content, and is free.
    pub fn is_free(&self, place: u32) -> bool {
        self.free.contains(u64::from(place))
    }

    /// Makes one block used that is known to be.
    pub fn claim(&mut self, place: u32) -> bool {
        let is_free = self.is_free(place);
        if is_free {
            self.remove(Span { place, count: 1 });
        }
        is_free
    }

    /// Takes blocks: from `near` on if they are free there, else as few runs as are found soon. There are as many.
    pub fn take(&mut self, count: u64, near: Option<u32>) -> Vec<Span> {
        assert!(count <= self.free_blocks, "{count} of {} free blocks", self.free_blocks);
        let mut spans = Vec::new();
        let mut missing = count;
        if let Some(near) = near.filter(|near| self.is_free(*near)) {
            let start = u64::from(near);
            let end = self.free.next_absent(start, start + missing);
            missing -= self.taken(&mut spans, start, end - start);
        }
        while missing > 0 {
            let (start, len) = self.best_run(missing);
            missing -= self.taken(&mut spans, start, len);
        }
        spans
    }

    fn taken(&mut self, spans: &mut Vec<Span>, start: u64, count: u64) -> u64 {
        let span = Span { place: start as u32, count: count as u32 };
        self.remove(span);
        match spans.last_mut().filter(|last| last.end() == span.place) {
            Some(last) => last.count += span.count,
            None => spans.push(span),
        }
        count
    }

    /// The first run of so many free blocks, or the longest of those that were looked at.
    fn best_run(&self, count: u64) -> (u64, u64) {
        let (mut best, mut at) = ((0, 0), 0);
        for _ in 0..RUNS_LOOKED_AT {
            let Some(start) = self.free.next_from(at) else { break };
            at = self.free.next_absent(start, start + count);
            if at - start > best.1 {
                best = (start, at - start);
            }
            if best.1 == count {
                break;
            }
        }
        best
    }

    fn remove(&mut self, span: Span) {
        let start = u64::from(span.place);
        self.free.remove(start..start + u64::from(span.count));
        self.free_blocks -= u64::from(span.count);
    }

    /// Blocks that nothing names are free.
    pub fn give(&mut self, spans: &[Span]) {
        for span in spans {
            let start = u64::from(span.place);
            let range = start..start + u64::from(span.count);
            assert!(self.free.holds(range.clone()) == Some(false), "blocks {range:?} are used");
            self.free.insert(range);
            self.free_blocks += u64::from(span.count);
        }
    }

    /// A record has given blocks up.
    pub fn free_later(&mut self, record: u64, places: &[u32]) {
        if places.is_empty() {
            return;
        }
        let mut spans = Vec::new();
        places.iter().for_each(|place| push_block(&mut spans, *place));
        self.limbo_blocks += places.len() as u64;
        let former = self.limbo.insert(record, Given { generation: self.generation, spans });
        assert!(former.is_none(), "record {record} gives up twice");
        self.generation += 1;
    }

    /// Frees what records below this one have given up, and no read under way can have found.
    pub fn release(&mut self, settled_below: u64) {
        let oldest = self.readers.keys().next().copied().unwrap_or(u64::MAX);
        while let Some(first) = self.limbo.first_entry()
            && *first.key() < settled_below
            && first.get().generation < oldest
        {
            let spans = first.remove().spans;
            self.limbo_blocks -= spans.iter().map(|span| u64::from(span.count)).sum::<u64>();
            self.give(&spans);
        }
    }

    /// A read begins: what it has found stays as it is until it leaves this generation.
    pub fn enter(&mut self) -> u64 {
        *self.readers.entry(self.generation).or_default() += 1;
        self.generation
    }

    pub fn leave(&mut self, generation: u64) {
        let readers = self.readers.get_mut(&generation).expect("a reader has entered");
        *readers -= 1;
        if *readers == 0 {
            self.readers.remove(&generation);
        }
    }
}
