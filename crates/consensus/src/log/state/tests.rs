use bytes::Bytes;

use super::*;
use crate::id::Term;
use crate::record::{Blob, Membership};

const GROUP: GroupId = GroupId(1);

fn position(term: u64, index: u64) -> LogPosition {
    LogPosition { term: Term(term), index: LogIndex(index) }
}

fn entry(term: u64, index: u64) -> Entry {
    Entry { position: position(term, index), content: Content::Command(Blob(Bytes::from(vec![0; 10]))) }
}

fn entries(entries: Vec<Entry>) -> Change {
    Change::Entries { committed: None, entries }
}

fn replayed(changes: Vec<Change>) -> Result<GroupState, ReplayError> {
    let mut state = GroupState::default();
    for (number, change) in changes.into_iter().enumerate() {
        state.replay(GROUP, change, Lsn(number as u64 + 1))?;
    }
    state.check(GROUP)?;
    Ok(state)
}

fn snapshot(number: u64, last: LogPosition, contents: &'static [u8]) -> Vec<Change> {
    let summary = SnapshotSummary { last: Some(last), ..SnapshotSummary::default() };
    let (bytes, checksum) = (contents.len() as u64, snapshot_checksum(contents));
    vec![
        Change::SnapshotBegin { number, summary, bytes, checksum },
        Change::SnapshotPiece { number, offset: 0, piece: Blob(Bytes::from_static(contents)) },
        Change::SnapshotEnd { number },
    ]
}

#[test]
fn entries_said_again_do_not_cut_off_what_follows() {
    let all = vec![entry(1, 0), entry(1, 1), entry(1, 2)];
    let state = replayed(vec![entries(all.clone()), entries(vec![entry(1, 0), entry(1, 1)])]).unwrap();
    assert_eq!(state.entries(0..9, usize::MAX), all);
    assert_eq!(state.floor(), Some(Lsn(1)), "the third entry stands in the first record");
}

#[test]
fn only_a_truncation_cuts_off() {
    let state = replayed(vec![
        entries(vec![entry(1, 0), entry(1, 1), entry(1, 2)]),
        Change::Truncate { last: Some(position(1, 0)) },
        entries(vec![entry(2, 1)]),
    ]);
    assert_eq!(state.unwrap().entries(0..9, usize::MAX), vec![entry(1, 0), entry(2, 1)]);
}

#[test]
fn entries_said_again_may_come_after_later_ones_when_the_first_records_are_gone() {
    // The records of entries 5 and 6 are gone, that of 7 is not; then all three were said again.
    let mut changes = snapshot(1, position(1, 4), b"contents");
    changes.extend([entries(vec![entry(1, 7)]), entries(vec![entry(1, 5), entry(1, 6), entry(1, 7)])]);
    let state = replayed(changes.clone()).unwrap();
    assert_eq!(state.entries(0..99, usize::MAX), [entry(1, 5), entry(1, 6), entry(1, 7)]);
    assert_eq!((state.floor(), state.entry_bytes()), (Some(Lsn(1)), 3 * entry(1, 5).bytes()));
    // One that is not said again is a hole all the same.
    changes.pop();
    changes.push(entries(vec![entry(1, 5)]));
    let found = replayed(changes).unwrap_err();
    assert_eq!(found, ReplayError::Hole { group: GROUP, expected: 6, found: 7 });
}

#[test]
fn entries_beyond_a_purge_of_what_is_gone_count_when_a_later_purge_covers_the_rest() {
    let mut changes = snapshot(1, position(1, 9), b"contents");
    changes.extend([Change::Purge { last: position(1, 3) }, entries((7..12).map(|index| entry(1, index)).collect())]);
    let found = replayed(changes.clone()).unwrap_err();
    assert_eq!(found, ReplayError::Hole { group: GROUP, expected: 4, found: 7 });
    changes.push(Change::Purge { last: position(1, 9) });
    let state = replayed(changes).unwrap();
    assert_eq!(state.entries(0..99, usize::MAX), [entry(1, 10), entry(1, 11)]);
    assert_eq!(state.entry_bytes(), 2 * entry(1, 10).bytes());
}

