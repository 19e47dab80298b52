use super::least_used;
use types::NodeId;

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
