use bytes::Bytes;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use types::{Activation, BucketId, Generation, Order, ZoneOffset};

use super::{RESTART_INTERVAL, RUN_BLOCK_BYTES, RunBlock, RunBlockBuilder};
use crate::attributes::tests::{any_algorithm, any_etag};
use crate::attributes::{ChecksumScheme, ETag, StorageClass};
use crate::decode::{DecodeError, Fault};
use crate::entry::tests::{any_entry, sample as sample_entry};
use crate::name_entry::{NameEntry, SortKey};
use crate::record::{EntryName, Space};
use crate::version_id::VersionId;

/// Few buckets, short names of few letters and few orders: prefixes, equal names and neighbours are common.
fn any_row() -> impl Strategy<Value = NameEntry> {
    let space = prop_oneof![Just(Space::Object), Just(Space::Version)];
    let letter = prop_oneof![Just(0u8), Just(b'a'), Just(b'b'), Just(0xff)];
    let name = (0u64..3, space, vec(letter, 0..5));
    let checksum = of((any_algorithm(), any::<bool>()));
    (name, any_entry(), 0u64..4, any_etag(), any::<u64>(), (0u8..11, checksum), any::<Option<[u8; 16]>>()).prop_map(
        |((bucket, space, name), entry, activation, etag, modified_ms, (class, checksum), version)| {
            let checksum = checksum.map(|(algorithm, full_object)| ChecksumScheme { algorithm, full_object });
            let order = Order { activation: Activation(activation), ..Order::default() };
            let mut entry = entry;
            entry.order = order;
            NameEntry {
                name: EntryName { bucket: BucketId(bucket), space, name: Bytes::from(name) },
                entry,
                etag,
                modified_ms,
                storage_class: StorageClass::from_number(class).unwrap(),
                checksum,
                version_id: version.map(VersionId),
            }
        },
    )
}

fn sorted(mut rows: Vec<NameEntry>) -> Vec<NameEntry> {
    rows.sort_by(|a, b| (&a.name, b.entry.order).cmp(&(&b.name, a.entry.order)));
    rows.dedup_by(|a, b| a.name == b.name && a.entry.order == b.entry.order);
    rows
}

fn build(rows: &[NameEntry]) -> Vec<RunBlock> {
    let mut builder = RunBlockBuilder::new();
    let mut blocks = Vec::new();
    for row in rows {
        if !builder.push(row) {
            blocks.push(builder.finish());
            assert!(builder.push(row));
        }
    }
    blocks.push(builder.finish());
    blocks.into_iter().map(|block| RunBlock::decode(Bytes::from(block)).unwrap()).collect()
}

fn read(block: &RunBlock) -> Result<Vec<NameEntry>, DecodeError> {
    let mut rows = block.rows();
    let mut all = Vec::new();
    while let Some(row) = rows.next() {
        all.push(row?.to_name_entry());
    }
    Ok(all)
}

fn sample(number: u64) -> NameEntry {
    let mut entry = sample_entry();
    entry.order = Order { generation: Generation(1), activation: Activation(number), offset: ZoneOffset(2) };
    NameEntry {
        name: EntryName::object(BucketId(1), Bytes::from(format!("folder/name-{number:06}"))),
        entry,
        etag: ETag::Md5([7; 16]),
        modified_ms: 9,
        storage_class: StorageClass::Standard,
        checksum: None,
        version_id: None,
    }
}

proptest! {
    #[test]
    fn blocks_give_back_their_rows(rows in vec(any_row(), 0..120)) {
        let rows = sorted(rows);
        let blocks = build(&rows);
        prop_assert_eq!(blocks.iter().map(RunBlock::len).sum::<usize>(), rows.len());
        let mut found = Vec::new();
        for block in &blocks {
            found.extend(read(block).unwrap());
        }
        prop_assert_eq!(found, rows);
    }

    #[test]
    fn a_seek_finds_what_a_scan_finds(rows in vec(any_row(), 0..120), wanted in any_row()) {
        let rows = sorted(rows);
        let block = build(&rows).remove(0);
        let key = SortKey::from(&wanted.name);
        let expected: Vec<_> = rows.iter().filter(|row| row.name >= wanted.name).cloned().collect();
        let mut found = Vec::new();
        let mut seeker = block.seek(&key).unwrap();
        while let Some(row) = seeker.next() {
            found.push(row.unwrap().to_name_entry());
        }
        prop_assert_eq!(found, expected.clone());

        let mut scanner = block.rows();
        scanner.skip_to(&key).unwrap();
        scanner.skip_to(&key).unwrap();
        let first = scanner.next().map(|row| row.unwrap().to_name_entry());
        prop_assert_eq!(first, expected.first().cloned());
    }

    #[test]
    fn rows_copied_from_blocks_make_the_same_blocks(rows in vec(any_row(), 0..120)) {
        let blocks = build(&sorted(rows));
        let mut builder = RunBlockBuilder::new();
        for block in &blocks {
            let mut rows = block.rows();
            while let Some(row) = rows.next() {
                prop_assert!(builder.push_row(&row.unwrap()));
            }
        }
        let copy = RunBlock::decode(Bytes::from(builder.finish())).unwrap();
        prop_assert_eq!(&copy.bytes, &blocks[0].bytes);
    }

    #[test]
    fn damaged_blocks_never_panic(
        rows in vec(any_row(), 0..60),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        wanted in any_row(),
    ) {
        let mut bytes = build(&sorted(rows)).remove(0).bytes.to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(block) = RunBlock::decode(Bytes::from(bytes)) {
            if let Ok(rows) = read(&block) {
                prop_assert!(rows.is_sorted_by(|a, b| (&a.name, b.entry.order) < (&b.name, a.entry.order)));
            }
            if let Ok(mut rows) = block.seek(&SortKey::from(&wanted.name)) {
                while let Some(Ok(row)) = rows.next() {
                    prop_assert!(row.to_name_entry().name >= wanted.name);
                }
            }
        }
    }
}

