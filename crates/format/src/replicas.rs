//! One to three things of one kind, primary first, without an allocation.

use std::fmt;
use std::ops::Deref;

use types::limits::MAX_REPLICAS;
use types::{DeviceId, Place, ZoneIndex, ZoneOffset};
use zerocopy::little_endian::U32;

use crate::decode::Fault;
use crate::layout::fixed_layout;

/// One item for each replica of a record, the primary's first. Never empty, never more than [`MAX_REPLICAS`].
#[derive(Clone, Copy)]
pub struct Replicas<T> {
    items: [T; MAX_REPLICAS],
    count: u8,
}

/// Where the copies of a record are now, the primary's first.
pub type Places = Replicas<Place>;

/// The devices to which a record was written, the primary's first.
pub type ReplicaDevices = Replicas<DeviceId>;

impl<T: Copy + Default> Replicas<T> {
    /// A single copy.
    pub fn one(item: T) -> Self {
        Replicas { items: [item, T::default(), T::default()], count: 1 }
    }

    /// `None` unless there are one to [`MAX_REPLICAS`] items.
    pub fn new(items: &[T]) -> Option<Self> {
        if items.is_empty() || items.len() > MAX_REPLICAS {
            return None;
        }
        let mut all = [T::default(); MAX_REPLICAS];
        all[..items.len()].copy_from_slice(items);
        Some(Replicas { items: all, count: items.len() as u8 })
    }

    /// The first item.
    pub fn primary(&self) -> T {
        self.items[0]
    }

    pub fn as_slice(&self) -> &[T] {
        &self.items[..self.count as usize]
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items[..self.count as usize]
    }

    /// Adds a copy; `false` when there are [`MAX_REPLICAS`] already.
    #[must_use]
    pub fn push(&mut self, item: T) -> bool {
        if self.count as usize == MAX_REPLICAS {
            return false;
        }
        self.items[self.count as usize] = item;
        self.count += 1;
        true
    }

    /// From a decoder that has checked `count` with [`check_count`].
    pub(crate) fn from_parts(items: [T; MAX_REPLICAS], count: u8) -> Self {
        assert!((1..=MAX_REPLICAS as u8).contains(&count));
        Replicas { items, count }
    }
}

impl<T: Copy + Default> Deref for Replicas<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T: Copy + Default + PartialEq> PartialEq for Replicas<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Copy + Default + Eq> Eq for Replicas<T> {}

impl<T: Copy + Default + fmt::Debug> fmt::Debug for Replicas<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// A replica count as it stands on media, or why it is none.
pub(crate) fn check_count(found: u8) -> Result<u8, Fault> {
    match found {
        1..=3 => Ok(found),
        _ => Err(Fault::OutOfRange { least: 1, most: MAX_REPLICAS as u64, found: u64::from(found) }),
    }
}

const _: () = assert!(MAX_REPLICAS == 3, "the layouts of records have room for three");

/// Bytes of a [`Place`] as it stands in every layout.
pub const PLACE_BYTES: usize = 12;

fixed_layout! {
    /// A place on media and on the wire.
    pub(crate) struct PlaceLayout: 12 {
        0 device: U32,
        4 zone: U32,
        8 offset: U32,
    }
}

const _: () = assert!(size_of::<PlaceLayout>() == PLACE_BYTES);

impl PlaceLayout {
    pub(crate) const ZERO: PlaceLayout = PlaceLayout { device: U32::ZERO, zone: U32::ZERO, offset: U32::ZERO };

    #[inline]
    pub(crate) fn new(place: Place) -> Self {
        PlaceLayout { device: place.device.0.into(), zone: place.zone.0.into(), offset: place.offset.0.into() }
    }

    #[inline]
    pub(crate) fn get(&self) -> Place {
        Place { device: DeviceId(self.device.get()), zone: ZoneIndex(self.zone.get()), offset: ZoneOffset(self.offset.get()) }
    }

    /// All places of a record; unused ones are zero.
    pub(crate) fn pack(places: &Places) -> [PlaceLayout; MAX_REPLICAS] {
        let mut packed = [PlaceLayout::ZERO; MAX_REPLICAS];
        for (slot, place) in packed.iter_mut().zip(places.as_slice()) {
            *slot = PlaceLayout::new(*place);
        }
        packed
    }

    /// The first `count` places, which [`check_count`] has passed.
    #[inline]
    pub(crate) fn unpack(packed: &[PlaceLayout], count: u8) -> Places {
        let mut items = [Place::default(); MAX_REPLICAS];
        for (item, place) in items.iter_mut().zip(&packed[..count as usize]) {
            *item = place.get();
        }
        Places::from_parts(items, count)
    }
}
