//! What a sound store does.

use bytes::Bytes;
use disk::{CompletionOrder, Disk, Fault, FaultRule, Operation};
use format::chunk_block::{BLOCK_DATA_BYTES, Era};
use futures_util::future::join_all;
use futures_util::{FutureExt, pin_mut};

use super::support::{BLOCKS, Rig, bytes};
use crate::blocks::limits::MAX_REQUEST_BYTES;
use crate::limits::MAX_WAITING_PER_BLOCK;
use crate::message::{Mark, NodeAnswer, NodeRefusal, NodeRequest};
use crate::storage_node::tests::rig::{SHARD, done, end, erase, forget, id, live, put, text, write};

#[tokio::test(start_paused = true)]
async fn what_was_done_is_found_by_the_next_process() {
    let mut rig = Rig::new(1).await;
    assert_eq!(rig.ask(0, id(1), put(100, "first")).await, done(live(0)));
    assert_eq!(rig.ask(2, id(2), put(5_000, "second")).await, done(live(0)));
    assert_eq!(rig.ask(2, id(3), put(100, "third")).await, done(live(0)));
    assert_eq!(rig.ask(2, id(2), write(0, 4, "changed")).await, done(live(4)));
    assert_eq!(rig.ask(2, id(3), end(0)).await, done(Mark::Dead));
    assert_eq!(rig.ask(1, id(4), erase(0, 0)).await, done(Mark::Dead));
    for _ in 0..2 {
        assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"first");
        assert_eq!(rig.content(2, id(2)).await.expect("alive"), b"changed");
        assert_eq!(rig.content(1, id(2)).await, Err(NodeAnswer::Absent), "it is in another block");
        assert!(matches!(rig.content(2, id(3)).await, Err(NodeAnswer::Dead { .. })));
        assert_eq!(rig.store.freed(SHARD, 10), [id(3), id(4)]);
        assert_eq!(rig.ask(rig.store.block_count(), id(1), NodeRequest::Read).await, NodeAnswer::Absent);
        rig = rig.crash().await;
    }
    assert_eq!(rig.ask(2, id(3), forget(0, 4, 0)).await, NodeAnswer::Done(None));
    let rig = rig.crash().await;
    assert_eq!(rig.ask(2, id(3), put(100, "late")).await, NodeAnswer::Refused(NodeRefusal::Resolved));
    assert_eq!(rig.store.freed(SHARD, 10), [id(4)]);
    let stats = rig.store.stats();
    assert_eq!((stats.requests, stats.refused, stats.damaged, stats.blocks_damaged), (1, 1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn contents_of_all_lengths_come_back() {
    let rig = Rig::new(2).await;
    let lengths = [0, 1, 4_095, 4_096, 4_097, 100_000, 1 << 20];
    for (number, len) in (1..).zip(lengths) {
        let (capacity, content) = (len as u32 + 1, bytes(number, len));
        assert_eq!(
            rig.ask(0, id(number), NodeRequest::Put { era: Era::default(), capacity, content }).await,
            done(live(0)),
            "{len} bytes"
        );
    }
    let all = bytes(99, BLOCK_DATA_BYTES as usize);
    let whole = NodeRequest::Put { era: Era::default(), capacity: BLOCK_DATA_BYTES, content: all.clone() };
    assert_eq!(rig.ask(1, id(99), whole).await, done(live(0)));
    let rig = rig.crash().await;
    for (number, len) in (1..).zip(lengths) {
        assert!(rig.content(0, id(number)).await.expect("alive") == bytes(number, len), "{len} bytes");
    }
    assert!(rig.content(1, id(99)).await.expect("alive") == all);
    let stats = rig.store.stats();
    assert_eq!((stats.reads, stats.read_bytes), (8, lengths.iter().sum::<usize>() as u64 + u64::from(BLOCK_DATA_BYTES)));
}

/// The rest of a header's slot is not written.
#[tokio::test(start_paused = true)]
async fn headers_take_only_the_device_blocks_that_have_entries() {
    let rig = Rig::new(3).await;
    let written = |rig: &Rig| rig.disk.stats().write_bytes;
    let before = written(&rig);
    rig.ask(0, id(1), put(100, "first")).await;
    assert_eq!(written(&rig) - before, 2 * 4_096, "content and header");
    for number in 2..=63 {
        rig.ask(0, id(number), erase(0, 0)).await;
    }
    for (number, expected) in [(64, 8_192), (65, 8_192)] {
        let before = written(&rig);
        rig.ask(0, id(number), erase(0, 0)).await;
        assert_eq!(written(&rig) - before, expected, "{number} entries");
    }
    let rig = rig.crash().await;
    assert_eq!(rig.store.freed(SHARD, 100).len(), 64, "a header of two device blocks is read whole");
}

#[tokio::test(start_paused = true)]
async fn many_at_once_are_all_carried_out() {
    let rig = Rig::new(4).await;
    rig.disk.set_order(CompletionOrder::Timed(std::time::Duration::from_millis(3)));
    let puts = (0..60).map(|number| rig.ask(number as u32 % BLOCKS, id(number), put(9_000, &format!("content {number}"))));
    assert!(join_all(puts).await.into_iter().all(|answer| answer == done(live(0))));
    let changes = (0..60).map(|number| rig.ask(number as u32 % BLOCKS, id(number), write(0, 1, &format!("changed {number}"))));
    assert!(join_all(changes).await.into_iter().all(|answer| answer == done(live(1))));
    let rig = rig.crash().await;
    for number in 0..60 {
        let content = rig.content(number as u32 % BLOCKS, id(number)).await.expect("alive");
        assert_eq!(content, format!("changed {number}").as_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_waits_for_is_carried_out() {
    let rig = Rig::new(5).await;
    rig.disk.set_order(CompletionOrder::Stepped);
    for (number, content) in [(1, "first"), (2, "waits for its block")] {
        let asking = rig.store.handle(0, id(number), put(100, content));
        assert!(asking.now_or_never().is_none(), "begun, and dropped");
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
        rig.disk.run_until_idle();
    }
    rig.disk.set_order(CompletionOrder::Inline);
    assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"first");
    assert_eq!(rig.content(0, id(2)).await.expect("alive"), b"waits for its block");
}

#[tokio::test(start_paused = true)]
async fn a_closed_store_has_ended_what_it_began_and_only_reads() {
    let rig = Rig::new(6).await;
    rig.ask(1, id(1), put(100, "first")).await;
    rig.disk.set_order(CompletionOrder::Stepped);
    let asking = rig.store.handle(0, id(2), put(100, "under way"));
    pin_mut!(asking);
    assert!(asking.as_mut().now_or_never().is_none());
    let closing = rig.store.close();
    pin_mut!(closing);
    assert!(closing.as_mut().now_or_never().is_none(), "something is under way");
    assert_eq!(rig.ask(1, id(3), put(100, "late")).await, NodeAnswer::Refused(NodeRefusal::Failed));
    for _ in 0..20 {
        tokio::task::yield_now().await;
        rig.disk.run_until_idle();
    }
    closing.await;
    assert_eq!(asking.await, done(live(0)));
    rig.device.seal().now_or_never();
    rig.disk.set_order(CompletionOrder::Inline);
    assert_eq!(rig.content(1, id(1)).await.expect("alive"), b"first");
}

#[tokio::test(start_paused = true)]
async fn too_much_at_once_is_refused_as_busy() {
    let rig = Rig::new(7).await;
    rig.disk.set_order(CompletionOrder::Stepped);
    let content: Bytes = vec![7; BLOCK_DATA_BYTES as usize].into();
    let fitting = MAX_REQUEST_BYTES / content.len();
    assert!(fitting < MAX_WAITING_PER_BLOCK * BLOCKS as usize, "else the blocks' limit comes first");
    for number in 0..fitting as u64 {
        let request = NodeRequest::Put { era: Era::default(), capacity: BLOCK_DATA_BYTES, content: content.clone() };
        let asking = rig.store.handle(number as u32 % BLOCKS, id(number), request);
        assert!(asking.now_or_never().is_none(), "request {number} waits");
    }
    let one_more = rig.store.handle(0, id(999), put(100, "x")).now_or_never();
    assert_eq!(one_more, Some(NodeAnswer::Refused(NodeRefusal::Busy)));
    for _ in 0..200 {
        tokio::task::yield_now().await;
        rig.disk.run_until_idle();
    }
    rig.disk.set_order(CompletionOrder::Inline);
    let answer = rig.ask(0, id(999), erase(0, 0)).await;
    assert_eq!(answer, done(Mark::Dead), "what was answered makes room");
}

/// A read that was slow meets other bytes where its content stood: it is told the new content, not that the copy is damaged.
#[tokio::test(start_paused = true)]
async fn a_read_that_is_overtaken_by_writes_reads_again() {
    let rig = Rig::new(8).await;
    rig.ask(0, id(1), put(100, "first")).await;
    let former = rig.content_place(0, id(1));
    rig.disk.set_odds(disk::FaultOdds { cache_miss: 1_000_000, ..disk::FaultOdds::default() });
    let held = FaultRule { range: Some(former..former + 4_096), ..FaultRule::next(Operation::Read, Fault::Hold) };
    rig.disk.add_rule(held);
    let reading = rig.store.handle(0, id(1), NodeRequest::Read);
    pin_mut!(reading);
    assert!(reading.as_mut().now_or_never().is_none(), "it waits for the disk");
    rig.ask(0, id(1), write(0, 1, "second")).await;
    rig.ask(0, id(2), NodeRequest::Put { era: Era::default(), capacity: 100, content: text("in its place") }).await;
    assert_eq!(rig.content_place(0, id(2)), former);
    assert_eq!(rig.disk.release(), 1);
    let NodeAnswer::Live(copy) = reading.await else { panic!("the copy is sound") };
    assert_eq!(copy.content.as_deref(), Some(&b"second"[..]));
    let stats = rig.store.stats();
    assert_eq!((stats.repeated_reads, stats.damaged), (1, 0));
}
