//! Disks that fail, and file systems that are full.

use device::AppendClass;
use disk::{Disk, Fault, FaultRule, Operation};

use super::support::{BLOCKS, Rig, slot_place};
use crate::message::{Mark, NodeAnswer, NodeRefusal, NodeRequest};
use crate::storage_node::tests::rig::{done, end, erase, forget, id, live, put, write};

const FAILED: NodeAnswer = NodeAnswer::Refused(NodeRefusal::Failed);
const FULL: NodeAnswer = NodeAnswer::Refused(NodeRefusal::Full);

/// The request's first, second or third write fails; whole or torn.
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_not_answered_as_done_and_nothing_is_written_after_it() {
    for (skip, fault) in [(0, Fault::Fail), (1, Fault::Fail), (0, Fault::FailTorn), (1, Fault::FailTorn)] {
        let rig = Rig::new(1).await;
        rig.ask(0, id(1), put(10_000, "first")).await;
        rig.ask(1, id(2), put(100, "neighbour")).await;
        rig.disk.add_rule(FaultRule { skip, ..FaultRule::next(Operation::Write, fault) });
        assert_eq!(rig.ask(0, id(1), write(0, 1, "second")).await, FAILED);
        assert!(rig.device.poisoned_by().is_some());
        let before = rig.disk.stats().writes;
        for request in [write(0, 1, "second"), write(0, 2, "third"), end(0), forget(0, 9, 9), put(100, "new")] {
            assert_eq!(rig.ask(1, id(2), request).await, FAILED);
        }
        assert_eq!(rig.disk.stats().writes, before, "nothing is tried any more");
        assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"first", "reads go on");
        let rig = rig.crash().await;
        let content = rig.content(0, id(1)).await.expect("old or new, and never in between");
        assert!(content == b"first" || content == b"second", "{content:?}");
        assert_eq!(rig.content(1, id(2)).await.expect("alive"), b"neighbour");
        assert_eq!(rig.ask(0, id(1), write(0, 3, "goes on")).await, done(live(3)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_write_that_fails_is_refused_too() {
    let rig = Rig::new(2).await;
    rig.disk.add_rule(FaultRule::always_in(0..u64::MAX, Operation::Write, Fault::Fail));
    rig.disk.set_order(disk::CompletionOrder::Timed(std::time::Duration::from_millis(2)));
    let asking = (0..5).map(|number| rig.ask(0, id(number), put(100, "content")));
    let answers = futures_util::future::join_all(asking).await;
    assert!(answers.iter().all(|answer| *answer == FAILED), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_fails_leaves_the_mark() {
    let rig = Rig::new(3).await;
    rig.ask(0, id(1), put(100, "first")).await;
    rig.ask(0, id(1), end(0)).await;
    rig.disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    assert_eq!(rig.ask(0, id(1), forget(0, 2, 0)).await, FAILED);
    let rig = rig.crash().await;
    assert!(matches!(rig.ask(0, id(1), NodeRequest::Query).await, NodeAnswer::Dead { .. }));
    assert_eq!(rig.ask(0, id(1), forget(0, 2, 0)).await, NodeAnswer::Done(None));
}

#[tokio::test(start_paused = true)]
async fn a_full_device_refuses_new_blocks_and_nothing_else() {
    let rig = Rig::new(4).await;
    // Two units may be lent.
    assert_eq!(rig.ask(0, id(1), put(100, "first")).await, done(live(0)));
    assert_eq!(rig.ask(BLOCKS, id(4), put(100, "second")).await, done(live(0)));
    assert_eq!(rig.store.room().blocks, 0);
    let beyond = 2 * BLOCKS + 1;
    for request in [put(100, "no space"), erase(0, 0)] {
        assert_eq!(rig.ask(beyond, id(2), request).await, FULL);
    }
    assert_eq!(rig.ask(beyond, id(2), NodeRequest::Query).await, NodeAnswer::Absent);
    assert_eq!(rig.ask(1, id(3), put(100, "has space")).await, done(live(0)));
    assert_eq!(rig.ask(0, id(1), write(0, 1, "has space")).await, done(live(1)));
    assert!(rig.device.poisoned_by().is_none());
    rig.ask(BLOCKS, id(4), end(0)).await;
    rig.ask(BLOCKS, id(4), forget(0, 5, 0)).await;
    rig.store.inner.return_vacant().await;
    assert_eq!(rig.ask(beyond, id(6), put(100, "space again")).await, done(live(0)));
    let compose = |frame: &mut [u8]| format::frame::compose(frame, 5, types::CellId(2), &[], &[b"payload"]);
    let frame_bytes = format::frame::frame_bytes(0, 7);
    rig.device.append_wait(AppendClass::Data, frame_bytes, compose).await.expect("the log goes on");
    let rig = rig.crash().await;
    assert_eq!(rig.content(beyond, id(6)).await.expect("alive"), b"space again");
}

#[tokio::test(start_paused = true)]
async fn content_that_cannot_be_read_is_damaged_and_a_write_mends_it() {
    let rig = Rig::new(6).await;
    rig.ask(0, id(1), put(100, "first")).await;
    let place = rig.content_place(0, id(1));
    rig.disk.add_rule(FaultRule::always_in(place..place + 4_096, Operation::Read, Fault::Fail));
    assert_eq!(rig.content(0, id(1)).await, Err(NodeAnswer::Damaged));
    assert_eq!(rig.store.stats().damaged, 1);
    assert_eq!(rig.ask(0, id(1), write(0, 1, "elsewhere")).await, done(live(1)));
    assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"elsewhere");
    assert_eq!(rig.ask(0, id(1), end(0)).await, done(Mark::Dead));
}

/// A sector of a header that can't be read is like one that is damaged.
#[tokio::test(start_paused = true)]
async fn a_header_that_cannot_be_read_leaves_the_other_slot() {
    let rig = Rig::new(7).await;
    rig.ask(0, id(1), put(100, "first")).await;
    rig.ask(0, id(1), write(0, 1, "second")).await;
    let disk = rig.disk.restart();
    let newest = slot_place(0, 0);
    disk.add_rule(FaultRule::always_in(newest..newest + 4_096, Operation::Read, Fault::Fail));
    let rig = Rig::open(&rig.env, &disk).await;
    assert_eq!(rig.store.stats().headers_fallen_back, 1);
    assert_eq!(rig.content(0, id(1)).await.expect("alive"), b"first");
}
