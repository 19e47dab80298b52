//! Packing records into the values of lookup units, and back, without loss (docs/rfd/0013-ludo-index.md).
//!
//! What records share stands once, in dictionaries: zones (of copies), stamps (generation and activation, of orders) and origins (zone and
//! stamp of a primary's copy that stands where it was written). A value, least significant bits first:
//!
//! ```text
//!   plain:  origin | offset |                         units | large | copies - 1 times (1 + zone, or 0 if there is none | offset)
//!   moved:  zone   | offset | stamp | order's offset | units | large | the same
//! ```
//!
//! Widths are those that the gathered records need.

use super::Located;
use format::entry::{EntryState, Places};
use ludo::ValueWords;
use std::sync::atomic::{AtomicBool, Ordering};
use types::limits::{MAX_REPLICAS, UNIT_BYTES};
use types::{Activation, DeviceId, Generation, Order, Place, ZoneIndex, ZoneOffset};

/// Which of a shard's two units a record is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The primary's copy stands where it was written: its place tells the order's offset.
    Plain,
    Moved,
}

/// A record by its numbers in the dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    pub stamp: u32,
    pub order_offset: u32,
    pub units: u16,
    pub large: bool,
    pub copies: u8,
    /// Zone and offset of each copy.
    pub places: [(u32, u32); MAX_REPLICAS],
}

impl Numbered {
    pub fn kind(&self) -> Kind {
        match self.places[0].1 == self.order_offset {
            true => Kind::Plain,
            false => Kind::Moved,
        }
    }
}

/// What stands beside the places of several shards' sealed records.
pub struct Dictionaries {
    pub(super) zones: Box<[(DeviceId, ZoneIndex)]>,
    /// Zones that were reset after the records had been sealed: no place in them is good any more.
    is_reset: Box<[AtomicBool]>,
    pub(super) stamps: Box<[(Generation, Activation)]>,
    /// Zone and stamp, by their numbers.
    pub(super) origins: Box<[(u32, u32)]>,
    widths: Widths,
}

/// Bits of each field.
#[derive(Clone, Copy, Debug)]
struct Widths {
    zone: u32,
    stamp: u32,
    origin: u32,
    offset: u32,
    units: u32,
    /// Of the other copies: their zones have numbers one higher, because 0 says that there is none.
    other_zone: u32,
    copies: usize,
}

/// The greatest values that are to be packed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greatest {
    pub offset: u32,
    pub units: u16,
    pub copies: u8,
}

impl Dictionaries {
    pub fn new(
        zones: Vec<(DeviceId, ZoneIndex)>,
        stamps: Vec<(Generation, Activation)>,
        origins: Vec<(u32, u32)>,
        greatest: Greatest,
    ) -> Self {
        let of_number = |count: usize| width(count.saturating_sub(1) as u64);
        let widths = Widths {
            zone: of_number(zones.len()),
            stamp: of_number(stamps.len()),
            origin: of_number(origins.len()),
            offset: width(u64::from(greatest.offset)),
            units: width(u64::from(greatest.units)),
            other_zone: width(zones.len() as u64),
            copies: usize::from(greatest.copies),
        };
        let is_reset = zones.iter().map(|_| AtomicBool::new(false)).collect();
        Dictionaries { zones: zones.into(), is_reset, stamps: stamps.into(), origins: origins.into(), widths }
    }

