//! Requests of one block run one after the other, and what becomes of them when a write can't be made.

use super::rig::{Rig, Wrote, done, forget, id, live, put, write};
use crate::limits::MAX_WAITING_PER_BLOCK;
use crate::message::{NodeAnswer, NodeRefusal, NodeRequest};
use crate::storage_node::{DiskWrite, Step, Tag};

fn answers(steps: &[Step]) -> Vec<(Tag, NodeAnswer)> {
    let answer = |step: &Step| match step {
        Step::Answer { tag, answer } => Some((*tag, answer.clone())),
        Step::Write { .. } | Step::Read { .. } => None,
    };
    steps.iter().filter_map(answer).collect()
}

#[test]
fn what_writes_waits_for_its_block_and_what_reads_does_not() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    let (first, job, data) = rig.begin(id(1), write(0, 1, "second"));
    let second = rig.tag();
    assert_eq!(rig.node.handle(second, 1, id(2), put(100, "neighbour")), []);
    let elsewhere = rig.tag();
    assert_eq!(rig.node.handle(elsewhere, 2, id(3), put(100, "elsewhere")).len(), 1, "another block");
    assert_eq!(rig.content(id(1)).as_deref(), Some("first"), "visible when the header is durable");

    rig.store(&data);
    let mut steps = rig.node.written(job);
    let Some(Step::Write { job, write: header }) = steps.pop() else { panic!("the header is next") };
    rig.store(&header);
    let steps = rig.node.written(job);
    assert_eq!(answers(&steps), [(first, done(live(1)))]);
    let Some(Step::Write { job, write: data }) = steps.last().cloned() else { panic!("the next one begins: {steps:?}") };
    rig.store(&data);
    let Some(Step::Write { job, write: header }) = rig.node.written(job).pop() else { panic!("a header again") };
    rig.store(&header);
    assert_eq!(rig.node.written(job), [Step::Answer { tag: second, answer: done(live(0)) }]);
    assert_eq!(rig.content(id(2)).as_deref(), Some("neighbour"));
}

#[test]
fn too_many_that_wait_are_refused() {
    let mut rig = Rig::new();
    rig.begin(id(0), put(100, "first"));
    for number in 1..=MAX_WAITING_PER_BLOCK as u64 {
        let tag = rig.tag();
        assert_eq!(rig.node.handle(tag, 1, id(number), put(100, "more")), []);
    }
    let tag = rig.tag();
    let steps = rig.node.handle(tag, 1, id(999), put(100, "too many"));
    assert_eq!(answers(&steps), [(tag, NodeAnswer::Refused(NodeRefusal::Busy))]);
}

#[test]
fn a_write_that_is_given_up_ends_its_request_and_changes_nothing() {
    for fails_at_header in [false, true] {
        let mut rig = Rig::new();
        rig.ask(id(1), put(100, "first"));
        let (tag, mut job, data) = rig.begin(id(1), write(0, 1, "second"));
        let waiting = rig.tag();
        assert_eq!(rig.node.handle(waiting, 1, id(2), put(100, "neighbour")), []);
        if fails_at_header {
            rig.store(&data);
            let Some(Step::Write { job: next, .. }) = rig.node.written(job).pop() else { panic!("the header is next") };
            job = next;
        }
        let steps = rig.node.given_up(job, NodeRefusal::Full);
        assert_eq!(answers(&steps), [(tag, NodeAnswer::Refused(NodeRefusal::Full))]);
        assert!(
            matches!(steps.last(), Some(Step::Write { write: DiskWrite::Data { .. }, .. })),
            "the next one begins: {steps:?}"
        );
        assert_eq!(rig.content(id(1)).as_deref(), Some("first"));
    }
}

/// The slot of a header that may be torn is the one that is written again; the other one has what counts.
#[test]
fn a_header_that_was_given_up_is_written_into_the_same_slot_again() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    let slot_of_next_header = |rig: &mut Rig, counter| {
        let (_, job, data) = rig.begin(id(1), write(0, counter, "more"));
        rig.store(&data);
        match rig.node.written(job).pop() {
            Some(Step::Write { job, write: DiskWrite::Header { slot, .. } }) => (job, slot),
            other => panic!("the header is next: {other:?}"),
        }
    };
    let (job, slot) = slot_of_next_header(&mut rig, 1);
    rig.node.given_up(job, NodeRefusal::Full);
    let (job, again) = slot_of_next_header(&mut rig, 2);
    assert_eq!(slot, again);
    rig.node.given_up(job, NodeRefusal::Full);
    assert_eq!(rig.content(id(1)).as_deref(), Some("first"));
}

#[test]
fn a_fence_that_could_not_be_written_is_written_with_the_next_order() {
    let mut rig = Rig::new();
    let (tag, job, fence) = rig.begin(id(1), forget(0, 3, 0));
    assert!(matches!(fence, DiskWrite::Fence { .. }), "{fence:?}");
    let steps = rig.node.given_up(job, NodeRefusal::Full);
    assert_eq!(answers(&steps), [(tag, NodeAnswer::Refused(NodeRefusal::Full))]);
    assert_eq!(rig.ask(id(1), forget(0, 3, 0)), (vec![Wrote::Fence], NodeAnswer::Done(None)));
    assert_eq!(rig.answer(id(1), NodeRequest::Read), NodeAnswer::Absent);
}
