//! Copies that are lost, damaged or missing are made again, from those that are not (docs/rfd/0012).
//!
//! ```text
//!   a device is forgotten ─► 6 s ─────────────────────────────────────────┬─► lost: nobody is answered from there ─┐
//!   a block's header is lost ─► no chunk has its only copy ─► condemned ───┘                                        │
//!   a content rots (reads, the scrub) ─► reports ─┬─► another copy is sound ────────────────────────────────────────┴─► relocations
//!   a copy is not there (the audit) ──────────────┘
//! ```

use std::collections::BTreeSet;

use env::Instant;
use format::chunk_command::{ChunkCommand, Relocation};
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_place::BlockPlace;
use manager::Snapshot;

use super::ailing::Found;
use super::{Leading, Leaving};
use crate::leader::{Errand, Order};
use crate::limits::{AUDIT_PERIOD, CONDEMN_LOOK, LOSS_WAIT, LOST_LOOK, MAX_REPAIRS, STOCK_AGE};
use crate::maintenance::{Duty, MaintenanceUnit, Move};
use crate::message::{NodeAnswer, NodeRequest, ToNode};
use crate::placement::Random;

/// When the leader has looked for what.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// For copies in lost places; none while there may be more of them.
    lost: Option<Instant>,
    /// For blocks that can be condemned.
    condemnable: Option<Instant>,
    /// The audit goes on here.
    audited: ChunkNumber,
}

impl Leading {
    /// Makes copies again that are lost or damaged; blocks that are to be condemned.
    pub fn heal(
        &mut self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        random: &mut Random<'_>,
    ) -> (Vec<Order>, Vec<BlockPlace>) {
        let found = self.ailing.found();
        self.notice_lost(now, state, unit, &found);
        self.placing.avoid(found.blocks.keys().copied().collect());
        let mut orders = self.rescue_moves(state, unit, random);
        orders.extend(self.heal_lost(now, state, unit, random));
        orders.extend(self.heal_ailing(state, unit, &found, random));
        (orders, self.condemnable(now, state, unit, &found))
    }

    /// Devices that the manager has forgotten and about which nobody answers any more, and blocks that are condemned.
    fn notice_lost(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit, found: &Found) {
        let mut is_news = false;
        for (device, ..) in unit.grants().into_iter().filter(|(device, ..)| state.device(*device).is_none()) {
            let since = *self.forgotten.entry(device).or_insert(now);
            is_news |= now.saturating_duration_since(since) >= LOSS_WAIT && self.leader.lose(device);
        }
        for (place, is_condemned) in &found.blocks {
            is_news |= *is_condemned && unit.held_bytes(*place).is_some() && self.leader.lose_block(*place);
        }
        if is_news {
            self.looked.lost = None;
        }
    }

    /// Relocations that can't go on: their source, or their target, is lost meanwhile.
    fn rescue_moves(&mut self, state: &Snapshot, unit: &MaintenanceUnit, random: &mut Random<'_>) -> Vec<Order> {
        if self.leader.lost().is_empty() {
            return Vec::new();
        }
        let mut orders = Vec::new();
        for duty in unit.duties() {
            let Duty::Move(told) = duty else { continue };
            let lost = self.leader.lost();
            let (asked, is_target_lost) =
                (Move { is_lost: told.is_lost || lost.holds(told.from), ..told }, lost.holds(told.to));
            if is_target_lost {
                orders.extend(self.retarget(state, unit, asked, random));
            } else if asked.is_lost && !told.is_lost {
                // To the same target: it only says that.
                let Move { id, from, to, is_lost, .. } = asked;
                orders.push(Order::Propose(ChunkCommand::Relocate(Relocation { id, from, to, is_lost })));
            }
        }
        orders
    }

    /// Copies in lost places, some at a time. Looks at all chunks.
    fn heal_lost(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit, random: &mut Random<'_>) -> Vec<Order> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < LOST_LOOK;
        if self.leader.lost().is_empty() || self.looked.lost.is_some_and(is_recent) {
            return Vec::new();
        }
        let lost = self.leader.lost();
        let mut copies =
            unit.index().filter_map(|(id, places)| Some((id, places.iter().find(|place| lost.holds(*place))?))).peekable();
        let is_any = copies.peek().is_some();
        // What is moving is looked after above; what ends needs no copy.
        let due: Vec<(ChunkId, BlockPlace)> = copies.filter(|(id, _)| unit.is_at_rest(*id)).take(MAX_REPAIRS).collect();
        self.looked.lost = (!is_any).then_some(now);
        due.into_iter().filter_map(|(id, from)| self.move_from(state, unit, id, Leaving::lost(from), random)).collect()
    }

