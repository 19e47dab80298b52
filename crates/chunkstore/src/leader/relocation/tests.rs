//! Which copy is taken, and where it goes.

use bytes::Bytes;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::ChunkCommand;
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use super::Driver;
use crate::leader::{Errand, Lost, MoveStep, Order};
use crate::limits::BRING_REST_TICKS;
use crate::maintenance::{GivenUp, Move};
use crate::message::{LiveCopy, Mark, NodeAnswer, NodeRefusal, NodeRequest};

fn place(device: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), 0).expect("a small number")
}

/// From device 0 to device 9; copies are on 1 and 2 as well.
fn asked(is_lost: bool) -> Move {
    let id = ChunkId { shard: ShardId(1), number: ChunkNumber(2), nonce: ChunkNonce(3) };
    let places = ChunkPlaces::new(&[place(0), place(1), place(2)]).expect("three devices");
    Move { relocation: 4, id, places, from: Some(place(0)), to: Some(place(9)), is_lost, era: Era(5) }
}

fn moved() -> Order {
    Order::Propose(ChunkCommand::Moved { id: asked(true).id, relocation: 4 })
}

fn version(counter: u64) -> ChunkVersion {
    ChunkVersion { counter, writer: 0 }
}

fn raised(counter: u64) -> NodeAnswer {
    NodeAnswer::Done(Some(Mark::Live(version(counter))))
}

fn content(counter: u64) -> NodeAnswer {
    let content = Some(Bytes::from_static(b"content"));
    NodeAnswer::Live(LiveCopy { version: version(counter), era: Era(5), capacity: 10, is_settled: true, content })
}

/// A driver whose source has answered that it departs, and whose other copies have these versions.
fn gathered(is_lost: bool, source: &NodeAnswer, others: [u64; 2]) -> (Driver, Vec<Order>) {
    let mut driver = Driver::new(asked(is_lost), Vec::new());
    let lost = Lost::default();
    driver.answered(MoveStep::Raise, place(1), &raised(others[0]), &lost);
    let mut orders = driver.answered(MoveStep::Raise, place(2), &raised(others[1]), &lost);
    if !is_lost {
        orders = driver.answered(MoveStep::Depart, place(0), source, &lost);
    }
    (driver, orders)
}

/// What the driver asks a node, as step and device.
fn steps(orders: &[Order]) -> Vec<(MoveStep, u32)> {
    let step = |order: &Order| match order {
        Order::Node { errand: Errand::Move { step, .. }, to } => Some((*step, to.place.device().0)),
        _ => None,
    };
    orders.iter().filter_map(step).collect()
}

fn brought(orders: &[Order]) -> Option<ChunkVersion> {
    orders.iter().find_map(|order| match order {
        Order::Node { to, .. } => match &to.request {
            NodeRequest::Bring { version, .. } => Some(*version),
            _ => None,
        },
        _ => None,
    })
}

#[test]
fn a_source_that_is_as_new_as_the_others_is_taken() {
    let (mut driver, orders) = gathered(false, &NodeAnswer::Departed, [7, 7]);
    assert_eq!(steps(&orders), [(MoveStep::Take, 0)]);
    let orders = driver.answered(MoveStep::Take, place(0), &content(7), &Lost::default());
    assert_eq!((steps(&orders), brought(&orders)), (vec![(MoveStep::Bring, 9)], Some(version(7))));
}

#[test]
fn without_a_source_the_newest_of_the_others_is_taken() {
    for (others, newest) in [([7, 8], 2), ([8, 7], 1)] {
        for (is_lost, source) in [(true, NodeAnswer::Absent), (false, NodeAnswer::Absent)] {
            let (_, orders) = gathered(is_lost, &source, others);
            assert_eq!(steps(&orders), [(MoveStep::Take, newest)], "lost: {is_lost}");
        }
    }
}

/// Its newest header has rotted: what it has is not what it was told to keep.
#[test]
fn a_source_that_is_older_than_the_others_is_not_taken() {
    let (mut driver, _) = gathered(false, &NodeAnswer::Departed, [7, 8]);
    let orders = driver.answered(MoveStep::Take, place(0), &content(6), &Lost::default());
    assert_eq!(steps(&orders), [(MoveStep::Take, 2)]);
    let orders = driver.answered(MoveStep::Take, place(2), &content(8), &Lost::default());
    assert_eq!(brought(&orders), Some(version(8)));
}

