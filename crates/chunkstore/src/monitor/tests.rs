use std::collections::BTreeSet;

use manager::{Manager, RegisterNode};
use types::{DeviceId, DeviceUuid, NodeId, NodeIdentity};

use super::{Change, changes};
use crate::units::fixture::{manager_of_four, node_record};
use groups::choice::{Heard, least_used};

/// These are there; the others are away if they have had the time to say that they are not.
fn heard(nodes: &[u32], is_all: bool) -> Heard {
    let away = (1..=5).filter(|node| is_all && !nodes.contains(node)).map(NodeId).collect();
    Heard { nodes: nodes.iter().copied().map(NodeId).collect(), is_all, away }
}

fn ids<const N: usize>(nodes: [u32; N]) -> Vec<NodeId> {
    nodes.map(NodeId).into()
}

/// Six nodes share the lookup units of six shards evenly, and those that are used alike keep their order.
#[test]
fn nodes_that_do_less_come_first() {
    let all: Vec<NodeId> = (0..6).map(NodeId).collect();
    let mut shards: Vec<Vec<NodeId>> = Vec::new();
    for _ in 0..6 {
        let hosts = least_used(all.clone(), &all.iter().copied().collect(), shards.iter().flatten());
        shards.push(hosts[..3].to_vec());
    }
    assert_eq!(shards[0], [NodeId(0), NodeId(1), NodeId(2)]);
    assert_eq!(shards[1], [NodeId(3), NodeId(4), NodeId(5)]);
    for node in all {
        assert_eq!(shards.iter().flatten().filter(|host| **host == node).count(), 3, "{node:?}");
    }
}

/// The next shard was founded on nodes that had been away for long, because they did least: no put went on until they were back.
#[test]
fn nodes_that_are_away_come_last() {
    let all: Vec<NodeId> = (0..5).map(NodeId).collect();
    let heard = [0, 1, 4].map(NodeId).into();
    let used = [0, 1, 4, 0].map(NodeId);
    assert_eq!(least_used(all, &heard, used.iter()), [1, 4, 0, 2, 3].map(NodeId));
}

