//! What nodes say to each other: requests and answers, as payloads of `net`'s calls.
//!
//! ```text
//! version 1 byte │ from, to, body: postcard, as in the log's records
//! ```
//!
//! Whom a message is for stands in it: an address that has changed hands answers nobody's questions by mistake.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::id::{GroupId, LogPosition, NodeId};
use crate::record::{Blob, Entry, SnapshotSummary, Vote};

/// The newest version: the first one.
pub(crate) const MESSAGE_VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) ask: Ask,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    Append {
        append: Append,
        entries: Vec<Entry>,
    },
    /// One for each group that the sender leads.
    Heartbeats(Vec<Append>),
    /// `is_transfer`: the leader itself has asked for this election.
    Vote {
        group: GroupId,
        vote: Vote,
        last: Option<LogPosition>,
        is_transfer: bool,
    },
    PreVote {
        group: GroupId,
        vote: Vote,
        last: Option<LogPosition>,
    },
    Transfer {
        group: GroupId,
        vote: Vote,
        to: NodeId,
        last: Option<LogPosition>,
    },
    Snapshot {
        group: GroupId,
        vote: Vote,
        snapshot: SnapshotName,
        offset: u64,
        piece: Blob,
    },
    /// A piece of the stream of a snapshot's rows. The last one says the checksum of all.
    Rows {
        group: GroupId,
        vote: Vote,
        summary: SnapshotSummary,
        offset: u64,
        piece: Blob,
        checksum: Option<u64>,
    },
}

/// What a leader says in any case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) group: GroupId,
    pub(crate) vote: Vote,
    /// The entry before those that follow, or the last that the follower is known to have.
    pub(crate) previous: Option<LogPosition>,
    pub(crate) committed: Option<LogPosition>,
}

/// What tells one snapshot from another: a piece is only added to pieces of the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotName {
    pub(crate) summary: SnapshotSummary,
    pub(crate) bytes: u64,
    pub(crate) checksum: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Append(AppendAnswer),
    /// In the order of the heartbeats; none where a group is not there or took too long.
    Heartbeats(Vec<Option<AppendAnswer>>),
    Vote {
        vote: Vote,
        is_granted: bool,
        last: Option<LogPosition>,
    },
    Transfer(TransferAnswer),
    /// So much of the snapshot is there.
    SnapshotReceived {
        bytes: u64,
    },
    /// The snapshot is installed, or was not needed; the vote says whether the sender still leads.
    SnapshotInstalled {
        vote: Vote,
    },
    /// As `Heartbeats`, of a node whose log has no room for longer states: its leaders shall take no such commands.
    CrowdedHeartbeats(Vec<Option<AppendAnswer>>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AppendAnswer {
    Success,
    Partial(Option<LogPosition>),
    Conflict,
    HigherVote(Vote),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TransferAnswer {
    Done,
    VoteChanged { expected: Vote, actual: Vote },
    LogNotFlushed { expected: Option<LogPosition>, actual: Option<LogPosition> },
}

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("message version {found}; this program speaks {MESSAGE_VERSION}")]
    Version { found: u8 },
    #[error("an empty message")]
    Empty,
    #[error("no message: {0}")]
    Content(#[from] postcard::Error),
    #[error("{count} bytes after the message's end")]
    TrailingBytes { count: usize },
}

pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(message, vec![MESSAGE_VERSION]).expect("a vector takes everything")
}

pub(crate) fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, MessageError> {
    let (version, content) = bytes.split_first().ok_or(MessageError::Empty)?;
    if *version != MESSAGE_VERSION {
        return Err(MessageError::Version { found: *version });
    }
    let (message, rest) = postcard::take_from_bytes(content)?;
    match rest.len() {
        0 => Ok(message),
        count => Err(MessageError::TrailingBytes { count }),
    }
}
