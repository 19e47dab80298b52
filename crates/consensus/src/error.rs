//! One error type per operation.

use crate::id::{GroupId, NodeId};
use crate::limits::{MAX_COMMAND_BYTES, MAX_GROUPS, MAX_MEMBERS, MAX_PROPOSALS};
use crate::log::LogError;
use crate::transport::Peer;

/// A node did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the consensus log of node {node} cannot be opened")]
    Log {
        node: NodeId,
        #[source]
        cause: Box<LogError>,
    },
    #[error("the rows beside the consensus log of node {node} cannot be used: {reason}")]
    Rows { node: NodeId, reason: String },
}

/// A group did not start on this node.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("group {0} runs on this node already")]
    Running(GroupId),
    #[error("{MAX_GROUPS} groups run on this node")]
    TooMany,
    #[error("the node is shut down")]
    ShutDown,
    #[error("group {group} cannot go on from its log: {reason}")]
    Raft { group: GroupId, reason: String },
}

/// A group did not leave this node.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("group {0} is not on this node")]
    Unknown(GroupId),
    #[error(transparent)]
    Log(#[from] wal::AppendError),
}

/// This node does not lead the group; who does, as far as it knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node does not lead group {group}{}", leader.as_ref().map_or(String::new(), |peer| format!("; node {} does", peer.node)))]
pub struct NotLeader {
    pub group: GroupId,
    pub leader: Option<Peer>,
}

/// A command was not carried out, or nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    #[error("a command of {found} bytes; at most {MAX_COMMAND_BYTES} are allowed")]
    Length { found: usize },
    #[error("{MAX_PROPOSALS} proposals of group {group} wait for their outcome")]
    Overloaded { group: GroupId },
    /// Snapshots and purges are under way; trying again later may help. It does not if the log, this node's or another member's, is too small for
    /// what it holds, and the command is one that makes the state longer.
    #[error("the log that all groups of a node share is nearly full")]
    LogFull,
    /// The command may have been carried out, or may be yet.
    #[error("nobody knows whether the command was carried out: {reason}")]
    Unknown { reason: String },
}

impl ProposeError {
    /// Whether it is certain that the command was not and will not be carried out.
    pub fn is_definite(&self) -> bool {
        !matches!(self, ProposeError::Unknown { .. })
    }
}

/// A linearizable read was not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    #[error("no quorum of group {group} confirmed that this node leads it")]
    NoQuorum { group: GroupId },
    #[error("group {group} does not run any more: {reason}")]
    Stopped { group: GroupId, reason: String },
}

/// Members were not changed, or nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    #[error("{found} members; at most {MAX_MEMBERS} are allowed")]
    TooMany { found: usize },
    #[error("an address of {found} bytes; at most {} are allowed", crate::limits::MAX_ADDRESS_BYTES)]
    Address { found: usize },
    #[error("group {group} has members already")]
    Initialized { group: GroupId },
    /// Nothing was changed. Trying again soon helps.
    #[error("another change of the members of group {group} is under way")]
    UnderWay { group: GroupId },
    /// A voter is no learner yet, or none would be left.
    #[error("refused: {reason}")]
    Refused { reason: String },
    #[error("nobody knows whether the members were changed: {reason}")]
    Unknown { reason: String },
}