/// The manager's leader and another node died together, and the open shard was full by then: the next one was founded on those that were gone, since nobody had been heard yet.
#[tokio::test(start_paused = true)]
async fn nothing_is_founded_on_nodes_that_had_no_time_to_be_heard() {
    let manager = manager_of_four(8).await;
    let founded = |nodes: &[u32], is_all| -> Option<Vec<NodeId>> {
        match changes(&manager.snapshot(), NodeId(1), &heard(nodes, is_all)).as_slice() {
            [] => None,
            [Change::Open { members, hosts, .. }] => {
                assert_eq!(members.iter().collect::<BTreeSet<_>>(), hosts.iter().collect::<BTreeSet<_>>());
                Some(members.clone())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(founded(&[1], false), None);
    assert_eq!(founded(&[1, 4], false), None);
    assert_eq!(founded(&[1, 3, 4], false), Some(ids([1, 3, 4])));
    assert_eq!(founded(&[1, 4], true), Some(ids([1, 4, 2])), "there are no others");
    // With two that are away there would be no leader: the shard was closed for that, and the next one was founded like it, and the next.
    assert_eq!(founded(&[1], true), Some(ids([1])));
    assert_eq!(founded(&[], true), None, "the manager's leader has no space");
}

fn members_named(manager: &Manager, heard: &Heard) -> Option<Vec<NodeId>> {
    match changes(&manager.snapshot(), NodeId(1), heard).as_slice() {
        [] => None,
        [Change::Members { members, .. }] => Some(members.clone()),
        other => panic!("{other:?}"),
    }
}

/// What it knows would be lost with the one, for as long as the third node is away; and with two members it would need both for ever if one died before the third is back.
#[tokio::test(start_paused = true)]
async fn a_unit_that_began_alone_has_three_members_when_the_second_is_there() {
    let manager = manager_of_four(8).await;
    manager.open_shard(manager.snapshot().next_shard(), 100, ids([1]), ids([1, 2, 3])).await.expect("it opens");
    let named = |nodes: &[u32], is_all| members_named(&manager, &heard(nodes, is_all));
    assert_eq!(named(&[1], true), None);
    assert_eq!(named(&[1, 4], false), None, "who stays shall have had the time to be heard");
    assert_eq!(named(&[1, 4], true), Some(ids([1, 4, 2])));
    for is_all in [false, true] {
        assert_eq!(named(&[1, 3, 4], is_all), Some(ids([1, 3, 4])));
    }
    for device in [2, 3] {
        manager.place_device(DeviceId(device), None).await.expect("a device");
    }
    assert_eq!(named(&[1, 2], true), None, "there is no third one, and with two of two both would be needed");
}

/// It stayed there, though nodes on other hosts came: both were lost with one host.
#[tokio::test(start_paused = true)]
async fn a_unit_that_began_alone_waits_for_another_host() {
    let manager = manager_of_four(8).await;
    let device = manager.add_device(DeviceUuid([9; 16]), "/dev/x", 1 << 40).await.expect("a device").id;
    let beside = RegisterNode {
        identity: NodeIdentity([9; 16]),
        name: "beside".to_owned(),
        address: "beside:1".to_owned(),
        ..node_record(0)
    };
    let beside = manager.register_node(beside).await.expect("a node").id;
    manager.place_device(device, Some(beside)).await.expect("the node is there");
    manager.register_volume(device, 8).await.expect("a device");
    assert_eq!(beside, NodeId(5));
    manager.open_shard(manager.snapshot().next_shard(), 100, ids([1]), ids([1, 2, 3])).await.expect("it opens");
    assert_eq!(members_named(&manager, &heard(&[1, 5], true)), None);
    assert_eq!(members_named(&manager, &heard(&[1, 4, 5], true)), Some(ids([1, 4, 2])));
}

/// One report that was lost was taken for a node that is away: the shard was founded on one disk.
#[tokio::test(start_paused = true)]
async fn no_unit_begins_alone_for_a_report_that_was_lost() {
    let manager = manager_of_four(8).await;
    let founded = |away: &[u32]| {
        let heard = Heard { away: away.iter().copied().map(NodeId).collect(), ..heard(&[1], true) };
        changes(&manager.snapshot(), NodeId(1), &heard).len()
    };
    assert_eq!([&[][..], &[2], &[2, 3], &[2, 3, 4]].map(founded), [0, 0, 1, 1]);
}

/// One that was named was never replaced. But two members need each other, for ever if one of them dies before a third is named: that one may be away.
#[tokio::test(start_paused = true)]
async fn nodes_that_are_not_heard_replace_nobody_but_make_three_members_of_two() {
    let manager = manager_of_four(8).await;
    let members = ids([1, 2, 3]);
    manager.open_shard(manager.snapshot().next_shard(), 100, members.clone(), members).await.expect("it opens");
    manager.place_device(DeviceId(2), None).await.expect("a device");
    manager.remove_node(NodeId(3)).await.expect("it has no device");
    let named = |nodes: &[u32], is_all| {
        let of = |change: &Change| match change {
            Change::Members { members, .. } => members.clone(),
            Change::Hosts { hosts, .. } => hosts.clone(),
            Change::Open { .. } => panic!("{change:?}"),
        };
        changes(&manager.snapshot(), NodeId(1), &heard(nodes, is_all)).iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(named(&[1, 2], false), [ids([1, 2]), ids([1, 2])]);
    assert_eq!(named(&[1, 2], true), [ids([1, 2, 4]), ids([1, 2])]);
    for is_all in [false, true] {
        assert_eq!(named(&[1, 4], is_all), [ids([1, 2, 4]), ids([1, 2, 4])]);
    }
}
