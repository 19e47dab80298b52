use super::{Blocks, BlocksError, Extent};
use crate::{Deadline, ReserveError};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn extent(first: u64, count: u64) -> Extent {
    Extent { first, count }
}

#[test]
fn blocks_go_round() {
    let mut blocks: Blocks<u32> = Blocks::new(100, 8);
    assert_eq!(blocks.reserve(1, 10, None), Ok(&[extent(0, 10)][..]));
    assert_eq!(blocks.reserve(2, 5, Some(Deadline(50))), Ok(&[extent(10, 5)][..]));
    assert_eq!(blocks.commit(1), Some(vec![extent(0, 10)]));
    assert_eq!(blocks.commit(1), None, "once");
    assert_eq!(blocks.expire(Deadline(50)), [2]);
    assert_eq!(blocks.free(), 85, "what is given up is not free yet");
    blocks.release(1, vec![extent(2, 3)]).unwrap();
    assert_eq!(blocks.published_runs().collect::<Vec<_>>(), [extent(0, 2), extent(5, 5)]);
    // The next ones go on where the last one ended.
    assert_eq!(blocks.reserve(3, 1, None), Ok(&[extent(15, 1)][..]));
    assert!(blocks.drained(1) && blocks.drained(2) && !blocks.drained(2));
    assert_eq!(blocks.free(), 92);
    assert_eq!(blocks.free_runs().collect::<Vec<_>>(), [extent(2, 3), extent(10, 5), extent(16, 84)]);
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut blocks: Blocks<u32> = Blocks::new(64, 2);
    assert_eq!(blocks.reserve(1, 0, None), Err(BlocksError::Nothing));
    assert_eq!(blocks.reserve(1, 65, None), Err(BlocksError::NoRoom { free: 64 }));
    blocks.reserve(1, 60, None).unwrap();
    assert_eq!(blocks.reserve(1, 1, None), Err(BlocksError::Key(ReserveError::Pending)));
    assert_eq!(blocks.reserve(2, 5, None), Err(BlocksError::NoRoom { free: 4 }));
    let before = blocks.clone();
    assert_eq!(blocks.release(9, vec![extent(0, 1)]), Err(BlocksError::NotPublished(extent(0, 1))), "pending");
    blocks.commit(1).unwrap();
    let published = blocks.clone();
    for wrong in [vec![extent(0, 5), extent(4, 2)], vec![extent(58, 4)], vec![extent(7, 0)], vec![extent(1, u64::MAX)]] {
        let last = *wrong.last().unwrap();
        assert_eq!(blocks.release(9, wrong), Err(BlocksError::NotPublished(last)));
        assert_eq!(blocks, published);
    }
    assert_eq!(blocks.release(9, Vec::new()), Err(BlocksError::Nothing));
    assert_eq!(blocks.claim(&[extent(60, 2), extent(61, 2)]), Err(BlocksError::NotFree(extent(61, 2))));
    assert_eq!(blocks, published);
    blocks.release(9, vec![extent(0, 60)]).unwrap();
    assert_eq!(blocks.release(9, vec![extent(0, 60)]), Err(BlocksError::Key(ReserveError::Limbo)));
    assert_ne!(blocks, before);
}

#[test]
fn scattered_room_is_taken_in_its_longest_pieces() {
    let mut blocks: Blocks<u32> = Blocks::new(4096, 8);
    // Every eighth block is free, and a run of 40 at the end.
    let taken: Vec<Extent> = (0..4056 / 8).map(|index| extent(index * 8, 7)).collect();
    blocks.claim(&taken).unwrap();
    let pieces = blocks.reserve(1, 3, None).unwrap();
    assert_eq!(pieces, [extent(7, 1), extent(15, 1), extent(23, 1)], "a longer run is too far away to be seen");
    blocks.claim(&[extent(31, 1)]).unwrap();
    let rest = blocks.free();
    let all = blocks.reserve(2, rest, None).unwrap().to_vec();
    assert_eq!(all.iter().map(|extent| extent.count).sum::<u64>(), rest);
    assert_eq!((blocks.free(), blocks.free_runs().next()), (0, None));
}