#[test]
fn a_hole_is_found() {
    let found = replayed(vec![entries(vec![entry(1, 0)]), entries(vec![entry(1, 2)])]).unwrap_err();
    assert_eq!(found, ReplayError::Hole { group: GROUP, expected: 1, found: 2 });
    let found = replayed(vec![entries(vec![entry(1, 3)])]).unwrap_err();
    assert_eq!(found, ReplayError::Uncovered { group: GROUP, first: 3 });
    let found = replayed(vec![Change::Purge { last: position(1, 4) }]).unwrap_err();
    assert_eq!(found, ReplayError::Uncovered { group: GROUP, first: 5 });
}

#[test]
fn a_snapshot_counts_with_its_end_and_only_whole() {
    let mut changes = snapshot(1, position(1, 4), b"older");
    changes.extend(snapshot(2, position(1, 8), b"newer").into_iter().take(2));
    changes.push(Change::Purge { last: position(1, 4) });
    let state = replayed(changes.clone()).unwrap();
    assert_eq!(state.snapshot().unwrap().bytes, b"older".as_slice());
    assert_eq!(state.floor(), Some(Lsn(1)));

    changes.push(Change::SnapshotEnd { number: 2 });
    let state = replayed(changes).unwrap();
    assert_eq!(state.snapshot().unwrap().bytes, b"newer".as_slice());
    assert_eq!(state.floor(), Some(Lsn(4)));

    let mut changes = snapshot(1, position(1, 4), b"older");
    changes[1] = Change::SnapshotPiece { number: 1, offset: 0, piece: Blob(Bytes::from_static(b"oldex")) };
    assert!(matches!(replayed(changes), Err(ReplayError::SnapshotChecksum { .. })));
    let mut changes = snapshot(1, position(1, 4), b"older");
    changes.remove(1);
    assert!(matches!(replayed(changes), Err(ReplayError::SnapshotChecksum { .. })));
}

#[test]
fn pieces_of_a_snapshot_whose_beginning_was_given_up_are_passed_over() {
    let changes = snapshot(1, position(1, 4), b"older").split_off(1);
    assert!(replayed(changes).unwrap().is_empty());
}

#[test]
fn a_snapshot_on_its_way_holds_its_records() {
    let mut state = GroupState::default();
    let number = state.number_snapshot();
    state.begin_snapshot(number, Lsn(7));
    assert_eq!(state.floor(), Some(Lsn(7)));
    state.abandon_snapshot(number);
    assert_eq!(state.floor(), None);
}

#[test]
fn a_request_takes_a_bounded_part_and_at_least_one() {
    let state = replayed(vec![entries((0..10).map(|index| entry(1, index)).collect())]).unwrap();
    let one = entry(1, 0).bytes();
    assert_eq!(state.entries(2..9, 3 * one).len(), 3);
    assert_eq!(state.entries(2..9, 1).len(), 1);
    assert_eq!(state.entries(9..99, usize::MAX).len(), 1);
    assert_eq!(state.entries(10..99, usize::MAX).len(), 0);
}

#[test]
fn a_node_is_alone_only_if_no_membership_names_another_voter() {
    let membership = |voters: Vec<Vec<NodeId>>| Content::Membership(Membership { voters, members: Vec::new() });
    let at = |index, content| Entry { position: position(1, index), content };
    let me = NodeId(1);
    assert!(!replayed(vec![entries(vec![entry(1, 0)])]).unwrap().is_alone(me), "nothing is known");
    let alone = at(0, membership(vec![vec![me]]));
    assert!(replayed(vec![entries(vec![alone.clone()])]).unwrap().is_alone(me));
    for voters in [vec![vec![me, NodeId(2)]], vec![vec![me], vec![NodeId(2)]], vec![vec![NodeId(2)]]] {
        let changed = at(1, membership(voters));
        assert!(!replayed(vec![entries(vec![alone.clone(), changed])]).unwrap().is_alone(me));
    }
}