#[test]
fn where_one_has_no_content_another_is_asked_and_in_the_end_all_again() {
    let (mut driver, _) = gathered(false, &NodeAnswer::Departed, [7, 7]);
    let lost = Lost::default();
    let mut asked_of = Vec::new();
    let mut orders = driver.orders(&lost);
    while let Some((MoveStep::Take, device)) = steps(&orders).first().copied() {
        asked_of.push(device);
        orders = driver.answered(MoveStep::Take, place(device), &NodeAnswer::Damaged, &lost);
    }
    asked_of.sort_unstable();
    assert_eq!((asked_of, orders.len()), (vec![0, 1, 2], 0));
    driver.hear(asked(false), &lost);
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Take, 0)], "it may be readable again");
    assert!(driver.has_nothing_for(asked(false).id));
    driver.answered(MoveStep::Take, place(0), &content(7), &lost);
    assert!(!driver.has_nothing_for(asked(false).id), "it was");
    let mut driver = gathered(true, &NodeAnswer::Absent, [7, 7]).0;
    for device in [2, 1] {
        driver.answered(MoveStep::Take, place(device), &NodeAnswer::Damaged, &lost);
    }
    assert!(!driver.has_nothing_for(asked(true).id));
    driver.hear(asked(true), &lost);
    assert_eq!(steps(&driver.orders(&lost)).len(), 1);
    assert_ne!(steps(&driver.orders(&lost)), [(MoveStep::Take, 0)], "nobody will read there any more");
}

#[test]
fn a_target_that_takes_no_writes_is_replaced() {
    for refusal in [NodeRefusal::Full, NodeRefusal::Failed] {
        let (mut driver, _) = gathered(false, &NodeAnswer::Departed, [7, 7]);
        driver.answered(MoveStep::Take, place(0), &content(7), &Lost::default());
        let orders = driver.answered(MoveStep::Bring, place(9), &NodeAnswer::Refused(refusal), &Lost::default());
        assert_eq!(orders, [Order::NeedsTarget(asked(false))]);
    }
}

/// Nothing could be written to the chunk until it was, and its unit got no space back.
#[test]
fn a_copy_that_stays_and_is_not_there_holds_nothing_up() {
    for gone in [NodeAnswer::Absent, NodeAnswer::Departed] {
        let (mut driver, lost) = (Driver::new(asked(false), Vec::new()), Lost::default());
        driver.answered(MoveStep::Raise, place(1), &gone, &lost);
        assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Raise, 2)], "it is asked once");
        driver.answered(MoveStep::Raise, place(2), &raised(7), &lost);
        let orders = driver.answered(MoveStep::Depart, place(0), &NodeAnswer::Departed, &lost);
        assert_eq!(steps(&orders), [(MoveStep::Take, 0)]);
        let orders = driver.answered(MoveStep::Take, place(0), &NodeAnswer::Damaged, &lost);
        assert_eq!(steps(&orders), [(MoveStep::Take, 2)], "the only one that has something");
        let orders = driver.answered(MoveStep::Take, place(2), &content(7), &lost);
        assert_eq!(brought(&orders), Some(version(7)));
    }
}

#[test]
fn a_target_is_brought_nothing_before_the_others_are_raised() {
    let (mut driver, lost) = (Driver::new(asked(false), Vec::new()), Lost::default());
    driver.answered(MoveStep::Raise, place(1), &NodeAnswer::Absent, &lost);
    driver.answered(MoveStep::Raise, place(2), &NodeAnswer::Refused(NodeRefusal::Busy), &lost);
    let orders = driver.answered(MoveStep::Depart, place(0), &NodeAnswer::Departed, &lost);
    assert_eq!(steps(&orders), [(MoveStep::Raise, 2)]);
}

/// The leader that brought it has gone, and the copies after it.
#[test]
fn what_is_at_the_target_already_is_not_lost_with_the_other_copies() {
    let mut lost = Lost::default();
    (0..3).for_each(|device| _ = lost.add_device(DeviceId(device)));
    let begun = || Driver::new(asked(true), Vec::new());
    assert_eq!(steps(&begun().orders(&lost)), [(MoveStep::Take, 9)]);
    assert_eq!(begun().answered(MoveStep::Take, place(9), &content(7), &lost), [moved()]);
    let mut driver = begun();
    assert_eq!(driver.answered(MoveStep::Take, place(9), &NodeAnswer::Absent, &lost), []);
    assert_eq!(driver.orders(&lost), [], "it is asked once");
}

