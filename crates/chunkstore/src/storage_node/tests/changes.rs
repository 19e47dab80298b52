//! Puts and writes.

use super::rig::{Rig, Wrote, done, end, id, live, put, text, write};
use crate::message::{Change, LiveCopy, Mark, NodeAnswer, NodeRefusal, NodeRequest};
use format::chunk_block::{BLOCK_DATA_BYTES, ChunkVersion, Era};

#[test]
fn a_put_writes_content_then_header_and_once() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(id(1), put(100, "first")), (vec![Wrote::Data, Wrote::Header], done(live(0))));
    assert_eq!(rig.content(id(1)).as_deref(), Some("first"));
    assert_eq!(rig.answer(id(1), put(100, "other")), done(live(0)), "a repeated put changes nothing");
    assert_eq!(rig.content(id(1)).as_deref(), Some("first"));
    rig.restart();
    assert_eq!(rig.content(id(1)).as_deref(), Some("first"));
    assert_eq!(rig.answer(id(2), NodeRequest::Read), NodeAnswer::Absent, "another id");
    let guessed = format::chunk_id::ChunkId { nonce: format::chunk_id::ChunkNonce(1), ..id(1) };
    assert_eq!(rig.answer(guessed, NodeRequest::Read), NodeAnswer::Absent, "the number alone is not the id");
}

#[test]
fn a_query_tells_what_a_copy_is_without_its_content() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    let copy = LiveCopy { version: ChunkVersion::default(), era: Era(0), capacity: 100, is_settled: true, content: None };
    assert_eq!(rig.answer(id(1), NodeRequest::Query), NodeAnswer::Live(copy));
    assert_eq!(rig.answer(id(2), NodeRequest::Query), NodeAnswer::Absent);
}

#[test]
fn content_that_is_longer_than_was_registered_is_refused() {
    let mut rig = Rig::new();
    assert_eq!(rig.answer(id(1), put(4, "five!")), NodeAnswer::Refused(NodeRefusal::TooLong));
    rig.ask(id(1), put(5, "five!"));
    assert_eq!(rig.answer(id(1), write(0, 1, "sixsix")), NodeAnswer::Refused(NodeRefusal::TooLong));
    assert_eq!(rig.content(id(1)).as_deref(), Some("five!"));
}

#[test]
fn a_newer_write_replaces_the_content_and_is_unsettled() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.ask(id(1), write(0, 2, "second")), (vec![Wrote::Data, Wrote::Header], done(live(2))));
    assert_eq!(rig.content(id(1)).as_deref(), Some("second"));
    let NodeAnswer::Live(copy) = rig.answer(id(1), NodeRequest::Query) else { panic!("it is alive") };
    assert!(!copy.is_settled);
    for older in [1, 2] {
        assert_eq!(rig.answer(id(1), write(0, older, "late")), done(live(2)), "it stands before what is there");
    }
    assert_eq!(rig.answer(id(1), write(1, 9, "other places")), NodeAnswer::OtherEra);
    assert_eq!(rig.answer(id(2), write(0, 9, "nothing")), NodeAnswer::Absent);
    rig.restart();
    assert_eq!(rig.content(id(1)).as_deref(), Some("second"));
}

#[test]
fn of_two_writers_with_one_counter_the_greater_stands_last() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    let by = |writer, content: &str| {
        let version = ChunkVersion { counter: 1, writer };
        NodeRequest::Write { era: Era(0), change: Change::Content { version, content: text(content) } }
    };
    rig.ask(id(1), by(5, "five"));
    let held = Mark::Live(ChunkVersion { counter: 1, writer: 5 });
    assert_eq!(rig.answer(id(1), by(4, "four")), done(held));
    rig.ask(id(1), by(6, "six"));
    assert_eq!(rig.content(id(1)).as_deref(), Some("six"));
}

/// In a block that one chunk fills.
#[test]
fn without_room_content_is_overwritten_between_two_headers() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(BLOCK_DATA_BYTES, "first"));
    assert_eq!(rig.ask(id(1), write(0, 1, "second")), (vec![Wrote::Header, Wrote::Data, Wrote::Header], done(live(1))));
    assert_eq!(rig.content(id(1)).as_deref(), Some("second"));
}

#[test]
fn a_copy_that_was_half_overwritten_is_damaged_until_it_is_written_again() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(BLOCK_DATA_BYTES, "first"));
    let (_, job, header) = rig.begin(id(1), write(0, 2, "second"));
    rig.store(&header);
    assert_eq!(rig.node.written(job).len(), 1, "the content is next, and is never written");
    rig.restart();
    assert_eq!(rig.answer(id(1), NodeRequest::Read), NodeAnswer::Damaged);
    assert_eq!(rig.answer(id(1), NodeRequest::Query), NodeAnswer::Damaged);
    // Also by the write that it had, since nothing else of it is left.
    let again = NodeRequest::Write {
        era: Era(0),
        change: Change::Content { version: ChunkVersion::default(), content: text("first") },
    };
    let (wrote, answer) = rig.ask(id(1), again);
    assert_eq!((wrote.last(), answer), (Some(&Wrote::Header), done(live(0))));
    assert_eq!(rig.content(id(1)).as_deref(), Some("first"));
    rig.ask(id(1), write(0, 2, "second"));
    assert_eq!(rig.content(id(1)).as_deref(), Some("second"));
}

#[test]
fn settling_needs_the_same_write_and_no_disk() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    rig.ask(id(1), write(0, 1, "second"));
    let is_settled = |rig: &mut Rig| match rig.answer(id(1), NodeRequest::Query) {
        NodeAnswer::Live(copy) => copy.is_settled,
        other => panic!("{other:?}"),
    };
    assert_eq!(rig.answer(id(1), NodeRequest::Settle(live(0))), done(live(1)), "another write");
    assert!(!is_settled(&mut rig));
    assert_eq!(rig.answer(id(1), NodeRequest::Settle(live(1))), done(live(1)));
    assert!(is_settled(&mut rig));
    rig.ask(id(2), put(100, "neighbour"));
    rig.restart();
    assert!(is_settled(&mut rig), "the next header has taken it along");
    assert_eq!(rig.answer(id(3), NodeRequest::Settle(live(0))), NodeAnswer::Absent);
    assert_eq!(rig.answer(id(1), end(1)), NodeAnswer::OtherEra);
}
