use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::FutureExt;

use super::Admissions;

#[tokio::test]
async fn a_drain_waits_for_those_before_it_and_not_for_those_after() {
    let admissions = Admissions::default();
    let before = admissions.enter();
    let mut drain = Box::pin(admissions.drain());
    assert!(drain.as_mut().now_or_never().is_none());
    let after = admissions.enter();
    assert_eq!(admissions.inside(), 2);
    drop(before);
    drain.await;
    assert_eq!(admissions.inside(), 1);
    drop(after);
    admissions.drain().await;
}

#[tokio::test]
async fn a_drain_that_was_dropped_leaves_its_work_to_the_next() {
    let admissions = Admissions::default();
    let before = admissions.enter();
    assert!(admissions.drain().now_or_never().is_none(), "dropped while it waits");
    let mut drain = Box::pin(admissions.drain());
    assert!(drain.as_mut().now_or_never().is_none(), "who was inside still is");
    drop(before);
    drain.await;
}

/// Threads enter, look at a fence and then do something that must not happen after the fence was raised and drained.
#[test]
fn after_a_raise_and_a_drain_nobody_who_missed_the_fence_is_inside() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    let admissions = Arc::new(Admissions::default());
    let fence = Arc::new(AtomicUsize::new(0));
    // How many are inside by the fence of each round's parity.
    let acting = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let stop = Arc::new(AtomicBool::new(false));
    let entered = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (admissions, fence, acting) = (admissions.clone(), fence.clone(), acting.clone());
            let (stop, entered) = (stop.clone(), entered.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let ticket = admissions.enter();
                    let seen = fence.load(Ordering::SeqCst) % 2;
                    acting[seen].fetch_add(1, Ordering::SeqCst);
                    std::hint::spin_loop();
                    acting[seen].fetch_sub(1, Ordering::SeqCst);
                    drop(ticket);
                    entered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // On a busy machine the threads may get their turn late.
    let mut rounds = 0;
    while rounds < 2000 || entered.load(Ordering::Relaxed) < 2000 {
        rounds += 1;
        let old = fence.fetch_add(1, Ordering::SeqCst) % 2;
        runtime.block_on(admissions.drain());
        assert_eq!(acting[old].load(Ordering::SeqCst), 0, "somebody acts by the old fence after the drain");
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a thread ends well");
    }
    assert_eq!(admissions.inside(), 0);
}
