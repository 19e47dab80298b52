use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use types::limits::MAX_SMALL_BYTES;
use types::{DeviceId, Place, ZoneIndex, ZoneOffset};

use super::{ChunkList, ChunkRef, MAX_CHUNK_PAYLOAD_BYTES, MAX_REFS_PER_DESCRIPTOR, encode_list};
use crate::decode::Fault;
use crate::entry::tests::any_places;
use crate::replicas::Places;

pub(crate) fn any_ref() -> impl Strategy<Value = ChunkRef> {
    (any_places(), 0..=MAX_CHUNK_PAYLOAD_BYTES).prop_map(|(places, payload_bytes)| ChunkRef { places, payload_bytes })
}

fn place(number: u32) -> Place {
    Place { device: DeviceId(number), zone: ZoneIndex(number + 1), offset: ZoneOffset(number + 2) }
}

fn encode(refs: &[ChunkRef]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_list(refs, &mut out);
    out
}

proptest! {
    #[test]
    fn every_list_survives_encoding(refs in vec(any_ref(), 0..50)) {
        let bytes = encode(&refs);
        let list = ChunkList::decode(&bytes).unwrap();
        prop_assert_eq!(list.len(), refs.len());
        prop_assert_eq!(list.iter().collect::<Vec<_>>(), refs.clone());
        for (index, one) in refs.iter().enumerate() {
            prop_assert_eq!(list.get(index), Some(*one));
        }
        prop_assert_eq!(list.get(refs.len()), None);
    }

    #[test]
    fn damaged_lists_never_panic(refs in vec(any_ref(), 0..20), damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = encode(&refs);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(list) = ChunkList::decode(&bytes) {
            prop_assert_eq!(list.iter().count(), list.len());
        }
    }
}

#[test]
fn the_fullest_list_fits_one_small_record() {
    let places = Places::new(&[place(1), place(2), place(3)]).unwrap();
    let full = vec![ChunkRef { places, payload_bytes: 1 }; MAX_REFS_PER_DESCRIPTOR];
    let bytes = encode(&full).len();
    assert!(bytes <= MAX_SMALL_BYTES && bytes + 40 > MAX_SMALL_BYTES, "{bytes}");
}

#[test]
fn golden_list() {
    let refs = [
        ChunkRef { places: Places::new(&[place(1), place(4)]).unwrap(), payload_bytes: 0x10_0000 },
        ChunkRef { places: Places::one(place(9)), payload_bytes: 3 },
    ];
    #[rustfmt::skip]
    let expected = [
        1, 2, 0, 0, 2, 0, 0, 0,
        0, 0, 0x10, 0x02, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0,
        3, 0, 0, 0x01, 9, 0, 0, 0, 10, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(encode(&refs), expected);
}

#[test]
fn a_count_beyond_the_bytes_is_refused() {
    let mut bytes = encode(&[ChunkRef { places: Places::one(place(1)), payload_bytes: 3 }]);
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = ChunkList::decode(&bytes).unwrap_err();
    assert_eq!((error.field, error.offset), ("count", 4));
    assert_eq!(error.fault, Fault::OutOfRange { least: 0, most: 1, found: u64::from(u32::MAX) });
}
