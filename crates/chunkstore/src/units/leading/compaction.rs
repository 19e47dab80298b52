//! Copies of a closed shard are moved together, so that bulks get empty and go to later shards (docs/rfd/0012).
//!
//! ```text
//!   once a minute, of each device: the bulk with least in it ─ little, and room in the others ─► nothing goes there ─► its copies move
//!   to other blocks of the device ─► it is empty, and goes back (`space`)
//! ```
//!
//! Nothing of it is remembered: a new leader chooses anew. A shard that is open fills its holes itself. Where the pool of a device is short of space zones
//! go back one by one instead ([`clearing`](super::clearing)).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use env::Instant;
use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_command::{ChunkCommand, CopyOf, Relocation};
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use manager::{Bulk, Snapshot, VolumeRecord};
use types::DeviceId;

use super::super::space::is_active;
use super::Leading;
use crate::leader::Order;
use crate::limits::{COMPACT_BELOW, COMPACT_BYTES, IDLE_LOOK, MAX_COMPACTING};
use crate::maintenance::MaintenanceUnit;

/// What a leader empties at the moment.
#[derive(Debug, Default)]
pub struct Compaction {
    looked: Option<Instant>,
    /// Blocks that get nothing.
    emptied: BTreeSet<BlockPlace>,
    /// Copies there that are to move, and that were seen there last: one that was asked to stays until it is seen elsewhere.
    queue: VecDeque<(ChunkId, BlockPlace)>,
    /// Targets of the last look, promised until the unit has them.
    promised: Vec<(BlockPlace, u32)>,
}

impl Compaction {
    pub fn emptied(&self) -> &BTreeSet<BlockPlace> {
        &self.emptied
    }

    /// Rows of these copies came from pages.
    pub fn hear(&mut self, copies: impl Iterator<Item = CopyOf>) {
        let here = copies.filter(|copy| self.emptied.contains(&copy.place)).map(|copy| (copy.id, copy.place));
        self.queue.extend(here);
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.looked.is_none_or(|at| now.saturating_duration_since(at) >= IDLE_LOOK);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }

    /// Chooses bulks to empty, and looks through the chunks for the copies in them. Those whose rows are in pages come by and by.
    fn choose(&mut self, unit: &MaintenanceUnit, devices: impl Iterator<Item = (DeviceId, Vec<Bulk>)>) {
        let chosen = devices.filter_map(|(device, bulks)| sparse_blocks(unit, device, &bulks));
        self.emptied = chosen.flatten().collect();
        self.queue.clear();
        if self.emptied.is_empty() {
            return;
        }
        for (id, places) in unit.index() {
            self.queue.extend(places.iter().filter(|place| self.emptied.contains(place)).map(|place| (id, place)));
        }
        let (shard, blocks, copies) = (unit.shard().0, self.emptied.len(), self.queue.len());
        tracing::debug!(shard, blocks, copies, "bulks with little in them are to get empty");
    }

    /// Copies that are to move now, of those that may, beside so many that do. Of a chunk one at a time.
    fn take(
        &mut self,
        unit: &MaintenanceUnit,
        under_way: usize,
        may_move: impl Fn(ChunkId, BlockPlace) -> bool,
    ) -> Vec<(ChunkId, BlockPlace, u32)> {
        let (mut taken, mut bytes_left): (Vec<(ChunkId, BlockPlace, u32)>, u32) = (Vec::new(), COMPACT_BYTES);
        for _ in 0..self.queue.len() {
            // Where a node is away relocations wait for it: no more of them than these.
            if bytes_left == 0 || under_way + taken.len() >= MAX_COMPACTING {
                break;
            }
            let Some((id, place)) = self.queue.pop_front() else { break };
            let bytes = unit.places_of(id).filter(|places| places.contains(place)).and_then(|_| unit.bytes_of(id));
            let Some(bytes) = bytes else { continue };
            self.queue.push_back((id, place));
            if unit.is_at_rest(id) && may_move(id, place) && taken.iter().all(|(other, ..)| *other != id) {
                bytes_left = bytes_left.saturating_sub(bytes);
                taken.push((id, place, bytes));
            }
        }
        taken
    }
}