    /// Bits of a value.
    pub fn value_bits(&self, kind: Kind) -> u32 {
        let Widths { zone, stamp, origin, offset, units, other_zone, copies } = self.widths;
        let primary = match kind {
            Kind::Plain => origin + offset,
            Kind::Moved => zone + offset + stamp + offset,
        };
        primary + units + 1 + copies.saturating_sub(1) as u32 * (other_zone + offset)
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.zones) + size_of_val(&*self.is_reset) + size_of_val(&*self.stamps) + size_of_val(&*self.origins)
    }

    /// What was sealed in this zone is nowhere any more.
    pub fn mark_reset(&self, device: DeviceId, zone: ZoneIndex) {
        for (known, is_reset) in self.zones.iter().zip(&self.is_reset) {
            if *known == (device, zone) {
                is_reset.store(true, Ordering::Release);
            }
        }
    }

    /// `origin` is the number of the primary's zone and stamp; not looked at for a moved record.
    pub fn pack(&self, record: &Numbered, origin: u32) -> ValueWords {
        let widths = &self.widths;
        let mut bits = Bits::default();
        let (zone, offset) = record.places[0];
        match record.kind() {
            Kind::Plain => {
                bits.put(widths.origin, origin);
                bits.put(widths.offset, offset);
            }
            Kind::Moved => {
                bits.put(widths.zone, zone);
                bits.put(widths.offset, offset);
                bits.put(widths.stamp, record.stamp);
                bits.put(widths.offset, record.order_offset);
            }
        }
        bits.put(widths.units, u32::from(record.units));
        bits.put(1, u32::from(record.large));
        for copy in 1..widths.copies {
            let is_there = copy < usize::from(record.copies);
            let (zone, offset) = record.places[copy];
            bits.put(widths.other_zone, if is_there { zone + 1 } else { 0 });
            bits.put(widths.offset, if is_there { offset } else { 0 });
        }
        bits.words
    }

    /// The record of a value. None for the value of an empty slot, and for one that names a place which is gone: its key has moved or died
    /// since, so that this is not the key that was asked for.
    pub fn unpack(&self, value: &ValueWords, kind: Kind) -> Option<Located> {
        let widths = &self.widths;
        let mut bits = Bits { words: *value, at: 0 };
        let mut record = Numbered { stamp: 0, order_offset: 0, units: 0, large: false, copies: 1, places: Default::default() };
        match kind {
            Kind::Plain => {
                let origin = bits.take(widths.origin);
                let offset = bits.take(widths.offset);
                let (zone, stamp) = *self.origins.get(origin as usize)?;
                (record.places[0], record.stamp, record.order_offset) = ((zone, offset), stamp, offset);
            }
            Kind::Moved => {
                let zone = bits.take(widths.zone);
                record.places[0] = (zone, bits.take(widths.offset));
                record.stamp = bits.take(widths.stamp);
                record.order_offset = bits.take(widths.offset);
            }
        }
        record.units = bits.take(widths.units) as u16;
        record.large = bits.take(1) == 1;
        for copy in 1..widths.copies {
            let zone = bits.take(widths.other_zone);
            let offset = bits.take(widths.offset);
            if zone > 0 {
                record.places[copy] = (zone - 1, offset);
                record.copies = copy as u8 + 1;
            }
        }
        if record.units == 0 { None } else { self.located(&record) }
    }

    /// None if a place of it is gone.
    fn located(&self, record: &Numbered) -> Option<Located> {
        let mut places = [Place::default(); MAX_REPLICAS];
        let copies = usize::from(record.copies);
        for (place, (zone, offset)) in places.iter_mut().zip(&record.places[..copies]) {
            let number = *zone as usize;
            if self.is_reset.get(number)?.load(Ordering::Acquire) {
                return None;
            }
            let (device, zone) = self.zones[number];
            *place = Place { device, zone, offset: ZoneOffset(*offset) };
        }
        Some(self.located_at(record, &places[..copies]))
    }

    /// A live record, with the places that it was gathered with.
    fn located_at(&self, record: &Numbered, places: &[Place]) -> Located {
        let (generation, activation) = self.stamps[record.stamp as usize];
        Located {
            order: Order { generation, activation, offset: ZoneOffset(record.order_offset) },
            places: Places::new(places).expect("a record has one to three copies"),
            frame_bytes: u32::from(record.units) * UNIT_BYTES as u32,
            state: EntryState::Live,
            large: record.large,
        }
    }

    /// What a gathered record says, wherever it stands.
    pub fn gathered(&self, record: &Numbered) -> Located {
        let mut places = [Place::default(); MAX_REPLICAS];
        let copies = usize::from(record.copies);
        for (place, (zone, offset)) in places.iter_mut().zip(&record.places[..copies]) {
            let (device, zone) = self.zones[*zone as usize];
            *place = Place { device, zone, offset: ZoneOffset(*offset) };
        }
        self.located_at(record, &places[..copies])
    }
}

/// Bits that a number up to `greatest` needs.
fn width(greatest: u64) -> u32 {
    u64::BITS - greatest.leading_zeros()
}

/// Fields one after the other.
#[derive(Default)]
struct Bits {
    words: ValueWords,
    at: u32,
}

impl Bits {
    fn put(&mut self, width: u32, field: u32) {
        assert!(u64::from(field) >> width == 0, "a field of {width} bits holds no {field}");
        let (word, shift) = ((self.at / 64) as usize, self.at % 64);
        self.words[word] |= u64::from(field) << shift;
        if shift + width > 64 {
            self.words[word + 1] |= u64::from(field) >> (64 - shift);
        }
        self.at += width;
    }

    #[inline]
    fn take(&mut self, width: u32) -> u32 {
        if width == 0 {
            return 0;
        }
        let (word, shift) = ((self.at / 64) as usize, self.at % 64);
        let mut field = self.words[word] >> shift;
        if shift + width > 64 {
            field |= self.words[word + 1] << (64 - shift);
        }
        self.at += width;
        (field & (u64::MAX >> (64 - width))) as u32
    }
}
