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
//!
//!   A modification that meets an unsettled copy compares all copies first, and is newer than each of them.
//! ```
//!
//! An era says how many places it has. A copy whose era has another number of them than this call knows belongs to other places: one was added, or a lost
//! one was given up. What is then written to the known ones would be complete without the others (docs/rfd/0018), so the unit is asked.

use bytes::Bytes;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::CopyOf;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};

use super::write::Spread;
use super::{Event, Next, Outcome, Round, Send};
use crate::limits::{MAX_RESENDS, MAX_TRIES, MOVE_TRIES};
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
    /// The unit was told that nobody needs the chunk.
    has_revoked: bool,
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
    /// The unit is asked after a pause.
    Resting {
        again: bool,
    },
    Direct {
        places: ChunkPlaces,
        is_pending: bool,
        /// Copies that were asked, and how many of them had nothing.
        asked: usize,
        absent: usize,
    },
    /// What all copies have: a modification is to be newer.
    Comparing {
        places: ChunkPlaces,
        heard: Vec<BlockPlace>,
        /// The greatest era, and the greatest counter.
        newest: Option<(Era, u64)>,
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
        let access =
            Access { id, intent, round, tries: 0, phase, known: None, has_missed: false, has_revoked: false, version: None };
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
                Phase::Comparing { .. } => self.compare_with(place, answer),
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
            Phase::Resting { again } => {
                let again = *again;
                self.find(again)
            }
            _ => self.find(false),
        }
    }

    /// Asks the unit, which knows ids.
    fn ask(&mut self) -> Next {
        self.ask_as(false)
    }

    /// After the first tries it does so when it has waited: who refuses does that at once, and what they wait for, a relocation, takes longer.
    fn ask_as(&mut self, again: bool) -> Next {
        if self.tries < MOVE_TRIES {
            return self.find(again);
        }
        self.round.0 += 1;
        self.phase = Phase::Resting { again };
        Next::default()
    }

    fn find(&mut self, again: bool) -> Next {
        self.tries += 1;
        if self.tries > MAX_TRIES {
            return self.end(Outcome::Unavailable);
        }
        self.round.0 += 1;
        self.phase = Phase::Asking { again };
        let mut next = Next::send(Send::Find { round: self.round, id: self.id });
        // It was published, so this is no registration; its unit ends a chunk of which no copy is left, and no other.
        if self.intent == Intent::Delete && self.known.is_some() && self.tries > MOVE_TRIES {
            self.has_revoked = true;
            next.sends.push(Send::Revoke(self.id));
        }
        next
    }

    fn found(&mut self, found: Found) -> Next {
        let Phase::Asking { again } = self.phase else { return Next::default() };
        let (places, is_pending) = match found {
            Found::Unknown => return self.end(Outcome::NotFound),
            Found::Pending(_) if again => return self.end(Outcome::NotFound),
            Found::Pending(places) => (places, true),
            Found::Known { places, .. } => {
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
            NodeAnswer::Live(copy) => self.meet_live(places, place, copy),
            NodeAnswer::Dead { is_settled: true, .. } => self.end(Outcome::NotFound),
            NodeAnswer::Dead { era, .. } if is_other(places, era) => self.meet_other(places, place),
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

    fn meet_live(&mut self, places: ChunkPlaces, place: BlockPlace, copy: LiveCopy) -> Next {
        let LiveCopy { version, era, is_settled, content, .. } = copy;
        if is_other(places, era) && !(is_settled && self.wants_content()) {
            return self.meet_other(places, place);
        }
        match &self.intent {
            Intent::Get => {
                let Some(content) = content else { return self.ask() };
                if is_settled {
                    return self.end(Outcome::Content(content));
                }
                self.spread(Spread::new(places, era, Change::Content { version, content }), false)
            }
            Intent::Modify { .. } if !is_settled && self.version.is_none() => self.compare(places),
            Intent::Modify { writer, content } => {
                let (writer, content) = (*writer, content.clone());
                self.modify(places, era, version.counter, writer, content)
            }
            Intent::Delete => self.spread(Spread::new(places, era, Change::End), true),
        }
    }

    /// A copy of other places than these. Where the unit names these, they are being changed, which takes a moment; or the copy's header has rotted.
    fn meet_other(&mut self, places: ChunkPlaces, place: BlockPlace) -> Next {
        let is_late = self.known == Some(places) && self.tries > MOVE_TRIES;
        if is_late { self.miss(place) } else { self.ask() }
    }

    /// Writes what is newer than this counter, or what was chosen before.
    fn modify(&mut self, places: ChunkPlaces, era: Era, counter: u64, writer: u64, content: Bytes) -> Next {
        let own = ChunkVersion { counter: counter + 1, writer };
        let version = *self.version.get_or_insert(own);
        self.spread(Spread::new(places, era, Change::Content { version, content }), true)
    }

    /// Others may have something newer than an unsettled copy, and somebody may have been told so: where a header has rotted, its block's copies are what
    /// they were before. What begins now stands after that, so it must not have a lower version.
    fn compare(&mut self, places: ChunkPlaces) -> Next {
        self.round.0 += 1;
        let (id, round) = (self.id, self.round);
        self.phase = Phase::Comparing { places, heard: Vec::new(), newest: None };
        let query = |place| Send::Node { round, to: ToNode { place, id, request: NodeRequest::Query } };
        Next { sends: places.iter().map(query).collect(), outcome: None }
    }

    fn compare_with(&mut self, place: BlockPlace, answer: NodeAnswer) -> Next {
        let Phase::Comparing { places, heard, newest } = &mut self.phase else { return Next::default() };
        let places = *places;
        if !places.contains(place) || heard.contains(&place) {
            return Next::default();
        }
        match answer {
            NodeAnswer::Live(LiveCopy { version, era, .. }) => {
                let before = newest.unwrap_or_default();
                *newest = Some((before.0.max(era), before.1.max(version.counter)));
            }
            // It was being overwritten: what all copies had before that, the others have.
            NodeAnswer::Damaged => {}
            NodeAnswer::Dead { .. } => return self.meet(places, place, answer),
            NodeAnswer::Absent if self.known == Some(places) => return self.miss(place),
            _ => return self.ask(),
        }
        heard.push(place);
        let (is_whole, newest) = (heard.len() == places.as_slice().len(), *newest);
        match (&self.intent, newest) {
            _ if !is_whole => Next::default(),
            (_, Some((era, _))) if is_other(places, era) => self.meet_other(places, place),
            (Intent::Modify { writer, content }, Some((era, counter))) => {
                let (writer, content) = (*writer, content.clone());
                self.modify(places, era, counter, writer, content)
            }
            _ => self.ask(),
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
            // A relocation takes a moment. What stays so is a copy whose header has rotted, and which is of former places again.
            NodeAnswer::OtherEra if self.known == Some(spread.places) && self.tries > MOVE_TRIES => self.miss(place),
            NodeAnswer::Refused(NodeRefusal::TooLong) => self.end(Outcome::RefusedByNode(NodeRefusal::TooLong)),
            _ => self.ask(),
        }
    }

    /// A copy is not where, or what, the unit says that it is. Perhaps it has moved; else it is lost, and made again once the unit's leader knows.
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
        // A modification that was sent, and may have been seen, stands before the chunk's end; which this call may have brought about.
        let is_sent = (self.version.is_some() || self.has_revoked) && outcome == Outcome::NotFound;
        Next::end(if is_sent { Outcome::Done } else { outcome })
    }
}

/// Whether an era has another number of places than these: it is that of others.
fn is_other(places: ChunkPlaces, era: Era) -> bool {
    era.copies() != places.as_slice().len()
}

#[cfg(test)]
mod tests;
