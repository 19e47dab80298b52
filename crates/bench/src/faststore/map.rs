//! Where the content of BlueStore's objects stands, and how a write is cut. No I/O.
//!
//! ```text
//!   object   │ unit 0          │ unit 1          │ …      logical units of min_alloc_size (MAS)
//!               │  └─ places: allocation units of the device; a block of the unit stands at its own position in one of them
//!   write    ──► small (head) │ big (whole units) │ small (tail)          figure 6 of the paper
//!   small    ──► nothing there: NEW   aligned to the block size: COW   else: RMW        table II of the paper
//!   big      ──► nothing there: NEW   else: COW
//! ```
//!
//! Invariant: a block of an object stands in at most one place.

use disk::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The block size (BS): what a device writes at least.
pub const BLOCK: u32 = BLOCK_BYTES as u32;
/// Bytes of an object, and of a blob of an image.
pub const OBJECT_BYTES: u32 = types::BLOB_BYTES;
/// The blocks of a place are bits of a word.
pub const MOST_UNIT_BYTES: u32 = u64::BITS * BLOCK;

/// Of which path of the paper's figure 6 a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Small,
    Big,
}

/// What is done with a part of a write (table II).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Into blocks where nothing is, then metadata.
    New,
    /// Into other blocks; the metadata points there, the old ones are released.
    Cow,
    /// Read, merged, written to the log, and in place later.
    Rmw,
}

impl Strategy {
    pub fn name(self) -> &'static str {
        match self {
            Strategy::New => "NEW",
            Strategy::Cow => "COW",
            Strategy::Rmw => "RMW",
        }
    }
}

/// A part of a write: bytes of an object. A small one lies in one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub range: Range<u32>,
    pub size: Size,
}

impl Part {
    /// The blocks that are touched, as bytes of the object.
    pub fn blocks(&self) -> Range<u32> {
        self.range.start / BLOCK * BLOCK..self.range.end.next_multiple_of(BLOCK)
    }

    pub fn is_aligned(&self) -> bool {
        self.blocks() == self.range
    }
}

/// Cuts a write of an object at units of so many bytes.
pub fn parts(range: Range<u32>, unit_bytes: u32) -> Vec<Part> {
    let (first, end) = (range.start.next_multiple_of(unit_bytes), range.end / unit_bytes * unit_bytes);
    let cuts = if first > end {
        // Within one unit.
        vec![(range, Size::Small)]
    } else {
        vec![(range.start..first, Size::Small), (first..end, Size::Big), (end..range.end, Size::Small)]
    };
    let whole = cuts.into_iter().filter(|(range, _)| !range.is_empty());
    whole.map(|(range, size)| Part { range, size }).collect()
}

/// An allocation unit, and which of its blocks hold something of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub unit: u32,
    pub used: u64,
}

/// What the metadata says of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// By logical unit.
    pub places: BTreeMap<u32, Vec<Place>>,
}

impl Object {
    /// The blocks of a logical unit that hold something.
    pub fn used(&self, unit: u32) -> u64 {
        self.places.get(&unit).into_iter().flatten().fold(0, |used, place| used | place.used)
    }

    /// The allocation unit in which a block of a logical unit stands.
    pub fn find(&self, unit: u32, position: u32) -> Option<u32> {
        let places = self.places.get(&unit)?;
        places.iter().find(|place| place.used >> position & 1 == 1).map(|place| place.unit)
    }

    /// An allocation unit of a logical unit; blocks that hold nothing are free in each of them.
    pub fn any_place(&self, unit: u32) -> Option<u32> {
        self.places.get(&unit)?.first().map(|place| place.unit)
    }

    /// From now on these blocks of a logical unit stand in an allocation unit. Returns those that hold nothing any more.
    pub fn put(&mut self, unit: u32, into: u32, mask: u64) -> Vec<u32> {
        let places = self.places.entry(unit).or_default();
        places.iter_mut().for_each(|place| place.used &= !mask);
        match places.iter_mut().find(|place| place.unit == into) {
            Some(place) => place.used |= mask,
            None => places.push(Place { unit: into, used: mask }),
        }
        let empty = places.iter().filter(|place| place.used == 0).map(|place| place.unit).collect();
        places.retain(|place| place.used != 0);
        empty
    }

    /// What is to be done with a part of a write.
    pub fn strategy(&self, part: &Part, unit_bytes: u32) -> Strategy {
        let mut units = part.range.start / unit_bytes..part.range.end.div_ceil(unit_bytes);
        match part.size {
            Size::Big if units.all(|unit| self.used(unit) == 0) => Strategy::New,
            Size::Small if self.used(units.start) & mask(part, units.start, unit_bytes) == 0 => Strategy::New,
            Size::Small if !part.is_aligned() => Strategy::Rmw,
            Size::Big | Size::Small => Strategy::Cow,
        }
    }
}

/// The blocks of a logical unit that a part touches.
pub fn mask(part: &Part, unit: u32, unit_bytes: u32) -> u64 {
    let blocks = part.blocks();
    let (start, end) = (blocks.start.max(unit * unit_bytes), blocks.end.min((unit + 1) * unit_bytes));
    let below = |position: u32| if position >= u64::BITS { u64::MAX } else { (1 << position) - 1 };
    below((end - unit * unit_bytes) / BLOCK) & !below((start - unit * unit_bytes) / BLOCK)
}

/// Allocation units in which nothing is.
#[derive(Clone, Debug)]
pub struct Space {
    free: BTreeSet<u32>,
}

impl Space {
    pub fn new(units: u32) -> Space {
        Space { free: (0..units).collect() }
    }

    /// The lowest one, so that what is written together stands together as far as possible.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop_first()
    }

    /// One that is known to hold something.
    pub fn take_this(&mut self, unit: u32) -> bool {
        self.free.remove(&unit)
    }

    pub fn release(&mut self, units: impl IntoIterator<Item = u32>) {
        self.free.extend(units);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.free.len()
    }
}
