use super::*;

const DEVICE: DeviceId = DeviceId(7);

fn record() -> Record {
    let mut record = Record::default();
    record.change(RecordChange::Found { node: NodeId(1), device: DEVICE }).unwrap();
    let copies = [1, 2, 3].map(|node| (NodeId(node), DEVICE)).into();
    record.change(RecordChange::SetCopies(copies)).unwrap();
    record
}

fn extent(term: u32, number: u64) -> ExtentId {
    ExtentId { partition: 5, term, number }
}

#[test]
fn two_copies_stay_in_sync() {
    let mut record = record();
    for node in [2, 3] {
        record.change(RecordChange::Join(NodeId(node))).unwrap();
    }
    record.change(RecordChange::Leave(NodeId(1))).unwrap();
    assert_eq!(record.change(RecordChange::Leave(NodeId(2))), Err(RecordRefusal::Few));
    // One that is out leaves again.
    record.change(RecordChange::Leave(NodeId(1))).unwrap();
    assert_eq!(record.in_sync, [NodeId(2), NodeId(3)].into());
}

#[test]
fn a_copy_in_sync_is_not_removed_and_not_moved() {
    let mut record = record();
    let without = [2, 3].map(|node| (NodeId(node), DEVICE)).into();
    assert_eq!(record.change(RecordChange::SetCopies(without)), Err(RecordRefusal::Impossible));
    let moved = [(NodeId(1), DeviceId(8)), (NodeId(2), DEVICE)].into();
    assert_eq!(record.change(RecordChange::SetCopies(moved)), Err(RecordRefusal::Impossible));
    let fewer = [(NodeId(1), DEVICE)].into();
    record.change(RecordChange::SetCopies(fewer)).unwrap();
    assert_eq!(record.change(RecordChange::Join(NodeId(2))), Err(RecordRefusal::Impossible));
}

#[test]
fn extents_are_unsettled_from_a_place_on_and_where_they_are_open() {
    let mut record = record();
    record.change(RecordChange::Settle { below: (3, 10), open: [extent(2, 7)].into() }).unwrap();
    record.change(RecordChange::Open(extent(1, 1))).unwrap();
    let found =
        [extent(1, 1), extent(2, 7), extent(2, 8), extent(3, 9), extent(3, 10), extent(4, 1)].map(|at| record.is_unsettled(at));
    assert_eq!(found, [true, true, false, false, true, true]);
    assert_eq!(record.change(RecordChange::Settle { below: (3, 9), open: BTreeSet::new() }), Err(RecordRefusal::Impossible));
}

#[test]
fn open_extents_are_bounded() {
    let mut record = record();
    for number in 0..MAX_OPEN as u64 {
        record.change(RecordChange::Open(extent(1, number))).unwrap();
    }
    assert_eq!(record.change(RecordChange::Open(extent(2, 1))), Err(RecordRefusal::Impossible));
    record.change(RecordChange::Open(extent(1, 0))).unwrap();
}

#[test]
fn commands_of_older_reigns_change_nothing_and_a_snapshot_is_the_record() {
    let mut record = record();
    let command = |reign, change| Record::decode(&Record::encode(&Command { reign, change })).unwrap();
    assert_eq!(record.apply(LogIndex(1), command(4, RecordChange::Join(NodeId(2)))), Ok(Ok(())));
    assert_eq!(record.apply(LogIndex(2), command(3, RecordChange::Join(NodeId(3)))), Ok(Err(RecordRefusal::Reign)));
    let mut other = Record::default();
    other.restore(&record.snapshot()()).unwrap();
    assert_eq!(other, record);
    assert!(other.restore(&[1]).is_err());
}
