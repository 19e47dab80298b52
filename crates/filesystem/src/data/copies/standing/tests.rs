use types::DeviceId;

use super::*;

const ME: NodeId = NodeId(1);
const BACKUP: NodeId = NodeId(2);
const OUT: NodeId = NodeId(3);

fn extent(term: u32, number: u64) -> ExtentId {
    ExtentId { partition: 5, term, number }
}

/// Extents of term 4 and later are unsettled.
fn standing() -> Standing {
    let copies = [ME, BACKUP, OUT].map(|node| (node, DeviceId(7))).into();
    let record = Record { copies, in_sync: [ME, BACKUP].into(), settled_below: (4, 0), ..Record::default() };
    let mut standing = Standing::new(ME, 4, record);
    standing.serve();
    standing
}

#[test]
fn a_change_goes_to_the_copies_in_sync_once_its_extent_is_unsettled() {
    let mut standing = standing();
    assert_eq!(standing.begin(extent(3, 1), false), Begun::Settled);
    assert_eq!(standing.begin(extent(3, 1), true), Begun::To(vec![BACKUP]));
    assert_eq!(standing.begin(extent(4, 1), false), Begun::To(vec![BACKUP]));
}

#[test]
fn a_rebuild_takes_changes_of_what_it_has() {
    let mut standing = standing();
    assert!(standing.begin_rebuild(OUT));
    assert!(!standing.begin_rebuild(OUT));
    assert_eq!(standing.begin(extent(4, 1), false), Begun::To(vec![BACKUP]));
    standing.hold(Some(extent(4, 1)));
    assert!(!standing.is_still());
    assert_eq!(standing.begin(extent(4, 1), false), Begun::Held);
    assert_eq!(standing.begin(extent(4, 2), false), Begun::To(vec![BACKUP]));
    standing.applied(extent(4, 1));
    assert!(standing.is_still());
    standing.advance(Some(extent(4, 1)));
    standing.release();
    assert_eq!(standing.begin(extent(4, 1), false), Begun::To(vec![BACKUP, OUT]));
    assert_eq!(standing.begin(extent(4, 2), false), Begun::To(vec![BACKUP]));
}

#[test]
fn a_copy_that_missed_a_change_does_not_join() {
    let mut standing = standing();
    standing.begin_rebuild(OUT);
    standing.hold(None);
    assert_eq!(standing.begin(extent(4, 9), false), Begun::Held);
    standing.advance(None);
    standing.release();
    assert_eq!(standing.role(OUT), Role::Rebuilt);
    assert!(standing.fail_rebuild(OUT));
    assert_eq!(standing.role(OUT), Role::Out);
    assert_eq!(standing.begin_join(), None);
    standing.end_rebuild();
    standing.begin_rebuild(OUT);
    standing.advance(None);
    assert_eq!(standing.begin_join(), Some(OUT));
    // From here on it counts: a change that it does not answer has it leave.
    assert!(!standing.fail_rebuild(OUT));
    assert_eq!(standing.role(OUT), Role::Rebuilt);
}

#[test]
fn what_is_being_changed_stays_unsettled() {
    let mut standing = standing();
    let (one, other) = (standing.next_extent(5), standing.next_extent(5));
    standing.begin(one, false);
    standing.begin(other, false);
    standing.applied(other);
    standing.ended(other);
    let (below, open) = standing.settle();
    assert_eq!((below, open), ((4, 3), [one].into()));
    assert_eq!(standing.begin(other, false), Begun::Settled);
    assert_eq!(standing.begin(one, false), Begun::To(vec![BACKUP]));
    let next = standing.next_extent(5);
    assert_eq!(standing.begin(next, false), Begun::To(vec![BACKUP]));
}

#[test]
fn one_copy_needs_no_record() {
    let record = Record { copies: [(ME, DeviceId(7))].into(), in_sync: [ME].into(), ..Record::default() };
    let mut standing = Standing::new(ME, 9, Record { settled_below: (9, 0), ..record });
    assert!(standing.is_alone());
    assert_eq!(standing.begin(extent(3, 1), false), Begun::To(Vec::new()));
}
