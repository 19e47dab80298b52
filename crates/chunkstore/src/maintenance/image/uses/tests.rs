use format::chunk_block::{BLOCK_DATA_BYTES, CONTENT_ALIGNMENT};
use format::chunk_place::BlockPlace;
use format::decode::Reader;
use proptest::collection::btree_map;
use proptest::prelude::*;
use types::DeviceId;

use super::{ArchivedUse, put_uses, read_former_uses, read_uses};
use crate::maintenance::image::ImageError;

fn place(device: u32, block: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), block).expect("a place")
}

fn written(uses: &[ArchivedUse]) -> Vec<u8> {
    let mut out = Vec::new();
    put_uses(&mut out, uses);
    out
}

fn read(bytes: &[u8], most: u64) -> Result<Vec<ArchivedUse>, ImageError> {
    let mut reader = Reader::new("uses", bytes);
    let uses = read_uses(&mut reader, most)?;
    reader.finish()?;
    Ok(uses)
}

#[test]
fn golden() {
    let full = (BLOCK_DATA_BYTES, 1);
    let uses = [
        (place(0, 3), full.0, full.1),
        (place(0, 4), full.0, full.1),
        (place(0, 5), 300 * CONTENT_ALIGNMENT, 200),
        (place(0, 7), 4_097, 2),
        (place(1, 0), full.0, full.1),
    ];
    let runs: [&[u8]; 5] = [
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[3, 1, 0x80, 0x10, 1],
        &[0, 0, 0xd8, 0x04, 0xc8, 1],
        &[1, 0, 0x83, 0x40, 2],
        // 2²⁶ blocks a device, but the 8 before.
        &[0xf8, 0xff, 0xff, 0x1f, 0, 0x80, 0x10, 1],
    ];
    assert_eq!(written(&uses), runs.concat());
    assert_eq!(read(&runs.concat(), 5).as_deref(), Ok(&uses[..]));
    let mut former = vec![1, 0, 0, 0, 0, 0, 0, 0];
    former.extend([place(1, 2).to_bits().to_le_bytes().as_slice(), &[0, 0, 64, 0], &[3, 0]].concat());
    assert_eq!(read_former_uses(&mut Reader::new("uses", &former)), Ok(vec![(place(1, 2), 4 << 20, 3)]));
}

/// The images of all units of a node have to fit its log more than once: with 14 bytes for each block a node of 24 TiB wrote them without end.
#[test]
fn blocks_that_hold_the_same_take_next_to_nothing_and_others_little() {
    let blocks = 0..10_000;
    let full: Vec<ArchivedUse> = blocks.clone().map(|block| (place(block % 3, block / 3), BLOCK_DATA_BYTES, 1)).collect();
    let mut full = full;
    full.sort_by_key(|(place, ..)| place.to_bits());
    assert!(written(&full).len() < 50, "{} bytes", written(&full).len());
    let mixed = |block: u32| (place(0, block), BLOCK_DATA_BYTES - block % 500 * CONTENT_ALIGNMENT, 1 + (block % 60) as u16);
    let mixed: Vec<ArchivedUse> = blocks.map(mixed).collect();
    assert!(written(&mixed).len() <= 5 * mixed.len() + 16, "{} bytes", written(&mixed).len());
}

/// A count that the bytes can't show to be wrong.
#[test]
fn more_blocks_than_there_are_are_refused() {
    let all = [(place(0, 0), 0, 1), (place(0, 1), 0, 1), (place(0, 2), 4_096, 1)];
    assert_eq!(read(&written(&all), 3).as_deref(), Ok(&all[..]));
    assert!(matches!(read(&written(&all), 2), Err(ImageError::Impossible(_))));
    let long =
        [[1, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0]].concat();
    assert!(matches!(read(&long, 1_000), Err(ImageError::Impossible(_))));
}

proptest! {
    #[test]
    fn uses_survive(uses in btree_map((0_u32..3, 0_u32..40), (prop_oneof![Just(8_192_u32), any::<u32>()], prop_oneof![Just(1_u16), any::<u16>()]), 0..60)) {
        let uses: Vec<ArchivedUse> =
            uses.into_iter().map(|((device, block), (bytes, entries))| (place(device, block), bytes, entries)).collect();
        prop_assert_eq!(read(&written(&uses), uses.len() as u64), Ok(uses));
    }

    #[test]
    fn any_bytes_are_refused_or_uses(bytes in proptest::collection::vec(any::<u8>(), 0..60), most in 0_u64..100) {
        if let Ok(uses) = read(&bytes, most) {
            prop_assert!(uses.len() as u64 <= most);
        }
    }
}
