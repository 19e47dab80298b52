use proptest::prelude::*;
use types::DeviceUuid;

use super::{
    BLOCK_DATA_BYTES, BlockEntry, BlockHeader, ChunkVersion, CopyState, Era, HEADER_SLOT_BYTES, MAX_BLOCK_ENTRIES, room_of,
};
use crate::chunk_id::tests::id;

fn entry(number: u64, offset: u32, capacity: u32) -> BlockEntry {
    BlockEntry {
        id: id(7, number, 9),
        offset,
        capacity,
        length: capacity / 2,
        checksum: 0xc0ff_ee00,
        era: Era(3),
        version: ChunkVersion { counter: 4, writer: 5 },
        state: CopyState::Overwriting,
        is_settled: true,
        is_doubted: false,
    }
}

fn header(serial: u64, entries: Vec<BlockEntry>) -> BlockHeader {
    BlockHeader { device_uuid: DeviceUuid([0x11; 16]), block: 0x0203, serial, is_condemned: false, entries }
}

#[test]
fn golden() {
    let bytes = header(6, vec![entry(8, 0x1000, 0x200)]).encode();
    let expected = concat!(
        "c4ac450d",
        "54634268",
        "01000100",
        "03020000",
        "11111111111111111111111111111111",
        "0600000000000000",
        "000000000000000000000000000000000000000000000000",
        "0700000008000000000000000900000000000000",
        "00100000",
        "00020000",
        "00010000",
        "00eeffc0",
        "03000000",
        "0400000000000000",
        "0500000000000000",
        "0201000000000000",
    );
    assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
}

#[test]
fn eras_grow_whatever_they_count() {
    let eras = [Era::first(3), Era::first(3).next(2), Era::first(3).next(2).next(3), Era::first(3).next(2).next(3).next(1)];
    assert_eq!(eras.map(Era::copies), [3, 2, 3, 1]);
    assert_eq!(eras.map(Era::number), [1, 2, 3, 4]);
    assert!(eras.is_sorted(), "{eras:?}");
    for copies in 1..=3 {
        let (era, next) = (Era::first(copies), Era::first(copies).next(1));
        assert!(era < era.just_after() && era.just_after() < next, "{era:?}");
    }
    assert_eq!(Era::first(2), Era(0b110), "docs/format.md");
}

#[test]
fn the_newest_slot_that_may_be_believed_counts() {
    let (old, new) = (header(6, vec![entry(1, 0, 8)]), header(7, vec![]));
    let (old_bytes, new_bytes) = (old.encode(), new.encode());
    assert_eq!((old.slot(), new.slot()), (0, 1));
    assert_eq!(BlockHeader::decode_newest([&old_bytes, &new_bytes]), Ok(new.clone()));
    assert_eq!(BlockHeader::decode_newest([&new_bytes, &old_bytes]), Ok(new.clone()));
    let torn = &new_bytes[..new_bytes.len() - 1];
    assert_eq!(BlockHeader::decode_newest([&old_bytes, torn]), Ok(old));
    assert_eq!(BlockHeader::decode_newest([torn, &new_bytes]), Ok(new));
    BlockHeader::decode_newest([torn, torn]).expect_err("neither");
}

#[test]
fn a_full_header_fills_a_slot() {
    let entries = (0..MAX_BLOCK_ENTRIES as u64).map(|number| entry(number, number as u32 * 16, 16)).collect();
    let full = header(1, entries);
    assert_eq!(full.encode().len(), HEADER_SLOT_BYTES);
    assert_eq!(BlockHeader::decode(&full.encode()), Ok(full));
}

#[test]
fn the_first_bytes_say_how_much_is_to_be_read() {
    let bytes = header(1, vec![entry(1, 0, 8), entry(2, 8, 8)]).encode();
    assert_eq!(BlockHeader::encoded_bytes(&bytes[..64]), Some(bytes.len()));
    assert_eq!(BlockHeader::encoded_bytes(&bytes[..63]), None);
    assert_eq!(BlockHeader::encoded_bytes(&[0; 4096]), None);
    let mut many = bytes;
    many[10..12].copy_from_slice(&256_u16.to_le_bytes());
    assert_eq!(BlockHeader::encoded_bytes(&many), None, "no slot holds so many");
}

