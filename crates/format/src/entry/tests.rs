use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use types::{Activation, DeviceId, Epoch, GatewayId, Generation, KeyHash, Order, Place, Sequence, ZoneIndex, ZoneOffset};

use super::{ENTRY_BYTES, Entry, EntryState};
use crate::decode::Fault;
use crate::record::WriteId;
use crate::record::tests::{any_hash, any_order, any_write};
use crate::replicas::Places;

pub(crate) fn any_places() -> impl Strategy<Value = Places> {
    let place = any::<(u32, u32, u32)>().prop_map(|(device, zone, offset)| Place {
        device: DeviceId(device),
        zone: ZoneIndex(zone),
        offset: ZoneOffset(offset),
    });
    vec(place, 1..=3).prop_map(|places| Places::new(&places).unwrap())
}

pub(crate) fn any_entry() -> impl Strategy<Value = Entry> {
    let state = prop_oneof![Just(EntryState::Live), Just(EntryState::Tombstone), Just(EntryState::DeleteMarker)];
    (any_hash(), any_write(), any_order(), any_places(), state, any::<(u64, u32, u64, bool)>()).prop_map(
        |(hash, write, order, places, state, (epoch, frame_bytes, length, large))| Entry {
            hash,
            write,
            epoch: Epoch(epoch),
            order,
            places,
            frame_bytes,
            length,
            state,
            large,
        },
    )
}

/// An entry whose every field differs from its neighbours.
pub(crate) fn sample() -> Entry {
    let place = |device| Place { device: DeviceId(device), zone: ZoneIndex(device + 10), offset: ZoneOffset(device + 20) };
    Entry {
        hash: KeyHash::from_bytes([0xcc; 20]),
        write: WriteId { gateway: GatewayId(1), sequence: Sequence(2) },
        epoch: Epoch(3),
        order: Order { generation: Generation(4), activation: Activation(5), offset: ZoneOffset(6) },
        places: Places::new(&[place(1), place(2)]).unwrap(),
        frame_bytes: 8,
        length: 7,
        state: EntryState::Tombstone,
        large: true,
    }
}

proptest! {
    #[test]
    fn every_entry_survives_encoding(entry in any_entry()) {
        prop_assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in vec(any::<u8>(), 0..2 * ENTRY_BYTES)) {
        if let Ok(entry) = Entry::decode(&bytes) {
            prop_assert_eq!(bytes.len(), ENTRY_BYTES);
            prop_assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
        }
    }

    #[test]
    fn newer_means_a_greater_order_and_nothing_else(a in any_entry(), b in any_entry()) {
        prop_assert_eq!(a.is_newer_than(&b), a.order > b.order);
        let moved = Entry { places: b.places, ..a };
        prop_assert!(!moved.is_newer_than(&a) && !a.is_newer_than(&moved));
    }
}

#[test]
fn golden_entry() {
    #[rustfmt::skip]
    let expected = [
        0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
        1, 0, 1, 6, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
        7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0,
        1, 0, 0, 0, 11, 0, 0, 0, 21, 0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(sample().encode(), expected);
}

#[test]
fn refusals_name_the_field_and_its_place() {
    let cases = [
        (22, 3, "entry state", Fault::Unknown { found: 3 }),
        (23, 8, "entry shape", Fault::Unknown { found: 8 }),
        (23, 0, "entry shape", Fault::OutOfRange { least: 1, most: 3, found: 0 }),
    ];
    for (at, value, field, fault) in cases {
        let mut bytes = sample().encode();
        bytes[at] = value;
        let error = Entry::decode(&bytes).unwrap_err();
        assert_eq!((error.offset, error.field, error.fault), (at, field, fault));
    }
}
