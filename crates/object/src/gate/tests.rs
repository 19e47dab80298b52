use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};

use super::{CloseError, Gate, Removed};

/// Whether a future has to wait for somebody else.
fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[tokio::test]
async fn closing_waits_for_writes_inside_and_writes_wait_for_the_outcome() {
    let gate = Arc::new(Gate::default());
    let inside = gate.enter().await.expect("open");
    let mut closing = Box::pin(gate.close());
    assert!(is_pending(&mut closing), "a write is inside");
    let mut entering = Box::pin(gate.enter());
    assert!(is_pending(&mut entering), "the gate is closing");
    drop(inside);
    let closed = closing.await.expect("drained");
    assert!(is_pending(&mut entering), "the gate is closed");
    assert!(matches!(gate.close().await, Err(CloseError::Busy)));
    drop(closed);
    entering.await.expect("open again");
}

#[tokio::test]
async fn a_removed_bucket_lets_nobody_in() {
    let gate = Arc::new(Gate::default());
    let closed = gate.close().await.expect("nobody is inside");
    let mut entering = Box::pin(gate.enter());
    assert!(is_pending(&mut entering));
    closed.remove();
    assert_eq!(entering.await.map(|_| ()), Err(Removed));
    assert_eq!(gate.enter().await.map(|_| ()), Err(Removed));
    assert!(matches!(gate.close().await, Err(CloseError::Removed)));
}

#[tokio::test]
async fn an_abandoned_close_opens_again() {
    let gate = Arc::new(Gate::default());
    let inside = gate.enter().await.expect("open");
    let mut closing = Box::pin(gate.close());
    assert!(is_pending(&mut closing));
    drop(closing);
    gate.enter().await.expect("open again");
    drop(inside);
    gate.close().await.expect("nobody is inside");
}

#[tokio::test]
async fn a_drain_waits_for_writes_and_not_for_who_has_closed_the_gate() {
    let gate = Arc::new(Gate::default());
    let inside = gate.enter().await.expect("open");
    let mut closing = Box::pin(gate.close());
    assert!(is_pending(&mut closing));
    let (mut first, mut second) = (Box::pin(gate.drain()), Box::pin(gate.drain()));
    assert!(is_pending(&mut first) && is_pending(&mut second), "a write is inside");
    drop(closing);
    assert!(is_pending(&mut first), "open again, with the write inside");
    drop(inside);
    first.await;
    second.await;
    let closed = gate.close().await.expect("open");
    gate.drain().await;
    closed.remove();
    gate.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_inside_a_closed_gate() {
    let gate = Arc::new(Gate::default());
    let (inside, writes, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut writers = Vec::new();
    for _ in 0..4 {
        let (gate, inside, writes, stop) = (gate.clone(), inside.clone(), writes.clone(), stop.clone());
        writers.push(tokio::spawn(async move {
            while !stop.load(Ordering::Acquire) {
                let entered = gate.enter().await.expect("never removed");
                inside.fetch_add(1, Ordering::AcqRel);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::AcqRel);
                drop(entered);
                writes.fetch_add(1, Ordering::AcqRel);
            }
        }));
    }
    for round in 0..500 {
        let closed = gate.close().await.expect("one closer");
        for _ in 0..3 {
            assert_eq!(inside.load(Ordering::Acquire), 0, "round {round}");
            tokio::task::yield_now().await;
        }
        let before = writes.load(Ordering::Acquire);
        drop(closed);
        while writes.load(Ordering::Acquire) == before {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::Release);
    for writer in writers {
        writer.await.expect("a writer ends");
    }
}
