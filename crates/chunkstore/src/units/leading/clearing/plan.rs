//! Which spans of a device to empty, and where their copies go. Spans are what goes back to the pool at once; blocks straddle them.
//!
//! ```text
//!   span 6                span 7                span 8                span 9
//!   ├─────────────────────┼─────────────────────┼─────────────────────┼──
//!    ─┼ block 12 ┼ block 13 ┼ block 14 ┼ block 15 ┼ block 16 ┼ block 17 ┼
//!       full       █ 1 MiB    empty      █ 2 MiB    full       gap 3 MiB
//!                  └────────── span 7: 3 MiB to move ─────────► ▲
//! ```
//!
//! A relocation that finds no room at its target can't go back, and its chunk has a copy less until another target is found. So a copy moves only into a
//! gap that the block's node has named, and whose space the device has lent already.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Range, RangeInclusive};

use device::HeaderIn;
use format::chunk_block::{BLOCK_DATA_BYTES, room_of};
use format::chunk_fences::FENCES_AREA_BYTES;
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use types::DeviceId;

use crate::blocks::STRIDES;
use crate::limits::{CLEAR_BELOW, CLEAR_BYTES};
use crate::maintenance::MaintenanceUnit;

/// How a device is divided.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    pub device: DeviceId,
    pub span_bytes: u64,
    pub block_count: u32,
}

/// Blocks that must be emptied for a span, and what is in them.
#[derive(Clone, Copy, Debug)]
struct Cost {
    blocks: u64,
    bytes: u64,
    /// Spans in which nothing is left then: a chunk that stands alone takes two.
    won: usize,
}

impl Cost {
    /// Spans that take least come first; of those that take as much, the ones with which most is won.
    fn turn(self, span: u32) -> (u64, Reverse<usize>, u32) {
        (self.bytes, Reverse(self.won), span)
    }

    fn is_little(self) -> bool {
        self.bytes * 1000 <= self.blocks * u64::from(BLOCK_DATA_BYTES) * u64::from(CLEAR_BELOW.0)
    }
}

/// What becomes of a copy if its block is to be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It can be moved now.
    Moves { bytes: u32 },
    /// It goes of its own accord: its chunk ends.
    Ends,
    /// Nothing can be done about it now.
    Stays,
}

/// A copy that is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub id: ChunkId,
    pub from: BlockPlace,
    pub to: BlockPlace,
    pub bytes: u32,
}

impl Spans {
    pub fn blocks_of(&self, span: u32) -> Range<u32> {
        STRIDES.blocks_of(span, self.span_bytes, self.block_count)
    }

    pub fn spans_of(&self, block: u32) -> RangeInclusive<u32> {
        STRIDES.units_of(block, self.span_bytes)
    }

    fn held(&self, unit: &MaintenanceUnit, block: u32) -> u64 {
        BlockPlace::new(self.device, block).and_then(|place| unit.held_bytes(place)).map_or(0, u64::from)
    }

    /// Whether a span goes back when nothing is in the unit's blocks: all blocks there are the unit's. The device keeps the fences, and a header
    /// that stands in two spans.
    fn can_go(&self, unit: &MaintenanceUnit, span: u32) -> bool {
        let is_its = |block: u32| {
            let is_granted = BlockPlace::new(self.device, block).is_some_and(|place| unit.held_bytes(place).is_some());
            is_granted && STRIDES.header_in(span, self.span_bytes, block) != HeaderIn::Part
        };
        u64::from(span) * self.span_bytes >= FENCES_AREA_BYTES && self.blocks_of(span).all(is_its)
    }

    /// What it takes to empty a span when these blocks are empty.
    fn cost(&self, unit: &MaintenanceUnit, span: u32, emptied: &BTreeSet<u32>) -> Cost {
        let blocks: Vec<u32> = self.blocks_of(span).filter(|block| !emptied.contains(block)).collect();
        let held: BTreeSet<u32> = blocks.iter().copied().filter(|block| self.held(unit, *block) > 0).collect();
        let stays = |block: u32| !held.contains(&block) && !emptied.contains(&block) && self.held(unit, block) > 0;
        let touched: BTreeSet<u32> = held.iter().flat_map(|block| self.spans_of(*block)).collect();
        let won = touched.iter().filter(|touched| !self.blocks_of(**touched).any(stays)).count();
        let bytes = held.iter().map(|block| self.held(unit, *block)).sum();
        Cost { blocks: blocks.len() as u64, bytes, won }
    }