/// They were asked once, and never again.
#[test]
fn copies_that_cannot_be_read_are_asked_again_where_others_are_lost() {
    let (mut driver, mut lost) = (gathered(false, &NodeAnswer::Departed, [7, 7]).0, Lost::default());
    [1, 2].into_iter().for_each(|device| assert!(lost.add_device(DeviceId(device))));
    assert_eq!(driver.answered(MoveStep::Take, place(0), &NodeAnswer::Damaged, &lost), []);
    driver.hear(asked(false), &lost);
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Take, 0)]);
    assert!(driver.has_nothing_for(asked(false).id));
}

/// The header in which its era was raised, or in which it departed, has rotted since: it was asked for its content for as long as this leader led.
#[test]
fn a_copy_that_is_of_its_former_era_again_is_raised_or_departs_again() {
    let lost = Lost::default();
    let (mut driver, _) = gathered(true, &NodeAnswer::Absent, [7, 8]);
    assert_eq!(driver.answered(MoveStep::Take, place(2), &NodeAnswer::OtherEra, &lost), []);
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Raise, 2)]);
    let orders = driver.answered(MoveStep::Raise, place(2), &raised(6), &lost);
    assert_eq!(steps(&orders), [(MoveStep::Take, 1)], "the other one is newer by now");
    let (mut driver, _) = gathered(false, &NodeAnswer::Departed, [7, 7]);
    assert_eq!(driver.answered(MoveStep::Take, place(0), &NodeAnswer::OtherEra, &lost), []);
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Depart, 0)]);
    let orders = driver.answered(MoveStep::Depart, place(0), &NodeAnswer::Departed, &lost);
    assert_eq!(steps(&orders), [(MoveStep::Take, 0)]);
}

/// One of the others is away for a while: the chunk could not be read, though nothing was wrong with its source.
#[test]
fn a_source_departs_when_all_others_have_answered() {
    let (mut driver, mut lost) = (Driver::new(asked(false), Vec::new()), Lost::default());
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Raise, 1), (MoveStep::Raise, 2)]);
    let orders = driver.answered(MoveStep::Raise, place(1), &raised(7), &lost);
    assert_eq!(steps(&orders), [(MoveStep::Raise, 2)]);
    assert!(lost.add_device(DeviceId(2)));
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Depart, 0)], "nobody waits for what is lost");
    let orders = driver.answered(MoveStep::Raise, place(2), &NodeAnswer::Absent, &Lost::default());
    assert_eq!(steps(&orders), [(MoveStep::Depart, 0)], "nor for what is not there");
}

/// Nobody departs: all three are raised, and one of them is read.
#[test]
fn a_copy_that_is_added_is_that_of_one_that_stays() {
    let (mut driver, lost) = (Driver::new(Move { from: None, ..asked(false) }, Vec::new()), Lost::default());
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Raise, 0), (MoveStep::Raise, 1), (MoveStep::Raise, 2)]);
    driver.answered(MoveStep::Raise, place(0), &raised(7), &lost);
    driver.answered(MoveStep::Raise, place(1), &raised(8), &lost);
    let orders = driver.answered(MoveStep::Raise, place(2), &raised(7), &lost);
    assert_eq!(steps(&orders), [(MoveStep::Take, 1)], "the newest");
    let orders = driver.answered(MoveStep::Take, place(1), &content(8), &lost);
    assert_eq!((steps(&orders), brought(&orders)), (vec![(MoveStep::Bring, 9)], Some(version(8))));
    assert_eq!(driver.answered(MoveStep::Bring, place(9), &NodeAnswer::Done(None), &lost), [moved()]);
}

#[test]
fn a_lost_place_is_given_up_when_the_others_are_raised() {
    let (mut driver, lost) = (Driver::new(Move { to: None, ..asked(true) }, Vec::new()), Lost::default());
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Raise, 1), (MoveStep::Raise, 2)]);
    assert_eq!(steps(&driver.answered(MoveStep::Raise, place(1), &raised(7), &lost)), [(MoveStep::Raise, 2)]);
    assert_eq!(driver.answered(MoveStep::Raise, place(2), &raised(7), &lost), [moved()]);
    let mut driver = Driver::new(Move { to: None, ..asked(true) }, Vec::new());
    driver.answered(MoveStep::Raise, place(1), &NodeAnswer::Absent, &lost);
    assert_eq!(driver.answered(MoveStep::Raise, place(2), &raised(7), &lost), [moved()], "one is enough");
}

