//! The space of the blocks that a unit was granted: bytes and entries that are held in each.
//!
//! The node has the last word, since its header knows the holes; the unit keeps the sums, so that what it hands out fits.

use std::collections::BTreeMap;

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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    blocks: BTreeMap<BlockPlace, Use>,
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
        Ok(Answer::Done)
    }

    pub fn held_bytes(&self, place: BlockPlace) -> Option<u32> {
        self.blocks.get(&place).map(|used| used.bytes)
    }

    pub fn room(&self, place: BlockPlace) -> Option<u32> {
        let used = self.blocks.get(&place)?;
        (usize::from(used.entries) < MAX_BLOCK_ENTRIES).then_some(BLOCK_DATA_BYTES - used.bytes)
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

    pub fn grants(&self) -> Vec<(DeviceId, u32, u32)> {
        runs(self.blocks.keys().copied())
    }

    pub fn check(&self, place: BlockPlace, bytes: u32) -> Result<(), Refusal> {
        if self.room(place).is_some_and(|room| bytes <= room) { Ok(()) } else { Err(Refusal::NoRoom { place }) }
    }

    /// Takes room that was checked for.
    pub fn take(&mut self, place: BlockPlace, bytes: u32) {
        let used = self.blocks.get_mut(&place).expect("a checked place is granted");
        used.bytes += taken_by(bytes);
        used.entries += 1;
        assert!(used.bytes <= BLOCK_DATA_BYTES, "more than was checked for at {place:?}");
    }

    pub fn give_back(&mut self, place: BlockPlace, held: &Held) {
        let used = self.blocks.get_mut(&place).expect("what was taken is granted");
        used.bytes = used.bytes.checked_sub(taken_by(held.bytes)).expect("no more is given back than was taken");
        used.entries = used.entries.checked_sub(1).expect("no more is given back than was taken");
    }
}

/// What a chunk takes of a block at its node. So sums are of whole device blocks, and what is left of a block is too.
fn taken_by(bytes: u32) -> u32 {
    room_of(bytes).expect("a checked chunk fits a block")
}

#[cfg(test)]
mod tests;
