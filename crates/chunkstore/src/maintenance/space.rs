//! The space of the blocks that a unit was granted: bytes and entries that are held in each.
//!
//! The node has the last word, since its header knows the holes; the unit keeps the sums, so that what it hands out fits. How many blocks of a
//! device are free is kept with them: there are many thousands, and it is asked all the time.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_block::{BLOCK_DATA_BYTES, MAX_BLOCK_ENTRIES, room_of};
use format::chunk_place::{BLOCK_BITS, BlockPlace};
use types::DeviceId;

use super::chunk::Refusal;
use super::image::runs;
use super::{Answer, Held};
use crate::limits::MAX_GRANT_BLOCKS;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    bytes: u32,
    entries: u16,
}

impl Use {
    fn room(self) -> Option<u32> {
        (usize::from(self.entries) < MAX_BLOCK_ENTRIES).then_some(BLOCK_DATA_BYTES - self.bytes)
    }
}

/// Granted blocks of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeBlocks {
    /// That have nothing: any chunk fits.
    pub empty: u32,
    /// In which there is room for something, the empty ones among them.
    pub with_room: u32,
}

impl FreeBlocks {
    /// What one block counts for.
    fn of(used: Use) -> FreeBlocks {
        let with_room = used.room().is_some_and(|room| room > 0);
        FreeBlocks { empty: u32::from(used.entries == 0), with_room: u32::from(with_room) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    blocks: BTreeMap<BlockPlace, Use>,
    /// Of each device with granted blocks.
    free: BTreeMap<DeviceId, FreeBlocks>,
    /// Bulks that were released, until the manager has them.
    released: BTreeSet<(DeviceId, u32)>,
}

impl Space {
    pub fn grant(&mut self, device: DeviceId, first_block: u32, blocks: u32) -> Result<Answer, Refusal> {
        let last = first_block.checked_add(blocks).ok_or(Refusal::Grant)?;
        if blocks == 0 || blocks > MAX_GRANT_BLOCKS {
            return Err(Refusal::Grant);
        }
        let places: Option<Vec<BlockPlace>> = (first_block..last).map(|block| BlockPlace::new(device, block)).collect();
        let places = places.ok_or(Refusal::Grant)?;
        if places.iter().any(|place| self.blocks.contains_key(place)) {
            return Err(Refusal::Grant);
        }
        self.blocks.extend(places.into_iter().map(|place| (place, Use::default())));
        let free = self.free.entry(device).or_default();
        free.empty += blocks;
        free.with_room += blocks;
        Ok(Answer::Done)
    }

    /// Gives up blocks that hold nothing.
    pub fn release(&mut self, device: DeviceId, first_block: u32, blocks: u32) -> Result<Answer, Refusal> {
        if blocks == 0 || !self.is_unused(device, first_block, blocks) {
            return Err(Refusal::Grant);
        }
        for block in first_block..first_block + blocks {
            let place = BlockPlace::new(device, block).ok_or(Refusal::Grant)?;
            self.blocks.remove(&place);
        }
        let free = self.free.get_mut(&device).expect("the device of a granted block is counted");
        free.empty -= blocks;
        free.with_room -= blocks;
        if self.blocks_from(device, 0).next().is_none() {
            self.free.remove(&device);
        }
        self.released.insert((device, first_block));
        Ok(Answer::Done)
    }

    /// The manager has what was released.
    pub fn forget_released(&mut self, device: DeviceId, first_block: u32) {
        self.released.remove(&(device, first_block));
    }

    /// For an image that was read.
    pub fn note_released(&mut self, device: DeviceId, first_block: u32) {
        self.released.insert((device, first_block));
    }

    pub fn released(&self) -> &BTreeSet<(DeviceId, u32)> {
        &self.released
    }

    /// Whether all these blocks are granted, and nothing is in them.
    pub fn is_unused(&self, device: DeviceId, first_block: u32, blocks: u32) -> bool {
        let Some(end) = first_block.checked_add(blocks) else { return false };
        let is_unused = |place: BlockPlace| self.blocks.get(&place).is_some_and(|used| *used == Use::default());
        (first_block..end).all(|block| BlockPlace::new(device, block).is_some_and(is_unused))
    }

    pub fn held_bytes(&self, place: BlockPlace) -> Option<u32> {
        self.blocks.get(&place).map(|used| used.bytes)
    }

    pub fn room(&self, place: BlockPlace) -> Option<u32> {
        self.blocks.get(&place)?.room()
    }

    pub fn free(&self, device: DeviceId) -> FreeBlocks {
        self.free.get(&device).copied().unwrap_or_default()
    }

    pub fn blocks_from(&self, device: DeviceId, block: u32) -> impl Iterator<Item = BlockPlace> {
        let place = |block| BlockPlace::new(device, block);
        let (first, from, last) = (place(0), place(block), place((1 << BLOCK_BITS) - 1));
        let range =
            |from: Option<BlockPlace>, to: Option<BlockPlace>| from.zip(to).map(|(from, to)| self.blocks.range(from..=to));
        let after = range(from, last).into_iter().flatten();
        let before = range(first, from).into_iter().flatten().filter(move |(at, _)| Some(**at) != from);
        after.chain(before).map(|(place, _)| *place)
    }

    /// Devices on which blocks are granted. They are few where blocks are millions: a leader asks for them every second.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.free.keys().copied()
    }

    /// Blocks that were granted, in runs: device, first block, blocks.
    pub fn grants(&self) -> Vec<(DeviceId, u32, u32)> {
        runs(self.blocks.keys().copied())
    }

    /// Blocks of a device in which nothing is, in runs: first block, blocks.
    pub fn unused(&self, device: DeviceId) -> impl Iterator<Item = (u32, u32)> {
        let is_unused = |place: &BlockPlace| self.blocks[place] == Use::default();
        runs(self.blocks_from(device, 0).filter(is_unused)).into_iter().map(|(_, first, blocks)| (first, blocks))
    }

    /// What is held in each block: bytes and entries.
    pub fn uses(&self) -> impl Iterator<Item = (BlockPlace, u32, u16)> {
        self.blocks.iter().map(|(place, used)| (*place, used.bytes, used.entries))
    }

    /// What chunks hold in a block whose rows are in pages, for an image that was read.
    pub fn take_archived(&mut self, place: BlockPlace, bytes: u32, entries: u16) -> Result<(), Refusal> {
        let used = self.blocks.get(&place).copied().ok_or(Refusal::NoRoom { place })?;
        let sum = used.bytes.checked_add(bytes).zip(used.entries.checked_add(entries));
        let (bytes, entries) = sum
            .filter(|sum| sum.0 <= BLOCK_DATA_BYTES && usize::from(sum.1) <= MAX_BLOCK_ENTRIES)
            .ok_or(Refusal::NoRoom { place })?;
        self.change(place, |used| *used = Use { bytes, entries });
        Ok(())
    }

    pub fn check(&self, place: BlockPlace, bytes: u32) -> Result<(), Refusal> {
        if self.room(place).is_some_and(|room| bytes <= room) { Ok(()) } else { Err(Refusal::NoRoom { place }) }
    }

    /// Takes room that was checked for.
    pub fn take(&mut self, place: BlockPlace, bytes: u32) {
        self.change(place, |used| {
            used.bytes += taken_by(bytes);
            used.entries += 1;
            assert!(used.bytes <= BLOCK_DATA_BYTES, "more than was checked for at {place:?}");
        });
    }

    pub fn give_back(&mut self, place: BlockPlace, held: &Held) {
        self.change(place, |used| {
            used.bytes = used.bytes.checked_sub(taken_by(held.bytes)).expect("no more is given back than was taken");
            used.entries = used.entries.checked_sub(1).expect("no more is given back than was taken");
        });
    }

    fn change(&mut self, place: BlockPlace, change: impl FnOnce(&mut Use)) {
        let used = self.blocks.get_mut(&place).expect("only granted blocks are taken and given back");
        let before = FreeBlocks::of(*used);
        change(used);
        let after = FreeBlocks::of(*used);
        let free = self.free.get_mut(&place.device()).expect("the device of a granted block is counted");
        free.empty = free.empty - before.empty + after.empty;
        free.with_room = free.with_room - before.with_room + after.with_room;
    }
}

/// What a chunk takes of a block at its node. So sums are of whole device blocks, and what is left of a block is too.
pub(super) fn taken_by(bytes: u32) -> u32 {
    room_of(bytes).expect("a checked chunk fits a block")
}

#[cfg(test)]
mod tests;
