//! The members of a unit's group follow the manager's record: nodes that were removed leave, others take their places.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consensus::{Group, GroupStatus, MemberError, NodeId, StateMachine};
use manager::Snapshot;

use super::member::UnitMember;

impl UnitMember {
    /// One change at a time; what fails is tried again.
    pub(super) fn keep_members(self: &Arc<Self>, state: &Snapshot) {
        let successors = self.successors.lock().clone();
        self.make_members(successors.unwrap_or_else(|| self.wanted_members(state)));
    }

    pub(super) fn make_members(self: &Arc<Self>, wanted: BTreeMap<NodeId, String>) {
        if wanted.is_empty() || are_members(&self.group.status(), &wanted) {
            return;
        }
        let silent = self.silent_nodes();
        self.in_turn(&self.changing_members, async move |member| match change_members(&member.group, &wanted, &silent).await {
            Ok(true) => tracing::info!(shard = member.shard.0, ?wanted, "the maintenance unit has other members"),
            Ok(false) => {}
            Err(error) => tracing::info!(shard = member.shard.0, %error, "the unit's members are not changed yet"),
        });
    }

    /// Those that say nothing to this leader.
    pub(super) fn silent_nodes(&self) -> BTreeSet<NodeId> {
        let (now, state) = (self.env.now(), self.manager.snapshot());
        let leading = self.leading.lock();
        let is_silent = |node| leading.as_ref().is_none_or(|leading| leading.is_silent(now, &state, self.shard, node));
        let silent = state.nodes().filter(|node| is_silent(node.id));
        silent.map(|node| NodeId::of_identity(&node.identity.0)).collect()
    }

    /// By the manager's record: members whose nodes there are, and where these listen.
    fn wanted_members(&self, state: &Snapshot) -> BTreeMap<NodeId, String> {
        let Some(record) = state.shard(self.shard.0) else { return BTreeMap::new() };
        let nodes = record.members.iter().filter_map(|node| state.node(*node));
        nodes.map(|node| (NodeId::of_identity(&node.identity.0), node.address.clone())).collect()
    }
}

/// Makes these the members, or begins to; whether anything was changed. Those who leave in the middle of an exchange must come back as learners if they are wanted again: it is
/// ended first.
async fn change_members<S: StateMachine>(
    group: &Group<S>,
    wanted: &BTreeMap<NodeId, String>,
    silent: &BTreeSet<NodeId>,
) -> Result<bool, MemberError> {
    group.finish_exchange().await?;
    let status = group.status();
    // Changes before this one that did not come to their end left them.
    let unwanted: BTreeSet<NodeId> = status.learners.iter().copied().filter(|node| !wanted.contains_key(node)).collect();
    if !unwanted.is_empty() {
        group.remove_learners(&unwanted).await?;
    }
    let voters: BTreeSet<NodeId> = status.voters.iter().flatten().copied().collect();
    let stay: BTreeSet<NodeId> = voters.iter().copied().filter(|node| wanted.contains_key(node)).collect();
    let (next, failure) = next_voters(group, wanted, &voters, &stay, silent).await?;
    // Who leaves keeps its vote until all others have theirs.
    let is_whole = next.len() == wanted.len();
    let changes = next != voters && (is_whole || stay == voters);
    if changes {
        group.set_voters(&next).await?;
    }
    failure.filter(|_| !is_whole).map_or(Ok(changes), Err)
}

/// Those who stay, and those who have caught up; and why others have not. One that is away or does not catch up makes an odd number of an even one: no decision needs more votes for
/// that, and when it is back it stands in for any of the others. Two could not take it in when one of them has died meanwhile.
async fn next_voters<S: StateMachine>(
    group: &Group<S>,
    wanted: &BTreeMap<NodeId, String>,
    voters: &BTreeSet<NodeId>,
    stay: &BTreeSet<NodeId>,
    silent: &BTreeSet<NodeId>,
) -> Result<(BTreeSet<NodeId>, Option<MemberError>), MemberError> {
    let new = wanted.keys().copied().filter(|node| !voters.contains(node));
    // A leader that was removed hears of nobody any more: where somebody leaves, all that are named are waited for.
    let (away, there): (Vec<NodeId>, Vec<NodeId>) = new.partition(|node| *stay == *voters && silent.contains(node));
    let mut waited = Waited::default();
    waited.wait_for(group, wanted, there).await;
    if !waited.behind.is_empty() {
        // That took a while: nothing could be decided any more if one that has a vote now had gone meanwhile.
        let caught_up = std::mem::take(&mut waited.caught_up);
        waited.wait_for(group, wanted, caught_up).await;
    }
    let Waited { caught_up, behind, failure } = waited;
    let mut next: BTreeSet<NodeId> = stay.iter().copied().chain(caught_up).collect();
    let odd_one = behind.into_iter().chain(away).next().filter(|_| !next.is_empty() && next.len().is_multiple_of(2));
    let Some(odd_one) = odd_one else { return Ok((next, failure)) };
    if stay != voters {
        // Who leaves may have stood in for one of these; the odd one does not yet.
        let mut waited = Waited::default();
        waited.wait_for(group, wanted, stay.iter().copied()).await;
        if waited.failure.is_some() {
            return Ok((next, waited.failure));
        }
    }
    env::mark("chunks: a unit took in a member that is away");
    group.add_absent_learner(odd_one, &wanted[&odd_one]).await?;
    next.insert(odd_one);
    Ok((next, failure))
}

