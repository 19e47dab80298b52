//! openraft's types for this crate, and their translation into the crate's own. Nothing of openraft's is stored or sent as such.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::impls::leader_id_std::LeaderId;
use openraft::raft::TransferLeaderError;
use openraft::type_config::alias;
use openraft::vote::RaftVote;

use super::runtime::EnvRuntime;
use crate::id::{LogIndex, LogPosition, NodeId, Term};
use crate::machine::Reply;
use crate::message::TransferAnswer;
use crate::record::{Blob, Content, Entry, Membership, SnapshotSummary, Vote};
use crate::rows::RowSnapshot;

openraft::declare_raft_types!(
    /// One leader a term, as in the Raft paper.
    pub(crate) Types:
        D = CommandBytes,
        R = Reply,
        NodeId = u64,
        Node = String,
        Term = u64,
        LeaderId = LeaderId<u64, u64>,
        AsyncRuntime = EnvRuntime,
);

pub(crate) type RaftEntry = alias::EntryOf<Types>;
pub(crate) type RaftLogId = alias::LogIdOf<Types>;
pub(crate) type RaftVoteOf = alias::VoteOf<Types>;
pub(crate) type RaftMembership = openraft::Membership<u64, String>;
pub(crate) type StoredMembership = alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<Types>;
pub(crate) type RaftSnapshot = alias::SnapshotOf<Types, SnapshotData>;

/// What a snapshot has.
#[derive(Clone)]
pub(crate) enum SnapshotData {
    Whole(Bytes),
    /// The rows of a member.
    Rows(Arc<RowSnapshot>),
    /// Rows that a leader has sent. They are this generation.
    Received(u64),
}

/// A command as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandBytes(pub(crate) Bytes);

impl fmt::Display for CommandBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command of {} bytes", self.0.len())
    }
}

pub(crate) fn position(id: RaftLogId) -> LogPosition {
    LogPosition { term: Term(**id.committed_leader_id()), index: LogIndex(id.index()) }
}

pub(crate) fn log_id(position: LogPosition) -> RaftLogId {
    RaftLogId::new_term_index(position.term.0, position.index.0)
}

pub(crate) fn own_vote(vote: &RaftVoteOf) -> Vote {
    let leader = vote.leader_id();
    Vote { term: Term(leader.term), node: NodeId(leader.voted_for), committed: vote.is_committed() }
}

pub(crate) fn raft_vote(vote: Vote) -> RaftVoteOf {
    RaftVoteOf::from_leader_id(LeaderId { term: vote.term.0, voted_for: vote.node.0 }, vote.committed)
}

pub(crate) fn own_membership(membership: &RaftMembership) -> Membership {
    let voters = membership.get_joint_config().iter();
    let members = membership.nodes();
    Membership {
        voters: voters.map(|set| set.iter().map(|node| NodeId(*node)).collect()).collect(),
        members: members.map(|(node, address)| (NodeId(*node), address.clone())).collect(),
    }
}

/// A membership that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an impossible membership: {0}")]
pub(crate) struct InvalidMembership(String);

pub(crate) fn raft_membership(membership: Membership) -> Result<RaftMembership, InvalidMembership> {
    if membership == Membership::default() {
        return Ok(RaftMembership::default());
    }
    let voters = membership.voters.into_iter().map(|set| set.into_iter().map(|node| node.0).collect::<BTreeSet<_>>());
    let members: BTreeMap<u64, String> = membership.members.into_iter().map(|(node, address)| (node.0, address)).collect();
    RaftMembership::new(voters.collect(), members).map_err(|error| InvalidMembership(error.to_string()))
}

pub(crate) fn own_entry(entry: RaftEntry) -> Entry {
    let content = match entry.payload {
        EntryPayload::Blank => Content::Blank,
        EntryPayload::Normal(command) => Content::Command(Blob(command.0)),
        EntryPayload::Membership(membership) => Content::Membership(own_membership(&membership)),
    };
    Entry { position: position(entry.log_id), content }
}

pub(crate) fn raft_entry(entry: Entry) -> Result<RaftEntry, InvalidMembership> {
    let payload = match entry.content {
        Content::Blank => EntryPayload::Blank,
        Content::Command(command) => EntryPayload::Normal(CommandBytes(command.0)),
        Content::Membership(membership) => EntryPayload::Membership(raft_membership(membership)?),
    };
    Ok(RaftEntry { log_id: log_id(entry.position), payload })
}

pub(crate) fn own_summary(meta: &SnapshotMeta) -> SnapshotSummary {
    SnapshotSummary {
        last: meta.last_log_id.map(position),
        membership_at: meta.last_membership.log_id().map(position),
        membership: own_membership(meta.last_membership.membership()),
    }
}

pub(crate) fn raft_meta(summary: SnapshotSummary) -> Result<SnapshotMeta, InvalidMembership> {
    let membership = raft_membership(summary.membership)?;
    let last_membership = StoredMembership::new(summary.membership_at.map(log_id), membership);
    Ok(SnapshotMeta { last_log_id: summary.last.map(log_id), last_membership })
}

pub(crate) fn transfer_answer(response: Result<(), TransferLeaderError<Types>>) -> TransferAnswer {
    match response {
        Ok(()) => TransferAnswer::Done,
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            TransferAnswer::VoteChanged { expected: own_vote(&expected), actual: own_vote(&actual) }
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            TransferAnswer::LogNotFlushed { expected: expected.map(position), actual: actual.map(position) }
        }
    }
}

pub(crate) fn transfer_response(answer: TransferAnswer) -> Result<(), TransferLeaderError<Types>> {
    match answer {
        TransferAnswer::Done => Ok(()),
        TransferAnswer::VoteChanged { expected, actual } => {
            Err(TransferLeaderError::VoteChanged { expected: raft_vote(expected), actual: raft_vote(actual) })
        }
        TransferAnswer::LogNotFlushed { expected, actual } => {
            Err(TransferLeaderError::LogNotFlushed { expected: expected.map(log_id), actual: actual.map(log_id) })
        }
    }
}
