use proptest::prelude::*;
use types::DeviceId;

use super::{BlockPlace, ChunkPlaces, PLACES_BITS};

pub(crate) fn place(device: u32, block: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), block).expect("fits")
}

pub(crate) fn any_place() -> impl Strategy<Value = BlockPlace> {
    (0_u32..=65_534, 0_u32..1 << 26).prop_map(|(device, block)| place(device, block))
}

pub(crate) fn any_places() -> impl Strategy<Value = ChunkPlaces> {
    prop::collection::vec(any_place(), 1..=3).prop_filter_map("two on one device", |places| ChunkPlaces::new(&places))
}

#[test]
fn golden() {
    let places = ChunkPlaces::new(&[place(1, 2), place(0x1234, 0x03ff_ffff), place(65_534, 0)]).expect("differ");
    assert_eq!(format!("{:032x}", places.to_value()), "3fff80000001234ffffffc0004000002");
    let alone = ChunkPlaces::new(&[place(1, 2)]).expect("one");
    assert_eq!(format!("{:032x}", alone.to_value()), "3ffffffffffffffffffffc0004000002");
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    assert_eq!(BlockPlace::new(DeviceId(65_535), 0), None);
    assert_eq!(BlockPlace::new(DeviceId(0), 1 << 26), None);
    assert_eq!(ChunkPlaces::new(&[]), None);
    assert_eq!(ChunkPlaces::new(&[place(1, 1), place(1, 2)]), None);
    assert_eq!(ChunkPlaces::from_value((1 << PLACES_BITS) - 1), None, "no copy at all");
}

#[test]
fn one_place_is_replaced() {
    let places = ChunkPlaces::new(&[place(1, 1), place(2, 2)]).expect("differ");
    let moved = places.replaced(place(1, 1), place(3, 3)).expect("moves");
    assert_eq!(moved.as_slice(), [place(3, 3), place(2, 2)]);
    assert_eq!(places.replaced(place(1, 1), place(2, 9)), None, "another copy is there");
    assert_eq!(places.replaced(place(1, 9), place(3, 3)), None, "not one of them");
}

#[test]
fn places_come_and_go() {
    let places = ChunkPlaces::new(&[place(1, 1), place(2, 2)]).expect("differ");
    let three = places.changed(None, Some(place(3, 3))).expect("one more");
    assert_eq!(three.as_slice(), [place(1, 1), place(2, 2), place(3, 3)]);
    assert_eq!(three.with(place(4, 4)), None, "there can be three");
    assert_eq!(places.with(place(2, 9)), None, "another copy is there");
    assert_eq!(three.changed(Some(place(2, 2)), None).expect("one less").as_slice(), [place(1, 1), place(3, 3)]);
    assert_eq!(three.without(place(2, 9)), None, "not one of them");
    assert_eq!(ChunkPlaces::new(&[place(1, 1)]).expect("one").without(place(1, 1)), None, "the last one");
    assert_eq!(places.changed(None, None), Some(places));
    assert_eq!(places.changed(Some(place(1, 1)), Some(place(3, 3))), places.replaced(place(1, 1), place(3, 3)));
}

proptest! {
    #[test]
    fn round_trip(places in any_places()) {
        prop_assert!(places.to_value() >> PLACES_BITS == 0);
        prop_assert_eq!(ChunkPlaces::from_value(places.to_value()), Some(places));
        prop_assert_eq!(ChunkPlaces::decode(&places.to_value().to_le_bytes()), Ok(places));
    }

    #[test]
    fn what_is_accepted_is_written_the_same(value: u128) {
        if let Some(places) = ChunkPlaces::from_value(value >> 2) {
            prop_assert_eq!(places.to_value(), value >> 2);
        }
    }
}
