use proptest::prelude::*;
use types::DeviceUuid;

use super::{NOTES_DATA_START, NotesError, NotesHeader, NotesKind};

const UUID: DeviceUuid = DeviceUuid([0x11; 16]);

fn slot(bytes: &[u8]) -> Vec<u8> {
    let mut slot = vec![0xee; 2 * 1024 * 1024];
    let used = NotesHeader::encode_slot(NotesKind::Manager, UUID, 5, bytes, &mut slot);
    slot.truncate(used);
    slot
}

#[test]
fn golden() {
    let slot = slot(b"hello");
    let expected = concat!(
        "97261f80",
        "5472694e",
        "01020000",
        "05000000",
        "0500000000000000",
        "11111111111111111111111111111111",
        "4cbb719a",
        "0000000000000000000000000000000000000000",
    );
    assert_eq!(slot[..64].iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    assert_eq!(slot.len(), 8192);
    assert_eq!(&slot[NOTES_DATA_START..NOTES_DATA_START + 6], b"hello\0");
}

#[test]
fn the_slots_of_all_kinds_lie_apart() {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for offset in crate::superblock::Superblock::read_offsets() {
        ranges.push((offset, offset + crate::superblock::SUPERBLOCK_BYTES as u64));
    }
    for kind in NotesKind::ALL {
        for sequence in 0..2 {
            let start = kind.slot_offset(sequence);
            ranges.push((start, start + (NOTES_DATA_START + kind.max_bytes()) as u64));
        }
    }
    ranges.sort();
    for pair in ranges.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:?}");
    }
    assert!(ranges[ranges.len() - 1].1 <= crate::superblock::FIRST_REGION_BYTE);
}

#[test]
fn damage_and_strangers_are_refused() {
    let good = slot(b"hello");
    let mut header_damaged = good.clone();
    header_damaged[20] ^= 1;
    let error = NotesHeader::decode(&header_damaged, NotesKind::Manager, UUID).expect_err("damaged");
    assert!(matches!(error, NotesError::Crc { .. }), "{error}");
    for (kind, uuid) in [(NotesKind::Fences, UUID), (NotesKind::Manager, DeviceUuid([2; 16]))] {
        let error = NotesHeader::decode(&good, kind, uuid).expect_err("a stranger's");
        assert!(matches!(error, NotesError::Misplaced { .. }), "{error}");
    }
    let header = NotesHeader::decode(&good, NotesKind::Manager, UUID).expect("good");
    let mut bytes_damaged = good[NOTES_DATA_START..].to_vec();
    bytes_damaged[2] ^= 1;
    let error = header.bytes(&bytes_damaged).expect_err("damaged");
    assert!(matches!(error, NotesError::BytesCrc { .. }), "{error}");
    assert_eq!(header.bytes(&bytes_damaged[..3]), Err(NotesError::Short { found: 3 }));
}

proptest! {
    #[test]
    fn round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
        let slot = slot(&bytes);
        let header = NotesHeader::decode(&slot, NotesKind::Manager, UUID).expect("decodes");
        prop_assert_eq!(header.sequence, 5);
        prop_assert_eq!(header.bytes(&slot[NOTES_DATA_START..]), Ok(bytes.as_slice()));
    }
}
