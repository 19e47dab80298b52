use std::time::Duration;

use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};

use super::{Heat, TRACKED};

const WINDOW: Duration = Duration::from_secs(10);
const WINDOW_S: u64 = WINDOW.as_secs();

fn id(number: u64) -> ChunkId {
    ChunkId { shard: ShardId(1), number: ChunkNumber(number), nonce: ChunkNonce(1) }
}

/// A window in which every cold chunk is asked for once, and the hot one so many times in between.
fn window(heat: &Heat, cold: std::ops::Range<u64>, hot: u64) {
    let count = cold.end - cold.start;
    for (at, number) in cold.enumerate() {
        heat.note(id(number), 0);
        let at = at as u64;
        (at * hot / count..(at + 1) * hot / count).for_each(|_| heat.note(id(0), 7));
    }
}

fn is_near(found: u64, expected: u64) -> bool {
    found * 10 > expected * 9 && found * 10 < expected * 11
}

#[test]
fn the_hot_one_is_found_among_far_more_than_are_counted() {
    let heat = Heat::default();
    let cold = 40 * TRACKED as u64;
    let mut seen = heat.look(WINDOW, 10);
    for turn in 0..12 {
        window(&heat, 1 + turn * cold..1 + (turn + 1) * cold, 20_000);
        seen = heat.look(WINDOW, 10);
    }
    let (hottest, block, rate) = seen.hot[0];
    assert_eq!((hottest, block), (id(0), 7));
    // Some of its count is taken for others'.
    assert!(rate > 20_000 / WINDOW_S / 2 && rate < 20_000 * 11 / 10 / WINDOW_S, "{seen:?}");
    assert!(is_near(seen.heat, (cold + 20_000) / WINDOW_S), "{seen:?}");
    assert!(seen.hot[1..].iter().all(|(_, _, cold)| *cold < rate / 10), "{seen:?}");
}

#[test]
fn what_is_not_asked_for_any_more_gets_cold() {
    let heat = Heat::default();
    (0..50_000).for_each(|_| heat.note(id(1), 2));
    let first = heat.look(WINDOW, 4);
    // One window is not the whole truth.
    assert!(first.heat > 1_000 && first.heat < 3_000, "{first:?}");
    assert!(is_near(first.hot[0].2, first.heat), "{first:?}");
    let mut last = first.heat;
    for _ in 0..30 {
        let seen = heat.look(WINDOW, 4);
        assert!(seen.heat < last || last <= 1, "{seen:?}");
        last = seen.heat;
    }
    assert_eq!(heat.look(WINDOW, 4), Default::default());
}

#[test]
fn no_more_are_told_than_are_asked_for_and_the_hottest_first() {
    let heat = Heat::default();
    for number in 0..20 {
        (0..(number + 1) * 2_000).for_each(|_| heat.note(id(number), 0));
    }
    let told: Vec<u64> = heat.look(WINDOW, 5).hot.iter().map(|(id, ..)| id.number.0).collect();
    assert_eq!(told.len(), 5);
    assert!(told.iter().all(|number| *number >= 13), "{told:?}");
}
