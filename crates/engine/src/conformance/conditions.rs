//! Conditional writes, alone and against each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use smallvec::smallvec;
use tokio::task::JoinSet;
use types::limits::CHUNK_BYTES;

use super::Engine;
use super::support::{attributes, get, key, must_be, must_be_absent, put, put_as, tag};
use crate::condition::{Condition, ETagMatch};
use crate::error::EngineError;

/// Concurrent writers of the races.
const WRITERS: u64 = 8;
/// Increments that each of them makes.
const INCREMENTS: u64 = 25;
/// The tag that blind writers use, never a counter's.
const BLIND: u64 = 1 << 40;

fn matching_one(number: u64) -> Condition {
    Condition::Match(ETagMatch::OneOf(vec![tag(number)]))
}

fn is_unmet<T: std::fmt::Debug>(outcome: &Result<T, EngineError>) -> bool {
    matches!(outcome, Err(EngineError::PreconditionFailed))
}

fn is_not_found<T: std::fmt::Debug>(outcome: &Result<T, EngineError>) -> bool {
    matches!(outcome, Err(EngineError::NotFound))
}

pub(super) async fn absent(engine: Engine) {
    let name = key("lock");
    put_as(&engine, &name, 1, 10, Condition::Absent).await.expect("the key is absent");
    let second = put_as(&engine, &name, 2, 10, Condition::Absent).await;
    assert!(is_unmet(&second), "{second:?}");
    must_be(&engine, &name, 1, 10).await;
    engine.delete(&name, Condition::None).await.expect("delete");
    put_as(&engine, &name, 3, 10, Condition::Absent).await.expect("the key is absent again");
    must_be(&engine, &name, 3, 10).await;
}

pub(super) async fn matching(engine: Engine) {
    let name = key("versioned");
    for condition in [matching_one(1), Condition::Match(ETagMatch::Any)] {
        let outcome = put_as(&engine, &name, 1, 10, condition).await;
        assert!(is_not_found(&outcome), "{outcome:?}");
    }
    must_be_absent(&engine, &name).await;

    put(&engine, "versioned", 1, 10).await;
    let outcome = put_as(&engine, &name, 2, 10, matching_one(5)).await;
    assert!(is_unmet(&outcome), "{outcome:?}");
    must_be(&engine, &name, 1, 10).await;
    put_as(&engine, &name, 2, 20, matching_one(1)).await.expect("the tag matches");
    let either = Condition::Match(ETagMatch::OneOf(vec![tag(9), tag(2)]));
    put_as(&engine, &name, 3, 30, either).await.expect("one of the tags matches");
    put_as(&engine, &name, 4, 40, Condition::Match(ETagMatch::Any)).await.expect("there is an object");
    must_be(&engine, &name, 4, 40).await;
}

pub(super) async fn none_matching(engine: Engine) {
    let name = key("changed");
    put_as(&engine, &name, 1, 10, Condition::NoneMatch(vec![tag(1)])).await.expect("an absent key has no tag");
    let outcome = put_as(&engine, &name, 2, 10, Condition::NoneMatch(vec![tag(3), tag(1)])).await;
    assert!(is_unmet(&outcome), "{outcome:?}");
    must_be(&engine, &name, 1, 10).await;
    put_as(&engine, &name, 2, 10, Condition::NoneMatch(vec![tag(3)])).await.expect("the tag is another");
    must_be(&engine, &name, 2, 10).await;
}

pub(super) async fn of_large_objects(engine: Engine) {
    let name = key("large");
    let length = CHUNK_BYTES + 9;
    put_as(&engine, &name, 1, length, Condition::Absent).await.expect("the key is absent");
    let outcome = put_as(&engine, &name, 2, length, Condition::Absent).await;
    assert!(is_unmet(&outcome), "{outcome:?}");
    let outcome = put_as(&engine, &name, 2, length, matching_one(7)).await;
    assert!(is_unmet(&outcome), "{outcome:?}");
    must_be(&engine, &name, 1, length).await;
    put_as(&engine, &name, 2, length, matching_one(1)).await.expect("the tag matches");
    must_be(&engine, &name, 2, length).await;
    let outcome = put_as(&engine, &key("no"), 2, length, matching_one(1)).await;
    assert!(is_not_found(&outcome), "{outcome:?}");
}

