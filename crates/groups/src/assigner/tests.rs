use std::sync::Arc;

use env::Env;
use manager::{GroupKey, GroupKind, Manager, RegisterNode, Snapshot};
use types::{NodeId, NodeIdentity};

use super::*;

const KIND: GroupKind = GroupKind(200);

fn node(number: u32) -> RegisterNode {
    let text = |what: &str| format!("{what}-{number}");
    RegisterNode {
        identity: NodeIdentity([number as u8; 16]),
        name: text("node"),
        address: text("address"),
        admin_address: String::new(),
        s3_address: String::new(),
        host: text("host"),
        rack: String::new(),
        zone: String::new(),
        version: String::new(),
        joined_ms: 0,
    }
}

async fn assigner(nodes: u32) -> Assigner {
    let env = Env::simulated(1);
    let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
    for number in 1..=nodes {
        manager.register_node(node(number)).await.expect("a node");
    }
    let wanted = |_: &Snapshot| BTreeSet::from([1, 2]);
    let able = |state: &Snapshot| state.nodes().map(|node| node.id).collect();
    Assigner { env, manager, kind: KIND, wanted, able, silent: Arc::new(BTreeSet::new) }
}

impl Assigner {
    /// Carries out what is to change while these nodes are silent; what that was.
    async fn step(&self, silent: &[u32], is_all: bool) -> Vec<Change> {
        let state = self.manager.snapshot();
        let silent = silent.iter().copied().map(NodeId).collect();
        let changes = self.changes(&state, &Heard::of(&state, silent, is_all));
        for change in changes.clone() {
            self.carry_out(change).await.expect("the manager takes it");
        }
        changes
    }

    fn members(&self, number: u32) -> Vec<u32> {
        let state = self.manager.snapshot();
        state
            .group(GroupKey { kind: KIND, number })
            .map_or(Vec::new(), |group| group.members.iter().map(|node| node.0).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn groups_are_founded_one_after_the_other_where_the_least_is() {
    let assigner = assigner(5).await;
    assert!(matches!(assigner.step(&[], true).await[..], [Change::Found { number: 1, .. }]));
    assert!(matches!(assigner.step(&[], true).await[..], [Change::Found { number: 2, .. }]));
    assert_eq!((assigner.members(1), assigner.members(2)), (vec![1, 2, 3], vec![4, 5, 1]));
    assert_eq!(assigner.step(&[], true).await, [], "nothing is lacking");
    assert_eq!(assigner.step(&[2, 3], true).await, [], "a node that is away stays a member");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_founded_on_nodes_that_may_only_be_late() {
    let assigner = assigner(3).await;
    assert_eq!(assigner.step(&[2, 3], false).await, []);
    assert_eq!(assigner.step(&[2, 3], true).await, [Change::Found { number: 1, members: vec![NodeId(1)] }], "these are away");
    // It gets the others as soon as one of them is there.
    let all = vec![NodeId(1), NodeId(2), NodeId(3)];
    assert!(assigner.step(&[3], true).await.contains(&Change::Members { number: 1, members: all }));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_removed_is_replaced_and_a_group_that_is_not_wanted_ends() {
    let mut assigner = assigner(4).await;
    assigner.step(&[], true).await;
    assigner.step(&[], true).await;
    assigner.manager.remove_node(NodeId(2)).await.expect("it has no device");
    assigner.step(&[], true).await;
    assert_eq!((assigner.members(1), assigner.members(2)), (vec![1, 3, 4], vec![4, 1, 3]));
    assigner.wanted = |_| BTreeSet::from([2]);
    assert_eq!(assigner.step(&[], true).await, [Change::End { number: 1 }]);
    assert_eq!(assigner.members(1), [] as [u32; 0]);
}
