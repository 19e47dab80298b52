//! Placement groups of the volume engine.

use types::{NodeId, ViewNumber};

use super::format::hex;
use super::machine::Machine;
use super::nodes::node;
use crate::{ActivatePlacement, ActiveMembership, Command, NamePlacement, PLACEMENT_GROUPS, PlacementError, PlacementRecord};

fn nodes(numbers: &[u32]) -> Vec<NodeId> {
    numbers.iter().copied().map(NodeId).collect()
}

pub(super) fn record(voters: &[u32]) -> PlacementRecord {
    PlacementRecord {
        group: 2,
        view: ViewNumber(7),
        primary: NodeId(voters[0]),
        voters: nodes(voters),
        learners: nodes(&[9]),
        is_active: true,
        base: None,
    }
}

fn name(after: Option<ViewNumber>, voters: &[u32], learners: &[u32]) -> NamePlacement {
    NamePlacement { group: 2, after, primary: NodeId(voters[0]), voters: nodes(voters), learners: nodes(learners) }
}

fn machine_with_nodes(count: u8) -> Machine {
    let mut machine = Machine::default();
    for number in 1..=count {
        machine.run(node(number)).unwrap();
    }
    machine
}

#[test]
fn golden_bytes_of_placement_groups() {
    assert_eq!(hex(&postcard::to_allocvec(&record(&[1, 3])).unwrap()), "02070102010301090100");
    let commands: [(Command, &str); 2] = [
        (name(Some(ViewNumber(5)), &[1, 3], &[2]).into(), "0b00020105010201030102"),
        (ActivatePlacement { group: 2, view: ViewNumber(7) }.into(), "0b010207"),
    ];
    for (command, bytes) in commands {
        assert_eq!(hex(&command.encode()), bytes, "{command:?}");
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
}

#[test]
fn a_view_follows_the_newest_one_and_counts_when_it_is_active() {
    let mut machine = machine_with_nodes(4);
    let first = machine.run(name(None, &[1, 2], &[])).unwrap();
    assert_eq!((first.is_active, &first.base), (false, &None));
    assert_eq!(machine.run(name(None, &[1, 2], &[])), Err(PlacementError::NotNewest));
    // Nobody has anything before the first active view.
    let second = machine.run(name(Some(first.view), &[3, 2], &[4])).unwrap();
    assert!(second.view > first.view);
    let late = ActivatePlacement { group: 2, view: first.view };
    assert_eq!(machine.run(late), Err(PlacementError::NotNewest));
    assert!(machine.run(ActivatePlacement { group: 2, view: second.view }).unwrap().is_active);
    let outsider = machine.run(name(Some(second.view), &[1, 2], &[]));
    assert_eq!(outsider, Err(PlacementError::NotOfBase), "its primary has nothing");
    let stranger = machine.run(name(Some(second.view), &[2, 1], &[]));
    assert_eq!(stranger, Err(PlacementError::NotOfBase), "a voter was no learner");
    let third = machine.run(name(Some(second.view), &[2, 4], &[])).unwrap();
    let base = ActiveMembership { view: second.view, primary: NodeId(3), voters: nodes(&[3, 2]), learners: nodes(&[4]) };
    assert_eq!(third.base, Some(base.clone()));
    // It never became active: its new voter may lack something.
    assert_eq!(machine.run(name(Some(third.view), &[4], &[])), Err(PlacementError::NotOfBase));
    assert_eq!(machine.run(name(Some(third.view), &[3], &[])).unwrap().base, Some(base));
}

#[test]
fn what_is_no_membership_is_refused() {
    let mut machine = machine_with_nodes(2);
    assert_eq!(machine.run(name(None, &[1, 1], &[])), Err(PlacementError::Members));
    assert_eq!(machine.run(name(None, &[1, 7], &[])), Err(PlacementError::NoSuchNode { node: NodeId(7) }));
    let group = PLACEMENT_GROUPS;
    assert_eq!(machine.run(NamePlacement { group, ..name(None, &[1], &[]) }), Err(PlacementError::NoSuchGroup { group }));
    let primary = NodeId(2);
    assert_eq!(machine.run(NamePlacement { primary, ..name(None, &[1], &[]) }), Err(PlacementError::Members));
}