    /// Spans to empty, those with least in them first: up to `most` of them, with twice [`CLEAR_BYTES`] in them at most, since not all will do. None of
    /// `skipped`, none that is mostly full, and none that is empty. What two of them have in common is moved once.
    pub fn sparse(&self, unit: &MaintenanceUnit, skipped: &BTreeSet<u32>, most: usize) -> Vec<u32> {
        let granted = unit.blocks_from(self.device, 0).map(|place| place.block());
        let spans: BTreeSet<u32> = granted.flat_map(|block| self.spans_of(block)).collect();
        let mut emptied: BTreeSet<u32> = BTreeSet::new();
        let is_open = |span: &u32| !skipped.contains(span) && self.can_go(unit, *span);
        let open = spans.into_iter().filter(is_open).map(|span| (span, self.cost(unit, span, &emptied)));
        let mut costs: BTreeMap<u32, Cost> = open.filter(|(_, cost)| cost.bytes > 0).collect();
        let mut queue: BTreeSet<_> = costs.iter().map(|(span, cost)| cost.turn(*span)).collect();
        let (mut chosen, mut sum) = (Vec::new(), 0);
        while let Some((bytes, _, span)) = queue.pop_first() {
            // It has another turn if one beside it is chosen.
            if !costs[&span].is_little() {
                continue;
            }
            costs.remove(&span);
            sum += bytes;
            if sum > 2 * u64::from(CLEAR_BYTES) || chosen.len() == most {
                break;
            }
            chosen.push(span);
            emptied.extend(self.blocks_of(span));
            // The blocks that it shares with its neighbours are moved in any case.
            for beside in [span.wrapping_sub(1), span.wrapping_add(1)] {
                let Some(before) = costs.get_mut(&beside) else { continue };
                queue.remove(&before.turn(beside));
                *before = self.cost(unit, beside, &emptied);
                queue.insert(before.turn(beside));
            }
        }
        chosen
    }
}

/// Gaps that copies can go to, as the node has named them; what was assigned is taken off.
struct Targets<'a> {
    unit: &'a MaintenanceUnit,
    spans: Spans,
    /// The longest gap of each block; of two that are alike the one with more around it comes first.
    gaps: BTreeSet<(u32, Reverse<u64>, u32)>,
    /// Blocks that were assigned something.
    used: BTreeSet<u32>,
    /// Blocks that are to be empty.
    emptied: BTreeSet<u32>,
}

/// Finds places for what is in these spans, one span after the other; a span of which something finds none is left as it is. Up to `most` spans, and
/// [`CLEAR_BYTES`]. The steps, and the spans that will not do now.
pub fn fit(
    unit: &MaintenanceUnit,
    spans: Spans,
    chosen: &[u32],
    copies: &BTreeMap<u32, BTreeSet<ChunkId>>,
    gaps: &[(u32, u32)],
    most: usize,
    fate: impl Fn(ChunkId, BlockPlace) -> Fate,
) -> (VecDeque<Step>, Vec<u32>) {
    let mut targets = Targets::new(unit, spans, gaps);
    let sought: BTreeSet<u32> = chosen.iter().flat_map(|span| spans.blocks_of(*span)).collect();
    let (mut steps, mut failed) = (VecDeque::new(), Vec::new());
    let (mut sum, mut count) = (0, 0);
    for span in chosen {
        if count == most || sum >= u64::from(CLEAR_BYTES) {
            break;
        }
        let blocks: Vec<u32> = spans.blocks_of(*span).collect();
        // Others go there now: it may be its turn later.
        if blocks.iter().any(|block| targets.used.contains(block)) {
            continue;
        }
        let found = copies_in(spans.device, &blocks, &targets.emptied, copies, &fate)
            .and_then(|copies| targets.assign_all(&blocks, &sought, copies));
        match found {
            Some(of_span) => {
                sum += of_span.iter().map(|step| u64::from(step.bytes)).sum::<u64>();
                count += 1;
                targets.emptied.extend(blocks);
                steps.extend(of_span);
            }
            None => failed.push(*span),
        }
    }
    (steps, failed)
}

