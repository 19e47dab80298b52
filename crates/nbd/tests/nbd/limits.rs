//! How much is in flight.

use nbd::{ALLOWANCE_BYTES, ALLOWANCE_REQUESTS, Export, MAX_PAYLOAD_BYTES, NbdConfig};
use std::sync::Arc;

use crate::client::{Client, FLUSH, READ, Rig, request, write};
use crate::memory::Memory;
use crate::scripted::Scripted;

const SIZE: u64 = 64 << 20;

fn rig_with(export: &Arc<Scripted>, set: impl FnOnce(&mut nbd::Limits)) -> Rig {
    let mut config = NbdConfig::default();
    set(&mut config.limits);
    Rig::new(vec![export.clone() as Arc<dyn Export>], config)
}

/// Lets all tasks run until nothing moves.
async fn settle(export: &Scripted) -> usize {
    let mut before = usize::MAX;
    for _ in 0..1000 {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        if before == export.note_count() {
            break;
        }
        before = export.note_count();
    }
    before
}

async fn send_all(client: &mut Client, requests: Vec<Vec<u8>>) {
    for request in requests {
        client.send(&request).await;
    }
}

#[tokio::test]
async fn requests_of_a_connection() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = rig_with(&export, |limits| limits.requests_per_connection = 5);
    let mut client = rig.enter_simple().await;
    send_all(&mut client, (0..12).map(|cookie| request(0, FLUSH, cookie, 0, 0)).collect()).await;
    assert_eq!(settle(&export).await, 1 + 5);
    export.let_pass(3);
    for cookie in 0..3 {
        assert_eq!(client.reply().await.cookie(), cookie);
    }
    assert_eq!(settle(&export).await, 1 + 8);
    export.let_pass(9);
    for cookie in 3..12 {
        assert_eq!(client.reply().await.cookie(), cookie);
    }
    client.leave().await;
}

#[tokio::test]
async fn bytes_of_a_connection() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = rig_with(&export, |limits| limits.bytes_per_connection = 0);
    let mut client = rig.enter().await;
    // The longest payload is the least that can be set.
    let part = MAX_PAYLOAD_BYTES / 4;
    let reads = (0..6).map(|cookie| request(4, READ, cookie, u64::from(part) * cookie, part)).collect();
    send_all(&mut client, reads).await;
    assert_eq!(settle(&export).await, 1 + 4);
    export.let_pass(6);
    for cookie in 0..6 {
        assert_eq!(client.reply().await.cookie(), cookie);
    }
    client.leave().await;
}

#[tokio::test]
async fn what_all_connections_share() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = rig_with(&export, |limits| (limits.shared_requests, limits.shared_bytes) = (4, 0));
    let flushes = |count: usize| (0..count as u64).map(|cookie| request(0, FLUSH, cookie, 0, 0)).collect();
    let mut greedy = rig.enter_simple().await;
    send_all(&mut greedy, flushes(100)).await;
    assert_eq!(settle(&export).await, 1 + ALLOWANCE_REQUESTS + 4);
    // The pool is used up; another connection has its allowance.
    let mut other = rig.enter_simple().await;
    send_all(&mut other, flushes(100)).await;
    assert_eq!(settle(&export).await, 1 + 2 * ALLOWANCE_REQUESTS + 4);
    export.let_pass(200);
    for cookie in 0..100 {
        assert_eq!((greedy.reply().await.cookie(), other.reply().await.cookie()), (cookie, cookie));
    }
    greedy.leave().await;
    other.leave().await;
    assert_eq!(export.take_notes().len(), 202);
}

#[tokio::test]
async fn a_payload_that_finds_no_memory_waits_in_the_socket() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = rig_with(&export, |limits| limits.shared_bytes = 0);
    let mut greedy = rig.enter().await;
    // All of the pool, and the allowance.
    greedy.send(&request(4, READ, 1, 0, MAX_PAYLOAD_BYTES)).await;
    greedy.send(&request(4, READ, 2, 0, ALLOWANCE_BYTES as u32)).await;
    assert_eq!(settle(&export).await, 1 + 2);
    let mut other = rig.enter().await;
    let small = vec![1; ALLOWANCE_BYTES];
    other.send(&write(0, 1, 0, &small)).await;
    assert_eq!(settle(&export).await, 1 + 3, "its allowance is its own");
    // A large one has to wait for the pool, and comes in when there is room.
    let large = write(0, 2, 1 << 20, &vec![2; 1 << 20]);
    let (head, rest) = large.split_at(60_000);
    other.send(head).await;
    assert_eq!(settle(&export).await, 1 + 3);
    export.let_pass(3);
    assert_eq!((greedy.reply().await.cookie(), greedy.reply().await.cookie()), (1, 2));
    assert_eq!(other.reply().await.cookie(), 1);
    other.send(rest).await;
    export.let_pass(1);
    assert_eq!(other.reply().await.cookie(), 2);
    greedy.leave().await;
    other.leave().await;
}
