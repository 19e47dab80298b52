//! The full map: packed places of the records that a checkpoint covers (paper section 3.7: 64 bytes a key; here 44 a slot with
//! one replica, 62 with three, see [`super::table`] for what empty slots add).
//!
//! Packed value, little endian:
//!
//! ```text
//!   generation u32 | activation u40 | offset u32 | units:12 flags:4 | copies x (device u16, zone u24, offset u32)
//! ```
//!
//! A missing copy has device 0xffff.

use super::Located;
use super::table::HashTable;
use format::entry::{EntryState, Places};
use types::limits::{MAX_REPLICAS, UNIT_BYTES};
use types::{Activation, DeviceId, Generation, KeyHash, Order, Place, ZoneIndex, ZoneOffset};

const FIXED_BYTES: usize = 4 + 5 + 4 + 2;
const PLACE_BYTES: usize = 2 + 3 + 4;
const NO_DEVICE: u16 = u16::MAX;
const UNITS_MASK: u16 = 0x0fff;
const FLAG_LARGE: u16 = 0x1000;
const STATE_SHIFT: u32 = 13;

/// One shard's full map.
pub struct FullMap {
    table: HashTable,
    copies: usize,
}

impl FullMap {
    pub fn new(copies: usize) -> Self {
        FullMap { table: HashTable::new(FIXED_BYTES + copies * PLACE_BYTES), copies }
    }

    pub fn get(&self, hash: &KeyHash) -> Option<Located> {
        self.table.get(hash).map(unpack)
    }

    pub fn insert(&mut self, hash: &KeyHash, located: &Located) {
        let mut value = [0u8; FIXED_BYTES + MAX_REPLICAS * PLACE_BYTES];
        let value = &mut value[..FIXED_BYTES + self.copies * PLACE_BYTES];
        pack(located, value);
        self.table.insert(hash, value);
    }

    pub fn remove(&mut self, hash: &KeyHash) -> bool {
        self.table.remove(hash)
    }

    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, Located)> {
        self.table.iter().map(|(hash, value)| (hash, unpack(value)))
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

fn pack(located: &Located, value: &mut [u8]) {
    let units = located.frame_bytes as usize / UNIT_BYTES;
    assert!(units <= UNITS_MASK as usize, "an index entry's frame has at most {UNITS_MASK} units, this one {units}");
    assert!(located.order.activation.0 < 1 << 40, "zone activations fit 40 bits");
    let state = match located.state {
        EntryState::Live => 0u16,
        EntryState::Tombstone => 1,
        EntryState::DeleteMarker => 2,
    };
    let flags = units as u16 | if located.large { FLAG_LARGE } else { 0 } | state << STATE_SHIFT;
    value[0..4].copy_from_slice(&located.order.generation.0.to_le_bytes());
    value[4..9].copy_from_slice(&located.order.activation.0.to_le_bytes()[..5]);
    value[9..13].copy_from_slice(&located.order.offset.0.to_le_bytes());
    value[13..15].copy_from_slice(&flags.to_le_bytes());
    let mut places = located.places.as_slice().iter();
    for slot in value[FIXED_BYTES..].chunks_exact_mut(PLACE_BYTES) {
        match places.next() {
            Some(place) => pack_place(place, slot),
            None => slot[0..2].copy_from_slice(&NO_DEVICE.to_le_bytes()),
        }
    }
    assert!(places.next().is_none(), "more places than the map has room for");
}

fn pack_place(place: &Place, slot: &mut [u8]) {
    assert!(place.device.0 < NO_DEVICE as u32 && place.zone.0 < 1 << 24, "device and zone numbers fit the packed map");
    slot[0..2].copy_from_slice(&(place.device.0 as u16).to_le_bytes());
    slot[2..5].copy_from_slice(&place.zone.0.to_le_bytes()[..3]);
    slot[5..9].copy_from_slice(&place.offset.0.to_le_bytes());
}

fn unpack(value: &[u8]) -> Located {
    let mut activation = [0u8; 8];
    activation[..5].copy_from_slice(&value[4..9]);
    let flags = u16::from_le_bytes([value[13], value[14]]);
    let mut places = [Place::default(); MAX_REPLICAS];
    let mut copies = 0;
    for slot in value[FIXED_BYTES..].chunks_exact(PLACE_BYTES) {
        if let Some(place) = unpack_place(slot) {
            places[copies] = place;
            copies += 1;
        }
    }
    Located {
        order: Order {
            generation: Generation(u32::from_le_bytes([value[0], value[1], value[2], value[3]])),
            activation: Activation(u64::from_le_bytes(activation)),
            offset: ZoneOffset(u32::from_le_bytes([value[9], value[10], value[11], value[12]])),
        },
        places: Places::new(&places[..copies]).expect("packed from at least one place"),
        frame_bytes: (flags & UNITS_MASK) as u32 * UNIT_BYTES as u32,
        state: match flags >> STATE_SHIFT {
            0 => EntryState::Live,
            1 => EntryState::Tombstone,
            _ => EntryState::DeleteMarker,
        },
        large: flags & FLAG_LARGE != 0,
    }
}

fn unpack_place(slot: &[u8]) -> Option<Place> {
    let device = u16::from_le_bytes([slot[0], slot[1]]);
    (device != NO_DEVICE).then(|| Place {
        device: DeviceId(device as u32),
        zone: ZoneIndex(u32::from_le_bytes([slot[2], slot[3], slot[4], 0])),
        offset: ZoneOffset(u32::from_le_bytes([slot[5], slot[6], slot[7], slot[8]])),
    })
}
