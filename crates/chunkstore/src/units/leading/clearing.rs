//! Space that chunks left goes back to the pool, where that is short of it: copies of blocks with little in them move into gaps of other blocks of the
//! device, and the zones that get empty so are given back by their node (docs/rfd/0012).
//!
//! ```text
//!   a device has few zones left ─► spans with least in them are chosen ─► rows of their copies are in the state ─► its node says how long the gaps
//!   of its blocks are ─► each copy gets a gap ─► relocations, some each second ─► all have ended ─► chosen anew, until the pool has enough
//! ```
//!
//! Open shards do so too: a put goes to blocks that are being emptied, or into gaps that were assigned, only where no other block has room.
//! Nothing of it is remembered: a new leader chooses anew.

pub mod plan;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use env::Instant;
use format::chunk_block::BLOCK_STRIDE_BYTES;
use format::chunk_command::{ChunkCommand, CopyOf, Relocation};
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use manager::{Snapshot, VolumeRecord};
use types::DeviceId;

use super::super::space::is_active;
use super::Leading;
use crate::leader::Order;
use crate::limits::{CLEAR_PATIENCE, CLEAR_REST, COMPACT_BYTES, MAX_CLEARED_DEVICES, MAX_COMPACTING, PRESSED_BELOW};
use crate::maintenance::MaintenanceUnit;
use crate::protocol::DeviceRoom;
use crate::wire::limits::MAX_GAPS;
use plan::{Fate, Spans, Step};

/// What a leader empties at the moment to give zones back.
#[derive(Debug, Default)]
pub struct Clearing {
    plans: BTreeMap<DeviceId, Plan>,
    /// Spans of which something found no gap, or could not be moved: others come first.
    tried: BTreeMap<DeviceId, BTreeSet<u32>>,
    /// Devices of which nothing more could be emptied, and when that was.
    rests: BTreeMap<DeviceId, Instant>,
    /// Where the blocks begin that are asked about next, of devices with more than one question is about.
    cursors: BTreeMap<DeviceId, u32>,
    /// Targets of the last look, promised until the unit has them.
    promised: Vec<(BlockPlace, u32)>,
}

/// Of one device.
#[derive(Debug)]
struct Plan {
    spans: Spans,
    began: Instant,
    /// Spans that may be emptied, and how many are wanted.
    chosen: Vec<u32>,
    most: usize,
    /// Copies in them, by block.
    copies: BTreeMap<u32, BTreeSet<ChunkId>>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Rows come from pages.
    Gathering,
    Asked,
    /// Gaps by block.
    Heard(Vec<(u32, u32)>),
    Moving {
        left: VecDeque<Step>,
        begun: Vec<ChunkId>,
        emptied: BTreeSet<BlockPlace>,
        targets: BTreeSet<BlockPlace>,
    },
}

/// A device that is short of space.
struct Pressed {
    spans: Spans,
    /// How many of them are wanted.
    most: usize,
    /// Spans that are left alone: their blocks are being filled.
    being_filled: BTreeSet<u32>,
}

/// A question for a device's node: how much these blocks take.
#[derive(Debug, PartialEq, Eq)]
pub struct AskGaps {
    pub device: DeviceId,
    pub blocks: Vec<u32>,
}

impl Clearing {
    /// Blocks of whose copies the rows are to be in the state.
    pub fn sought(&self) -> BTreeSet<BlockPlace> {
        self.plans.values().flat_map(Plan::emptied).collect()
    }

    /// Blocks that puts go to only where no others have room.
    pub fn spared(&self) -> BTreeSet<BlockPlace> {
        let targets = |plan: &Plan| match &plan.stage {
            Stage::Moving { targets, .. } => targets.clone(),
            _ => BTreeSet::new(),
        };
        self.plans.values().flat_map(|plan| targets(plan).into_iter().chain(plan.emptied())).collect()
    }

    /// Rows of these copies came from pages.
    pub fn hear(&mut self, copies: impl Iterator<Item = CopyOf>) {
        for CopyOf { id, place } in copies {
            if let Some(plan) = self.plans.get_mut(&place.device()) {
                plan.note(id, place);
            }
        }
    }

    /// What the node of a device has said of its gaps; none if it has not.
    pub fn hear_gaps(&mut self, device: DeviceId, gaps: Option<Vec<(u32, u32)>>) {
        let Some(plan) = self.plans.get_mut(&device).filter(|plan| matches!(plan.stage, Stage::Asked)) else { return };
        match gaps {
            Some(gaps) => plan.stage = Stage::Heard(gaps),
            None => _ = self.plans.remove(&device),
        }
    }

