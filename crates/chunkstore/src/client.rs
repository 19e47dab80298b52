//! What a client does: one machine for each call, without I/O (RFD 11).
//!
//! The shell sends what a machine asks for, gives it the answers, and tells it when it has waited long enough; it gives a call up by
//! dropping its machine. Answers name the round in which they were asked; those of earlier rounds are dropped.

mod access;
mod put;
mod write;

pub use access::{Access, Intent};
pub use put::{NewChunk, Put};

use bytes::Bytes;
use format::chunk_command::CopyOf;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};

use crate::maintenance::Refusal;
use crate::message::{Found, NodeAnswer, NodeRefusal, ToNode};

/// Number of a round of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round(pub u32);

/// What the shell sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Send {
    /// To the leader of the shard that takes registrations, which chooses the places.
    Register { round: Round, new: NewChunk },
    /// To the unit's leader, which answers when a lookup host has the chunk as well.
    Commit { round: Round, id: ChunkId },
    /// To the unit's leader; nobody waits for the answer.
    Revoke(ChunkId),
    /// To the unit's leader; nobody waits for the answer.
    Suspect(CopyOf),
    /// To the unit's leader.
    Find { round: Round, id: ChunkId },
    /// To one of the shard's lookup hosts, chosen by this number, to be forwarded to a copy's node, which answers.
    Route { round: Round, host: u32, id: ChunkId, has_content: bool },
    /// To a node.
    Node { round: Round, to: ToNode },
    /// To a node; nobody waits for the answer.
    Tell(ToNode),
}

/// What the shell was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Registered {
        round: Round,
        result: Result<(ChunkId, ChunkPlaces), Refusal>,
    },
    Committed {
        round: Round,
        result: Result<(), Refusal>,
    },
    Found {
        round: Round,
        found: Found,
    },
    /// The lookup host does not know the chunk.
    NotRouted {
        round: Round,
    },
    /// A copy that a host has forwarded the request to.
    Routed {
        round: Round,
        places: ChunkPlaces,
        place: BlockPlace,
        answer: NodeAnswer,
    },
    Node {
        round: Round,
        place: BlockPlace,
        answer: NodeAnswer,
    },
    /// Nothing has come for as long as the shell waits.
    Timeout,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of a put.
    Stored(ChunkId),
    /// Of a get.
    Content(Bytes),
    /// Of a modification or a delete.
    Done,
    NotFound,
    /// The unit took no registration, or a node no copy; nothing is stored.
    Refused(Refusal),
    RefusedByNode(NodeRefusal),
    /// Too many tries: a change may have been made, or may be made yet.
    Unavailable,
}

/// What a machine wants: messages, and perhaps the end of the call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Next {
    pub sends: Vec<Send>,
    pub outcome: Option<Outcome>,
}

impl Next {
    fn send(send: Send) -> Self {
        Next { sends: vec![send], outcome: None }
    }

    fn end(outcome: Outcome) -> Self {
        Next { sends: Vec::new(), outcome: Some(outcome) }
    }

    fn ending(mut self, outcome: Outcome) -> Self {
        self.outcome = Some(outcome);
        self
    }
}
