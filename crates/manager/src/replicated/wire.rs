//! What members' managers ask each other.
//!
//! ```text
//!   version 1 byte | postcard(Ask)         version 1 byte | postcard(Answer)
//! ```

use bytes::Bytes;
use consensus::{NodeId, Peer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version that is spoken; 1: the first.
const WIRE_VERSION: u8 = 1;

/// A question for the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Puts an encoded proposal into the log.
    Propose(Vec<u8>),
    /// Which command is applied where everything is that was acknowledged by now?
    Barrier,
    /// Makes a node a learner, and then a voter.
    AddMember { node: NodeId, address: String },
    /// Takes a node out.
    RemoveMember { node: NodeId },
    /// Lets another voter lead.
    TransferLeader { to: NodeId },
    /// Makes a node a learner that stays one.
    AddLearner { node: NodeId, address: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The proposal was carried out, or its piece is in place; or that is missing which must come before.
    Proposed { is_in_place: bool },
    /// Of [`Ask::Barrier`].
    Applied { command: u64 },
    /// The members are as was asked.
    Done,
    /// This node does not lead; who does, as far as it knows.
    NotLeader { leader: Option<(NodeId, String)> },
    /// It was not done, and asking again will not help.
    Refused { reason: String },
    /// It was not done, for certain or perhaps; asking again may help.
    Failed { reason: String, is_definite: bool },
}

impl Answer {
    pub(super) fn not_leader(leader: Option<Peer>) -> Answer {
        Answer::NotLeader { leader: leader.map(|peer| (peer.node, peer.address)) }
    }

    pub(super) fn failed(reason: impl ToString, is_definite: bool) -> Answer {
        Answer::Failed { reason: reason.to_string(), is_definite }
    }
}

/// Bytes that are no message of a version that this binary speaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("expected version {WIRE_VERSION} of managers' messages, found {found:?}")]
    Version { found: Option<u8> },
    #[error("no managers' message: {0}")]
    Content(#[from] postcard::Error),
    #[error("{count} bytes after a message's end")]
    TrailingBytes { count: usize },
}

pub(crate) fn encode(message: &impl Serialize) -> Bytes {
    Bytes::from(postcard::to_extend(message, vec![WIRE_VERSION]).expect("encoding into memory cannot fail"))
}

pub(crate) fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Result<M, WireError> {
    let content = match bytes.split_first() {
        Some((&WIRE_VERSION, content)) => content,
        other => return Err(WireError::Version { found: other.map(|(version, _)| *version) }),
    };
    let (message, rest) = postcard::take_from_bytes(content)?;
    match rest.len() {
        0 => Ok(message),
        count => Err(WireError::TrailingBytes { count }),
    }
}