impl Leading {
    /// Now and then, which bulks of a closed shard are to get empty: from then on nothing goes there.
    pub fn choose_bulks(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit) {
        if self.compaction.is_due(now) {
            let shard = unit.shard().0;
            let takes_copies = |device| !self.is_stuck(state, device);
            // Where space is short spans go back one by one (`clearing`), and a bulk finds no room.
            let is_due = |volume: &&Arc<VolumeRecord>| is_active(state, volume) && !self.is_pressed(state, volume);
            let devices = state.volumes().filter(is_due).filter(|volume| takes_copies(volume.device));
            let devices: Vec<_> = devices.collect();
            self.compaction.choose(unit, devices.into_iter().map(|volume| (volume.device, volume.bulks_of(shard).collect())));
        }
    }

    /// Relocations within devices that let them.
    pub fn compact(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit) -> Vec<Order> {
        for (place, bytes) in std::mem::take(&mut self.compaction.promised) {
            self.placing.settle([place], bytes);
        }
        // What can't be read has nothing to bring, and its relocation would keep all that is freed after it from being forgotten.
        let (found, lost) = (self.ailing.found(), self.leader.lost());
        let silent = self.silent_devices(now, state, unit);
        // Nor is there any hurry where a node is away for which it would wait.
        let is_there = |place: BlockPlace| !silent.contains(&place.device());
        let is_whole = |id| unit.places_of(id).is_some_and(|places| places.iter().all(is_there));
        let may_move = |id, place| is_whole(id) && found.is_sound(id, place) && !lost.holds(place);
        let mut orders = Vec::new();
        let under_way = self.moves_that_end(unit);
        for (id, from, bytes) in self.compaction.take(unit, under_way, may_move) {
            // Not before bulks are chosen anew: the room is in too small pieces.
            let Some(to) = self.placing.choose_on(unit, bytes, from.device()) else {
                self.compaction.queue.retain(|copy| *copy != (id, from));
                continue;
            };
            self.compaction.promised.push((to, bytes));
            orders.push(Order::Propose(ChunkCommand::Relocate(Relocation {
                id,
                from: Some(from),
                to: Some(to),
                is_lost: false,
            })));
        }
        orders
    }
}

/// A device's blocks that are to be empty, if there is a bulk with so little in it that the others have plenty of room for it: its own, and those of
/// bulks in which nothing is, which go back as they are.
fn sparse_blocks(unit: &MaintenanceUnit, device: DeviceId, bulks: &[Bulk]) -> Option<Vec<BlockPlace>> {
    let places = |bulk: &Bulk| -> Vec<BlockPlace> {
        (bulk.first_block..bulk.first_block + bulk.blocks).filter_map(|block| BlockPlace::new(device, block)).collect()
    };
    let used = |bulk: &Bulk| -> u64 { places(bulk).into_iter().filter_map(|at| unit.held_bytes(at)).map(u64::from).sum() };
    let room = |bulk: &Bulk| -> u64 { places(bulk).into_iter().filter_map(|at| unit.room(at)).map(u64::from).sum() };
    let (empty, mut others): (Vec<(u64, &Bulk)>, Vec<_>) =
        bulks.iter().map(|bulk| (used(bulk), bulk)).partition(|(used, _)| *used == 0);
    others.sort_by_key(|(used, bulk)| (*used, bulk.first_block));
    let ((least, sparse), others) = others.split_first()?;
    let is_little = least * 1000 <= u64::from(sparse.blocks) * u64::from(BLOCK_DATA_BYTES) * u64::from(COMPACT_BELOW.0);
    let others: u64 = others.iter().map(|(_, bulk)| room(bulk)).sum();
    // Room is in pieces: of twice as much most will do.
    (is_little && others >= 2 * least)
        .then(|| std::iter::once(*sparse).chain(empty.into_iter().map(|(_, bulk)| bulk)).flat_map(places).collect())
}

#[cfg(test)]
mod tests;
