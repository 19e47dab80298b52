//! A put: register, write all copies, commit.

use bytes::Bytes;
use format::chunk_block::Era;
use format::chunk_command::ClientCall;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};

use super::{Event, Next, Outcome, Round, Send};
use crate::limits::{MAX_PUT_RESENDS, MAX_TRIES};
use crate::maintenance::Refusal;
use crate::message::{NodeAnswer, NodeRequest, ToNode};

/// A chunk that there is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewChunk {
    /// Names the registration, so that it may be asked for again.
    pub call: ClientCall,
    /// Most bytes that the chunk will ever have.
    pub bytes: u32,
    /// That are wanted: there may be fewer places, while hosts are away.
    pub copies: u8,
}

/// One put.
#[derive(Clone, Debug)]
pub struct Put {
    new: NewChunk,
    content: Bytes,
    round: Round,
    phase: Phase,
    /// A commit was sent, and nobody has said what became of it.
    uncommitted: Option<ChunkId>,
}

#[derive(Clone, Debug)]
enum Phase {
    Registering,
    Writing { id: ChunkId, places: ChunkPlaces, durable: Vec<BlockPlace>, resends: u32 },
    Committing { id: ChunkId },
    Over,
}

impl Put {
    /// Begins; the content is not longer than what is registered.
    pub fn begin(new: NewChunk, content: Bytes) -> (Self, Next) {
        assert!(content.len() <= new.bytes as usize, "{} bytes of content", content.len());
        let put = Put { new, content, round: Round(0), phase: Phase::Registering, uncommitted: None };
        let next = Next { sends: put.sends(), outcome: None };
        (put, next)
    }

    /// The id, once there is one.
    pub fn id(&self) -> Option<ChunkId> {
        match self.phase {
            Phase::Writing { id, .. } | Phase::Committing { id } => Some(id),
            Phase::Registering | Phase::Over => None,
        }
    }

    /// The chunk, if it may have been committed and that is not known.
    pub fn uncommitted(&self) -> Option<ChunkId> {
        self.uncommitted
    }

    pub fn step(&mut self, event: Event) -> Next {
        match (event, &mut self.phase) {
            (Event::Timeout, Phase::Registering | Phase::Writing { .. } | Phase::Committing { .. }) => self.try_again(),
            (Event::Registered { result, .. }, Phase::Registering) => match result {
                Ok((id, places)) => {
                    self.phase = Phase::Writing { id, places, durable: Vec::new(), resends: 0 };
                    Next { sends: self.sends(), outcome: None }
                }
                Err(refusal) => self.end(Outcome::Refused(refusal)),
            },
            (Event::Node { place, answer, .. }, Phase::Writing { .. }) => self.written(place, answer),
            (Event::Committed { result, .. }, Phase::Committing { id }) => {
                // One that was not taken says nothing of the same request before it, which may have been, or may be yet.
                if result != Err(Refusal::Busy) {
                    self.uncommitted = None;
                }
                let outcome = result.map_or_else(Outcome::Refused, |()| Outcome::Stored(*id));
                self.end(outcome)
            }
            _ => Next::default(),
        }
    }

    fn written(&mut self, place: BlockPlace, answer: NodeAnswer) -> Next {
        let Phase::Writing { id, places, durable, .. } = &mut self.phase else { return Next::default() };
        let id = *id;
        match answer {
            NodeAnswer::Done(_) if places.contains(place) && !durable.contains(&place) => {
                durable.push(place);
                if durable.len() < places.as_slice().len() {
                    return Next::default();
                }
                (self.phase, self.uncommitted) = (Phase::Committing { id }, Some(id));
                Next { sends: self.sends(), outcome: None }
            }
            NodeAnswer::Refused(refusal) if refusal != crate::message::NodeRefusal::Busy => {
                self.phase = Phase::Over;
                Next::send(Send::Revoke(id)).ending(Outcome::RefusedByNode(refusal))
            }
            _ => Next::default(),
        }
    }

    fn try_again(&mut self) -> Next {
        if let Phase::Writing { id, resends, .. } = &mut self.phase {
            let id = *id;
            *resends += 1;
            if *resends > MAX_PUT_RESENDS {
                // Other places will do as well.
                self.phase = Phase::Over;
                return Next::send(Send::Revoke(id)).ending(Outcome::Unavailable);
            }
        }
        self.round.0 += 1;
        if self.round.0 < MAX_TRIES {
            return Next { sends: self.sends(), outcome: None };
        }
        self.end(Outcome::Unavailable)
    }

    fn end(&mut self, outcome: Outcome) -> Next {
        self.phase = Phase::Over;
        Next::end(outcome)
    }

    fn sends(&self) -> Vec<Send> {
        let round = self.round;
        match &self.phase {
            Phase::Registering => vec![Send::Register { round, new: self.new }],
            Phase::Committing { id } => vec![Send::Commit { round, id: *id }],
            Phase::Writing { id, places, durable, .. } => {
                let era = Era::first(places.as_slice().len());
                let request = || NodeRequest::Put { era, capacity: self.new.bytes, content: self.content.clone() };
                let missing = places.iter().filter(|place| !durable.contains(place));
                missing.map(|place| Send::Node { round, to: ToNode { place, id: *id, request: request() } }).collect()
            }
            Phase::Over => Vec::new(),
        }
    }
}
