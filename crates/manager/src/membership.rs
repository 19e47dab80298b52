//! What a manager says of its members, and how they change. A manager that is alone leads, and has none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use consensus::{GroupStatus, NodeId, Peer};
use net::{BoxFuture, Refusal, Request, Service};
use types::NodeIdentity;

use crate::error::{FreshError, MembershipError};
use crate::manager::{Backing, Manager};
use crate::replicated::{ManagerService, MemberChange, Replicated, has_vote};

/// A member of a replicated manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub node: NodeId,
    pub address: String,
    pub role: MemberRole,
}

/// What a member counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// It counts for quorums.
    Voter,
    /// It only follows.
    Learner,
}

/// A replicated manager, as far as this member knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationStatus {
    pub node: NodeId,
    pub is_leader: bool,
    pub leader: Option<NodeId>,
    /// This member has a vote, also when an exchange of voters that is under way is over. True of a voter that has just started, by what
    /// its log holds.
    pub has_vote: bool,
    /// By number. Empty before the group was formed, or joined.
    pub members: Vec<GroupMember>,
    /// Why this member does not follow any more, if so.
    pub stopped: Option<String>,
}

/// The number of a node's member of the group: a part of the node's identity.
pub fn member_id(identity: NodeIdentity) -> NodeId {
    NodeId::of_identity(&identity.0)
}

impl Manager {
    /// Returns when [`Manager::snapshot`] holds everything that was acknowledged before the call, by whichever member.
    pub fn fresh(&self) -> BoxFuture<'_, Result<(), FreshError>> {
        Box::pin(async move {
            self.inner.asked.freshenings.fetch_add(1, Ordering::Relaxed);
            match &self.inner.backing {
                Backing::Alone(alone) => alone.failure().map_or(Ok(()), |failure| Err(FreshError::Failed(failure))),
                Backing::Replicated(replicated) => replicated.fresh().await,
            }
        })
    }

    /// Returns if this member leads and nobody else can at this moment. A quorum has said so within the leader's lease, or says so now.
    pub async fn confirm_lead(&self) -> Result<(), FreshError> {
        match self.replicated() {
            Some(replicated) => replicated.confirm_lead().await,
            None => Ok(()),
        }
    }

    /// Whether this member leads, as far as it knows. True of a manager that is alone.
    pub fn is_leader(&self) -> bool {
        self.replicated().is_none_or(|replicated| replicated.status().is_leader)
    }

    /// Who leads, and where, as far as this member knows.
    pub fn leader(&self) -> Option<Peer> {
        let status = self.replicated()?.status();
        let node = status.leader?;
        Some(Peer { node, address: status.addresses.get(&node)?.clone() })
    }

    /// The members and who leads; none of a manager that is alone.
    pub fn replication(&self) -> Option<ReplicationStatus> {
        let replicated = self.replicated()?;
        let status = replicated.status();
        let members = status.addresses.iter().map(|(node, address)| member(&status, *node, address)).collect();
        Some(ReplicationStatus {
            node: replicated.id(),
            is_leader: status.is_leader,
            leader: status.leader,
            has_vote: has_vote(&status, replicated.id()),
            members,
            stopped: status.stopped,
        })
    }

    /// Where this member's log has the others.
    pub fn other_members(&self, own_address: &str) -> BTreeSet<String> {
        let members = self.replication().map(|replication| replication.members).unwrap_or_default();
        members.into_iter().map(|member| member.address).filter(|address| address != own_address).collect()
    }

    /// Members of the group whose nodes are not registered: they are joining, or their join ended half-way.
    pub fn unregistered_members(&self) -> Vec<GroupMember> {
        let members = self.replication().map(|replication| replication.members).unwrap_or_default();
        let state = self.snapshot();
        let registered: BTreeSet<NodeId> = state.nodes().map(|node| member_id(node.identity)).collect();
        members.into_iter().filter(|member| !registered.contains(&member.node)).collect()
    }

    /// Begins a new group with these members, whose managers are open. Called once in a cluster's life, on one of them; doing it on all
    /// with the same members is safe.
    pub fn form<'a>(&'a self, members: &'a BTreeMap<NodeId, String>) -> BoxFuture<'a, Result<(), MembershipError>> {
        Box::pin(async move { self.members()?.form(members).await })
    }

    /// Makes this node a member of the group that `via` belongs to; others reach it at `address`. A learner becomes a voter by joining as
    /// one. A voter does not become a learner.
    pub fn join<'a>(&'a self, via: &'a Peer, address: &'a str, role: MemberRole) -> BoxFuture<'a, Result<(), MembershipError>> {
        Box::pin(async move {
            let replicated = self.members()?;
            let change = MemberChange::Add { node: replicated.id(), address: address.to_owned(), role };
            replicated.change_members(change, Some(via)).await
        })
    }

    /// Makes a node, whose manager is open, a learner and then a voter. Asked of any member.
    pub async fn add_member(&self, node: NodeId, address: &str) -> Result<(), MembershipError> {
        let change = MemberChange::Add { node, address: address.to_owned(), role: MemberRole::Voter };
        self.members()?.change_members(change, None).await
    }

    /// Takes a node out of the group. Asked of any member.
    pub async fn remove_member(&self, node: NodeId) -> Result<(), MembershipError> {
        self.members()?.change_members(MemberChange::Remove(node), None).await
    }

    /// Asks a voter to lead. Whether it took over shows in [`Manager::leader`]. Asked of any member.
    pub async fn transfer_leader(&self, to: NodeId) -> Result<(), MembershipError> {
        self.members()?.change_members(MemberChange::Lead(to), None).await
    }

    /// What answers other members' managers: to be served where their transport expects it.
    pub fn service(&self) -> Arc<dyn Service> {
        match self.replicated() {
            Some(replicated) => Arc::new(ManagerService(Arc::clone(replicated))),
            None => Arc::new(NoMembers),
        }
    }

    fn replicated(&self) -> Option<&Arc<Replicated>> {
        match &self.inner.backing {
            Backing::Alone(_) => None,
            Backing::Replicated(replicated) => Some(replicated),
        }
    }

    fn members(&self) -> Result<&Arc<Replicated>, MembershipError> {
        self.replicated().ok_or(MembershipError::Alone)
    }
}

fn member(status: &GroupStatus, node: NodeId, address: &str) -> GroupMember {
    let role = if status.learners.contains(&node) { MemberRole::Learner } else { MemberRole::Voter };
    GroupMember { node, address: address.to_owned(), role }
}

/// Of a manager that is alone.
struct NoMembers;

impl Service for NoMembers {
    fn handle(&self, _: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async { Err(Refusal::new("this manager is alone")) })
    }
}
