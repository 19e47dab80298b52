//! Relocations, as a source, one that stays, and a target see them.

use super::rig::{Rig, Wrote, bring, done, end, id, live, put, write};
use crate::message::{Mark, NodeAnswer, NodeRefusal, NodeRequest, Resolved};
use format::chunk_block::{BLOCK_DATA_BYTES, Era};
use format::chunk_id::ChunkNumber;

fn depart(era: u32) -> NodeRequest {
    NodeRequest::Depart { era: Era(era) }
}

fn raise(era: u32) -> NodeRequest {
    NodeRequest::Raise { era: Era(era) }
}

fn discard(era: u32, moves: u64) -> NodeRequest {
    NodeRequest::Discard { era: Era(era), moves }
}

fn forget(era: u32, moves: u64) -> NodeRequest {
    NodeRequest::Forget { era: Era(era), resolved: Resolved { puts: ChunkNumber(9), moves } }
}

fn take(era: u32) -> NodeRequest {
    NodeRequest::Take { era: Era(era) }
}

#[test]
fn a_departed_copy_answers_nobody_but_the_relocation() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.ask(id(1), depart(1)), (vec![Wrote::Header], NodeAnswer::Departed));
    assert_eq!(rig.answer(id(1), depart(1)), NodeAnswer::Departed, "a repeated order");
    rig.restart();
    for request in
        [NodeRequest::Read, NodeRequest::Query, write(0, 1, "late"), write(1, 1, "late"), put(100, "again"), raise(2)]
    {
        assert_eq!(rig.answer(id(1), request), NodeAnswer::Departed);
    }
    let NodeAnswer::Live(copy) = rig.answer(id(1), take(1)) else { panic!("the relocation may have it") };
    assert_eq!(copy.content.as_deref(), Some(&b"first"[..]));
    assert_eq!(rig.answer(id(2), depart(1)), NodeAnswer::Absent);
    assert_eq!(rig.answer(id(2), take(1)), NodeAnswer::Absent);
}

#[test]
fn a_raised_copy_takes_writes_of_its_new_era_only() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.ask(id(1), raise(2)), (vec![Wrote::Header], done(live(0))));
    assert_eq!(rig.answer(id(1), raise(1)), done(live(0)), "it is raised further already");
    assert_eq!(rig.answer(id(1), write(0, 1, "late")), NodeAnswer::OtherEra);
    rig.restart();
    assert_eq!(rig.answer(id(1), end(1)), NodeAnswer::OtherEra);
    assert_eq!(rig.ask(id(1), write(2, 1, "new")).1, done(live(1)));
    assert_eq!(rig.answer(id(2), raise(1)), NodeAnswer::Absent);
}

#[test]
fn a_copy_of_the_relocations_own_era_is_not_its_source() {
    let mut rig = Rig::new();
    rig.ask(id(1), bring(0, 2, "moved here"));
    assert_eq!(rig.answer(id(1), depart(2)), NodeAnswer::OtherEra);
    assert_eq!(rig.answer(id(1), depart(1)), NodeAnswer::OtherEra, "a late order of an earlier relocation");
}

#[test]
fn a_survivor_gives_its_content_in_its_own_era() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.answer(id(1), take(1)), NodeAnswer::OtherEra, "before it was raised");
    rig.ask(id(1), raise(1));
    let NodeAnswer::Live(copy) = rig.answer(id(1), take(1)) else { panic!("the relocation may have it") };
    assert_eq!(copy.content.as_deref(), Some(&b"first"[..]));
}

#[test]
fn a_brought_copy_is_what_the_source_was() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(id(1), bring(0, 2, "moved")), (vec![Wrote::Data, Wrote::Header], done(live(3))));
    assert_eq!(rig.answer(id(1), bring(0, 2, "again")), done(live(3)));
    rig.restart();
    let NodeAnswer::Live(copy) = rig.answer(id(1), NodeRequest::Read) else { panic!("it is alive") };
    assert_eq!((copy.era, copy.is_settled, copy.content.as_deref()), (Era(2), false, Some(&b"moved"[..])));
}

/// It was taken for what had been brought, and answered with what was there before.
#[test]
fn a_copy_of_an_earlier_era_is_not_what_was_brought() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    assert_eq!(rig.answer(id(1), bring(0, 2, "moved")), NodeAnswer::Refused(NodeRefusal::Full));
    rig.ask(id(1), raise(3));
    assert_eq!(rig.answer(id(1), bring(0, 2, "late")), done(live(0)), "it is further by now");
}

#[test]
fn a_dead_copy_stays_dead_in_a_relocation() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(100, "first"));
    rig.ask(id(1), end(0));
    let dead = NodeAnswer::Dead { era: Era(0), is_settled: false };
    for request in [depart(1), raise(1), take(0)] {
        assert_eq!(rig.answer(id(1), request), dead);
    }
    assert_eq!(rig.answer(id(1), NodeRequest::Settle(live(0))), done(Mark::Dead));
}

/// A copy that was half overwritten has no content, but it can depart like any other.
#[test]
fn a_half_overwritten_copy_departs_and_gives_nothing() {
    let mut rig = Rig::new();
    rig.ask(id(1), put(BLOCK_DATA_BYTES, "first"));
    let (_, job, header) = rig.begin(id(1), write(0, 2, "second"));
    rig.store(&header);
    assert_eq!(rig.node.written(job).len(), 1, "the content is next, and is never written");
    rig.restart();
    assert_eq!(rig.answer(id(1), take(0)), NodeAnswer::Damaged);
    assert_eq!(rig.ask(id(1), depart(1)), (vec![Wrote::Header], NodeAnswer::Departed));
}

/// Its answer was lost, the relocation went elsewhere, and the copy went on being read by whoever was led there.
#[test]
fn what_was_brought_to_a_target_that_was_given_up_answers_nobody() {
    let mut rig = Rig::new();
    rig.ask(id(1), bring(0, 2, "moved"));
    assert_eq!(rig.ask(id(1), discard(2, 1)), (vec![Wrote::Header], NodeAnswer::Departed));
    rig.restart();
    assert_eq!(rig.answer(id(1), NodeRequest::Read), NodeAnswer::Departed);
    assert_eq!(rig.answer(id(1), discard(2, 1)), NodeAnswer::Departed, "a repeated request");
}

#[test]
fn nothing_is_brought_late_to_a_target_that_was_given_up() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(id(1), discard(2, 1)), (vec![Wrote::Header], NodeAnswer::Departed));
    rig.restart();
    assert_eq!(rig.answer(id(1), bring(0, 2, "late")), NodeAnswer::Departed);
    rig.ask(id(1), forget(2, 1));
    assert_eq!(rig.answer(id(1), bring(0, 2, "late")), NodeAnswer::Refused(NodeRefusal::Resolved));
    assert_eq!(rig.answer(id(1), discard(2, 1)), NodeAnswer::Departed, "nothing is left that nobody would have forgotten");
    assert_eq!(rig.answer(id(1), NodeRequest::Query), NodeAnswer::Absent);
    rig.ask(id(1), bring(1, 3, "again"));
    assert_eq!(rig.answer(id(1), discard(2, 1)), NodeAnswer::OtherEra, "a later relocation's");
}
