use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::ids::ExtentId;

const EXTENT: ExtentId = ExtentId { partition: 1, term: 1, number: 1 };

fn key(file_offset: u64, len: u64) -> ExtentKey {
    ExtentKey { file_offset, extent: EXTENT, extent_offset: file_offset + BLOCK_BYTES, len }
}

#[test]
fn a_range_is_cut_at_the_borders_of_keys() {
    let keys = [key(0, 10), key(10, 10), key(30, 10)];
    let cut = pieces(&keys, 5..60);
    let expected = [
        Piece::Data(key(5, 5)),
        Piece::Data(key(10, 10)),
        Piece::Hole { start: 20, end: 30 },
        Piece::Data(key(30, 10)),
        Piece::Hole { start: 40, end: 60 },
    ];
    assert_eq!(cut, expected);
    assert_eq!(pieces(&keys, 20..20), []);
    assert_eq!(pieces(&[], 3..4), [Piece::Hole { start: 3, end: 4 }]);
}

#[test]
fn blocks_are_found() {
    assert_eq!((block_start(0), block_start(4095), block_start(4096)), (0, 0, 4096));
    assert_eq!((block_end(0), block_end(1), block_end(4096)), (0, 4096, 4096));
}

#[test]
fn keys_that_go_on_become_one() {
    let mut keys = Vec::new();
    for one in [key(0, 10), key(10, 5), key(20, 5)] {
        add_key(&mut keys, one);
    }
    let elsewhere = ExtentKey { extent_offset: 0, ..key(25, 5) };
    add_key(&mut keys, elsewhere);
    assert_eq!(keys, [key(0, 15), key(20, 5), elsewhere]);
}

proptest! {
    #[test]
    fn pieces_cover_the_range_once(lens in prop::collection::vec((0_u64..50, 1_u64..50), 0..12), start in 0_u64..400, len in 0_u64..400) {
        let mut keys = Vec::new();
        let mut at = 0;
        for (gap, len) in lens {
            keys.push(key(at + gap, len));
            at += gap + len;
        }
        let mut end = start;
        let mut after_hole = false;
        for piece in pieces(&keys, start..start + len) {
            let (from, to, hole) = match piece {
                Piece::Hole { start, end } => (start, end, true),
                Piece::Data(key) => (key.file_offset, end_of(&key), false),
            };
            prop_assert_eq!(from, end);
            prop_assert!(to > end);
            prop_assert!(!(hole && after_hole));
            if let Piece::Data(part) = piece {
                prop_assert_eq!(part, key(part.file_offset, part.len), "the same place in the extent");
            }
            for offset in from..to {
                let in_key = keys.iter().any(|key| (key.file_offset..end_of(key)).contains(&offset));
                prop_assert_eq!(in_key, !hole);
            }
            (end, after_hole) = (to, hole);
        }
        prop_assert_eq!(end, start + len);
    }
}
