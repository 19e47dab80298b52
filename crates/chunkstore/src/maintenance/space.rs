//! The space of the blocks that a unit was granted: bytes and entries that are held in each.
//!
//! The node has the last word, since its header knows the holes; the unit keeps the sums, so that what it hands out fits.

use std::collections::BTreeMap;

use format::chunk_block::{BLOCK_DATA_BYTES, MAX_BLOCK_ENTRIES};
use format::chunk_place::BlockPlace;
use types::DeviceId;

use super::chunk::Refusal;
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

    pub fn check(&self, place: BlockPlace, bytes: u32) -> Result<(), Refusal> {
        let fits = self
            .blocks
            .get(&place)
            .is_some_and(|used| bytes <= BLOCK_DATA_BYTES - used.bytes && usize::from(used.entries) < MAX_BLOCK_ENTRIES);
        if fits { Ok(()) } else { Err(Refusal::NoRoom { place }) }
    }

    /// Takes room that was checked for.
    pub fn take(&mut self, place: BlockPlace, bytes: u32) {
        let used = self.blocks.get_mut(&place).expect("a checked place is granted");
        used.bytes += bytes;
        used.entries += 1;
        assert!(used.bytes <= BLOCK_DATA_BYTES, "more than was checked for at {place:?}");
    }

    pub fn give_back(&mut self, place: BlockPlace, held: &Held) {
        let used = self.blocks.get_mut(&place).expect("what was taken is granted");
        used.bytes = used.bytes.checked_sub(held.bytes).expect("no more is given back than was taken");
        used.entries = used.entries.checked_sub(1).expect("no more is given back than was taken");
    }
}
