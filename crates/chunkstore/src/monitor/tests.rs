use super::least_used;
use types::NodeId;

/// Six nodes share the lookup units of six shards evenly, and those that are used alike keep their order.
#[test]
fn nodes_that_do_less_come_first() {
    let all: Vec<NodeId> = (0..6).map(NodeId).collect();
    let mut shards: Vec<Vec<NodeId>> = Vec::new();
    for _ in 0..6 {
        let hosts = least_used(all.clone(), shards.iter().flatten());
        shards.push(hosts[..3].to_vec());
    }
    assert_eq!(shards[0], [NodeId(0), NodeId(1), NodeId(2)]);
    assert_eq!(shards[1], [NodeId(3), NodeId(4), NodeId(5)]);
    for node in all {
        assert_eq!(shards.iter().flatten().filter(|host| **host == node).count(), 3, "{node:?}");
    }
}
