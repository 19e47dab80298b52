//! Changes of a group's members.
//!
//! ```text
//!   {1,2,3} ── first step ──▶ {1,2,3} and {1,2,4} ── second step ──▶ {1,2,4}
//!                              both must agree
//! ```
//!
//! Invariants
//! - Changes that this node makes go one at a time; who makes one has the turn.
//! - An exchange of voters that was begun keeps the turn and goes on when nobody waits for it any more.
//! - An exchange that stands in the middle while nobody has the turn was begun by a leader that has gone. It is ended before another change
//!   begins, or when its leader looks after its groups. There is one way: the newer set stays, and who is in the older one alone
//!   leaves. Going on from the middle in any other way makes learners of these, or leaves the group where it is.

use net::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, InitializeError, RaftError};
use openraft::raft::ClientWriteResponse;
use openraft::{ChangeMembers, Precondition};
use tokio::sync::OwnedSemaphorePermit;

use super::Core;
use crate::error::MemberError;
use crate::id::NodeId;
use crate::limits::CATCH_UP_LIMIT;
use crate::raft::runtime::within;
use crate::raft::types::{RaftLogId, Types};

type Change = ChangeMembers<u64, String>;

impl Core {
    pub(crate) fn initialize(&self, members: BTreeMap<u64, String>) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move {
            match within(&self.env, self.raft.initialize(members)).await {
                Ok(()) => Ok(()),
                Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Err(MemberError::Initialized { group: self.group }),
                Err(RaftError::APIError(error)) => Err(MemberError::Refused { reason: error.to_string() }),
                Err(error) => Err(MemberError::Unknown { reason: error.to_string() }),
            }
        })
    }

    /// Returns when the learner has everything up to the entry that added it.
    pub(crate) fn add_learner(&self, node: NodeId, address: String) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move {
            let _turn = self.turn().await?;
            let added = async {
                let added = self.written(self.raft.add_learner(node.0, address, false)).await?;
                self.reached(node, added.log_id).await
            };
            tokio::select! {
                biased;
                added = added => added,
                () = self.env.sleep(CATCH_UP_LIMIT) => {
                    Err(MemberError::Unknown { reason: format!("node {node} has not caught up within {CATCH_UP_LIMIT:?}") })
                }
            }
        })
    }

    pub(crate) fn add_absent_learner(&self, node: NodeId, address: String) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move {
            let _turn = self.turn().await?;
            self.written(self.raft.add_learner(node.0, address, false)).await.map(drop)
        })
    }

    pub(crate) fn set_voters(&self, voters: BTreeSet<u64>) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move { self.exchange(ChangeMembers::ReplaceAllVoters(voters)).await })
    }

    /// Relative to whatever the voters are when the leader takes it up.
    pub(crate) fn add_voter(&self, node: NodeId) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move { self.exchange(ChangeMembers::AddVoterIds([node.0].into())).await })
    }

    /// As [`Core::add_voter`]; the voter leaves.
    pub(crate) fn remove_voter(&self, node: NodeId) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move { self.exchange(ChangeMembers::RemoveVoters([node.0].into())).await })
    }

    pub(crate) fn remove_learners(&self, nodes: BTreeSet<u64>) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move {
            let _turn = self.turn().await?;
            let change: Change = ChangeMembers::RemoveNodes(nodes);
            self.written(self.raft.change_membership(change, false)).await.map(drop)
        })
    }

    /// Notes another address of a member.
    pub(crate) fn set_address(&self, node: NodeId, address: String) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move {
            let _turn = self.turn().await?;
            let change: Change = ChangeMembers::SetNodes([(node.0, address)].into());
            self.written(self.raft.change_membership(change, false)).await.map(drop)
        })
    }

    /// Waits for its turn, and ends the exchange of voters that it finds in the middle, if any.
    pub(crate) fn finish_exchange(&self) -> BoxFuture<'_, Result<(), MemberError>> {
        Box::pin(async move { self.turn().await.map(drop) })
    }

    /// Whether there is an exchange to be ended that this node leads and does not make itself.
    pub(crate) fn is_exchange_left(&self) -> bool {
        self.is_leader() && self.changes.available_permits() > 0 && self.last_membership().1 > 1
    }

    /// Exchanges voters, in two steps, whether the caller goes on waiting or not.
    async fn exchange(&self, change: Change) -> Result<(), MemberError> {
        let turn = self.turn().await?;
        let core = self.clone();
        let exchange = self.env.spawn(async move {
            let _turn = turn;
            core.written(core.raft.change_membership(change, false)).await.map(drop)
        });
        exchange.await.unwrap_or_else(|error| Err(MemberError::Unknown { reason: error.to_string() }))
    }

    /// Has commands answered when they outlive the process, where no other node is a member and none is being made one. Ends it where it is not wanted.
    pub(crate) fn set_ordered(&self, is_wanted: bool) {
        let Ok(_turn) = self.changes.try_acquire() else { return };
        if is_wanted {
            self.log.begin_order(NodeId(*self.raft.node_id()));
        } else {
            self.log.state().set_ordered(false);
        }
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, MemberError> {
        let turn = Arc::clone(&self.changes).acquire_owned().await.expect("the semaphore is never closed");
        // Another member must not have what this one can lose.
        let settled = self.log.end_order().await;
        settled.map_err(|error| MemberError::Unknown { reason: error.to_string() })?;
        let (last, sets) = self.last_membership();
        if sets > 1 {
            env::mark("consensus: an exchange of voters ended for its leader");
            // What was seen, and nothing that came since. Without a node to add this is the second step.
            let seen = Precondition::LastMembershipLogId { last_membership_log_id: last };
            let nobody: Change = ChangeMembers::AddVoterIds(BTreeSet::new());
            self.written(self.raft.change_membership_if(nobody, false, [seen])).await?;
            tracing::info!(group = %self.group, "an exchange of voters that was left in the middle is ended");
        }
        Ok(turn)
    }

    /// The last entry with members, and its sets of voters.
    fn last_membership(&self) -> (Option<RaftLogId>, usize) {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let stored = &metrics.membership_config;
        (*stored.log_id(), stored.membership().get_joint_config().len())
    }

    /// Returns when a member has the entry. openraft's own wait is over as soon as one is no more than a snapshot's worth of entries behind:
    /// in a young group before it was heard at all.
    async fn reached(&self, node: NodeId, entry: RaftLogId) -> Result<(), MemberError> {
        if node.0 == *self.raft.node_id() {
            return Ok(());
        }
        let wait = self.raft.wait(None);
        let waited = wait.metrics(
            |metrics| match &metrics.replication {
                Some(members) => members.get(&node.0).is_some_and(|matched| *matched >= Some(entry)),
                None => true,
            },
            "a learner catches up",
        );
        let found = within(&self.env, waited).await.map_err(|error| MemberError::Unknown { reason: error.to_string() })?;
        match found.replication {
            Some(_) => Ok(()),
            None => Err(MemberError::Unknown { reason: "this node leads no more".to_owned() }),
        }
    }

    async fn written<F>(&self, write: F) -> Result<ClientWriteResponse<Types>, MemberError>
    where
        F: Future<Output = Result<ClientWriteResponse<Types>, RaftError<Types, ClientWriteError<Types>>>>,
    {
        within(&self.env, write).await.map_err(|error| match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => self.not_leader(forward).into(),
            RaftError::APIError(ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_))) => {
                MemberError::UnderWay { group: self.group }
            }
            RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => {
                MemberError::Refused { reason: error.to_string() }
            }
            error => MemberError::Unknown { reason: error.to_string() },
        })
    }
}
