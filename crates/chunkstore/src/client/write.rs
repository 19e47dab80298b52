//! One change that is sent to all copies until all have it.

use format::chunk_block::Era;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};

use super::{Round, Send};
use crate::message::{Change, Mark, NodeRequest, ToNode};

/// Copies that have a change, or better.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub places: ChunkPlaces,
    pub era: Era,
    pub change: Change,
    reached: Vec<BlockPlace>,
}

impl Spread {
    pub fn new(places: ChunkPlaces, era: Era, change: Change) -> Self {
        Spread { places, era, change, reached: Vec::new() }
    }

    /// The change to all copies that are not known to have it.
    pub fn sends(&self, id: ChunkId, round: Round) -> Vec<Send> {
        let missing = self.places.iter().filter(|place| !self.reached.contains(place));
        let request = || NodeRequest::Write { era: self.era, change: self.change.clone() };
        missing.map(|place| Send::Node { round, to: ToNode { place, id, request: request() } }).collect()
    }

    /// A copy has it; whether all have.
    pub fn reach(&mut self, place: BlockPlace) -> bool {
        if self.places.contains(place) && !self.reached.contains(&place) {
            self.reached.push(place);
        }
        self.reached.len() == self.places.as_slice().len()
    }

    /// Tells all copies what all copies have.
    pub fn settle(&self, id: ChunkId) -> Vec<Send> {
        let mark: Mark = self.change.mark();
        let tell = |place| Send::Tell(ToNode { place, id, request: NodeRequest::Settle(mark) });
        self.places.iter().map(tell).collect()
    }
}
