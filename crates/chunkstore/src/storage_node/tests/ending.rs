//! Deletes, erasures, and what is forgotten of them.

use super::rig::{BLOCKS, Rig, SHARD, Wrote, bring, done, end, erase, forget, id, live, put, write};
use crate::message::{Mark, NodeAnswer, NodeRefusal, NodeRequest};
use format::chunk_block::Era;
use format::chunk_id::ShardId;

fn dead(era: u32, is_settled: bool) -> NodeAnswer {
    NodeAnswer::Dead { era: Era(era), is_settled }
}

#[test]
fn an_end_stands_above_all_writes() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.ask(id(1), end(0)), (vec![Wrote::Header], done(Mark::Dead)));
    assert_eq!(rig.answer(id(1), write(0, u64::MAX, "late")), done(Mark::Dead));
    assert_eq!(rig.answer(id(1), end(0)), done(Mark::Dead));
    assert_eq!(rig.answer(id(1), NodeRequest::Read), dead(0, false));
    assert_eq!(rig.answer(id(1), end(1)), NodeAnswer::OtherEra, "dead copies have eras");
    assert_eq!(rig.answer(id(1), put(100, "again")), NodeAnswer::Refused(NodeRefusal::Dead));
    assert_eq!(rig.answer(id(1), NodeRequest::Settle(Mark::Dead)), done(Mark::Dead));
    assert_eq!(rig.answer(id(1), NodeRequest::Query), dead(0, true));
    rig.restart();
    assert_eq!(rig.answer(id(1), NodeRequest::Query), dead(0, false), "that it is settled is a hint, and may be lost");
}

#[test]
fn erasing_ends_what_is_there_and_leaves_a_mark_where_nothing_is() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    for number in [1, 2] {
        assert_eq!(rig.ask(id(number), erase(0, 0)), (vec![Wrote::Header], done(Mark::Dead)));
        assert_eq!(rig.answer(id(number), erase(0, 0)), done(Mark::Dead), "a repeated order");
        assert_eq!(rig.answer(id(number), put(100, "late")), NodeAnswer::Refused(NodeRefusal::Dead));
    }
    rig.restart();
    assert_eq!(rig.answer(id(2), NodeRequest::Read), dead(0, false));
}

#[test]
fn a_departed_copy_never_becomes_dead() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    rig.ask(id(1), NodeRequest::Depart { era: Era(1) });
    assert_eq!(rig.answer(id(1), erase(1, 0)), done(Mark::Dead), "the order is carried out, the copy stays departed");
    assert_eq!(rig.answer(id(1), NodeRequest::Query), NodeAnswer::Departed);
    assert_eq!(rig.answer(id(1), end(0)), NodeAnswer::Departed);
}

#[test]
fn forgetting_raises_the_fence_first() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.answer(id(1), forget(0, 0, 0)), NodeAnswer::Refused(NodeRefusal::InUse));
    rig.ask(id(1), end(0));
    assert_eq!(rig.ask(id(1), forget(0, 2, 0)), (vec![Wrote::Fence, Wrote::Header], NodeAnswer::Done(None)));
    assert_eq!(rig.answer(id(1), NodeRequest::Read), NodeAnswer::Absent);
    assert_eq!(rig.answer(id(1), forget(0, 2, 0)), NodeAnswer::Done(None), "there is nothing left to do");
    for _ in 0..2 {
        assert_eq!(rig.answer(id(1), put(100, "late")), NodeAnswer::Refused(NodeRefusal::Resolved));
        rig.restart();
    }
    assert_eq!(rig.ask(id(2), put(100, "next")).1, done(live(0)), "at the fence, not below it");
}

/// Refusing is right from the moment that the order is known: nothing can be decided about those numbers any more.
#[test]
fn a_fence_counts_before_it_is_durable_and_is_written_with_the_next_order() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.answer(id(1), forget(0, 5, 0)), NodeAnswer::Refused(NodeRefusal::InUse));
    assert_eq!(rig.answer(id(4), put(100, "late")), NodeAnswer::Refused(NodeRefusal::Resolved));
    assert_eq!(rig.ask(id(3), forget(0, 1, 0)), (vec![Wrote::Fence], NodeAnswer::Done(None)));
    rig.restart();
    assert_eq!(rig.answer(id(4), put(100, "late")), NodeAnswer::Refused(NodeRefusal::Resolved), "the highest was written");
}

#[test]
fn late_copies_are_refused_below_the_fence_of_relocations() {
    let mut rig = Rig::new();
    rig.ask(id(1), forget(0, 0, 4));
    assert_eq!(rig.answer(id(1), bring(3, 1, "late")), NodeAnswer::Refused(NodeRefusal::Resolved));
    assert_eq!(rig.ask(id(1), bring(4, 1, "new")).1, done(live(3)));
}

#[test]
fn an_erasure_that_comes_again_leaves_no_mark_when_all_is_resolved() {
    let mut rig = Rig::new();
    rig.ask(id(1), erase(0, 3));
    rig.ask(id(1), forget(0, 2, 3));
    assert_eq!(rig.answer(id(1), erase(0, 3)), done(Mark::Dead));
    assert_eq!(rig.answer(id(1), NodeRequest::Query), NodeAnswer::Absent);
    assert_eq!(rig.ask(id(1), erase(0, 4)).0, [Wrote::Header], "a relocation that is not over may bring it");
    assert_eq!(rig.ask(id(2), erase(0, 3)).0, [Wrote::Header], "its put is not over");
}

/// The fence may be forgotten with the power: what is answered now must be so then.
#[test]
fn an_erasure_leaves_a_mark_while_the_fence_is_not_durable() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.answer(id(1), forget(0, 5, 0)), NodeAnswer::Refused(NodeRefusal::InUse));
    assert_eq!(rig.ask(id(4), erase(0, 0)), (vec![Wrote::Header], done(Mark::Dead)));
    rig.restart();
    assert_eq!(rig.answer(id(4), put(100, "late")), NodeAnswer::Refused(NodeRefusal::Dead));
}

#[test]
fn an_order_to_forget_an_earlier_era_means_an_earlier_copy() {
    let mut rig = Rig::new();
    rig.ask(id(1), bring(0, 3, "back again"));
    assert_eq!(rig.answer(id(1), forget(2, 0, 0)), NodeAnswer::Done(None));
    assert_eq!(rig.content(id(1)).as_deref(), Some("back again"));
}

#[test]
fn dead_copies_are_told_of_until_they_are_forgotten() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.ask(id(number), put(100, "some"));
    }
    assert_eq!(rig.node.freed(SHARD, 10), []);
    rig.ask(id(1), end(0));
    rig.ask(id(3), erase(0, 0));
    rig.restart();
    assert_eq!(rig.node.freed(SHARD, 10), [id(1), id(3)]);
    assert_eq!(rig.node.freed(SHARD, 1), [id(1)]);
    assert_eq!(rig.node.freed(ShardId(8), 10), [], "another shard");
    rig.ask(id(1), forget(0, 4, 0));
    assert_eq!(rig.node.freed(SHARD, 10), [id(3)]);
}

#[test]
fn a_block_that_the_device_lacks_has_nothing() {
    let mut rig = Rig::new();
    for request in [put(1, "x"), NodeRequest::Read, erase(0, 0)] {
        let tag = rig.tag();
        let steps = rig.node.handle(tag, BLOCKS, id(1), request);
        assert_eq!(steps, [crate::storage_node::Step::Answer { tag, answer: NodeAnswer::Absent }]);
    }
}
