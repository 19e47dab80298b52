//! Copies that are lost, damaged or missing are made again, from those that are not (docs/rfd/0012).
//!
//! ```text
//!   a device is forgotten ─► 6 s ─────────────────────────────────────────┬─► lost: nobody is answered from there ─┐
//!   a block's header is lost ─► no chunk has its only copy ─► condemned ───┘                                        │
//!   a copy is not there (the audit) ─► another one is sound ────────────────────────────────────────────────────────┴─► relocations
//!   a content rots (reads, the scrub) ─► reports ─► another copy is sound ─► written again; a relocation if that fails
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use env::Instant;
use format::chunk_command::{ChunkCommand, CopyOf, Relocation};
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_page::{ChunkPage, ChunkRow};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use manager::{DeviceRecord, DeviceState, Snapshot};
use types::DeviceId;

use super::ailing::Found;
use super::mends::Mend;
use super::{Leading, Leaving, node_of};
use crate::leader::{Lost, Order};
use crate::limits::{LOSS_WAIT, LOST_LOOK, MAX_HEALING, MAX_MOVING, MAX_REPAIRS, MAX_WAITING};
use crate::maintenance::{Duty, MaintenanceUnit, Move};
use crate::placement::Random;

/// When the leader has looked for what.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// For copies in lost places; none while there may be more of them.
    lost: Option<Instant>,
    /// Relocations were begun for as many of them as could be: there are more for which there is room soon.
    leaves_lost: bool,
    /// That look goes on here, among pages and among chunks: what finds no place to go to must not hide what stands behind it.
    healed: [ChunkNumber; 2],
    /// Chunks with lost copies about which something was proposed since all was looked at: their state does not say so while it is on its way.
    proposed: BTreeSet<ChunkId>,
    /// The look for missing copies goes on behind this one.
    made_anew: Option<(ChunkId, BlockPlace)>,
    /// Relocations under way of chunks none of whose copies is left: they end only if their targets have the content already.
    stranded: usize,
    /// Rotten copies, since when they are to be written again.
    pub(super) rotten: BTreeMap<(ChunkId, BlockPlace), Instant>,
}

/// Relocations that may be begun now.
struct Room {
    all: usize,
    /// Of these, such as wait for nodes that are away.
    waiting: usize,
    silent: BTreeSet<DeviceId>,
}

/// What is to be done about copies and blocks.
#[derive(Default)]
pub struct Healing {
    pub orders: Vec<Order>,
    pub condemn: Vec<BlockPlace>,
    pub mend: Vec<Mend>,
}

impl Leading {
    /// Makes copies again that are lost or damaged.
    pub fn heal(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit, random: &mut Random<'_>) -> Healing {
        self.ailing.keep_nodes(|node| state.node(node).is_some());
        let found = self.ailing.found();
        self.notice_lost(now, state, unit, &found);
        self.look_for_rows(now, unit, &found);
        self.placing.avoid(found.blocks.keys().chain(self.compaction.emptied()).copied().collect());
        self.placing.spare(self.clearing.spared());
        self.growing.look();
        self.looked.proposed.clear();
        let mut orders = self.rescue_moves(now, state, unit, random);
        let mut room = self.room(now, state, unit);
        orders.extend(self.heal_lost(now, state, unit, &mut room, random));
        let (mend, hopeless) = self.mend(now, state, unit, &found, random);
        orders.extend(self.heal_missing(state, unit, &found, hopeless, &mut room, random));
        orders.extend(self.grow(now, state, unit, &found, room.all, random));
        Healing { orders, mend, condemn: self.condemnable(now, state, unit, &found) }
    }

    /// Begins further relocations of lost copies, where the last look found more of them than it could begin with: what has come to its end since leaves room.
    pub fn heal_on(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit, random: &mut Random<'_>) -> Vec<Order> {
        if !self.looked.leaves_lost {
            return Vec::new();
        }
        let mut room = self.room(now, state, unit);
        self.heal_lost(now, state, unit, &mut room, random)
    }

    fn room(&self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit) -> Room {
        let silent = self.silent_devices(now, state, unit);
        Room::of(unit.moves_under_way(), self.moves_that_end(unit), silent)
    }

    /// Relocations under way, but for those that have nothing to bring.
    pub(super) fn moves_that_end(&self, unit: &MaintenanceUnit) -> usize {
        unit.moves_under_way().saturating_sub(self.looked.stranded)
    }

