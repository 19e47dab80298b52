//! Members come, go, and hand over.

use std::collections::{BTreeMap, BTreeSet};

use consensus::{GroupStatus, MemberError, NodeId, Peer, ReadError};

use crate::error::MembershipError;
use crate::limits::{MAX_MEMBER_ADDRESS_BYTES, MEMBERSHIP_DEADLINE};
use crate::replicated::Replicated;
use crate::replicated::leader::Unanswered;
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
            MemberChange::Add { node, address } => Ask::AddMember { node, address },
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

    /// As the leader: a learner that catches up, then a voter.
    pub(super) async fn take_in(&self, node: NodeId, address: &str) -> Answer {
        if address.len() > MAX_MEMBER_ADDRESS_BYTES {
            return Answer::Refused { reason: format!("an address of {} bytes", address.len()) };
        }
        let _turn = self.changes.acquire().await.expect("the semaphore is never closed");
        let status = self.group.status();
        let voters = match one_set(&status) {
            Ok(voters) => voters,
            Err(answer) => return answer,
        };
        if status.addresses.get(&node).is_some_and(|known| known != address) {
            return Answer::Refused { reason: format!("node {node} is a member at another address") };
        }
        if voters.contains(&node) {
            return Answer::Done;
        }
        if let Err(error) = self.group.add_learner(node, address).await {
            return member_answer(error);
        }
        match self.group.add_voter(node).await {
            Ok(()) => Answer::Done,
            Err(error) => member_answer(error),
        }
    }

    /// As the leader: out of the voters, or of the learners.
    pub(super) async fn take_out(&self, node: NodeId) -> Answer {
        let _turn = self.changes.acquire().await.expect("the semaphore is never closed");
        let status = self.group.status();
        let voters = match one_set(&status) {
            Ok(voters) => voters,
            Err(answer) => return answer,
        };
        let removed = if voters.contains(&node) {
            self.group.remove_voter(node).await
        } else if status.learners.contains(&node) {
            self.group.remove_learners(&[node].into()).await
        } else {
            Ok(())
        };
        match removed {
            Ok(()) => Answer::Done,
            Err(error) => member_answer(error),
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
        if !status.voters.iter().all(|set| set.contains(&to)) {
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
    Add { node: NodeId, address: String },
    Remove(NodeId),
    Lead(NodeId),
}

/// The voters of a group that is not exchanging them and that this node leads.
fn one_set(status: &GroupStatus) -> Result<BTreeSet<NodeId>, Answer> {
    if !status.is_leader {
        let leader = status.leader.and_then(|node| Some((node, status.addresses.get(&node)?.clone())));
        return Err(Answer::NotLeader { leader });
    }
    match &status.voters[..] {
        [voters] => Ok(voters.clone()),
        _ => Err(Answer::failed("another change of members is under way", true)),
    }
}

fn member_answer(error: MemberError) -> Answer {
    match error {
        MemberError::NotLeader(other) => Answer::not_leader(other.leader),
        MemberError::Unknown { reason } => Answer::failed(reason, false),
        error => Answer::Refused { reason: error.to_string() },
    }
}
