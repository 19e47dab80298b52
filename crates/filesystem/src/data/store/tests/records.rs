//! What stands on the volume: golden bytes, and that it is read as it was written.

use proptest::prelude::*;

use crate::data::store::directory::{Entry, chunk_room, decode_chunk, encode_chunk};
use crate::data::store::layout::Span;
use crate::data::store::page::{Mapped, PAGE_BLOCKS, Page};
use crate::data::store::record::{Change, Record, Write};
use crate::data::store::superblock::Superblock;
use crate::ids::ExtentId;

const UUID: [u8; 16] = [7; 16];
const EXTENT: ExtentId = ExtentId { partition: 3, term: 2, number: 300 };

#[test]
fn golden_records() {
    let write = Write {
        extent: EXTENT,
        makes_extent: false,
        first_block: 5,
        len: 24_576,
        places: vec![Span { place: 9, count: 1 }],
        sums: vec![0x0102_0304],
    };
    let bytes = |settled_below, change| Record { settled_below, change }.encode();
    assert_eq!(bytes(4, Change::Create(EXTENT)), [4, 0, 3, 2, 0xac, 2]);
    assert_eq!(bytes(4, Change::Write(write)), [4, 1, 3, 2, 0xac, 2, 0, 5, 0x80, 0xc0, 1, 1, 9, 1, 1, 0x84, 0x86, 0x88, 8]);
    assert_eq!(bytes(4, Change::Punch { extent: EXTENT, first_block: 1, count: 2 }), [4, 2, 3, 2, 0xac, 2, 1, 2]);
    assert_eq!(bytes(4, Change::Remove(EXTENT)), [4, 3, 3, 2, 0xac, 2]);
    assert_eq!(bytes(300, Change::Settled), [0xac, 2, 4]);
    assert_eq!(bytes(4, Change::Cut { extent: EXTENT, len: 300 }), [4, 5, 3, 2, 0xac, 2, 0xac, 2]);
}

#[test]
fn records_that_make_no_sense_are_refused() {
    let places = vec![Span { place: 9, count: 2 }];
    let write = Write { extent: EXTENT, makes_extent: false, first_block: 5, len: 1, places, sums: vec![1, 2] };
    let encode = |write: &Write| Record { settled_below: 1, change: Change::Write(write.clone()) }.encode();
    assert!(Record::decode(&encode(&write)).is_ok());
    let fewer_sums = Write { sums: vec![1], ..write.clone() };
    let beyond = Write { places: vec![Span { place: u32::MAX, count: 2 }], ..write.clone() };
    let too_far = Write { first_block: u64::MAX, ..write.clone() };
    let begins_late = Write { makes_extent: true, ..write.clone() };
    for wrong in [fewer_sums, beyond, too_far, begins_late] {
        assert!(Record::decode(&encode(&wrong)).is_err(), "{wrong:?}");
    }
    assert!(Record::decode(&[encode(&write), vec![0]].concat()).is_err());
    assert!(Record::decode(&encode(&write)[..5]).is_err());
}