#[test]
fn what_is_claimed_after_a_restart_is_what_was_published() {
    let mut blocks: Blocks<u32> = Blocks::new(1000, 8);
    for key in 0..5 {
        blocks.reserve(key, 30 + u64::from(key), None).unwrap();
    }
    for key in [0, 2, 3] {
        blocks.commit(key).unwrap();
    }
    blocks.release(7, vec![extent(10, 10)]).unwrap();
    let published: Vec<Extent> = blocks.published_runs().collect();
    let mut again: Blocks<u32> = Blocks::new(1000, 8);
    again.claim(&published).unwrap();
    assert_eq!(again.published_runs().collect::<Vec<_>>(), published);
    let count: u64 = published.iter().map(|extent| extent.count).sum();
    assert_eq!(again.free(), 1000 - count);
}

/// A volume of 1 TiB in blocks of 4 KiB, objects of 1 to 64 KiB in random order of their ends, at several degrees of fullness:
/// `cargo test --release -p reserve --lib cost_of_a_reservation -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
#[expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]
fn cost_of_a_reservation() {
    const VOLUME: u64 = 1 << 28;
    const ROUNDS: u64 = 1_000_000;
    let mut random = 1_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for percent in [50, 90, 99] {
        let mut blocks: Blocks<u64> = Blocks::new(VOLUME, 8);
        let mut published: Vec<Vec<Extent>> = Vec::new();
        let mut key = 0;
        while blocks.free() > VOLUME / 100 * (100 - percent) {
            blocks.reserve(key, 1 + next() % 16, None).unwrap();
            published.extend(blocks.commit(key));
            key += 1;
        }
        let (mut extents, start) = (0, std::time::Instant::now());
        for _ in 0..ROUNDS {
            let chosen = usize::try_from(next()).unwrap() % published.len();
            blocks.release(0, published.swap_remove(chosen)).unwrap();
            blocks.drained(0);
            blocks.reserve(0, (1 + next() % 16).min(blocks.free()), None).unwrap();
            let committed = blocks.commit(0).unwrap();
            extents += committed.len();
            published.push(committed);
        }
        let nanoseconds = start.elapsed().as_nanos() / u128::from(ROUNDS);
        println!("{percent}% full: {nanoseconds} ns a round, {extents} extents for {ROUNDS} reservations");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Reserve {
        key: u8,
        count: u64,
        deadline: Option<u64>,
    },
    Commit(u8),
    Revoke(u8),
    Expire(u64),
    /// Gives up a part of what is published.
    Release {
        key: u8,
        first: u64,
        count: u64,
    },
    Drained(u8),
}

const COUNT: u64 = 300;
const LIMIT: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let key = 0..8_u8;
    prop_oneof![
        4 => (key.clone(), 0..90_u64, proptest::option::of(0..20_u64))
            .prop_map(|(key, count, deadline)| Step::Reserve { key, count, deadline }),
        3 => key.clone().prop_map(Step::Commit),
        1 => key.clone().prop_map(Step::Revoke),
        1 => (0..20_u64).prop_map(Step::Expire),
        4 => (key.clone(), 0..COUNT, 1..60_u64).prop_map(|(key, first, count)| Step::Release { key, first, count }),
        3 => key.prop_map(Step::Drained),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Pending(u8, Option<u64>),
    Limbo(u8),
    Published,
}

/// What each block is, one by one.
struct Model([State; COUNT as usize]);

impl Model {
    fn of(&self, state: impl Fn(State) -> bool) -> BTreeSet<u64> {
        (0..COUNT).filter(|block| state(self.0[*block as usize])).collect()
    }

    fn set(&mut self, blocks: &BTreeSet<u64>, state: State) {
        blocks.iter().for_each(|block| self.0[*block as usize] = state);
    }

    fn pending(&self, key: u8) -> BTreeSet<u64> {
        self.of(|state| matches!(state, State::Pending(own, _) if own == key))
    }

    fn limbo(&self, key: u8) -> BTreeSet<u64> {
        self.of(|state| state == State::Limbo(key))
    }

    fn keys_pending(&self) -> BTreeMap<u8, Option<u64>> {
        self.0
            .iter()
            .filter_map(|state| if let State::Pending(key, deadline) = state { Some((*key, *deadline)) } else { None })
            .collect()
    }
}

fn numbers(extents: &[Extent]) -> BTreeSet<u64> {
    extents.iter().flat_map(|extent| extent.range()).collect()
}

proptest! {
    #[test]
    fn each_block_is_in_one_state(steps in proptest::collection::vec(step(), 1..80)) {
        let mut blocks: Blocks<u8> = Blocks::new(COUNT, LIMIT);
        let mut model = Model([State::Free; COUNT as usize]);
        for step in steps {
            match step {
                Step::Reserve { key, count, deadline } => {
                    let free = model.of(|state| state == State::Free);
                    let result = blocks.reserve(key, count, deadline.map(Deadline)).map(<[Extent]>::to_vec);
                    let expected = if count == 0 {
                        Some(BlocksError::Nothing)
                    } else if count > free.len() as u64 {
                        Some(BlocksError::NoRoom { free: free.len() as u64 })
                    } else if !model.pending(key).is_empty() {
                        Some(BlocksError::Key(ReserveError::Pending))
                    } else if !model.limbo(key).is_empty() {
                        Some(BlocksError::Key(ReserveError::Limbo))
                    } else if model.keys_pending().len() >= LIMIT {
                        Some(BlocksError::Key(ReserveError::Full { limit: LIMIT }))
                    } else {
                        None
                    };
                    prop_assert_eq!(result.clone().err(), expected);
                    if let Ok(extents) = result {
                        let chosen = numbers(&extents);
                        prop_assert_eq!(extents.iter().map(|extent| extent.count).sum::<u64>(), count);
                        prop_assert_eq!(chosen.len() as u64, count, "no block twice");
                        prop_assert!(chosen.is_subset(&free));
                        model.set(&chosen, State::Pending(key, deadline));
                    }
                }
                Step::Commit(key) => {
                    let pending = model.pending(key);
                    let committed = blocks.commit(key).map(|extents| numbers(&extents));
                    prop_assert_eq!(committed, (!pending.is_empty()).then(|| pending.clone()));
                    model.set(&pending, State::Published);
                }
                Step::Revoke(key) => {
                    let pending = model.pending(key);
                    prop_assert_eq!(blocks.revoke(key), !pending.is_empty());
                    model.set(&pending, State::Limbo(key));
                }
                Step::Expire(now) => {
                    let due = |deadline: Option<u64>| deadline.is_some_and(|deadline| deadline <= now);
                    let keys: BTreeSet<u8> = model.keys_pending().into_iter().filter(|(_, at)| due(*at)).map(|(key, _)| key).collect();
                    let expired: BTreeSet<u8> = blocks.expire(Deadline(now)).into_iter().collect();
                    prop_assert_eq!(&expired, &keys);
                    for key in keys {
                        let pending = model.pending(key);
                        model.set(&pending, State::Limbo(key));
                    }
                }
                Step::Release { key, first, count } => {
                    let range: BTreeSet<u64> = (first..first + count).collect();
                    let is_known = !model.pending(key).is_empty() || !model.limbo(key).is_empty();
                    let is_published = range.is_subset(&model.of(|state| state == State::Published));
                    let before = blocks.clone();
                    let result = blocks.release(key, vec![extent(first, count)]);
                    prop_assert_eq!(result.is_ok(), !is_known && is_published);
                    match result {
                        Ok(()) => model.set(&range, State::Limbo(key)),
                        Err(_) => prop_assert_eq!(&blocks, &before),
                    }
                }
                Step::Drained(key) => {
                    let limbo = model.limbo(key);
                    prop_assert_eq!(blocks.drained(key), !limbo.is_empty());
                    model.set(&limbo, State::Free);
                }
            }
            let free = model.of(|state| state == State::Free);
            prop_assert_eq!(blocks.free(), free.len() as u64);
            prop_assert_eq!(numbers(&blocks.free_runs().collect::<Vec<_>>()), free);
            let published = model.of(|state| state == State::Published);
            prop_assert_eq!(numbers(&blocks.published_runs().collect::<Vec<_>>()), published);
        }
    }
}