    /// Copies without content, where another one has it; some at a time.
    fn heal_ailing(&mut self, state: &Snapshot, unit: &MaintenanceUnit, found: &Found, random: &mut Random<'_>) -> Vec<Order> {
        let has = |id: ChunkId, place: BlockPlace| unit.places_of(id).is_some_and(|places| places.contains(place));
        self.ailing.keep_missing(has);
        let is_due = |(id, from): &(ChunkId, BlockPlace)| {
            unit.is_at_rest(*id) && has(*id, *from) && self.has_sound_copy(state, unit, found, *id)
        };
        let due: Vec<(ChunkId, BlockPlace)> = found.copies.iter().copied().filter(is_due).take(MAX_REPAIRS).collect();
        due.into_iter().filter_map(|(id, from)| self.move_from(state, unit, id, Leaving::ailing(from), random)).collect()
    }

    fn has_sound_copy(&self, state: &Snapshot, unit: &MaintenanceUnit, found: &Found, id: ChunkId) -> bool {
        let is_there = |place: BlockPlace| state.device(place.device()).is_some_and(|device| device.node.is_some());
        let is_sound = |place| is_there(place) && !self.leader.lost().holds(place) && found.is_sound(id, place);
        unit.places_of(id).is_some_and(|places| places.iter().any(is_sound))
    }

    /// Damaged blocks in which no chunk has its last copy. Looks at all chunks.
    fn condemnable(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit, found: &Found) -> Vec<BlockPlace> {
        let damaged = found.blocks.iter().filter(|(place, is_condemned)| !**is_condemned && unit.held_bytes(**place).is_some());
        let mut left: BTreeSet<BlockPlace> = damaged.map(|(place, _)| *place).collect();
        let is_recent = |at: Instant| now.saturating_duration_since(at) < CONDEMN_LOOK;
        if left.is_empty() || self.looked.condemnable.is_some_and(is_recent) {
            return Vec::new();
        }
        self.looked.condemnable = Some(now);
        let mut last_copies = 0_u64;
        for (id, places) in unit.index() {
            let is_touched = places.iter().any(|place| left.contains(&place));
            if is_touched && !self.has_sound_copy(state, unit, found, id) {
                last_copies += 1;
                places.iter().for_each(|place| _ = left.remove(&place));
            }
        }
        if last_copies > 0 {
            tracing::error!(
                shard = unit.shard().0,
                last_copies,
                "chunks have their last copy in blocks whose headers were lost"
            );
        }
        left.into_iter().collect()
    }

    /// Asks nodes whether some further copies are there: all within [`AUDIT_PERIOD`].
    pub fn audit(&mut self, unit: &MaintenanceUnit) -> Vec<Order> {
        let rounds = (AUDIT_PERIOD.as_millis() / STOCK_AGE.as_millis()) as usize;
        let mut orders = Vec::new();
        let mut last = None;
        for (id, places) in unit.index_from(self.looked.audited).take(unit.chunks().div_ceil(rounds)) {
            last = Some(id.number);
            let known = places.iter().filter(|place| unit.is_at_rest(id) && !self.leader.lost().holds(*place));
            let query = |place| ToNode { place, id, request: NodeRequest::Query };
            orders.extend(known.map(|place| Order::Node { errand: Errand::Audit, to: query(place) }));
        }
        self.looked.audited = last.map_or(ChunkNumber(0), |last| ChunkNumber(last.0 + 1));
        orders
    }

    /// What a node says of a copy that the unit's state has there.
    pub fn audited(&mut self, id: ChunkId, place: BlockPlace, answer: &NodeAnswer) {
        if matches!(answer, NodeAnswer::Absent | NodeAnswer::Departed) {
            tracing::warn!(%id, device = place.device().0, block = place.block(), "a chunk's copy is not where it should be");
            self.ailing.miss(id, place);
        }
    }
}