    /// Devices that the manager has forgotten and about which nobody answers any more, and blocks that are condemned.
    fn notice_lost(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit, found: &Found) {
        let mut is_news = false;
        self.forgotten.retain(|device, _| state.device(*device).is_none());
        // A number that the manager has not given, as far as it is known here, is that of a device that came since.
        let is_forgotten = |device: &DeviceId| *device < state.next_device() && state.device(*device).is_none();
        for device in unit.devices().filter(is_forgotten) {
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

    /// Chunks about whose copies there is something to do: their rows are needed in the state.
    fn look_for_rows(&mut self, now: Instant, unit: &MaintenanceUnit, found: &Found) {
        let lost = self.leader.lost();
        // Nobody is left whom to ask about those of a lost device.
        let is_damaged = |place: BlockPlace| unit.held_bytes(place).is_some() && !lost.holds(place);
        let damaged = found.blocks.iter().filter(|(place, is_condemned)| !**is_condemned && is_damaged(**place));
        self.condemning.choose(now, &damaged.map(|(place, _)| *place).collect());
        let blocks = self.condemning.sought().iter().chain(lost.blocks()).chain(self.compaction.emptied()).copied();
        let blocks = blocks.chain(self.clearing.sought()).collect();
        self.sweep.look_for(lost.devices().clone(), blocks);
        self.sweep.look_for_growth(self.placing.open_hosts());
    }

    /// Rows of a page that were looked for are in the state; so many others have no copy.
    pub fn swept(&mut self, page: ChunkNumber, copies: impl Iterator<Item = CopyOf>, gone: usize) {
        self.sweep.pass(page, gone);
        let copies: Vec<CopyOf> = copies.collect();
        self.clearing.hear(copies.iter().copied());
        self.compaction.hear(copies.into_iter());
        self.looked.lost = None;
    }

    /// Chunks with copies against which something is known.
    pub fn ailing_chunks(&self) -> BTreeSet<ChunkId> {
        let found = self.ailing.found();
        found.rotten.into_iter().chain(found.missing).map(|(id, _)| id).collect()
    }

    /// Whether there is something to do about a chunk, for which its row stays here; these are [`Leading::ailing_chunks`].
    pub fn needs(&self, row: &ChunkRow, ailing: &BTreeSet<ChunkId>) -> bool {
        self.sweep.wants(&row.places) || self.can_grow(row) || ailing.contains(&row.id(self.leader.stream().shard))
    }

    /// A copy has its content again.
    pub fn mended(&mut self, id: ChunkId, place: BlockPlace) {
        self.ailing.mended(id, place);
    }

    /// There are no such chunks.
    pub fn forget_ailing(&mut self, ids: &BTreeSet<ChunkId>) {
        self.ailing.forget(ids);
    }

    /// Relocations that can't go on: their source, or their target, is lost meanwhile. Those without a source, or with a lost one, do not wait for a target that
    /// is away either: modifications of their chunks wait for them.
    fn rescue_moves(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit, random: &mut Random<'_>) -> Vec<Order> {
        let mut orders = Vec::new();
        self.looked.stranded = 0;
        for duty in unit.duties() {
            let Duty::Move(told) = duty else { continue };
            let lost = self.leader.lost();
            self.looked.stranded += usize::from(is_gone(&told.places, lost));
            let asked = Move { is_lost: told.is_lost || told.from.is_some_and(|from| lost.holds(from)), ..told };
            let is_missed =
                |to: BlockPlace| node_of(state, to).is_none_or(|node| self.is_missed(now, state, unit.shard(), node));
            let is_missed = |to: BlockPlace| is_missed(to) || self.is_stuck(state, to.device());
            let waits_for = |to: BlockPlace| lost.holds(to) || ((asked.is_lost || told.from.is_none()) && is_missed(to));
            if told.to.is_some_and(waits_for) {
                orders.extend(self.retarget(now, state, unit, asked, random));
            } else if asked.is_lost && !told.is_lost {
                // To the same target: it only says that.
                let Move { id, from, to, is_lost, .. } = asked;
                orders.push(Order::Propose(ChunkCommand::Relocate(Relocation { id, from, to, is_lost })));
            }
        }
        orders
    }

    /// Copies in lost places, some at a time: pages first, since with the last copy of one all its rows would go. Looks at all chunks.
    fn heal_lost(
        &mut self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        room: &mut Room,
        random: &mut Random<'_>,
    ) -> Vec<Order> {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < LOST_LOOK;
        if self.leader.lost().is_empty() || self.looked.lost.is_some_and(is_recent) || room.all == 0 {
            return Vec::new();
        }
        let (mut is_any, mut orders) = (false, Vec::new());
        self.looked.leaves_lost = false;
        let pages = ChunkNumber(unit.capacity());
        for (numbers, which) in [(pages..ChunkNumber(u64::MAX), 0), (ChunkNumber(0)..pages, 1)] {
            let lost = self.leader.lost();
            // What is moving is looked after above; what ends needs no copy.
            let copies = lost_copies(unit, lost, numbers, self.looked.healed[which]).inspect(|_| is_any = true);
            let is_due = |(id, _): &(ChunkId, BlockPlace)| unit.is_at_rest(*id) && !self.looked.proposed.contains(id);
            let due = room.choose(unit, lost, copies.filter(is_due));
            if let Some((id, _)) = due.last() {
                self.looked.healed[which] = ChunkNumber(id.number.0 + 1);
            }
            let (begun, is_all) = (orders.len(), due.len() < room.all);
            for (id, from) in due {
                let command = self.relocation(state, unit, id, Leaving::lost(from), random);
                let order = command.map(Order::Propose).or_else(|| self.give_up_place(now, state, unit, id, from));
                self.looked.proposed.extend(order.is_some().then_some(id));
                orders.extend(order);
            }
            // What finds no place is looked at again when there may be others.
            self.looked.leaves_lost |= !is_all && orders.len() > begun;
            room.take(orders.len() - begun);
        }
        if !is_any {
            self.looked.lost = Some(now);
            self.tell_of_gone(unit);
        }
        orders
    }

    /// Devices that don't answer now, or take no writes, as far as is known: every step of a relocation is a write.
    pub(super) fn silent_devices(&self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit) -> BTreeSet<DeviceId> {
        let node = |device: DeviceId| state.device(device)?.node;
        let is_silent = |device| node(device).is_none_or(|node| self.is_silent(now, state, unit.shard(), node));
        unit.devices().filter(|device| is_silent(*device) || self.is_stuck(state, *device)).collect()
    }

    /// Whether all of these places are lost for good.
    pub fn is_gone(&self, places: &ChunkPlaces) -> bool {
        is_gone(places, self.leader.lost())
    }

    /// Says how many chunks are lost; nothing can be done about them.
    fn tell_of_gone(&self, unit: &MaintenanceUnit) {
        let lost = self.leader.lost();
        let here = unit.index().filter(|(id, places)| unit.is_kept(*id) && is_gone(places, lost)).count();
        let gone = here + self.sweep.gone();
        if gone > 0 {
            tracing::error!(
                shard = unit.shard().0,
                chunks = gone,
                "chunks are lost: all of their copies were in places that are"
            );
        }
    }

    /// Copies that are not there, and those that can't be written again, where another one is sound; some at a time.
    fn heal_missing(
        &mut self,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        found: &Found,
        hopeless: Vec<(ChunkId, BlockPlace)>,
        room: &mut Room,
        random: &mut Random<'_>,
    ) -> Vec<Order> {
        // Of those in pages it is not known yet.
        let is_so = |(id, place): &(ChunkId, BlockPlace)| {
            unit.page_of(*id).is_some() || unit.places_of(*id).is_some_and(|places| places.contains(*place))
        };
        self.ailing.keep_missing(is_so);
        let is_due = |copy: &(ChunkId, BlockPlace)| {
            is_in_place(unit, copy) && self.sound_copies(state, unit, found, copy.0).next().is_some()
        };
        let copies: BTreeSet<(ChunkId, BlockPlace)> = found.missing.iter().copied().chain(hopeless).collect();
        let last = self.looked.made_anew;
        let behind = copies.range((last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let before = last.map(|last| copies.range(..=last));
        let around = behind.chain(before.into_iter().flatten()).copied();
        let due = room.choose(unit, self.leader.lost(), around.filter(is_due));
        self.looked.made_anew = due.last().copied().or(last);
        let relocation = |(id, from)| self.relocation(state, unit, id, Leaving::ailing(from), random).map(Order::Propose);
        let orders: Vec<Order> = due.into_iter().filter_map(relocation).collect();
        room.take(orders.len());
        orders
    }

    /// Chunks that would be lost with these devices: none of their copies elsewhere is surely good, at a node that is there, and on a device that is written to: another one
    /// may be away, or be given up at the same time. Of those whose rows are here, or in this page.
    pub fn last_copies(
        &self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        page: Option<&ChunkPage>,
        devices: &BTreeSet<DeviceId>,
    ) -> u64 {
        let found = self.ailing.found();
        let written = written_devices(state);
        let is_there = |place: &BlockPlace| devices.contains(&place.device());
        let is_safe = |id: ChunkId, place: &BlockPlace| {
            let is_written = written.as_ref().is_none_or(|written| written.contains(&place.device()));
            is_written && !is_there(place) && self.is_node_heard(now, state, id.shard, *place)
        };
        let is_last = |id: ChunkId, places: ChunkPlaces| {
            let mut elsewhere = self.sound_of(state, &found, id, places).filter(|place| is_safe(id, place));
            places.iter().any(|place| is_there(&place)) && elsewhere.next().is_none()
        };
        let count = match page {
            Some(page) => unit.rows_in(page).filter(|row| is_last(row.id(unit.shard()), row.places)).count(),
            // What is pending was not promised to anybody, and what ends is wanted by nobody.
            None => {
                let kept = unit.index().filter(|(id, _)| unit.is_kept(*id));
                kept.filter(|(id, places)| is_last(*id, *places)).count()
            }
        };
        count as u64
    }

    /// Whether there is a copy that could be brought elsewhere.
    pub fn has_sound_copy(&self, state: &Snapshot, unit: &MaintenanceUnit, id: ChunkId) -> bool {
        self.sound_copies(state, unit, &self.ailing.found(), id).next().is_some()
    }

    /// A chunk's copies against which nothing is known.
    pub(super) fn sound_copies(
        &self,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        found: &Found,
        id: ChunkId,
    ) -> impl Iterator<Item = BlockPlace> {
        unit.places_of(id).into_iter().flat_map(move |places| self.sound_of(state, found, id, places))
    }

    fn sound_of(&self, state: &Snapshot, found: &Found, id: ChunkId, places: ChunkPlaces) -> impl Iterator<Item = BlockPlace> {
        let is_there = |place: BlockPlace| state.device(place.device()).is_some_and(|device| has_content(device));
        let places: Vec<BlockPlace> = places.iter().collect();
        places
            .into_iter()
            .filter(move |place| is_there(*place) && !self.leader.lost().holds(*place) && found.is_sound(id, *place))
    }
}

impl Room {
    /// With so many relocations under way, of which these come to an end.
    fn of(under_way: usize, that_end: usize, silent: BTreeSet<DeviceId>) -> Room {
        let left = MAX_HEALING.saturating_sub(that_end).min(MAX_MOVING.saturating_sub(under_way));
        let all = MAX_REPAIRS.min(left);
        Room { all, waiting: MAX_WAITING.saturating_sub(that_end), silent }
    }

    /// Of copies that are to be made again, those with which it is begun now: first those whose relocations need no node that is away.
    fn choose(
        &self,
        unit: &MaintenanceUnit,
        lost: &Lost,
        copies: impl Iterator<Item = (ChunkId, BlockPlace)>,
    ) -> Vec<(ChunkId, BlockPlace)> {
        if self.all == 0 {
            return Vec::new();
        }
        // Of places that are lost nobody is asked.
        let is_awaited = |place: BlockPlace| self.silent.contains(&place.device()) && !lost.holds(place);
        let waits = |id| unit.places_of(id).is_some_and(|places| places.iter().any(is_awaited));
        let (mut due, mut waiting) = (Vec::new(), Vec::new());
        for copy in copies {
            match waits(copy.0) {
                true if waiting.len() < self.waiting => waiting.push(copy),
                true => {}
                false => due.push(copy),
            }
            if due.len() == self.all {
                return due;
            }
        }
        waiting.truncate(self.all - due.len());
        due.extend(waiting);
        due
    }

    fn take(&mut self, count: usize) {
        self.all = self.all.saturating_sub(count);
        self.waiting = self.waiting.saturating_sub(count);
    }
}

/// A copy in a lost place of each chunk with such a number that has one, and one elsewhere; once around, from `next` on.
fn lost_copies<'a>(
    unit: &'a MaintenanceUnit,
    lost: &'a Lost,
    numbers: Range<ChunkNumber>,
    next: ChunkNumber,
) -> impl Iterator<Item = (ChunkId, BlockPlace)> + 'a {
    let next = next.clamp(numbers.start, numbers.end);
    let up_to = |end| move |(id, _): &(ChunkId, ChunkPlaces)| id.number < end;
    let behind = unit.index_from(next).take_while(up_to(numbers.end));
    let all = behind.chain(unit.index_from(numbers.start).take_while(up_to(next)));
    let all = all.filter(|(_, places)| !is_gone(places, lost));
    all.filter_map(|(id, places)| Some((id, places.iter().find(|place| lost.holds(*place))?)))
}

/// Whether no copy is left: a relocation would have nothing to bring, and would never end.
fn is_gone(places: &ChunkPlaces, lost: &Lost) -> bool {
    places.iter().all(|place| lost.holds(place))
}

/// Whether what was written to a device is still on it.
fn has_content(device: &DeviceRecord) -> bool {
    device.node.is_some() && matches!(device.state, DeviceState::Active | DeviceState::Draining)
}

/// Whether nothing is under way with a chunk that is to have this copy.
pub(super) fn is_in_place(unit: &MaintenanceUnit, (id, place): &(ChunkId, BlockPlace)) -> bool {
    unit.is_at_rest(*id) && unit.places_of(*id).is_some_and(|places| places.contains(*place))
}

/// The devices that cells write to at present; none if there is no cell, and nothing tells.
fn written_devices(state: &Snapshot) -> Option<BTreeSet<DeviceId>> {
    let installed = state.cells().filter_map(|cell| cell.installed.as_ref());
    let written: BTreeSet<DeviceId> = installed.flat_map(|installed| installed.table.devices()).copied().collect();
    (!written.is_empty()).then_some(written)
}

#[cfg(test)]
mod tests;