#[test]
fn a_full_block_refuses_and_the_next_takes_over() {
    let rows: Vec<_> = (0..2000).map(sample).collect();
    let blocks = build(&rows);
    assert!(blocks.len() > 3);
    for block in &blocks[..blocks.len() - 1] {
        assert!(block.bytes.len() <= RUN_BLOCK_BYTES && block.bytes.len() + 200 > RUN_BLOCK_BYTES, "{}", block.bytes.len());
    }
    let found: Vec<_> = blocks.iter().flat_map(|block| read(block).unwrap()).collect();
    assert_eq!(found, rows);
}

#[test]
fn rows_out_of_order_are_refused_with_their_place() {
    let mut builder = RunBlockBuilder::new();
    assert!(builder.push(&sample(1)) && builder.push(&sample(2)));
    let mut bytes = builder.finish();
    let last_digit = bytes.len() - 4 - 1;
    assert_eq!(bytes[last_digit], b'2');
    bytes[last_digit] = b'0';
    let block = RunBlock::decode(Bytes::from(bytes)).unwrap();
    let error = read(&block).unwrap_err();
    let second_row = 16 + 100 + 24 + 9 + 18;
    assert_eq!((error.field, error.offset, error.fault), ("key", second_row, Fault::Unordered));
}

#[test]
fn equal_names_may_stand_at_a_restart() {
    let rows: Vec<_> = (0..3 * RESTART_INTERVAL as u64)
        .rev()
        .map(|activation| {
            let mut row = sample(0);
            row.entry.order.activation = Activation(activation);
            row
        })
        .collect();
    let block = build(&rows).remove(0);
    let mut seeker = block.seek(&SortKey::from(&rows[0].name)).unwrap();
    assert_eq!(seeker.next().unwrap().unwrap().to_name_entry(), rows[0]);
}

#[test]
#[should_panic(expected = "rows of a run ascend")]
fn the_builder_refuses_disorder_across_blocks() {
    let mut builder = RunBlockBuilder::new();
    assert!(builder.push(&sample(2)));
    builder.finish();
    let _added = builder.push(&sample(1));
}

#[test]
fn golden_block() {
    let mut builder = RunBlockBuilder::new();
    let mut second = sample(2);
    second.version_id = Some(VersionId([0x99; 16]));
    second.etag = ETag::Multipart { digest: [8; 16], parts: 3 };
    second.storage_class = StorageClass::Glacier;
    assert!(builder.push(&sample(1)) && builder.push(&second));
    let bytes = builder.finish();
    let places = [1u8, 0, 0, 0, 11, 0, 0, 0, 21, 0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 22, 0, 0, 0];

    #[rustfmt::skip]
    let head = [1, 0, 16, 0, 2, 0, 0, 0, 0x24, 1, 0, 0, 1, 0, 0, 0];
    #[rustfmt::skip]
    let first = [
        0, 0, 27, 0, 1, 0, 1, 6, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
        7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    ];
    #[rustfmt::skip]
    let second = [
        26, 0, 1, 0, 1, 0, 1, 0x1e, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 3, 0, 5, 0, 9, 0, 0, 0, 0, 0, 0, 0,
        8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    ];
    let mut expected = Vec::new();
    expected.extend_from_slice(&head);
    expected.extend_from_slice(&first);
    expected.extend_from_slice(&[0xcc; 20]);
    expected.extend_from_slice(&places);
    expected.extend_from_slice(b"\0\0\0\0\0\0\0\x01\0folder/name-000001");
    expected.extend_from_slice(&second);
    expected.extend_from_slice(&[0xcc; 20]);
    expected.extend_from_slice(&places);
    expected.extend_from_slice(&[0x99; 16]);
    expected.extend_from_slice(b"2");
    expected.extend_from_slice(&[0, 0, 0, 0]);
    assert_eq!(bytes, expected);
}