#[test]
fn golden_superblock_and_chunk() {
    let superblock = Superblock {
        sequence: 5,
        term: 4,
        keep_from: 0x1122,
        segment_bytes: 16_384,
        directory_bytes: 36,
        last_chunk: Some(Span { place: 77, count: 1 }),
        checkpoint: 3,
    };
    let block = superblock.encode(&UUID);
    assert_eq!(block[..4], *b"TfSb");
    assert_eq!(block[8..16], [1, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(
        block[32..80],
        [
            [5, 0, 0, 0, 0, 0, 0, 0],
            [0x22, 0x11, 0, 0, 0, 0, 0, 0],
            [0, 0x40, 0, 0, 0, 0, 0, 0],
            [36, 0, 0, 0, 0, 0, 0, 0],
            [77, 0, 0, 0, 1, 0, 0, 0],
            [3, 0, 0, 0, 0, 0, 0, 0]
        ]
        .concat()
    );
    assert_eq!((Superblock::decode(&block, &UUID), superblock.slot()), (Some(superblock), 1));
    assert_eq!(Superblock::decode(&block, &[8; 16]), None, "of another device");

    let mut entries = Vec::new();
    Entry { extent: EXTENT, len: 5, pages: vec![(1, 9)] }.encode(&mut entries);
    assert_eq!(
        entries,
        [3, 0, 0, 0, 2, 0, 0, 0, 0x2c, 1, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0]
    );
    let chunk = encode_chunk(1, &entries, Some(Span { place: 6, count: 2 }), &UUID, 3);
    assert_eq!(chunk[8..20], [36, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(decode_chunk(&chunk, &UUID, 3), Some((&entries[..], Some(Span { place: 6, count: 2 }))));
    assert_eq!(decode_chunk(&chunk, &UUID, 4), None, "of another checkpoint");
    assert_eq!(encode_chunk(2, &vec![1; chunk_room(2)], None, &UUID, 1).len(), 8192);
}

#[test]
fn any_bit_that_flips_is_found() {
    let mut page = Page::default();
    page.set(3, &[Some(Mapped { place: 1, sum: 2 })]);
    let superblock = Superblock {
        sequence: 1,
        term: 1,
        keep_from: 1,
        segment_bytes: 1,
        directory_bytes: 0,
        last_chunk: None,
        checkpoint: 0,
    };
    let (mut page, mut superblock, mut chunk) =
        (page.encode(EXTENT, 0, &UUID), superblock.encode(&UUID), encode_chunk(1, b"abc", None, &UUID, 1));
    for at in (0..4096).step_by(3) {
        [&mut page, &mut superblock, &mut chunk].into_iter().for_each(|block| block[at] ^= 1 << (at % 8));
        assert!(Page::decode(&page, EXTENT, 0, &UUID).is_none(), "byte {at}");
        assert!(Superblock::decode(&superblock, &UUID).is_none(), "byte {at}");
        assert!(decode_chunk(&chunk, &UUID, 1).is_none(), "byte {at}");
        [&mut page, &mut superblock, &mut chunk].into_iter().for_each(|block| block[at] ^= 1 << (at % 8));
    }
}

fn blocks() -> impl Strategy<Value = Vec<Option<Mapped>>> {
    let block = proptest::option::of((0..40_u32, any::<u32>()).prop_map(|(place, sum)| Mapped { place, sum }));
    proptest::collection::vec(block, 1..PAGE_BLOCKS as usize)
}

proptest! {
    #[test]
    fn a_page_has_what_was_put_into_it_also_after_it_was_written(one in blocks(), other in blocks(), at in 0..PAGE_BLOCKS as usize) {
        let mut flat = vec![None; PAGE_BLOCKS as usize];
        let mut page = Page::default();
        for (first, put) in [(0, &one), (at, &other)] {
            let put = &put[..put.len().min(flat.len() - first)];
            let former = page.set(first as u16, put);
            let expected: Vec<u32> = flat[first..first + put.len()].iter().flatten().map(|mapped: &Mapped| mapped.place).collect();
            prop_assert_eq!(former, expected);
            flat[first..first + put.len()].copy_from_slice(put);
        }
        let read = Page::decode(&page.encode(EXTENT, 6, &UUID), EXTENT, 6, &UUID).expect("its own bytes");
        prop_assert!(Page::decode(&page.encode(EXTENT, 6, &UUID), EXTENT, 5, &UUID).is_none());
        for (block, mapped) in flat.iter().enumerate() {
            prop_assert_eq!(page.get(block as u16), *mapped);
            prop_assert_eq!(read.get(block as u16), *mapped);
        }
        prop_assert_eq!(page.block_count(), flat.iter().flatten().count() as u64);
    }

    #[test]
    fn no_bytes_make_the_reading_of_records_and_entries_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(record) = Record::decode(&bytes) {
            prop_assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
        if let Some(entries) = Entry::decode_all(&bytes) {
            let mut written = Vec::new();
            entries.iter().for_each(|entry| entry.encode(&mut written));
            prop_assert_eq!(written, bytes);
        }
    }
}
