use std::collections::BTreeSet;

use types::{DeviceId, NodeId};

use super::{Change, Heard, changes, least_used};
use crate::units::fixture::manager_of_four;

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
        let heard = Heard { nodes: nodes.iter().copied().map(NodeId).collect(), is_all };
        match changes(&manager.snapshot(), NodeId(1), &heard).as_slice() {
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

/// What it knows would be lost with the one, for as long as the third node is away.
#[tokio::test(start_paused = true)]
async fn a_unit_that_began_alone_has_a_second_member_while_it_waits_for_the_third() {
    let manager = manager_of_four(8).await;
    manager.open_shard(manager.snapshot().next_shard(), 100, ids([1]), ids([1, 2, 3])).await.expect("it opens");
    let named = |nodes: &[u32]| {
        let heard = Heard { nodes: nodes.iter().copied().map(NodeId).collect(), is_all: true };
        match changes(&manager.snapshot(), NodeId(1), &heard).as_slice() {
            [] => None,
            [Change::Members { members, .. }] => Some(members.clone()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(named(&[1]), None);
    assert_eq!(named(&[1, 4]), Some(ids([1, 4])));
    assert_eq!(named(&[1, 3, 4]), Some(ids([1, 3, 4])));
    for device in [2, 3] {
        manager.place_device(DeviceId(device), None).await.expect("a device");
    }
    assert_eq!(named(&[1, 2]), None, "there is no third one, and with two of two both would be needed");
}

/// One that was named was never replaced.
#[tokio::test(start_paused = true)]
async fn nodes_that_are_not_heard_replace_nobody() {
    let manager = manager_of_four(8).await;
    let members = ids([1, 2, 3]);
    manager.open_shard(manager.snapshot().next_shard(), 100, members.clone(), members).await.expect("it opens");
    manager.place_device(DeviceId(2), None).await.expect("a device");
    manager.remove_node(NodeId(3)).await.expect("it has no device");
    let named = |nodes: &[u32], is_all| {
        let heard = Heard { nodes: nodes.iter().copied().map(NodeId).collect(), is_all };
        let of = |change: &Change| match change {
            Change::Members { members, .. } => members.clone(),
            Change::Hosts { hosts, .. } => hosts.clone(),
            Change::Open { .. } => panic!("{change:?}"),
        };
        changes(&manager.snapshot(), NodeId(1), &heard).iter().map(of).collect::<Vec<_>>()
    };
    for is_all in [false, true] {
        assert_eq!(named(&[1, 2], is_all), [ids([1, 2]), ids([1, 2])]);
        assert_eq!(named(&[1, 4], is_all), [ids([1, 2, 4]), ids([1, 2, 4])]);
    }
}
