use std::ops::Range;

use model::choice::{Choose, Seeded};

use super::Space;

/// One run.
fn run(blocks: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(blocks).collect()
}

fn space(units: u32) -> Space {
    let mut space = Space::new(16, 16 * 10, 20);
    (0..units).for_each(|unit| space.add_unit(unit));
    space
}

#[test]
fn fixed_blocks_are_never_free() {
    let mut space = space(3);
    assert_eq!((space.free_blocks(), space.lent_blocks()), (28, 28));
    assert_eq!(space.take(28), run(20..48));
    assert!(!space.claim(19..20), "fixed");
    assert!(!space.claim(47..49), "the last one has no space");
    assert!(!space.claim(159..161), "beyond the end");
    space.give(20..48);
    assert!(!space.lose_unit(0) && !space.lose_unit(5), "fixed, and without space");
    assert_eq!(space.empty_units(), [2], "a unit with a fixed block stays");
}

#[test]
fn blocks_rest_before_they_are_taken_again() {
    let mut space = space(3);
    let first = space.take(4);
    first.into_iter().for_each(|run| space.give(run));
    assert_eq!(space.take(4), run(24..28), "from where the last ones were taken");
    assert_eq!(space.take(20), run(28..48));
    assert_eq!(space.take(2), run(20..22), "and from the start when nothing follows");
}

#[test]
fn a_run_is_better_than_pieces() {
    let mut space = space(3);
    space.take(28);
    for run in [20..22, 24..26, 30..36] {
        space.give(run);
    }
    assert_eq!(space.take(5), run(30..35));
    assert_eq!(space.take(5), [20..22, 24..26, 35..36], "the longest of the rest first");
}

#[test]
fn units_come_and_go() {
    let mut space = space(2);
    assert_eq!(space.next_unit(), Some(2));
    space.add_unit(2);
    let taken = space.take(13);
    assert_eq!(taken, run(20..33));
    assert!(!space.lose_unit(2), "block 32 is used");
    space.give(32..33);
    assert!(space.lose_unit(2));
    assert_eq!(space.free_blocks(), 0);
    assert!(!space.claim(32..33));
}

/// Against a plain list of blocks.
#[test]
fn random_use_keeps_count() {
    for seed in 0..20 {
        let mut seeded = Seeded::new(seed);
        let mut space = space(7);
        let mut taken: Vec<Range<u64>> = Vec::new();
        let mut used = [false; 160];
        for _ in 0..300 {
            let count = seeded.below(9) as u64 + 1;
            if seeded.percent(55) && count <= space.free_blocks() {
                let runs = space.take(count);
                assert_eq!(runs.iter().map(|run| run.end - run.start).sum::<u64>(), count);
                for run in runs {
                    run.clone().for_each(|block| {
                        assert!((20..112).contains(&block), "block {block} has space");
                        assert!(!std::mem::replace(&mut used[block as usize], true), "block {block} is taken twice");
                    });
                    taken.push(run);
                }
            } else if !taken.is_empty() {
                let run = taken.swap_remove(seeded.below(taken.len()));
                run.clone().for_each(|block| used[block as usize] = false);
                space.give(run);
            }
            let count = used.iter().filter(|used| **used).count() as u64;
            assert_eq!(space.free_blocks(), 92 - count, "seed {seed}");
        }
        let mut derived = space.emptied();
        taken.iter().for_each(|run| assert!(derived.claim(run.clone())));
        assert!(derived.has_same_free(&space), "seed {seed}");
        assert!(taken.iter().all(|run| !derived.claim(run.clone())), "claimed twice");
    }
}
