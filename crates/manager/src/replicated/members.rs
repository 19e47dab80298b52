//! Members come, go, and hand over.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use consensus::{Group, GroupStatus, MemberError, NodeId, Peer, ReadError};

use crate::error::MembershipError;
use crate::limits::{MAX_MEMBER_ADDRESS_BYTES, MEMBERSHIP_DEADLINE};
use crate::membership::MemberRole;
use crate::replicated::Replicated;
use crate::replicated::leader::Unanswered;
use crate::replicated::replica::Replica;
use crate::replicated::voices::Voices;
use crate::replicated::wire::{Answer, Ask};

impl Replicated {
    pub(crate) fn status(&self) -> GroupStatus {
        self.group.status()
    }

    /// Makes these the first members.
    pub(crate) async fn form(&self, members: &BTreeMap<NodeId, String>) -> Result<(), MembershipError> {
        self.group.initialize(members).await.map_err(|error| match error {
            MemberError::Unknown { reason } => MembershipError::Unknown { reason },
            error => MembershipError::Refused { reason: error.to_string() },
        })
    }

    /// Has the leader change the members. `via` is asked who leads if this node does not know.
    pub(crate) async fn change_members(&self, change: MemberChange, via: Option<&Peer>) -> Result<(), MembershipError> {
        let ask = match change {
            MemberChange::Add { node, address, role: MemberRole::Voter } => Ask::AddMember { node, address },
            MemberChange::Add { node, address, role: MemberRole::Learner } => Ask::AddLearner { node, address },
            MemberChange::Remove(node) => Ask::RemoveMember { node },
            MemberChange::Lead(to) => Ask::TransferLeader { to },
        };
        let deadline = self.env.now() + MEMBERSHIP_DEADLINE;
        let mut failures = Unanswered::new();
        match self.ask_leader(&ask, via, deadline, &mut failures).await {
            Some(Answer::Done) => Ok(()),
            Some(Answer::Refused { reason }) => Err(MembershipError::Refused { reason }),
            Some(other) => Err(MembershipError::Unknown { reason: format!("the leader answered {other:?}") }),
            None if failures.is_definite => Err(MembershipError::NoLeader { reason: failures.reason }),
            None => Err(MembershipError::Unknown { reason: failures.reason }),
        }
    }

    /// As the leader: a learner that catches up, and then a voter if it is to be one.
    pub(super) async fn take_in(&self, node: NodeId, address: &str, role: MemberRole) -> Answer {
        if address.len() > MAX_MEMBER_ADDRESS_BYTES {
            return Answer::Refused { reason: format!("an address of {} bytes", address.len()) };
        }
        let (group, address) = (self.group.clone(), address.to_owned());
        self.change(async move { let_in(&group, node, &address, role).await }).await
    }

    /// As the leader: out of the voters, or of the learners.
    pub(super) async fn take_out(&self, node: NodeId) -> Answer {
        let (group, voices) = (self.group.clone(), self.voices());
        self.change(async move { let_out(&group, &voices, node).await }).await
    }

    /// Makes a change when those before it are over. Once begun it goes on when the asker has gone: between two steps it would leave a
    /// member that counts for nothing.
    async fn change(&self, change: impl Future<Output = Result<(), Answer>> + Send + 'static) -> Answer {
        let turn = Arc::clone(&self.changes).acquire_owned().await.expect("the semaphore is never closed");
        let changed = self.env.spawn(async move {
            let _turn = turn;
            change.await
        });
        match changed.await {
            Ok(changed) => changed.err().unwrap_or(Answer::Done),
            Err(error) => Answer::failed(error, false),
        }
    }

    /// As the leader: lets another lead.
    pub(super) async fn hand_over(&self, to: NodeId) -> Answer {
        let status = self.group.status();
        if !status.is_leader {
            let leader = status.leader.and_then(|node| Some((node, status.addresses.get(&node)?.clone())));
            return Answer::NotLeader { leader };
        }
        if to == self.id() {
            return Answer::Done;
        }
        if !has_vote(&status, to) {
            return Answer::Refused { reason: format!("node {to} has no vote") };
        }
        match self.group.transfer_leader(to).await {
            Ok(()) => Answer::Done,
            Err(ReadError::NotLeader(other)) => Answer::not_leader(other.leader),
            Err(error) => Answer::failed(error, true),
        }
    }
}

/// A change of members, by the leader.
pub(crate) enum MemberChange {
    Add { node: NodeId, address: String, role: MemberRole },
    Remove(NodeId),
    Lead(NodeId),
}

async fn let_in(group: &Group<Replica>, node: NodeId, address: &str, role: MemberRole) -> Result<(), Answer> {
    let status = one_set(group).await?;
    if status.addresses.get(&node).is_some_and(|known| known != address) {
        if status.addresses.len() == 1 {
            return group.move_sole_member(address).await.map_err(member_answer);
        }
        if has_vote(&status, node) {
            return Err(Answer::Refused { reason: format!("node {node} is a member at another address") });
        }
        // It was not heard there, and may have been told a better one since.
        group.remove_learners(&[node].into()).await.map_err(member_answer)?;
    } else if has_vote(&status, node) {
        return match role {
            MemberRole::Voter => Ok(()),
            MemberRole::Learner => Err(Answer::Refused { reason: format!("node {node} has a vote") }),
        };
    }
    group.add_learner(node, address).await.map_err(member_answer)?;
    match role {
        MemberRole::Voter => group.add_voter(node).await.map_err(member_answer),
        MemberRole::Learner => Ok(()),
    }
}

async fn let_out(group: &Group<Replica>, voices: &Voices, node: NodeId) -> Result<(), Answer> {
    let status = one_set(group).await?;
    let removed = match has_vote(&status, node) {
        true => {
            voices.check_majority_without(node, &status).await?;
            group.remove_voter(node).await
        }
        false if status.learners.contains(&node) => group.remove_learners(&[node].into()).await,
        false => Ok(()),
    };
    removed.map_err(member_answer)
}

/// The members of a group that this node leads, when no exchange of voters is in the middle.
async fn one_set(group: &Group<Replica>) -> Result<GroupStatus, Answer> {
    let status = group.status();
    if !status.is_leader {
        let leader = status.leader.and_then(|node| Some((node, status.addresses.get(&node)?.clone())));
        return Err(Answer::NotLeader { leader });
    }
    group.finish_exchange().await.map_err(member_answer)?;
    Ok(group.status())
}

fn member_answer(error: MemberError) -> Answer {
    match error {
        MemberError::NotLeader(other) => Answer::not_leader(other.leader),
        error @ MemberError::UnderWay { .. } => Answer::failed(error, true),
        MemberError::Unknown { reason } => Answer::failed(reason, false),
        error => Answer::Refused { reason: error.to_string() },
    }
}

/// Whether a node has a vote, also by what the members are about to be.
pub(crate) fn has_vote(status: &GroupStatus, node: NodeId) -> bool {
    !status.voters.is_empty() && status.voters.iter().all(|set| set.contains(&node))
}