    /// Chooses what to empty of devices that are short of space.
    fn choose(&mut self, now: Instant, unit: &MaintenanceUnit, pressed: Vec<Pressed>) {
        let is_pressed = |device: &DeviceId| pressed.iter().any(|pressed| pressed.spans.device == *device);
        self.plans.retain(|device, plan| {
            let is_over = now.saturating_duration_since(plan.began) >= CLEAR_PATIENCE;
            if is_over {
                // Whatever kept it: others come first.
                self.tried.entry(*device).or_default().extend(&plan.chosen);
            }
            !is_over && is_pressed(device) && !plan.has_ended(unit)
        });
        self.tried.retain(|device, _| is_pressed(device));
        self.rests.retain(|_, since| now.saturating_duration_since(*since) < CLEAR_REST);
        let mut is_any = false;
        for Pressed { spans, most, being_filled } in pressed {
            let device = spans.device;
            let has_turn = self.plans.len() < MAX_CLEARED_DEVICES && !self.rests.contains_key(&device);
            if !has_turn || self.plans.contains_key(&device) {
                continue;
            }
            // Not all of them will do.
            let skipped = self.tried.entry(device).or_default().union(&being_filled).copied().collect();
            let chosen = spans.sparse(unit, &skipped, 2 * most);
            if chosen.is_empty() {
                self.tried.remove(&device);
                self.rests.insert(device, now);
                continue;
            }
            is_any = true;
            let plan = Plan { spans, began: now, chosen, most, copies: BTreeMap::new(), stage: Stage::Gathering };
            self.plans.insert(device, plan);
        }
        if is_any {
            self.note_rows(unit);
        }
    }

    /// Copies whose rows are here. Those whose rows are in pages come by and by.
    fn note_rows(&mut self, unit: &MaintenanceUnit) {
        let gathering = self.plans.values_mut().filter(|plan| matches!(plan.stage, Stage::Gathering));
        let mut gathering: BTreeMap<DeviceId, (BTreeSet<u32>, &mut Plan)> = gathering
            .map(|plan| (plan.spans.device, (plan.emptied().into_iter().map(BlockPlace::block).collect(), plan)))
            .collect();
        for (id, places) in unit.index() {
            for place in places.iter() {
                let its = gathering.get_mut(&place.device()).filter(|(blocks, _)| blocks.contains(&place.block()));
                its.into_iter().for_each(|(_, plan)| _ = plan.copies.entry(place.block()).or_default().insert(id));
            }
        }
    }
}

impl Plan {
    /// Blocks that are emptied, or may be.
    fn emptied(&self) -> BTreeSet<BlockPlace> {
        match &self.stage {
            Stage::Moving { emptied, .. } => emptied.clone(),
            _ => {
                let blocks = self.chosen.iter().flat_map(|span| self.spans.blocks_of(*span));
                blocks.filter_map(|block| BlockPlace::new(self.spans.device, block)).collect()
            }
        }
    }

    fn note(&mut self, id: ChunkId, place: BlockPlace) {
        let is_chosen = || self.chosen.iter().any(|span| self.spans.blocks_of(*span).contains(&place.block()));
        if matches!(self.stage, Stage::Gathering) && is_chosen() {
            self.copies.entry(place.block()).or_default().insert(id);
        }
    }

    /// Whether all that was to move has.
    fn has_ended(&self, unit: &MaintenanceUnit) -> bool {
        let is_moving = |id: &ChunkId| unit.places_of(*id).is_some() && !unit.is_at_rest(*id);
        matches!(&self.stage, Stage::Moving { left, begun, .. } if left.is_empty() && !begun.iter().any(is_moving))
    }

    /// Gives each copy a gap; the spans that will not do.
    fn fit(&mut self, unit: &MaintenanceUnit, gaps: &[(u32, u32)], fate: impl Fn(ChunkId, BlockPlace) -> Fate) -> Vec<u32> {
        let (left, failed) = plan::fit(unit, self.spans, &self.chosen, &self.copies, gaps, self.most, fate);
        let (emptied, targets) = left.iter().map(|step| (step.from, step.to)).unzip();
        let (device, copies) = (self.spans.device.0, left.len());
        tracing::debug!(shard = unit.shard().0, device, copies, failed = failed.len(), "copies move so that zones get empty");
        self.stage = Stage::Moving { left, begun: Vec::new(), emptied, targets };
        failed
    }

    /// Steps to begin now, beside so many relocations.
    fn take(&mut self, under_way: usize) -> Vec<Step> {
        let Stage::Moving { left, begun, .. } = &mut self.stage else { return Vec::new() };
        let (mut taken, mut bytes_left): (Vec<Step>, u32) = (Vec::new(), COMPACT_BYTES);
        while bytes_left > 0 && under_way + taken.len() < MAX_COMPACTING {
            let Some(step) = left.pop_front() else { break };
            bytes_left = bytes_left.saturating_sub(step.bytes);
            begun.push(step.id);
            taken.push(step);
        }
        taken
    }
}

impl Leading {
    /// Whether the pool of a device is short of space, by what its node said last.
    pub(super) fn is_pressed(&self, state: &Snapshot, volume: &VolumeRecord) -> bool {
        self.room_of(state, volume.device).is_some_and(|room| blocks_wanted(room, volume) > 0)
    }

