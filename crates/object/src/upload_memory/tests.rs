use std::future::poll_fn;
use std::task::Poll;

use env::Env;
use futures_util::FutureExt;
use futures_util::poll;
use types::limits::CHUNK_BYTES;

use super::{Holder, LEAST_UPLOAD_MEMORY, Lent, MOST_BY_DEFAULT, ROOM_PATIENCE, Taken, UploadMemory};
use crate::error::ObjectError;

const HALF: usize = CHUNK_BYTES / 2;

fn memory() -> UploadMemory {
    UploadMemory::new(CHUNK_BYTES, &Env::simulated(1))
}

async fn lent(holder: &mut Holder, bytes: usize) -> Lent {
    match holder.take(bytes).await.expect("room") {
        Taken::Lent(lent) => lent,
        Taken::Asked => panic!("asked while there was room"),
    }
}

fn used(memory: &UploadMemory) -> (u64, u64) {
    let stats = memory.stats();
    (stats.used_bytes, stats.waiting)
}

#[test]
fn a_share_of_the_machine_within_bounds() {
    let bytes = |gibibytes: u64| UploadMemory::default_bytes(gibibytes << 30);
    assert_eq!(bytes(0), LEAST_UPLOAD_MEMORY);
    assert_eq!(bytes(1), 128 * 1024 * 1024);
    assert_eq!(bytes(1024), MOST_BY_DEFAULT);
}

#[tokio::test(start_paused = true)]
async fn a_take_waits_until_memory_comes_back() {
    let memory = memory();
    let (mut first, mut second) = (memory.holder(), memory.holder());
    let (one, two) = (lent(&mut first, HALF).await, lent(&mut first, HALF).await);
    first.hand_over();
    let mut waiting = Box::pin(second.take(HALF));
    assert!(poll!(&mut waiting).is_pending());
    assert_eq!(used(&memory), (CHUNK_BYTES as u64, 1));
    drop(one);
    let Ok(Taken::Lent(third)) = waiting.await else { panic!("granted what came back") };
    assert_eq!(used(&memory), (CHUNK_BYTES as u64, 0));
    drop((two, third));
    assert_eq!(used(&memory), (0, 0));
    assert_eq!(memory.stats().peak_bytes, CHUNK_BYTES as u64);
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_is_woken_to_make_room() {
    let memory = memory();
    let (mut silent, mut other) = (memory.holder(), memory.holder());
    let held = lent(&mut silent, CHUNK_BYTES).await;
    let asked = tokio::spawn(async move {
        poll_fn(|cx| silent.poll_asked(cx)).await;
        silent.hand_over();
        drop(held);
        silent
    });
    tokio::task::yield_now().await;
    assert!(!asked.is_finished(), "asked without need");
    let third = lent(&mut other, HALF).await;
    let mut silent = asked.await.expect("woken");
    assert!(poll_fn(|cx| Poll::Ready(silent.poll_asked(cx).is_pending())).await, "it did what it was asked");
    assert_eq!(used(&memory), (HALF as u64, 0));
    drop(third);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_waits_is_asked_for_its_own_chunk() {
    let memory = memory();
    let mut holder = memory.holder();
    let held = lent(&mut holder, HALF + 1).await;
    assert!(matches!(holder.take(HALF).await, Ok(Taken::Asked)));
    holder.hand_over();
    drop(held);
    // It goes on with what it wanted first.
    assert_eq!(lent(&mut holder, 1).await.bytes(), HALF);
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let memory = memory();
    let (mut writing, mut waiting) = (memory.holder(), memory.holder());
    let held = lent(&mut writing, CHUNK_BYTES).await;
    writing.hand_over();
    let env = Env::simulated(2);
    let before = env.now();
    let outcome = waiting.take(1).await.map(|_| ());
    assert!(matches!(outcome, Err(ObjectError::SlowDown { .. })), "{outcome:?}");
    assert!(env.now() - before >= ROOM_PATIENCE);
    assert_eq!(memory.stats().refused, 1);
    drop(waiting);
    assert_eq!(used(&memory), (CHUNK_BYTES as u64, 0), "it waits no longer");
    drop(held);
    assert_eq!(used(&memory), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_granted_to_an_upload_that_is_gone_comes_back() {
    let memory = memory();
    let (mut writing, mut gone) = (memory.holder(), memory.holder());
    let held = lent(&mut writing, CHUNK_BYTES).await;
    writing.hand_over();
    assert!(gone.take(HALF).now_or_never().is_none());
    drop(held);
    assert_eq!(used(&memory), (HALF as u64, 0), "granted");
    drop(gone);
    assert_eq!(used(&memory), (0, 0));
}
