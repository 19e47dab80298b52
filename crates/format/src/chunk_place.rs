//! Where the copies of a chunk are: the value that lookup units hold (docs/rfd/0011).
//!
//! ```text
//! bit 0        26        42                     84                    126
//!  ├─ block ───┼─ device ─┼─ the second copy's ──┼─ the third copy's ──┤    a copy that there is not: all 42 bits set
//! ```

use types::DeviceId;

use crate::decode::{DecodeError, Fault, Reader};

/// Most copies of a chunk.
pub const MAX_CHUNK_COPIES: usize = 3;
/// Bits of a block's number: blocks of 4 MiB make a device of up to 256 TiB.
pub const BLOCK_BITS: u32 = 26;
/// Bits of a device's number.
pub const DEVICE_BITS: u32 = 16;
/// Bits of one copy's place.
pub const PLACE_BITS: u32 = BLOCK_BITS + DEVICE_BITS;
/// Bits of the places of all copies.
pub const PLACES_BITS: u32 = PLACE_BITS * MAX_CHUNK_COPIES as u32;

const PLACES: &str = "chunk places";
const BLOCK_MASK: u64 = (1 << BLOCK_BITS) - 1;
const NO_PLACE: u64 = (1 << PLACE_BITS) - 1;
/// The last device number stands for "no copy".
const MAX_DEVICE: u32 = (1 << DEVICE_BITS) - 2;

const _: () = assert!(PLACES_BITS == 126);

/// A block of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockPlace {
    device: DeviceId,
    block: u32,
}

impl BlockPlace {
    /// None if the numbers do not fit into their bits.
    pub fn new(device: DeviceId, block: u32) -> Option<Self> {
        (device.0 <= MAX_DEVICE && u64::from(block) <= BLOCK_MASK).then_some(BlockPlace { device, block })
    }

    pub fn device(self) -> DeviceId {
        self.device
    }

    pub fn block(self) -> u32 {
        self.block
    }

    /// [`PLACE_BITS`] bits.
    pub fn to_bits(self) -> u64 {
        u64::from(self.device.0) << BLOCK_BITS | u64::from(self.block)
    }

    /// None for bits that name no block.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let device = u32::try_from(bits >> BLOCK_BITS).ok()?;
        BlockPlace::new(DeviceId(device), (bits & BLOCK_MASK) as u32)
    }
}

/// The places of one to three copies, on different devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkPlaces {
    count: u8,
    /// Those from `count` on repeat the first.
    places: [BlockPlace; MAX_CHUNK_COPIES],
}

impl std::fmt::Debug for ChunkPlaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl ChunkPlaces {
    /// None if there are none, too many, or two of one device.
    pub fn new(places: &[BlockPlace]) -> Option<Self> {
        let first = *places.first()?;
        if places.len() > MAX_CHUNK_COPIES {
            return None;
        }
        let mut all = [first; MAX_CHUNK_COPIES];
        all[..places.len()].copy_from_slice(places);
        let made = ChunkPlaces { count: places.len() as u8, places: all };
        let differ = |index: usize| places[..index].iter().all(|other| other.device != places[index].device);
        (0..places.len()).all(differ).then_some(made)
    }

    pub fn as_slice(&self) -> &[BlockPlace] {
        &self.places[..usize::from(self.count)]
    }

    pub fn iter(&self) -> impl Iterator<Item = BlockPlace> + '_ {
        self.as_slice().iter().copied()
    }

    pub fn contains(&self, place: BlockPlace) -> bool {
        self.as_slice().contains(&place)
    }

    /// With `to` instead of `from`; none if `from` is not among them, or another copy is on the device of `to`.
    pub fn replaced(&self, from: BlockPlace, to: BlockPlace) -> Option<Self> {
        let mut places = self.places;
        let at = self.as_slice().iter().position(|place| *place == from)?;
        places[at] = to;
        ChunkPlaces::new(&places[..usize::from(self.count)])
    }

    /// With one place more; none if another copy is on its device, or there are as many as there can be.
    pub fn with(&self, to: BlockPlace) -> Option<Self> {
        ChunkPlaces::new(&[self.as_slice(), &[to]].concat())
    }

    /// With one place less; none if it is not among them, or the last one.
    pub fn without(&self, from: BlockPlace) -> Option<Self> {
        let left: Vec<BlockPlace> = self.iter().filter(|place| *place != from).collect();
        ChunkPlaces::new(&left).filter(|_| self.contains(from))
    }

    /// After a change of places, which may lack the one that goes, the one that comes, or both.
    pub fn changed(&self, from: Option<BlockPlace>, to: Option<BlockPlace>) -> Option<Self> {
        match (from, to) {
            (Some(from), Some(to)) => self.replaced(from, to),
            (None, Some(to)) => self.with(to),
            (Some(from), None) => self.without(from),
            (None, None) => Some(*self),
        }
    }

    /// The value in a lookup structure: [`PLACES_BITS`] bits.
    pub fn to_value(&self) -> u128 {
        let bits = |index: usize| self.as_slice().get(index).map_or(NO_PLACE, |place| place.to_bits());
        (0..MAX_CHUNK_COPIES).fold(0, |value, index| value | u128::from(bits(index)) << (PLACE_BITS as usize * index))
    }

    /// Reads a value; none if it names no place, or a place after a gap. A lookup that was asked for an alien id may answer so.
    pub fn from_value(value: u128) -> Option<Self> {
        let bits = |index: usize| (value >> (PLACE_BITS as usize * index)) as u64 & NO_PLACE;
        let count = (0..MAX_CHUNK_COPIES).take_while(|index| bits(*index) != NO_PLACE).count();
        if value >> PLACES_BITS != 0 || (count..MAX_CHUNK_COPIES).any(|index| bits(index) != NO_PLACE) {
            return None;
        }
        let mut places = [BlockPlace { device: DeviceId(0), block: 0 }; MAX_CHUNK_COPIES];
        for (index, place) in places[..count].iter_mut().enumerate() {
            *place = BlockPlace::from_bits(bits(index))?;
        }
        ChunkPlaces::new(&places[..count])
    }

    /// As it stands in records: 16 bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.offset();
        let value = u128::from_le_bytes(reader.array("places")?);
        ChunkPlaces::from_value(value).ok_or(reader.error_at(at, "places", Fault::Unknown { found: value as u64 }))
    }

    /// Checks places that fill `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(PLACES, bytes);
        let places = ChunkPlaces::read(&mut reader)?;
        reader.finish()?;
        Ok(places)
    }
}

#[cfg(test)]
pub(crate) mod tests;
