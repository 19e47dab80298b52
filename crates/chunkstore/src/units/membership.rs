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
    let new = wanted.iter().filter(|(node, _)| !voters.contains(node));
    if voters.iter().all(|node| wanted.contains_key(node)) {
        let (away, there) = new.partition(|(node, _)| silent.contains(node));
        return grow(group, voters, there, away).await;
    }
    for (node, address) in new {
        group.add_learner(*node, address).await?;
    }
    group.set_voters(&wanted.keys().copied().collect()).await?;
    Ok(true)
}

/// Takes in those that are there. One that is away makes an odd number of an even one: no decision needs more votes for that, and when it is back it stands in for any of the
/// others. Two could not take it in when one of them has died meanwhile.
async fn grow<S: StateMachine>(
    group: &Group<S>,
    before: BTreeSet<NodeId>,
    there: Vec<(&NodeId, &String)>,
    away: Vec<(&NodeId, &String)>,
) -> Result<bool, MemberError> {
    let mut voters = before.clone();
    let mut failure = None;
    for (node, address) in there {
        match group.add_learner(*node, address).await {
            Ok(()) => _ = voters.insert(*node),
            Err(error) => failure = Some(error),
        }
    }
    if let Some((node, address)) = away.first().filter(|_| voters.len().is_multiple_of(2)) {
        env::mark("chunks: a unit took in a member that is away");
        group.add_absent_learner(**node, address).await?;
        voters.insert(**node);
    }
    if voters != before {
        group.set_voters(&voters).await?;
    }
    failure.map_or(Ok(voters != before), Err)
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
        drop(of_second);
        transport.unplug(NodeId(2));
        second.shut_down().await;
        let (_third, of_third) = run(&env, &transport, 3).await;
        assert!(can_write(&env, &[&group, &of_third], 2).await, "the third one does as well");
    }

    /// Nobody came in while one that was named had gone again: all were waited for.
    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_catch_up_keeps_no_other_out() {
        let env = Env::simulated(72);
        let transport = SimulatedTransport::new(&env);
        let (_first, group) = run(&env, &transport, 1).await;
        let (_third, _of_third) = run(&env, &transport, 3).await;
        group.initialize(&members(&[1])).await.expect("it is new");
        assert!(can_write(&env, &[&group], 0).await);
        let wanted = members(&[1, 2, 3]);
        let nobody = BTreeSet::new();
        let changed = change_members(&group, &wanted, &nobody).await;
        assert!(matches!(changed, Err(MemberError::Unknown { .. })), "{changed:?}");
        assert_eq!(group.status().voters, [[1, 3].map(NodeId).into()]);
        assert_eq!(change_members(&group, &wanted, &[NodeId(2)].into()).await, Ok(true));
        assert!(are_members(&group.status(), &wanted), "{:?}", group.status());
    }
}
