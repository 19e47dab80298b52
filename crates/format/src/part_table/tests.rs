use bytes::Bytes;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};

use super::{PartTable, TablePart, decode_descriptor};
use crate::attributes::tests::any_algorithm;
use crate::attributes::{Checksum, ChecksumAlgorithm, ChecksumType};
use crate::chunk_ref::tests::any_ref;
use crate::chunk_ref::{ChunkRef, encode_list};
use crate::decode::Fault;

/// Parts with checksums of one algorithm, or without.
fn any_parts() -> impl Strategy<Value = Vec<(u64, Option<Checksum>)>> {
    let part = (0u64..1 << 40, any::<u8>());
    (of(any_algorithm()), vec(part, 0..40)).prop_map(|(algorithm, parts)| {
        let checksum = |seed: u8| {
            let algorithm = algorithm?;
            Checksum::new(algorithm, ChecksumType::FullObject, &vec![seed; algorithm.value_bytes()])
        };
        parts.into_iter().map(|(length, seed)| (length, checksum(seed))).collect()
    })
}

fn payload(refs: &[ChunkRef], table: Option<&PartTable>) -> Bytes {
    let mut out = Vec::new();
    encode_list(refs, &mut out);
    if let Some(table) = table {
        out.extend_from_slice(table.as_bytes());
    }
    out.into()
}

proptest! {
    #[test]
    fn every_table_survives_behind_a_list(refs in vec(any_ref(), 0..20), parts in any_parts()) {
        let table = PartTable::of(&parts);
        let bytes = payload(&refs, Some(&table));
        let (list, read) = decode_descriptor(&bytes).unwrap();
        prop_assert_eq!(list.iter().collect::<Vec<_>>(), refs);
        let read = read.expect("written behind the list");
        prop_assert_eq!(&read, &table);
        prop_assert_eq!(usize::from(read.count()), parts.len());
        let mut start = 0;
        for ((length, checksum), number) in parts.into_iter().zip(1..) {
            prop_assert_eq!(read.get(number), Some(TablePart { range: start..start + length, checksum }));
            start += length;
        }
        prop_assert_eq!((read.get(0), read.get(read.count() + 1)), (None, None));
    }

    #[test]
    fn damaged_tables_never_panic(parts in any_parts(), damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = payload(&[], Some(&PartTable::of(&parts))).to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok((_, Some(table))) = decode_descriptor(&Bytes::from(bytes)) {
            prop_assert_eq!((1..=table.count()).filter_map(|number| table.get(number)).count(), usize::from(table.count()));
        }
    }
}

#[test]
fn golden_table() {
    let crc = |byte| Checksum::new(ChecksumAlgorithm::Crc32, ChecksumType::FullObject, &[byte; 4]);
    #[rustfmt::skip]
    let expected = [
        1, 1, 2, 0, 0, 0, 0, 0,
        5, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7,
        8, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9,
    ];
    assert_eq!(PartTable::of(&[(5, crc(7)), (3, crc(9))]).as_bytes(), &expected[..]);
}

#[test]
fn checksums_that_do_not_go_together_are_left_out() {
    let of = |algorithm: ChecksumAlgorithm, kind| Checksum::new(algorithm, kind, &vec![1; algorithm.value_bytes()]);
    let crc = of(ChecksumAlgorithm::Crc32, ChecksumType::FullObject);
    let sha = of(ChecksumAlgorithm::Sha1, ChecksumType::FullObject);
    let composite = of(ChecksumAlgorithm::Crc32, ChecksumType::Composite { parts: 2 });
    for (other, is_kept) in [(crc, true), (sha, false), (None, false), (composite, false)] {
        let table = PartTable::of(&[(5, crc), (3, other)]);
        let second = table.get(2).expect("two parts");
        assert_eq!((second.range, second.checksum.is_some()), (5..8, is_kept), "{other:?}");
    }
}

#[test]
fn refusals_name_the_field() {
    let good = payload(&[], Some(&PartTable::of(&[(5, None), (3, None)]))).to_vec();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        decode_descriptor(&Bytes::from(bytes)).map(|_| ()).map_err(|error| (error.field, error.offset, error.fault))
    };
    assert_eq!(with(9, 77), Err(("algorithm", 9, Fault::Unknown { found: 77 })));
    assert_eq!(with(10, 3), Err(("count", 10, Fault::OutOfRange { least: 0, most: 2, found: 3 })));
    assert_eq!(with(10, 1), Err(("end", 24, Fault::Trailing { bytes: 8 })));
    assert_eq!(with(24, 1), Err(("end of a part", 24, Fault::Unordered)));
}
