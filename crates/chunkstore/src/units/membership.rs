//! The members of a unit's group follow the manager's record: nodes that were removed leave, others take their places.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use consensus::{FormerVoters, MemberError, NodeId};
use manager::Snapshot;

use super::member::UnitMember;

impl UnitMember {
    /// One change at a time; what fails is tried again.
    pub(super) fn keep_members(self: &Arc<Self>, state: &Snapshot) {
        let wanted = self.wanted_members(state);
        let voters: BTreeSet<NodeId> = self.group.status().voters.into_iter().flatten().collect();
        let is_so = wanted.keys().copied().collect::<BTreeSet<_>>() == voters;
        if wanted.is_empty() || is_so || self.is_changing_members.swap(true, Ordering::AcqRel) {
            return;
        }
        let member = self.clone();
        self.env.spawn(async move {
            match member.change_members(&wanted, &voters).await {
                Ok(()) => tracing::info!(shard = member.shard.0, members = ?wanted, "the maintenance unit has other members"),
                Err(error) => tracing::info!(shard = member.shard.0, %error, "the unit's members are not changed yet"),
            }
            member.is_changing_members.store(false, Ordering::Release);
        });
    }

    async fn change_members(&self, wanted: &BTreeMap<NodeId, String>, voters: &BTreeSet<NodeId>) -> Result<(), MemberError> {
        for (node, address) in wanted.iter().filter(|(node, _)| !voters.contains(node)) {
            self.group.add_learner(*node, address).await?;
        }
        self.group.set_voters(&wanted.keys().copied().collect(), FormerVoters::Leave).await
    }

    /// By the manager's record: members whose nodes there are, and where these listen.
    fn wanted_members(&self, state: &Snapshot) -> BTreeMap<NodeId, String> {
        let Some(record) = state.shard(self.shard.0) else { return BTreeMap::new() };
        let nodes = record.members.iter().filter_map(|node| state.node(*node));
        nodes.map(|node| (NodeId::of_identity(&node.identity.0), node.address.clone())).collect()
    }
}
