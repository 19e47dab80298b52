//! Chunks with fewer copies than are wanted, and how they come to be so (docs/rfd/0018).
//!
//! ```text
//!   a put while hosts are away ───────────────────────────────────────────────────────────┐
//!   a copy is lost ─► a place for another is looked for ─► none for 10 s ─► given up ──────┴─► short ─► a host with room ─► a copy more
//!                                                                                               ▲   the target is away, or full   │
//!                                                                                               └──────────────── given up ◄─────┘
//! ```
//!
//! A place is given up when it is lost, not when it is silent: what answers may be asked by somebody who knows the former places.

use env::Instant;
use format::chunk_command::{ChunkCommand, Relocation};
use format::chunk_id::{ChunkId, ChunkNumber, ShardId};
use format::chunk_page::ChunkRow;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use manager::Snapshot;

use super::ailing::Found;
use super::{Leading, Leaving, node_of};
use crate::leader::Order;
use crate::limits::{CLOSED_SILENCE, MAX_GROWTH_LOOKS, MAX_REPAIRS, NODE_SILENCE, SHRINK_WAIT};
use crate::maintenance::MaintenanceUnit;
use crate::placement::Random;

/// What a leader knows of copies that are wanted.
#[derive(Debug, Default)]
pub(super) struct Growing {
    /// It goes on here.
    next: ChunkNumber,
    /// Since when lost copies find no place, and whether one has found none since the last look.
    targetless: Option<Instant>,
    is_targetless: bool,
}

impl Growing {
    /// A look begins.
    pub fn look(&mut self) {
        if !std::mem::take(&mut self.is_targetless) {
            self.targetless = None;
        }
    }

    /// A lost copy finds no place. Whether that is so for long.
    fn lacks_target(&mut self, now: Instant) -> bool {
        self.is_targetless = true;
        let since = *self.targetless.get_or_insert(now);
        now.saturating_duration_since(since) >= SHRINK_WAIT
    }
}

impl Leading {
    /// Whether a chunk is to have more copies, and a host is there for one.
    pub fn can_grow(&self, row: &ChunkRow) -> bool {
        row.is_short() && self.placing.can_grow(&row.places)
    }

    /// Begins to make copies that are wanted, some at a time, and no more than there is `room` for beside repairs.
    pub(super) fn grow(
        &mut self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        found: &Found,
        room: usize,
        random: &mut Random<'_>,
    ) -> Vec<Order> {
        // Nobody knows yet who is there.
        if self.is_new(now) {
            return Vec::new();
        }
        let room = room.min(MAX_REPAIRS.saturating_sub(self.moves_that_end(unit)));
        let looked: Vec<(ChunkId, ChunkPlaces)> = unit.short_from(self.growing.next).take(MAX_GROWTH_LOOKS).collect();
        let mut orders = Vec::new();
        for (id, places) in looked {
            if orders.len() == room {
                break;
            }
            self.growing.next = ChunkNumber(id.number.0 + 1);
            if unit.is_at_rest(id) && self.placing.can_grow(&places) && self.is_whole(now, state, found, id, &places) {
                let command = self.relocation(state, unit, id, Leaving::nothing(), random);
                if let Some(command) = command {
                    env::mark("chunks: a copy added");
                    orders.push(Order::Propose(command));
                }
            }
        }
        orders
    }

    /// Whether the node of a place was heard of lately, and its device takes writes.
    pub(super) fn is_heard(&self, now: Instant, state: &Snapshot, shard: ShardId, place: BlockPlace) -> bool {
        self.is_node_heard(now, state, shard, place) && !self.is_stuck(state, place.device())
    }

    /// Whether the node of a place was heard of lately.
    pub(super) fn is_node_heard(&self, now: Instant, state: &Snapshot, shard: ShardId, place: BlockPlace) -> bool {
        node_of(state, place).is_some_and(|node| !self.is_silent(now, state, shard, node))
    }

    /// Whether all copies are there and sound: from the first step on modifications wait for all of them, and for the new one.
    fn is_whole(&self, now: Instant, state: &Snapshot, found: &Found, id: ChunkId, places: &ChunkPlaces) -> bool {
        let is_heard = |place| self.is_heard(now, state, id.shard, place);
        places.iter().all(|place| is_heard(place) && !self.leader.lost().holds(place) && found.is_sound(id, place))
    }

    /// Whether nodes that are there may not have had their turn to report to a new leader.
    pub(super) fn is_unheard(&self, now: Instant, state: &Snapshot, shard: ShardId) -> bool {
        let is_open = state.shard(shard.0).is_none_or(|shard| shard.is_open);
        let turn = if is_open { NODE_SILENCE } else { CLOSED_SILENCE };
        now.saturating_duration_since(self.began) < turn
    }

    /// A lost copy has found no place. After a while the others do without it: until then nothing of the chunk can be modified.
    pub(super) fn give_up_place(
        &mut self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        id: ChunkId,
        from: BlockPlace,
    ) -> Option<Order> {
        if !self.growing.lacks_target(now) || !self.leader.lost().holds(from) || self.is_unheard(now, state, id.shard) {
            return None;
        }
        let places = unit.places_of(id).filter(|places| !self.is_gone(places))?;
        // Those that stay are asked first; and where nobody is heard, nothing is known of who has room.
        let lost = self.leader.lost();
        let mut stay = places.iter().filter(|place| *place != from && !lost.holds(*place));
        if !stay.all(|place| self.is_heard(now, state, id.shard, place)) {
            return None;
        }
        env::mark("chunks: a lost copy done without");
        tracing::info!(%id, device = from.device().0, copies = places.as_slice().len() - 1, "a lost copy is done without");
        Some(Order::Propose(ChunkCommand::Relocate(Relocation { id, from: Some(from), to: None, is_lost: true })))
    }
}
