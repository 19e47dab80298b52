//! Where contents stand in a block.

use super::rig::{Rig, done, end, erase, forget, id, live, put, write};
use crate::message::{NodeAnswer, NodeRefusal};
use format::chunk_block::{BLOCK_DATA_BYTES, BlockEntry, CONTENT_ALIGNMENT, MAX_BLOCK_ENTRIES};

fn entry(rig: &Rig, number: u64) -> BlockEntry {
    *rig.node.entries().find(|(_, entry)| entry.id == id(number)).expect("it is there").1
}

#[test]
fn data_grows_from_the_end_and_gaps_are_used_again() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.ask(id(number), put(CONTENT_ALIGNMENT, "some"));
        let expected = BLOCK_DATA_BYTES - number as u32 * CONTENT_ALIGNMENT;
        assert_eq!(entry(&rig, number).offset, expected);
    }
    let freed = entry(&rig, 2).offset;
    rig.ask(id(2), end(0));
    rig.ask(id(2), forget(0, 0, 0));
    rig.ask(id(4), put(CONTENT_ALIGNMENT, "some"));
    assert_eq!(entry(&rig, 4).offset, freed);
}

/// A leader that looks for targets is told no more than what is taken, and no less.
#[test]
fn the_longest_gap_is_what_the_block_takes() {
    let mut rig = Rig::new();
    let quarter = BLOCK_DATA_BYTES / 4;
    assert_eq!(rig.node.longest_gap(1), BLOCK_DATA_BYTES);
    for (number, left) in [(1, 3), (2, 2), (3, 1), (4, 0)] {
        rig.ask(id(number), put(quarter, "some"));
        assert_eq!(rig.node.longest_gap(1), left * quarter);
    }
    for (number, longest) in [(2, 1), (4, 1), (3, 3)] {
        let before = rig.node.longest_gap(1);
        rig.ask(id(number), end(0));
        assert_eq!(rig.node.longest_gap(1), before, "dead copies keep their room");
        rig.ask(id(number), forget(0, 0, 0));
        assert_eq!(rig.node.longest_gap(1), longest * quarter, "without chunk {number}");
    }
    assert_eq!(rig.answer(id(5), put(3 * quarter + 1, "x")), NodeAnswer::Refused(NodeRefusal::Full));
    assert_eq!(rig.ask(id(6), put(3 * quarter, "x")).1, done(live(0)));
}

/// A device writes whole blocks: two chunks that shared one would be torn together.
#[test]
fn no_two_chunks_share_a_block_of_the_device() {
    let mut rig = Rig::new();
    let capacities = [1, CONTENT_ALIGNMENT - 1, CONTENT_ALIGNMENT + 1, 5_000, 3, 2 * CONTENT_ALIGNMENT, 100, 9_999];
    for (number, capacity) in (1..).zip(capacities) {
        assert_eq!(rig.ask(id(number), put(capacity, "x")).1, done(live(0)));
        rig.ask(id(number), write(0, 1, "y"));
    }
    let mut owners = std::collections::BTreeMap::new();
    for (_, entry) in rig.node.entries() {
        let last = entry.offset + entry.capacity - 1;
        for device_block in entry.offset / CONTENT_ALIGNMENT..=last / CONTENT_ALIGNMENT {
            let former = owners.insert(device_block, entry.id);
            assert_eq!(former, None, "device block {device_block} belongs to two chunks");
        }
    }
    assert_eq!(owners.len(), 1 + 1 + 2 + 2 + 1 + 2 + 1 + 3);
}

/// As many as a unit's sums let it: whole device blocks each.
#[test]
fn a_block_takes_as_many_chunks_as_it_has_room_for() {
    let mut rig = Rig::new();
    let capacity = 16 * CONTENT_ALIGNMENT - 1;
    let fitting = u64::from(BLOCK_DATA_BYTES / (16 * CONTENT_ALIGNMENT));
    for number in 1..=fitting {
        assert_eq!(rig.ask(id(number), put(capacity, "x")).1, done(live(0)), "chunk {number}");
    }
    assert_eq!(rig.answer(id(999), put(1, "x")), NodeAnswer::Refused(NodeRefusal::Full));
    assert_eq!(rig.ask(id(1), write(0, 1, "in place")).1, done(live(1)));
    assert_eq!(rig.content(id(1)).as_deref(), Some("in place"));
    rig.ask(id(5), end(0));
    assert_eq!(rig.answer(id(999), put(1, "x")), NodeAnswer::Refused(NodeRefusal::Full), "dead copies keep their room");
    rig.ask(id(5), forget(0, 0, 0));
    assert_eq!(rig.ask(id(999), put(1, "x")).1, done(live(0)));
}

#[test]
fn a_header_that_is_full_takes_no_more_chunks_nor_marks() {
    let mut rig = Rig::new();
    for number in 1..=MAX_BLOCK_ENTRIES as u64 {
        rig.ask(id(number), erase(0, 0));
    }
    for request in [put(1, "x"), erase(0, 0)] {
        assert_eq!(rig.answer(id(999), request), NodeAnswer::Refused(NodeRefusal::Full));
    }
    rig.restart();
    assert_eq!(rig.node.entries().count(), MAX_BLOCK_ENTRIES);
}

#[test]
fn capacities_that_no_block_has_are_refused() {
    let mut rig = Rig::new();
    for capacity in [BLOCK_DATA_BYTES + 1, u32::MAX] {
        assert_eq!(rig.answer(id(1), put(capacity, "x")), NodeAnswer::Refused(NodeRefusal::Full));
    }
    assert_eq!(rig.ask(id(1), put(0, "")).1, done(live(0)));
    assert_eq!(rig.content(id(1)).as_deref(), Some(""));
}