    /// Which spans are to get empty, on devices that are short of space.
    pub fn choose_spans(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit) {
        // The leader has not been told yet what there is.
        if self.is_new(now) {
            return;
        }
        let mut pressed = Vec::new();
        for volume in state.volumes().filter(|volume| is_active(state, volume)) {
            let device = volume.device;
            let Some(room) = self.room_of(state, device).filter(|room| room.span_bytes > 0) else { continue };
            let wanted = blocks_wanted(room, volume);
            let is_its = unit.free_blocks(device) != crate::maintenance::FreeBlocks::default();
            if wanted > 0 && is_its && !self.is_stuck(state, device) {
                let spans = Spans { device, span_bytes: room.span_bytes, block_count: volume.blocks };
                let most = (u64::from(wanted) * BLOCK_STRIDE_BYTES).div_ceil(room.span_bytes) as usize;
                // While there is space puts go on there, and have no holes to fill.
                let open = if room.blocks > 0 { self.placing.open_blocks(device) } else { &[] };
                let being_filled = open.iter().flat_map(|block| spans.spans_of(*block)).collect();
                pressed.push(Pressed { spans, most, being_filled });
            }
        }
        self.clearing.choose(now, unit, pressed);
    }

    /// Relocations that empty spans, and what is to be asked before others.
    pub fn clear(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit) -> (Vec<Order>, Vec<AskGaps>) {
        for (place, bytes) in std::mem::take(&mut self.clearing.promised) {
            self.placing.settle([place], bytes);
        }
        let (mut orders, mut questions) = (Vec::new(), Vec::new());
        if self.clearing.plans.is_empty() {
            return (orders, questions);
        }
        // As for any relocation that could wait: what can't be read has nothing to bring, and one with a copy at a node that is away would wait for it.
        let (found, lost) = (self.ailing.found(), self.leader.lost());
        let silent = self.silent_devices(now, state, unit);
        let is_there = |place: BlockPlace| !silent.contains(&place.device());
        let is_whole = |id| unit.places_of(id).is_some_and(|places| places.iter().all(is_there));
        let may_move = |id, place| is_whole(id) && found.is_sound(id, place) && !lost.holds(place);
        let fate = |id: ChunkId, place: BlockPlace| {
            let is_here = unit.places_of(id).is_some_and(|places| places.contains(place));
            match unit.bytes_of(id).filter(|_| is_here) {
                None if is_here || unit.page_of(id).is_some() => Fate::Stays,
                None => Fate::Ends,
                Some(_) if unit.is_ending(id) => Fate::Ends,
                Some(bytes) if unit.is_at_rest(id) && may_move(id, place) => Fate::Moves { bytes },
                Some(_) => Fate::Stays,
            }
        };
        let mut under_way = self.moves_that_end(unit);
        for (device, plan) in &mut self.clearing.plans {
            let is_ready = matches!(plan.stage, Stage::Gathering)
                && (unit.pages().next().is_none() || self.sweep.has_found(unit, &plan.emptied()));
            match std::mem::replace(&mut plan.stage, Stage::Asked) {
                Stage::Gathering if is_ready => {
                    let cursor = self.clearing.cursors.entry(*device).or_default();
                    questions.push(ask_gaps(unit, *device, cursor));
                }
                Stage::Heard(gaps) => {
                    let failed = plan.fit(unit, &gaps, fate);
                    self.clearing.tried.entry(*device).or_default().extend(failed);
                }
                other => plan.stage = other,
            }
            for Step { id, from, to, bytes } in plan.take(under_way) {
                if matches!(fate(id, from), Fate::Moves { .. }) && self.placing.promise(unit, to, bytes) {
                    under_way += 1;
                    env::mark("chunks: a copy moved so that a zone gets empty");
                    self.clearing.promised.push((to, bytes));
                    let relocation = Relocation { id, from: Some(from), to: Some(to), is_lost: false };
                    orders.push(Order::Propose(ChunkCommand::Relocate(relocation)));
                }
            }
        }
        (orders, questions)
    }
}

/// About blocks with room, from where the last question ended.
fn ask_gaps(unit: &MaintenanceUnit, device: DeviceId, cursor: &mut u32) -> AskGaps {
    let has_room = |place: &BlockPlace| unit.room(*place).is_some_and(|room| room > 0);
    let blocks: Vec<u32> = unit.blocks_from(device, *cursor).filter(has_room).take(MAX_GAPS).map(BlockPlace::block).collect();
    *cursor = blocks.last().map_or(0, |last| last + 1);
    AskGaps { device, blocks }
}

/// How many further blocks a device should have space for, beside those that it has.
fn blocks_wanted(room: &DeviceRoom, volume: &VolumeRecord) -> u32 {
    let least = u64::from(volume.blocks) * u64::from(PRESSED_BELOW.0) / 1000;
    least.saturating_sub(u64::from(room.blocks)) as u32
}

#[cfg(test)]
mod tests;