#[test]
fn chunks_take_whole_device_blocks() {
    let rooms = [0, 1, 4096, 4097, BLOCK_DATA_BYTES - 1, BLOCK_DATA_BYTES].map(room_of);
    assert_eq!(rooms, [0, 4096, 4096, 8192, BLOCK_DATA_BYTES, BLOCK_DATA_BYTES].map(Some));
    assert_eq!([BLOCK_DATA_BYTES + 1, u32::MAX].map(room_of), [None, None]);
}

#[test]
fn contradictions_are_refused() {
    let twice = header(1, vec![entry(1, 0, 8), entry(1, 8, 8)]);
    assert_eq!(BlockHeader::decode(&twice.encode()).expect_err("one id twice").field, "ids");
    let overlapping = header(1, vec![entry(1, 8, 8), entry(2, 0, 9)]);
    assert_eq!(BlockHeader::decode(&overlapping.encode()).expect_err("overlap").field, "extents");
    let outside = header(1, vec![entry(1, BLOCK_DATA_BYTES - 7, 8)]);
    assert_eq!(BlockHeader::decode(&outside.encode()).expect_err("outside").field, "capacity");
    let mut condemned = header(1, vec![entry(1, 0, 8)]).encode();
    condemned[9] = 1;
    reseal(&mut condemned);
    assert_eq!(BlockHeader::decode(&condemned).expect_err("what is in it is lost").field, "condemned");
    let mut changed = header(1, vec![entry(1, 0, 8)]).encode();
    *changed.last_mut().expect("bytes") ^= 1;
    assert_eq!(BlockHeader::decode(&changed).expect_err("changed").field, "crc");
}

/// A checksum for what was changed.
fn reseal(bytes: &mut [u8]) {
    let crc = crc_fast::crc32_iscsi(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_copy_is_settled_or_doubted_or_neither() {
    let settled = 64 + 57;
    for (is_settled, is_doubted, byte) in [(false, false, 0), (true, false, 1), (false, true, 2)] {
        let written = header(1, vec![BlockEntry { is_settled, is_doubted, ..entry(1, 0, 8) }]);
        let bytes = written.encode();
        assert_eq!((bytes[settled], BlockHeader::decode(&bytes)), (byte, Ok(written)));
    }
    // Of what has departed or is dead nobody asks whether it is the newest.
    let dead = BlockEntry { state: CopyState::Dead, ..entry(1, 0, 8) };
    for (held, byte) in [(entry(1, 0, 8), 3), (dead, 2)] {
        let mut bytes = header(1, vec![held]).encode();
        bytes[settled] = byte;
        reseal(&mut bytes);
        assert_eq!(BlockHeader::decode(&bytes).expect_err("none of these").field, "settled");
    }
}

#[test]
fn a_condemned_block_says_so() {
    let written = BlockHeader { is_condemned: true, ..header(4, Vec::new()) };
    let mut bytes = written.encode();
    assert_eq!((bytes[9], BlockHeader::decode(&bytes)), (1, Ok(written)));
    bytes[9] = 2;
    reseal(&mut bytes);
    assert_eq!(BlockHeader::decode(&bytes).expect_err("neither").field, "condemned");
}

proptest! {
    #[test]
    fn round_trip(
        sizes in prop::collection::vec((any::<u64>(), 0_u32..16_000, any::<u32>(), any::<u64>(), 0_u8..3, 0_usize..4), 0..60),
        block: u32, serial: u64, uuid: [u8; 16],
    ) {
        let states = [CopyState::Live, CopyState::Overwriting, CopyState::Departed, CopyState::Dead];
        let mut offset = 0;
        let mut entries = Vec::new();
        for (number, (nonce, capacity, checksum, counter, settled, state)) in sizes.into_iter().enumerate() {
            let version = ChunkVersion { counter, writer: nonce };
            let base = entry(number as u64, offset, capacity);
            let (is_settled, is_doubted) = (settled == 1, settled == 2 && state < 2);
            entries.push(BlockEntry { checksum, version, is_settled, is_doubted, state: states[state], ..base });
            offset += capacity;
        }
        let written = BlockHeader { device_uuid: DeviceUuid(uuid), block, serial, is_condemned: false, entries };
        prop_assert_eq!(BlockHeader::decode(&written.encode()), Ok(written));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(BlockHeader::decode(&bytes).is_err(), "nobody guesses a checksum");
    }
}
