//! Exchanges of members, with nodes that are away.

use std::sync::Arc;
use std::time::Duration;

use consensus::{BASE_BYTES, FrozenState, GroupId, Keeping, LogIndex, LogPlace, MachineError, Node, SimulatedTransport, Whole};
use disk::{SimDisk, SimOptions};
use env::Env;
use wal::RegionStore;

use super::*;

pub fn status(voters: &[&[u64]], learners: &[u64]) -> GroupStatus {
    let nodes = |ids: &[u64]| -> BTreeSet<NodeId> { ids.iter().map(|id| NodeId(*id)).collect() };
    GroupStatus {
        term: consensus::Term(1),
        leader: None,
        is_leader: false,
        last: None,
        applied: None,
        snapshot: None,
        purged: None,
        voters: voters.iter().map(|set| nodes(set)).collect(),
        learners: nodes(learners),
        addresses: BTreeMap::new(),
        stopped: None,
    }
}

#[test]
fn what_is_in_the_middle_is_not_done() {
    let wanted = (1..=3).map(|id| (NodeId(id), String::new())).collect();
    assert!(are_members(&status(&[&[1, 2, 3]], &[]), &wanted));
    assert!(!are_members(&status(&[&[1, 2]], &[]), &wanted));
    // All that are wanted vote, and it will stay so, but until then both sets must agree.
    assert!(!are_members(&status(&[&[1, 2], &[1, 2, 3]], &[]), &wanted));
    assert!(!are_members(&status(&[&[1, 2, 3], &[1, 2, 3]], &[]), &wanted));
    assert!(!are_members(&status(&[&[1, 2, 3]], &[4]), &wanted), "one that did not catch up in time");
}

const GROUP: GroupId = GroupId(9);

/// Adds up what is proposed.
#[derive(Default)]
struct Sum(u32);

impl StateMachine for Sum {
    type Command = u32;
    type Reply = u32;

    fn encode(command: &u32) -> Vec<u8> {
        command.to_le_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<u32, MachineError> {
        bytes.try_into().map(u32::from_le_bytes).map_err(|_| MachineError("four bytes".to_owned()))
    }

    fn apply(&mut self, _: LogIndex, command: u32) -> Result<u32, MachineError> {
        self.0 += command;
        Ok(self.0)
    }

    fn keeping(&mut self) -> Keeping<'_> {
        Keeping::Whole(self)
    }
}

impl Whole for Sum {
    fn snapshot(&self) -> FrozenState {
        let sum = self.0;
        Box::new(move || sum.to_le_bytes().to_vec())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError> {
        self.0 = Sum::decode(snapshot)?;
        Ok(())
    }
}

async fn run(env: &Env, transport: &SimulatedTransport, id: u64) -> (Node, Group<Sum>) {
    let size_bytes = BASE_BYTES + (16 << 20);
    let disk = Arc::new(SimDisk::new(env, SimOptions { size_bytes, ..SimOptions::default() }));
    let segments = RegionStore::new(disk.clone(), BASE_BYTES, 1 << 20, 16);
    let log = LogPlace::new(Arc::new(segments), disk, 16);
    let node = Node::open(env, NodeId(id), &log, transport.port(NodeId(id))).await.expect("a log");
    transport.plug_in(NodeId(id), node.service());
    let group = node.start_group(GROUP, Sum::default()).await.expect("a group");
    (node, group)
}

fn members(ids: &[u64]) -> BTreeMap<NodeId, String> {
    ids.iter().map(|id| (NodeId(*id), format!("node-{id}"))).collect()
}

async fn can_write(env: &Env, groups: &[&Group<Sum>], summand: u32) -> bool {
    for _ in 0..300 {
        for group in groups {
            if group.status().is_leader && group.propose(&summand).await.is_ok() {
                return true;
            }
        }
        env.sleep(Duration::from_millis(100)).await;
    }
    false
}

/// With two members both were needed until the third was there, and for ever if one of the two had died by then.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_away_stands_in_for_one_that_dies_later() {
    let env = Env::simulated(71);
    let transport = SimulatedTransport::new(&env);
    let (_first, group) = run(&env, &transport, 1).await;
    let (second, of_second) = run(&env, &transport, 2).await;
    group.initialize(&members(&[1])).await.expect("it is new");
    assert!(can_write(&env, &[&group], 0).await);
    // Both others are away: each decision would wait for them.
    let (wanted, both) = (members(&[1, 2, 3]), [NodeId(2), NodeId(3)].into());
    assert_eq!(change_members(&group, &wanted, &both).await, Ok(false));
    assert_eq!(change_members(&group, &wanted, &[NodeId(3)].into()).await, Ok(true));
    assert!(are_members(&group.status(), &wanted), "{:?}", group.status());
    assert!(can_write(&env, &[&group], 1).await, "two are enough");
    stop(&transport, (second, of_second)).await;
    let (_third, of_third) = run(&env, &transport, 3).await;
    assert!(can_write(&env, &[&group, &of_third], 2).await, "the third one does as well");
}

