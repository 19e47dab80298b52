//! Get, modify and delete: find a live copy, then answer, or bring all copies to the same.
//!
//! ```text
//!            ┌── behind, absent, departed, damaged ──┐
//!   routed ──┤                                       ▼         all absent, and pending
//!   (host)   └── live or dead ──► decide ◄────────  direct ───────────────────────────► asking again ── still pending ──► not found
//!                                  │  ▲            (unit's places)                            │
//!                 modify, delete   │  │ a copy refuses, or nothing comes                       ▼
//!                 or unsettled     ▼  └──────────────────────────────────────── asking ◄── not pending any more
//!                               spreading ── all copies have it ──► settle, answer
//! ```

use bytes::Bytes;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::CopyOf;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};

use super::write::Spread;
use super::{Event, Next, Outcome, Round, Send};
use crate::limits::{MAX_RESENDS, MAX_TRIES};
use crate::message::{Change, Found, LiveCopy, Mark, NodeAnswer, NodeRefusal, NodeRequest, ToNode};

/// What is wanted of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    Get,
    /// All of the content is replaced. `writer` names this call among all calls of all clients.
    Modify {
        writer: u64,
        content: Bytes,
    },
    Delete,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Access {
    id: ChunkId,
    intent: Intent,
    round: Round,
    tries: u32,
    phase: Phase,
    /// Where the copies are, by the unit.
    known: Option<ChunkPlaces>,
    /// A copy was not there.
    has_missed: bool,
    /// Of the modification: chosen once, so that a write that was seen does not come back as another.
    version: Option<ChunkVersion>,
}

#[derive(Clone, Debug)]
enum Phase {
    Routed,
    Asking {
        /// Nothing was there while the chunk was pending.
        again: bool,
    },
    Direct {
        places: ChunkPlaces,
        is_pending: bool,
        /// Copies that were asked, and how many of them had nothing.
        asked: usize,
        absent: usize,
    },
    Spreading {
        spread: Spread,
        /// Of one's own write; otherwise somebody else's is helped.
        is_own: bool,
        resends: u32,
    },
    Over,
}

impl Access {
    /// Begins at a lookup host.
    pub fn begin(id: ChunkId, intent: Intent, host: u32) -> (Self, Next) {
        let (round, phase) = (Round(0), Phase::Routed);
        let access = Access { id, intent, round, tries: 0, phase, known: None, has_missed: false, version: None };
        let next = Next::send(Send::Route { round: access.round, host, id, has_content: access.wants_content() });
        (access, next)
    }

    pub fn step(&mut self, event: Event) -> Next {
        match event {
            Event::Timeout => self.timeout(),
            Event::NotRouted { round } if round == self.round && matches!(self.phase, Phase::Routed) => self.ask(),
            Event::Routed { round, places, place, answer } if round == self.round && matches!(self.phase, Phase::Routed) => {
                self.meet(places, place, answer)
            }
            Event::Found { round, found } if round == self.round => self.found(found),
            Event::Node { round, place, answer } if round == self.round => match &self.phase {
                Phase::Direct { places, .. } => {
                    let places = *places;
                    self.meet(places, place, answer)
                }
                Phase::Spreading { .. } => self.spread_to(place, answer),
                _ => Next::default(),
            },
            _ => Next::default(),
        }
    }

    fn wants_content(&self) -> bool {
        self.intent == Intent::Get
    }

    fn timeout(&mut self) -> Next {
        let (id, round) = (self.id, self.round);
        match &mut self.phase {
            Phase::Over => Next::default(),
            Phase::Spreading { spread, resends, .. } if *resends < MAX_RESENDS && !self.has_missed => {
                *resends += 1;
                // The same round: answers to the former requests count as well.
                Next { sends: spread.sends(id, round), outcome: None }
            }
            _ => self.ask(),
        }
    }

    /// Asks the unit, which knows ids.
    fn ask(&mut self) -> Next {
        self.ask_as(false)
    }

    fn ask_as(&mut self, again: bool) -> Next {
        self.tries += 1;
        if self.tries > MAX_TRIES {
            return self.end(Outcome::Unavailable);
        }
        self.round.0 += 1;
        self.phase = Phase::Asking { again };
        Next::send(Send::Find { round: self.round, id: self.id })
    }

    fn found(&mut self, found: Found) -> Next {
        let Phase::Asking { again } = self.phase else { return Next::default() };
        let (places, is_pending) = match found {
            Found::Unknown => return self.end(Outcome::NotFound),
            Found::Pending(_) if again => return self.end(Outcome::NotFound),
            Found::Pending(places) => (places, true),
            Found::Known(places) => {
                self.known = Some(places);
                (places, false)
            }
        };
        self.phase = Phase::Direct { places, is_pending, asked: 0, absent: 0 };
        self.read_next(places, 0)
    }

    /// Reads a copy of its own choice: another one after each try.
    fn read_next(&mut self, places: ChunkPlaces, asked: usize) -> Next {
        self.round.0 += 1;
        let copies = places.as_slice();
        let place = copies[(self.id.number.0 as usize + self.tries as usize + asked) % copies.len()];
        let request = if self.wants_content() { NodeRequest::Read } else { NodeRequest::Query };
        Next::send(Send::Node { round: self.round, to: ToNode { place, id: self.id, request } })
    }

