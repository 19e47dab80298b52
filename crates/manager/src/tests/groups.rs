//! Placed groups, beside those of shards.

use types::{ErrorKind, NodeId};

use super::machine::Machine;
use super::nodes::node;
use crate::modules::chunks::unit_key;
use crate::modules::groups::MAX_GROUP_MEMBERS;
use crate::operation::Refusal;
use crate::{EndGroup, FoundGroup, GroupError, GroupKey, GroupKind, OpenShard, Snapshot};

const KEY: GroupKey = GroupKey { kind: GroupKind(200), number: 7 };

fn two_nodes() -> Machine {
    let mut machine = Machine::default();
    machine.run(node(1)).unwrap();
    machine.run(node(2)).unwrap();
    machine
}

fn found(members: &[u32]) -> FoundGroup {
    FoundGroup { key: KEY, members: members.iter().copied().map(NodeId).collect() }
}

#[test]
fn a_group_is_founded_once_and_ends() {
    let mut machine = two_nodes();
    let founded = machine.run(found(&[2, 1])).unwrap();
    assert_eq!((&founded.founders, &founded.members), (&vec![NodeId(2), NodeId(1)], &vec![NodeId(2), NodeId(1)]));
    assert_eq!(machine.0.groups_of(KEY.kind).collect::<Vec<_>>(), [&founded]);
    assert_eq!(machine.0.groups_of(GroupKind(201)).count(), 0);
    assert_eq!(machine.run(found(&[1])), Err(GroupError::AlreadyExists));
    assert_eq!(Snapshot::from_export(&machine.0.export()).as_ref(), Ok(&machine.0));
    machine.run(EndGroup { key: KEY }).unwrap();
    assert_eq!(machine.run(EndGroup { key: KEY }), Err(GroupError::NotFound));
    assert_eq!(machine.0.group(KEY), None);
}

#[test]
fn members_are_few_different_and_there() {
    let mut machine = two_nodes();
    let many: Vec<u32> = (1..=MAX_GROUP_MEMBERS as u32 + 1).collect();
    for members in [&[][..], &[1, 1], &many] {
        assert_eq!(machine.run(found(members)), Err(GroupError::Members));
    }
    assert_eq!(machine.run(found(&[1, 3])), Err(GroupError::NoSuchNode { node: NodeId(3) }));
}

/// A shard without its unit is a state that no manager can have come to.
#[test]
fn a_group_that_something_counts_on_does_not_end() {
    let mut machine = two_nodes();
    let (members, hosts) = (vec![NodeId(1)], vec![NodeId(1)]);
    machine.run(OpenShard { expected_next: 1, capacity: 10, members, hosts }).unwrap();
    let refused = machine.run(EndGroup { key: unit_key(1) }).unwrap_err();
    assert_eq!((&refused, refused.kind()), (&GroupError::InUse, ErrorKind::Conflict));
    assert_eq!(machine.0.check(), Ok(()));
}