/// Nobody came in while one that was named had gone again: all were waited for. Then those who came needed each other, for ever if one died.
#[tokio::test(start_paused = true)]
async fn one_that_does_not_catch_up_keeps_no_other_out_and_stands_in_for_one_that_dies_later() {
    let env = Env::simulated(72);
    let transport = SimulatedTransport::new(&env);
    let (_first, group) = run(&env, &transport, 1).await;
    let (third, of_third) = run(&env, &transport, 3).await;
    group.initialize(&members(&[1])).await.expect("it is new");
    assert!(can_write(&env, &[&group], 0).await);
    let wanted = members(&[1, 2, 3]);
    let nobody = BTreeSet::new();
    assert_eq!(change_members(&group, &wanted, &nobody).await, Ok(true));
    assert!(are_members(&group.status(), &wanted), "{:?}", group.status());
    assert!(can_write(&env, &[&group], 1).await, "two are enough");
    stop(&transport, (third, of_third)).await;
    let (_second, of_second) = run(&env, &transport, 2).await;
    assert!(can_write(&env, &[&group, &of_second], 2).await, "the second one does as well");
}

/// The group would have had one voter that is there, and one that is not.
#[tokio::test(start_paused = true)]
async fn one_that_does_not_catch_up_gets_no_vote_beside_one() {
    let env = Env::simulated(73);
    let transport = SimulatedTransport::new(&env);
    let (_first, group) = run(&env, &transport, 1).await;
    group.initialize(&members(&[1])).await.expect("it is new");
    assert!(can_write(&env, &[&group], 0).await);
    let changed = change_members(&group, &members(&[1, 2, 3]), &BTreeSet::new()).await;
    assert!(matches!(changed, Err(MemberError::Unknown { .. })), "{changed:?}");
    assert_eq!(group.status().voters, [[NodeId(1)].into()]);
    assert!(can_write(&env, &[&group], 1).await);
}

/// A group of three whose nodes run, and whose first one leads.
async fn of_three(env: &Env, transport: &SimulatedTransport) -> Vec<(Node, Group<Sum>)> {
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(run(env, transport, id).await);
    }
    nodes[0].1.initialize(&members(&[1])).await.expect("it is new");
    assert!(can_write(env, &[&nodes[0].1], 0).await);
    assert_eq!(change_members(&nodes[0].1, &members(&[1, 2, 3]), &BTreeSet::new()).await, Ok(true));
    nodes
}

async fn stop(transport: &SimulatedTransport, (node, group): (Node, Group<Sum>)) {
    drop(group);
    transport.unplug(node.id());
    node.shut_down().await;
}

/// The two that were left needed each other until a third one was there, and for ever if one had died by then.
#[tokio::test(start_paused = true)]
async fn who_leaves_is_replaced_by_one_that_is_away() {
    for is_named_silent in [true, false] {
        let env = Env::simulated(74);
        let transport = SimulatedTransport::new(&env);
        let mut nodes = of_three(&env, &transport).await;
        stop(&transport, nodes.pop().expect("a third one")).await;
        let wanted = members(&[1, 2, 4]);
        let silent = if is_named_silent { [NodeId(4)].into() } else { BTreeSet::new() };
        assert_eq!(change_members(&nodes[0].1, &wanted, &silent).await, Ok(true));
        assert!(are_members(&nodes[0].1.status(), &wanted), "{:?}", nodes[0].1.status());
        assert!(can_write(&env, &[&nodes[0].1], 1).await, "two are enough");
        stop(&transport, nodes.pop().expect("a second one")).await;
        let (_fourth, of_fourth) = run(&env, &transport, 4).await;
        assert!(can_write(&env, &[&nodes[0].1, &of_fourth], 2).await, "the fourth one does as well");
    }
}

/// The one that was to leave stood in for another one that was away: without it nothing could have been decided, not even that.
#[tokio::test(start_paused = true)]
async fn who_leaves_stays_while_one_that_stays_is_away() {
    let env = Env::simulated(75);
    let transport = SimulatedTransport::new(&env);
    let mut nodes = of_three(&env, &transport).await;
    stop(&transport, nodes.remove(1)).await;
    let (wanted, silent) = (members(&[1, 2, 4]), [NodeId(2), NodeId(4)].into());
    let changed = change_members(&nodes[0].1, &wanted, &silent).await;
    assert!(matches!(changed, Err(MemberError::Unknown { .. })), "{changed:?}");
    assert_eq!(nodes[0].1.status().voters, [[1, 2, 3].map(NodeId).into()]);
    assert!(can_write(&env, &[&nodes[0].1], 1).await);
}