    /// A copy says what it is.
    fn meet(&mut self, places: ChunkPlaces, place: BlockPlace, answer: NodeAnswer) -> Next {
        match answer {
            NodeAnswer::Live(copy) => self.meet_live(places, copy),
            NodeAnswer::Dead { is_settled: true, .. } => self.end(Outcome::NotFound),
            NodeAnswer::Dead { era, .. } => self.spread(Spread::new(places, era, Change::End), false),
            other => self.meet_nothing(place, &other),
        }
    }

    fn meet_nothing(&mut self, place: BlockPlace, answer: &NodeAnswer) -> Next {
        let Phase::Direct { places, is_pending, asked, absent } = &mut self.phase else { return self.ask() };
        if !places.contains(place) {
            return Next::default();
        }
        *asked += 1;
        *absent += usize::from(*answer == NodeAnswer::Absent);
        let (places, asked, count) = (*places, *asked, places.as_slice().len());
        if asked < count {
            return self.read_next(places, asked);
        }
        let again = *is_pending && *absent == count;
        self.ask_as(again)
    }

    fn meet_live(&mut self, places: ChunkPlaces, copy: LiveCopy) -> Next {
        let LiveCopy { version, era, is_settled, content, .. } = copy;
        match &self.intent {
            Intent::Get => {
                let Some(content) = content else { return self.ask() };
                if is_settled {
                    return self.end(Outcome::Content(content));
                }
                self.spread(Spread::new(places, era, Change::Content { version, content }), false)
            }
            Intent::Modify { writer, content } => {
                let own = ChunkVersion { counter: version.counter + 1, writer: *writer };
                let version = *self.version.get_or_insert(own);
                let change = Change::Content { version, content: content.clone() };
                self.spread(Spread::new(places, era, change), true)
            }
            Intent::Delete => self.spread(Spread::new(places, era, Change::End), true),
        }
    }

    fn spread(&mut self, spread: Spread, is_own: bool) -> Next {
        self.round.0 += 1;
        let sends = spread.sends(self.id, self.round);
        self.phase = Phase::Spreading { spread, is_own, resends: 0 };
        Next { sends, outcome: None }
    }

    fn spread_to(&mut self, place: BlockPlace, answer: NodeAnswer) -> Next {
        let Phase::Spreading { spread, is_own, .. } = &mut self.phase else { return Next::default() };
        match answer {
            NodeAnswer::Done(Some(held)) => {
                if !*is_own && held > spread.change.mark() {
                    let (places, era) = (spread.places, spread.era);
                    return self.follow(places, place, era, held);
                }
                if !spread.reach(place) {
                    return Next::default();
                }
                let sends = spread.settle(self.id);
                let outcome = self.concluded();
                Next { sends, ..self.end(outcome) }
            }
            NodeAnswer::Refused(NodeRefusal::Busy) => Next::default(),
            NodeAnswer::Absent if self.known == Some(spread.places) => self.miss(place),
            NodeAnswer::Refused(NodeRefusal::TooLong) => self.end(Outcome::RefusedByNode(NodeRefusal::TooLong)),
            _ => self.ask(),
        }
    }

    /// A copy is not where the unit says that it is. Perhaps it has moved; else it is lost, and made again once the unit's leader knows.
    fn miss(&mut self, place: BlockPlace) -> Next {
        let suspect = Send::Suspect(CopyOf { id: self.id, place });
        match std::mem::replace(&mut self.has_missed, true) {
            false => {
                let mut next = self.ask();
                next.sends.push(suspect);
                next
            }
            // Until it is time to ask again.
            true => Next::send(suspect),
        }
    }

    /// Somebody who helps meets a newer write, and helps that.
    fn follow(&mut self, places: ChunkPlaces, place: BlockPlace, era: Era, held: Mark) -> Next {
        if held == Mark::Dead {
            return self.spread(Spread::new(places, era, Change::End), false);
        }
        self.phase = Phase::Direct { places, is_pending: false, asked: 0, absent: 0 };
        self.round.0 += 1;
        Next::send(Send::Node { round: self.round, to: ToNode { place, id: self.id, request: NodeRequest::Read } })
    }

    /// What all copies having this means for the call.
    fn concluded(&self) -> Outcome {
        let Phase::Spreading { spread, is_own, .. } = &self.phase else { unreachable!("only what was spread is concluded") };
        match (&spread.change, is_own) {
            (_, true) => Outcome::Done,
            (Change::End, false) => Outcome::NotFound,
            (Change::Content { content, .. }, false) => Outcome::Content(content.clone()),
        }
    }

    fn end(&mut self, outcome: Outcome) -> Next {
        self.phase = Phase::Over;
        // A modification that was sent, and may have been seen, stands before the chunk's end.
        let is_sent = self.version.is_some() && outcome == Outcome::NotFound;
        Next::end(if is_sent { Outcome::Done } else { outcome })
    }
}
