use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use types::{BucketId, DeviceId, Epoch, Place, ZoneIndex, ZoneOffset};

use super::{BlockRef, RunHeader, RunId, RunIndex, RunIndexBuilder};
use crate::decode::Fault;
use crate::entry::tests::any_places;
use crate::name_entry::SortKey;
use crate::record::Space;
use crate::replicas::Places;

fn key(name: &[u8]) -> SortKey {
    SortKey::new(BucketId(1), Space::Object, name)
}

fn build(blocks: &[(SortKey, u32, Places)]) -> Vec<u8> {
    let mut builder = RunIndexBuilder::new();
    for (first, entries, places) in blocks {
        builder.push(&BlockRef { first_key: first.as_bytes(), entries: *entries, frame_bytes: 65_000, places: *places });
    }
    let header = RunHeader {
        run: RunId(7),
        level: 2,
        entries: builder.entries(),
        min_epoch: Epoch(3),
        max_epoch: Epoch(4),
        lowest: blocks.first().map_or(key(b""), |(first, ..)| first.clone()),
        highest: key(&[0xff; 9]),
    };
    builder.finish(&header)
}

fn sorted(mut names: Vec<(Vec<u8>, u32, Places)>) -> Vec<(SortKey, u32, Places)> {
    names.sort_by(|a, b| a.0.cmp(&b.0));
    names.into_iter().map(|(name, entries, places)| (key(&name), entries, places)).collect()
}

proptest! {
    #[test]
    fn every_index_survives_encoding(names in vec((vec(0u8..3, 0..4), any::<u32>(), any_places()), 0..40)) {
        let blocks = sorted(names);
        let index = RunIndex::decode(Bytes::from(build(&blocks))).unwrap();
        prop_assert_eq!(index.len(), blocks.len());
        prop_assert_eq!(index.header().entries, blocks.iter().map(|block| u64::from(block.1)).sum::<u64>());
        for (number, (first, entries, places)) in blocks.iter().enumerate() {
            let expected = BlockRef { first_key: first.as_bytes(), entries: *entries, frame_bytes: 65_000, places: *places };
            prop_assert_eq!(index.get(number), Some(expected));
        }
        prop_assert!(index.get(blocks.len()).is_none());
    }

    /// Rows of a key stand in the blocks that begin with it and at the end of the block before those.
    #[test]
    fn a_search_begins_before_the_first_block_of_the_key(
        names in vec((vec(0u8..3, 0..4), any::<u32>(), any_places()), 1..40), wanted in vec(0u8..3, 0..4),
    ) {
        let blocks = sorted(names);
        let index = RunIndex::decode(Bytes::from(build(&blocks))).unwrap();
        let wanted = key(&wanted);
        let found = index.first_block_for(&wanted);
        prop_assert!(found < blocks.len());
        prop_assert!(found == 0 || blocks[found].0 < wanted);
        prop_assert!(blocks.get(found + 1).is_none_or(|next| next.0 >= wanted));
    }

    #[test]
    fn damaged_indexes_never_panic(
        names in vec((vec(0u8..3, 0..4), any::<u32>(), any_places()), 0..20),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = build(&sorted(names));
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(index) = RunIndex::decode(Bytes::from(bytes)) {
            for number in 0..index.len() {
                prop_assert!(index.get(number).is_some());
            }
            index.first_block_for(&key(&[1]));
        }
    }
}

fn place(number: u32) -> Place {
    Place { device: DeviceId(number), zone: ZoneIndex(number + 1), offset: ZoneOffset(number + 2) }
}

#[test]
fn golden_index() {
    let blocks = [(key(b"a"), 5, Places::one(place(1))), (key(b"b"), 6, Places::new(&[place(4), place(7)]).unwrap())];
    let mut expected = Vec::new();
    #[rustfmt::skip]
    expected.extend_from_slice(&[
        1, 2, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
        80, 0, 0, 0, 10, 0, 18, 0,
    ]);
    expected.extend_from_slice(b"\0\0\0\0\0\0\0\x01\0a");
    expected.extend_from_slice(b"\0\0\0\0\0\0\0\x01\0\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    expected.extend_from_slice(&[5, 0, 0, 0, 0xe8, 0xfd, 0, 0, 10, 0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    expected.extend_from_slice(b"\0\0\0\0\0\0\0\x01\0a");
    expected.extend_from_slice(&[6, 0, 0, 0, 0xe8, 0xfd, 0, 0, 10, 0, 2, 0]);
    expected.extend_from_slice(&[4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0]);
    expected.extend_from_slice(b"\0\0\0\0\0\0\0\x01\0b");
    expected.extend_from_slice(&[0, 0, 0, 0, 34, 0, 0, 0]);
    assert_eq!(build(&blocks), expected);
}

#[test]
fn blocks_out_of_order_and_wrong_sums_are_refused() {
    let mut bytes = build(&[(key(b"a"), 5, Places::one(place(1))), (key(b"b"), 6, Places::one(place(2)))]);
    bytes[16] = 12;
    let error = RunIndex::decode(Bytes::from(bytes.clone())).unwrap_err();
    assert_eq!((error.field, error.fault), ("entries", Fault::OutOfRange { least: 11, most: 11, found: 12 }));

    bytes[16] = 11;
    let first_key_ends = 48 + 10 + 18 + 12 + 12 + 9;
    assert_eq!(bytes[first_key_ends], b'a');
    bytes[first_key_ends] = b'c';
    let error = RunIndex::decode(Bytes::from(bytes)).unwrap_err();
    assert_eq!((error.field, error.fault), ("first key", Fault::Unordered));
}
