use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use env::Env;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::{Acquire, Mode, RangeGuard, RangeLocks};

fn poll<'a>(acquire: &mut std::pin::Pin<&mut Acquire<'a>>) -> Option<RangeGuard<'a>> {
    match acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(guard) => Some(guard),
        Poll::Pending => None,
    }
}

fn now(locks: &RangeLocks, range: Range<u32>, mode: Mode) -> Option<RangeGuard<'_>> {
    poll(&mut pin!(locks.acquire(0, range, mode)))
}

#[test]
fn what_does_not_conflict_runs_at_the_same_time() {
    let locks = RangeLocks::default();
    let _a = now(&locks, 0..10, Mode::Exclusive).unwrap();
    let _b = now(&locks, 10..20, Mode::Exclusive).unwrap();
    let _c = now(&locks, 20..30, Mode::Shared).unwrap();
    let _d = now(&locks, 25..30, Mode::Shared).unwrap();
    let _other_part = poll(&mut pin!(locks.acquire(1, 0..10, Mode::Exclusive))).unwrap();
    assert!(now(&locks, 9..11, Mode::Shared).is_none());
    assert!(now(&locks, 29..30, Mode::Exclusive).is_none());
}

#[test]
fn the_order_of_arrival_counts() {
    let locks = RangeLocks::default();
    let first = now(&locks, 0..10, Mode::Shared).unwrap();
    let mut writer = pin!(locks.acquire(0, 0..20, Mode::Exclusive));
    assert!(poll(&mut writer).is_none());
    // It would fit beside the first, and waits behind the writer all the same: readers starve no writer.
    let mut reader = pin!(locks.acquire(0, 5..6, Mode::Shared));
    assert!(poll(&mut reader).is_none());
    drop(first);
    let writing = poll(&mut writer).unwrap();
    assert!(poll(&mut reader).is_none());
    drop(writing);
    assert!(poll(&mut reader).is_some());
}

#[test]
fn a_lock_that_was_given_up_while_it_waited_holds_no_other_up() {
    let locks = RangeLocks::default();
    let first = now(&locks, 0..10, Mode::Shared).unwrap();
    {
        let mut writer = pin!(locks.acquire(0, 0..10, Mode::Exclusive));
        assert!(poll(&mut writer).is_none());
        assert!(now(&locks, 0..1, Mode::Shared).is_none());
    }
    let second = now(&locks, 0..1, Mode::Shared).unwrap();
    drop((first, second));
    assert_eq!(locks.entries(), 0, "nothing is left");
}

#[test]
fn a_narrower_lock_lets_others_in() {
    let locks = RangeLocks::default();
    let mut whole = now(&locks, 0..100, Mode::Exclusive).unwrap();
    let mut other = pin!(locks.acquire(0, 50..60, Mode::Exclusive));
    assert!(poll(&mut other).is_none());
    whole.narrow(0..50);
    assert!(poll(&mut other).is_some());
    assert!(whole.covers(&(10..50)) && !whole.covers(&(10..51)));
}

/// A range that a task of a test has.
type Taken = (Range<u32>, Mode);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// All get their turn, and no two that conflict at the same time.
    #[test]
    fn conflicting_locks_exclude_each_other(
        seed: u64,
        requests in proptest::collection::vec((0u32..32, 1u32..16, any::<bool>(), 0u64..20), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let env = Env::simulated(seed);
            let locks = Arc::new(RangeLocks::default());
            let held: Arc<Mutex<Vec<Taken>>> = Arc::default();
            let tasks = requests.into_iter().map(|(start, length, is_shared, millis)| {
                let (env, locks, held) = (env.clone(), locks.clone(), held.clone());
                let mode = if is_shared { Mode::Shared } else { Mode::Exclusive };
                tokio::spawn(async move {
                    env.sleep(std::time::Duration::from_millis(millis)).await;
                    let range = start..start + length;
                    let guard = locks.acquire(0, range.clone(), mode).await;
                    {
                        let mut held = held.lock();
                        let conflict = held.iter().find(|(other, other_mode)| {
                            let overlaps = other.start < range.end && range.start < other.end;
                            overlaps && (mode, *other_mode) != (Mode::Shared, Mode::Shared)
                        });
                        assert_eq!(conflict, None);
                        held.push((range.clone(), mode));
                    }
                    env.sleep(std::time::Duration::from_millis(env.random_below(5))).await;
                    let mut held = held.lock();
                    let at = held.iter().position(|other| *other == (range.clone(), mode)).unwrap();
                    held.remove(at);
                    drop(guard);
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            assert_eq!(locks.entries(), 0);
        });
    }
}
