//! The members of a unit's group follow the manager's record: nodes that were removed leave, others take their places.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consensus::{GroupStatus, MemberError, NodeId};
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
        self.in_turn(&self.changing_members, async move |member| match member.change_members(&wanted).await {
            Ok(()) => tracing::info!(shard = member.shard.0, members = ?wanted, "the maintenance unit has other members"),
            Err(error) => tracing::info!(shard = member.shard.0, %error, "the unit's members are not changed yet"),
        });
    }

    /// Those who leave in the middle of an exchange must come back as learners if they are wanted again: it is ended first.
    async fn change_members(&self, wanted: &BTreeMap<NodeId, String>) -> Result<(), MemberError> {
        self.group.finish_exchange().await?;
        let status = self.group.status();
        // Changes before this one that did not come to their end left them.
        let unwanted: BTreeSet<NodeId> = status.learners.iter().copied().filter(|node| !wanted.contains_key(node)).collect();
        if !unwanted.is_empty() {
            self.group.remove_learners(&unwanted).await?;
        }
        let has_vote = |node| status.voters.iter().any(|set| set.contains(node));
        for (node, address) in wanted.iter().filter(|(node, _)| !has_vote(*node)) {
            self.group.add_learner(*node, address).await?;
        }
        self.group.set_voters(&wanted.keys().copied().collect()).await
    }

    /// By the manager's record: members whose nodes there are, and where these listen.
    fn wanted_members(&self, state: &Snapshot) -> BTreeMap<NodeId, String> {
        let Some(record) = state.shard(self.shard.0) else { return BTreeMap::new() };
        let nodes = record.members.iter().filter_map(|node| state.node(*node));
        nodes.map(|node| (NodeId::of_identity(&node.identity.0), node.address.clone())).collect()
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
}