pub(super) async fn of_deletes(engine: Engine) {
    let name = key("guarded");
    let outcome = engine.delete(&name, matching_one(1)).await;
    assert!(is_not_found(&outcome), "{outcome:?}");
    put(&engine, "guarded", 1, 10).await;
    let outcome = engine.delete(&name, matching_one(2)).await;
    assert!(is_unmet(&outcome), "{outcome:?}");
    must_be(&engine, &name, 1, 10).await;
    engine.delete(&name, matching_one(1)).await.expect("the tag matches");
    must_be_absent(&engine, &name).await;
}

pub(super) async fn one_of_many_creators_wins(engine: Engine) {
    for round in 0..20 {
        let name = key(&format!("race/{round}"));
        let mut writers = JoinSet::new();
        for number in 0..WRITERS {
            let (engine, name) = (engine.clone(), name.clone());
            let length = if number % 4 == 3 { CHUNK_BYTES + 1 } else { 100 };
            writers.spawn(async move { (number, length, put_as(&engine, &name, number, length, Condition::Absent).await) });
        }
        let mut winners = Vec::new();
        while let Some(joined) = writers.join_next().await {
            match joined.expect("a writer ends") {
                (number, length, Ok(_)) => winners.push((number, length)),
                (number, _, outcome) => assert!(is_unmet(&outcome), "writer {number}: {outcome:?}"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: one creator wins, not {winners:?}");
        must_be(&engine, &name, winners[0].0, winners[0].1).await;
    }
}

/// Adds one to the counter whose value is its tag, by compare and swap.
async fn increment(engine: &Engine, name: &crate::ObjectKey) {
    loop {
        let seen = match engine.info(name).await {
            Ok(info) => info.attributes.etag,
            Err(error) => panic!("the counter is there: {error}"),
        };
        let value = u128::from_be_bytes(*seen.digest()) as u64;
        let bytes = Bytes::from((value + 1).to_be_bytes().to_vec());
        let condition = Condition::Match(ETagMatch::OneOf(vec![seen]));
        match engine.put(name, attributes(value + 1), smallvec![bytes], condition).await {
            Ok(_) => return,
            Err(EngineError::PreconditionFailed) => tokio::task::yield_now().await,
            Err(error) => panic!("increment of {value}: {error}"),
        }
    }
}

async fn increment_together(engine: &Engine, name: &crate::ObjectKey) {
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (engine, name) = (engine.clone(), name.clone());
        writers.spawn(async move {
            for _ in 0..INCREMENTS {
                increment(&engine, &name).await;
            }
        });
    }
    while let Some(joined) = writers.join_next().await {
        joined.expect("a writer ends");
    }
}

pub(super) async fn no_increment_is_lost(engine: Engine) {
    let name = key("counter");
    engine.put(&name, attributes(0), smallvec![Bytes::from_static(&[0; 8])], Condition::None).await.expect("put");
    increment_together(&engine, &name).await;
    let info = engine.info(&name).await.expect("info");
    assert_eq!(info.attributes.etag, tag(WRITERS * INCREMENTS), "every increment counts once");
}

/// A swap replaces the version that it matched: no blind write stands between the two, whichever way they raced.
pub(super) async fn swaps_replace_what_they_matched(engine: Engine) {
    let name = key("contested");
    put_as(&engine, &name, BLIND, 64, Condition::None).await.expect("put");
    let stop = Arc::new(AtomicBool::new(false));
    let mut blind_writers = JoinSet::new();
    for writer in 0..2 {
        let (engine, name, stop) = (engine.clone(), name.clone(), stop.clone());
        blind_writers.spawn(async move {
            let mut orders = Vec::new();
            while !stop.load(Ordering::Acquire) {
                // Not the number of the first put: a tag is that of one put.
                let number = BLIND + 1 + 2 * orders.len() as u64 + writer;
                orders.push(put_as(&engine, &name, number, 64, Condition::None).await.expect("a blind put succeeds").order);
                tokio::task::yield_now().await;
            }
            orders
        });
    }
    let mut swaps = Vec::new();
    for attempt in 0..400 {
        let matched = engine.info(&name).await.expect("info");
        let condition = Condition::Match(ETagMatch::OneOf(vec![matched.attributes.etag]));
        match put_as(&engine, &name, attempt, 64, condition).await {
            Ok(committed) => swaps.push((matched.order, committed.order)),
            Err(EngineError::PreconditionFailed) => {}
            Err(error) => panic!("attempt {attempt}: {error}"),
        }
    }
    stop.store(true, Ordering::Release);
    while let Some(joined) = blind_writers.join_next().await {
        for order in joined.expect("a writer ends") {
            let lost = swaps.iter().find(|(matched, swapped)| *matched < order && order < *swapped);
            assert!(lost.is_none(), "the blind write {order:?} was replaced unseen by the swap {lost:?}");
        }
    }
    assert!(swaps.iter().all(|(matched, swapped)| matched < swapped), "a swap stands after what it replaced");
}

pub(super) async fn one_of_many_deleters_wins(engine: Engine) {
    for round in 0..20 {
        let name = key(&format!("race/{round}"));
        put_as(&engine, &name, 1, 100, Condition::None).await.expect("put");
        let mut deleters = JoinSet::new();
        for _ in 0..WRITERS {
            let (engine, name) = (engine.clone(), name.clone());
            deleters.spawn(async move { engine.delete(&name, matching_one(1)).await });
        }
        let mut winners = 0;
        while let Some(joined) = deleters.join_next().await {
            match joined.expect("a deleter ends") {
                Ok(()) => winners += 1,
                outcome => assert!(is_not_found(&outcome), "{outcome:?}"),
            }
        }
        assert_eq!(winners, 1, "round {round}");
        must_be_absent(&engine, &name).await;
    }
}

/// One writer counts up; what readers see only grows, and never lags behind what was acknowledged before they asked.
pub(super) async fn readers_never_go_back(engine: Engine) {
    read_while_written(engine, true).await;
}

/// The same without the first: what readers see never lags behind what was acknowledged before they asked.
pub(super) async fn readers_see_what_was_acknowledged(engine: Engine) {
    read_while_written(engine, false).await;
}

async fn read_while_written(engine: Engine, is_monotonic: bool) {
    let name = key("growing");
    put_as(&engine, &name, 0, 200, Condition::None).await.expect("put");
    let acknowledged = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let (engine, name) = (engine.clone(), name.clone());
        let (acknowledged, stop) = (acknowledged.clone(), stop.clone());
        readers.spawn(async move {
            let mut last = 0;
            while !stop.load(Ordering::Acquire) {
                let seen_before = if is_monotonic { last } else { 0 };
                let floor = acknowledged.load(Ordering::Acquire).max(seen_before);
                let seen = get(&engine, &name).await.expect("get");
                last = u128::from_be_bytes(*seen.etag.digest()) as u64;
                assert!(last >= floor, "read {last} after {floor} was acknowledged or seen");
                tokio::task::yield_now().await;
            }
        });
    }
    for number in 1..=150 {
        let length = if number % 25 == 0 { CHUNK_BYTES + 1 } else { 200 };
        put_as(&engine, &name, number, length, Condition::None).await.expect("put");
        acknowledged.store(number, Ordering::Release);
    }
    stop.store(true, Ordering::Release);
    while let Some(joined) = readers.join_next().await {
        joined.expect("a reader ends");
    }
}
