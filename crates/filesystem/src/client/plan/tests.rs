use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

use super::super::pieces::end_of;
use super::*;

const EXTENT: ExtentId = ExtentId { partition: 1, term: 1, number: 1 };
const BLOCK: u64 = BLOCK_BYTES;

fn key(file_offset: u64, len: u64) -> ExtentKey {
    ExtentKey { file_offset, extent: EXTENT, extent_offset: file_offset, len }
}

fn runs(plan: &Plan) -> Vec<(u64, u64)> {
    plan.runs.iter().map(|run| (run.start, run.end)).collect()
}

#[test]
fn what_has_a_key_changes_in_place_and_the_rest_is_appended() {
    let keys = [key(100, 400), key(2 * BLOCK, 10)];
    let planned = plan(&keys, &(300..2 * BLOCK + 4), 2 * BLOCK + 10);
    assert_eq!(planned.in_place, [key(300, 200), key(2 * BLOCK, 4)]);
    assert_eq!(runs(&planned), [(500, 2 * BLOCK)]);
}

#[test]
fn zeros_fill_the_blocks_of_a_hole_but_not_beyond_the_end() {
    let size = 10 * BLOCK + 5;
    assert_eq!(runs(&plan(&[], &(BLOCK + 10..BLOCK + 20), size)), [(BLOCK, 2 * BLOCK)]);
    assert_eq!(runs(&plan(&[], &(10 * BLOCK + 1..10 * BLOCK + 2), size)), [(10 * BLOCK, size)]);
    assert_eq!(runs(&plan(&[], &(10 * BLOCK + 1..11 * BLOCK + 2), size)), [(10 * BLOCK, 11 * BLOCK + 2)]);
    assert_eq!(runs(&plan(&[key(0, 7)], &(7..9), 7)), [(7, 9)], "an append goes on where the key ends");
}

#[test]
fn an_extent_goes_on_at_the_same_place_within_a_block() {
    let mut extent = OpenExtent::new(EXTENT, 0);
    extent.grew(200);
    assert_eq!(extent.place(BLOCK * 7 + 200, 10), Some(200));
    assert_eq!(extent.place(BLOCK * 7 + 100, 10), Some(BLOCK + 100));
    assert_eq!(extent.place(0, MAX_EXTENT_BYTES - BLOCK), Some(BLOCK));
    assert_eq!(extent.place(0, MAX_EXTENT_BYTES - BLOCK + 1), None);
    extent.begin_block();
    assert_eq!(extent.place(BLOCK * 7 + 200, 10), Some(BLOCK + 200), "after a cut");
}

#[test]
fn whole_blocks_are_punched_and_their_edges_zeroed() {
    let size = 8 * BLOCK;
    let edges = vec![BLOCK + 10..2 * BLOCK, 4 * BLOCK..4 * BLOCK + 10];
    assert_eq!(punched(&(BLOCK + 10..4 * BLOCK + 10), size), (2 * BLOCK..4 * BLOCK, edges));
    assert_eq!(punched(&(10..20), size), (BLOCK..BLOCK, std::iter::once(10..20).collect()));
    assert_eq!(punched(&(BLOCK..BLOCK + 100), BLOCK + 100), (BLOCK..2 * BLOCK, vec![]), "the last block of the file");
    assert_eq!(punched(&(BLOCK..3 * BLOCK), size), (BLOCK..3 * BLOCK, vec![]));
}

proptest! {
    #[test]
    fn each_byte_of_a_write_is_planned_once(
        lens in prop::collection::vec((0_u64..9000, 1_u64..9000), 0..8), start in 0_u64..60_000, len in 1_u64..20_000, more in 0_u64..9000,
    ) {
        let mut keys = Vec::new();
        let mut at = 0;
        for (gap, len) in lens {
            keys.push(key(at + gap, len));
            at += gap + len;
        }
        let range = start..start + len;
        let planned = plan(&keys, &range, at + more);
        let in_place = |offset| planned.in_place.iter().filter(|key| (key.file_offset..end_of(key)).contains(&offset)).count();
        let appended = |offset| planned.runs.iter().filter(|run| run.contains(&offset)).count();
        for offset in range.clone() {
            let in_key = keys.iter().any(|key| (key.file_offset..end_of(key)).contains(&offset));
            prop_assert_eq!((in_place(offset), appended(offset)), if in_key { (1, 0) } else { (0, 1) });
        }
        for run in &planned.runs {
            prop_assert!(run.end <= range.end.max(at + more) && run.start + BLOCK > range.start);
            prop_assert!(keys.iter().all(|key| end_of(key) <= run.start || run.end <= key.file_offset), "a run is a hole");
        }
    }
}
