//! Which block of a device the next copy goes to.
//!
//! A few blocks of each device are filled at a time: one would do for space, but copies of one block are written one after the other.
//! What was handed out and is not in the unit's state yet is counted here, so that a block is not promised twice.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_block::room_of;
use format::chunk_place::BlockPlace;
use types::DeviceId;

use crate::limits::OPEN_BLOCKS;
use crate::maintenance::MaintenanceUnit;

/// The blocks that are being filled.
#[derive(Debug, Default)]
pub struct Filling {
    devices: BTreeMap<DeviceId, Open>,
    taken: Taken,
}

/// What is not to be had.
#[derive(Debug, Default)]
struct Taken {
    promised: BTreeMap<BlockPlace, u32>,
    /// Blocks that get nothing.
    avoided: BTreeSet<BlockPlace>,
    /// Blocks that get something only where no others have room.
    spared: BTreeSet<BlockPlace>,
    /// Blocks whose nodes had no room where the unit saw some: it is in pieces.
    refused: BTreeSet<BlockPlace>,
}

#[derive(Debug, Default)]
struct Open {
    blocks: Vec<u32>,
    turn: usize,
    /// Where the search for a further block goes on.
    cursor: u32,
}

/// What becomes of the blocks that are spared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spared {
    LeftAlone,
    Taken,
}

impl Taken {
    fn has_room(&self, unit: &MaintenanceUnit, place: BlockPlace, bytes: u32) -> bool {
        let promised = self.promised.get(&place).copied().unwrap_or_default();
        let has_room = unit.room(place).is_some_and(|room| room.saturating_sub(promised) >= bytes);
        has_room && !self.avoided.contains(&place) && !self.refused.contains(&place)
    }

    fn promise(&mut self, place: BlockPlace, bytes: u32) {
        *self.promised.entry(place).or_default() += bytes;
    }
}

impl Filling {
    /// From now on these blocks get nothing.
    pub fn avoid(&mut self, blocks: BTreeSet<BlockPlace>) {
        self.taken.avoided = blocks;
    }

    /// From now on these get something only where no others have room.
    pub fn spare(&mut self, blocks: BTreeSet<BlockPlace>) {
        self.taken.spared = blocks;
    }

    /// Blocks of a device that are being filled.
    pub fn open_blocks(&self, device: DeviceId) -> &[u32] {
        self.devices.get(&device).map_or(&[], |open| &open.blocks)
    }

    /// The block's node has refused a copy: others are tried first, for a while.
    pub fn refuse(&mut self, place: BlockPlace) {
        self.taken.refused.insert(place);
    }

    /// Chunks may have ended there since.
    pub fn forget_refused(&mut self) {
        self.taken.refused.clear();
    }

    /// A block of the device with room that may be taken, if there is one. It is promised until [`Filling::settle`].
    pub fn take(
        &mut self,
        unit: &MaintenanceUnit,
        device: DeviceId,
        bytes: u32,
        is_open: &dyn Fn(BlockPlace) -> bool,
    ) -> Option<BlockPlace> {
        let room = room_of(bytes)?;
        let place = match self.find(unit, device, room, is_open, Spared::LeftAlone) {
            None if !self.taken.spared.is_empty() => self.find(unit, device, room, is_open, Spared::Taken)?,
            found => found?,
        };
        self.taken.promise(place, room);
        Some(place)
    }

    /// Whether this block has room. It is promised then, as by [`Filling::take`].
    pub fn promise(&mut self, unit: &MaintenanceUnit, place: BlockPlace, bytes: u32) -> bool {
        let Some(room) = room_of(bytes).filter(|room| self.taken.has_room(unit, place, *room)) else { return false };
        self.taken.promise(place, room);
        true
    }

    /// What was promised stands in the unit's state now, or never will.
    pub fn settle(&mut self, place: BlockPlace, bytes: u32) {
        if let Some(promised) = self.taken.promised.get_mut(&place) {
            *promised = promised.saturating_sub(room_of(bytes).unwrap_or_default());
            if *promised == 0 {
                self.taken.promised.remove(&place);
            }
        }
    }

    fn find(
        &mut self,
        unit: &MaintenanceUnit,
        device: DeviceId,
        bytes: u32,
        is_open: &dyn Fn(BlockPlace) -> bool,
        spared: Spared,
    ) -> Option<BlockPlace> {
        let taken = &self.taken;
        let has_room = |place: BlockPlace| {
            let is_left_alone = spared == Spared::LeftAlone && taken.spared.contains(&place);
            !is_left_alone && is_open(place) && taken.has_room(unit, place, bytes)
        };
        let open = self.devices.entry(device).or_default();
        if open.blocks.len() >= OPEN_BLOCKS {
            for _ in 0..open.blocks.len() {
                open.turn = (open.turn + 1) % open.blocks.len();
                let place = BlockPlace::new(device, open.blocks[open.turn])?;
                if has_room(place) {
                    return Some(place);
                }
            }
        }
        let is_being_filled = |place: BlockPlace| open.blocks.contains(&place.block());
        let further = unit.blocks_from(device, open.cursor).find(|place| has_room(*place) && !is_being_filled(*place));
        let Some(place) = further else {
            // Few blocks are left: those that are open must do.
            let places = open.blocks.iter().filter_map(|block| BlockPlace::new(device, *block));
            return places.into_iter().find(|place| has_room(*place));
        };
        open.cursor = place.block() + 1;
        match open.blocks.len() < OPEN_BLOCKS {
            true => open.blocks.push(place.block()),
            false => open.blocks[open.turn] = place.block(),
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests;