/// Copies in these blocks that are to move, the largest first; none if one can't.
fn copies_in(
    device: DeviceId,
    blocks: &[u32],
    emptied: &BTreeSet<u32>,
    copies: &BTreeMap<u32, BTreeSet<ChunkId>>,
    fate: impl Fn(ChunkId, BlockPlace) -> Fate,
) -> Option<Vec<(u32, ChunkId, BlockPlace)>> {
    let mut found = Vec::new();
    for block in blocks.iter().filter(|block| !emptied.contains(block)) {
        let place = BlockPlace::new(device, *block)?;
        for id in copies.get(block).into_iter().flatten() {
            match fate(*id, place) {
                Fate::Moves { bytes } => found.push((bytes, *id, place)),
                Fate::Ends => {}
                Fate::Stays => return None,
            }
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Some(found)
}

impl<'a> Targets<'a> {
    fn new(unit: &'a MaintenanceUnit, spans: Spans, gaps: &[(u32, u32)]) -> Targets<'a> {
        let around = |block: u32| -> u64 {
            spans.spans_of(block).flat_map(|span| spans.blocks_of(span)).map(|block| spans.held(unit, block)).sum()
        };
        let gaps = gaps.iter().filter(|(_, gap)| *gap > 0).map(|(block, gap)| (*gap, Reverse(around(*block)), *block));
        Targets { unit, spans, gaps: gaps.collect(), used: BTreeSet::new(), emptied: BTreeSet::new() }
    }

    /// Places for all of these, or none at all. Not in these blocks, and in blocks that are `sought` to be emptied only where others will not do.
    fn assign_all(
        &mut self,
        blocks: &[u32],
        sought: &BTreeSet<u32>,
        copies: Vec<(u32, ChunkId, BlockPlace)>,
    ) -> Option<Vec<Step>> {
        let before = (self.gaps.clone(), self.used.clone());
        let mut steps = Vec::with_capacity(copies.len());
        for (bytes, id, from) in copies {
            let Some(to) = self.assign(blocks, sought, bytes) else {
                (self.gaps, self.used) = before;
                return None;
            };
            steps.push(Step { id, from, to, bytes });
        }
        Some(steps)
    }

    /// The least gap that will do.
    fn assign(&mut self, blocks: &[u32], sought: &BTreeSet<u32>, bytes: u32) -> Option<BlockPlace> {
        let room = room_of(bytes)?;
        let fits = || self.gaps.range((room, Reverse(u64::MAX), 0)..).copied();
        let is_open = |(_, _, block): &(u32, Reverse<u64>, u32)| !blocks.contains(block) && self.is_open(*block, blocks);
        let found = fits().filter(|(_, _, block)| !sought.contains(block)).find(is_open).or_else(|| fits().find(is_open))?;
        let (gap, around, block) = found;
        self.gaps.remove(&found);
        // Wherever in the block it goes: a gap of so much is left.
        self.gaps.insert((gap - room, around, block));
        self.used.insert(block);
        BlockPlace::new(self.spans.device, block)
    }

    /// Whether a block keeps its space. An empty one does if something stays beside it in each of its spans.
    fn is_open(&self, block: u32, leaving: &[u32]) -> bool {
        let stays =
            |other: u32| !self.emptied.contains(&other) && !leaving.contains(&other) && self.spans.held(self.unit, other) > 0;
        let keeps = |span: u32| self.spans.blocks_of(span).any(stays);
        !self.emptied.contains(&block) && (stays(block) || self.spans.spans_of(block).all(keeps))
    }
}