/// The copies may be behind a header that could not be read this time.
#[test]
fn a_place_is_not_given_up_where_no_copy_is_left() {
    let (mut driver, lost) = (Driver::new(Move { to: None, ..asked(true) }, Vec::new()), Lost::default());
    for device in [1, 2] {
        driver.answered(MoveStep::Raise, place(device), &NodeAnswer::Absent, &lost);
    }
    assert_eq!(driver.orders(&lost), []);
    driver.hear(Move { to: None, ..asked(true) }, &lost);
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Raise, 1), (MoveStep::Raise, 2)], "they are asked again");
}

/// The copies that stay have a newer era by then, and what was brought is left behind.
#[test]
fn a_growth_that_is_given_up_raises_the_copies_again() {
    let given_up = Move { from: None, to: None, ..asked(false) };
    let (mut driver, lost) = (Driver::new(given_up, Vec::new()), Lost::default());
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Raise, 0), (MoveStep::Raise, 1), (MoveStep::Raise, 2)]);
    for device in [0, 1] {
        driver.answered(MoveStep::Raise, place(device), &raised(7), &lost);
    }
    assert_eq!(driver.answered(MoveStep::Raise, place(2), &raised(7), &lost), [moved()]);
}

/// It was sent, whole, ten times a second, for as long as the target was busy or full and there was no other; and kept in memory in between.
#[test]
fn a_content_that_is_not_taken_is_let_go_and_asked_for_again_after_a_rest() {
    let lost = Lost::default();
    let busy = NodeAnswer::Refused(NodeRefusal::Busy);
    let full = NodeAnswer::Refused(NodeRefusal::Full);
    for (answer, needs_target) in [(&busy, false), (&full, true), (&NodeAnswer::OtherEra, false)] {
        let (mut driver, _) = gathered(false, &NodeAnswer::Departed, [7, 7]);
        driver.answered(MoveStep::Take, place(0), &content(7), &lost);
        assert!(driver.holds_content());
        let orders = driver.answered(MoveStep::Bring, place(9), answer, &lost);
        let expected = if needs_target { vec![Order::NeedsTarget(asked(false))] } else { Vec::new() };
        assert_eq!((orders, driver.holds_content()), (expected, false));
        for _ in 1..BRING_REST_TICKS {
            driver.hear(asked(false), &lost);
            assert_eq!(driver.orders(&lost), []);
        }
        driver.hear(asked(false), &lost);
        assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Take, 0)]);
        driver.answered(MoveStep::Take, place(0), &content(7), &lost);
        let orders = driver.answered(MoveStep::Bring, place(9), &NodeAnswer::Done(None), &lost);
        assert_eq!((orders, driver.holds_content()), (vec![moved()], false));
    }
}

/// A host that lags led to what had been brought there, which was settled, and older than what had been written since to the other places.
#[test]
fn nothing_is_of_the_new_era_before_a_target_that_was_given_up_has_departed() {
    let left = |device| GivenUp { place: place(device), era: Era(4), moves: 4 };
    let (mut driver, mut lost) = (Driver::new(asked(false), vec![left(7), left(8)]), Lost::default());
    let discards = [(MoveStep::Discard, 7), (MoveStep::Discard, 8)];
    assert_eq!(steps(&driver.orders(&lost)), discards);
    for answer in [NodeAnswer::Refused(NodeRefusal::Failed), NodeAnswer::OtherEra] {
        driver.answered(MoveStep::Discard, place(7), &answer, &lost);
        assert_eq!(steps(&driver.orders(&lost)), discards, "{answer:?}");
    }
    let orders = driver.answered(MoveStep::Discard, place(7), &NodeAnswer::Departed, &lost);
    assert_eq!(steps(&orders), [(MoveStep::Discard, 8)]);
    assert!(lost.add_device(DeviceId(8)));
    assert_eq!(steps(&driver.orders(&lost)), [(MoveStep::Raise, 1), (MoveStep::Raise, 2)], "nobody waits for what is lost");
}