/// Members that were waited for.
#[derive(Default)]
struct Waited {
    caught_up: Vec<NodeId>,
    behind: Vec<NodeId>,
    /// Why one of these has not caught up.
    failure: Option<MemberError>,
}

impl Waited {
    /// One after the other; those that are not members are from now on, without a vote.
    async fn wait_for<S: StateMachine>(
        &mut self,
        group: &Group<S>,
        wanted: &BTreeMap<NodeId, String>,
        nodes: impl IntoIterator<Item = NodeId>,
    ) {
        for node in nodes {
            match group.add_learner(node, &wanted[&node]).await {
                Ok(()) => self.caught_up.push(node),
                Err(error) => {
                    self.behind.push(node);
                    self.failure = Some(error);
                }
            }
        }
    }
}

/// Whether these have the votes, all of them, and there is nobody else.
fn are_members(status: &GroupStatus, wanted: &BTreeMap<NodeId, String>) -> bool {
    match &status.voters[..] {
        [voters] => voters.iter().eq(wanted.keys()) && status.learners.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use consensus::{BASE_BYTES, GroupId, LogPlace, Node, SimulatedTransport};
    use disk::{SimDisk, SimOptions};
    use env::Env;
    use format::chunk_command::ChunkCommand;
    use format::chunk_id::ShardId;
    use types::DeviceId;
    use wal::RegionStore;

    use super::*;
    use crate::units::machine::UnitMachine;

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

    async fn run(env: &Env, transport: &SimulatedTransport, id: u64) -> (Node, Group<UnitMachine>) {
        let size_bytes = BASE_BYTES + (16 << 20);
        let disk = Arc::new(SimDisk::new(env, SimOptions { size_bytes, ..SimOptions::default() }));
        let segments = RegionStore::new(disk.clone(), BASE_BYTES, 1 << 20, 16);
        let log = LogPlace::new(Arc::new(segments), disk, 16);
        let node = Node::open(env, NodeId(id), &log, transport.port(NodeId(id))).await.expect("a log");
        transport.plug_in(NodeId(id), node.service());
        let group = node.start_group(GROUP, UnitMachine::new(ShardId(1), 100)).await.expect("a group");
        (node, group)
    }

    fn members(ids: &[u64]) -> BTreeMap<NodeId, String> {
        ids.iter().map(|id| (NodeId(*id), format!("node-{id}"))).collect()
    }

    async fn can_write(env: &Env, groups: &[&Group<UnitMachine>], block: u32) -> bool {
        let command = ChunkCommand::Grant { device: DeviceId(1), first_block: block, blocks: 1 };
        for _ in 0..300 {
            for group in groups {
                if group.status().is_leader && group.propose(&command).await.is_ok() {
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
    async fn of_three(env: &Env, transport: &SimulatedTransport) -> Vec<(Node, Group<UnitMachine>)> {
        let mut nodes = Vec::new();
        for id in 1..=3 {
            nodes.push(run(env, transport, id).await);
        }
        nodes[0].1.initialize(&members(&[1])).await.expect("it is new");
        assert!(can_write(env, &[&nodes[0].1], 0).await);
        assert_eq!(change_members(&nodes[0].1, &members(&[1, 2, 3]), &BTreeSet::new()).await, Ok(true));
        nodes
    }

    async fn stop(transport: &SimulatedTransport, (node, group): (Node, Group<UnitMachine>)) {
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
}
