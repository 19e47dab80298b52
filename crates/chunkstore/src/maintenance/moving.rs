//! Relocations: a place of a published chunk is replaced by another. Also a place that is added, where there are fewer copies than are wanted, and a lost one
//! that is given up (docs/rfd/0018).
//!
//! ```text
//!   relocate    from ─► to        the copies that stay, and the new one, are in the next era
//!   grow               ─► to      as before, and nobody departs: the era says that there is a place more
//!   shrink      from ─►           from is lost
//!   given up           ─►         what was grown to another target before has none
//! ```
//!
//! Also what a sealed unit does: a place is a value, and the table of keys is not needed to change it.

use format::chunk_block::Era;
use format::chunk_command::Relocation;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};

use super::chunk::{Held, Refusal, Row, Work};
use super::{Answer, IndexChange, MaintenanceUnit};
use crate::limits::{MAX_GIVEN_UP, MAX_MOVING};

impl MaintenanceUnit {
    /// Begins a relocation, or gives one that is under way another target. There is no way back but the end of the chunk: the source may
    /// have departed.
    pub(super) fn relocate(&mut self, asked: &Relocation) -> Result<Answer, Refusal> {
        let Relocation { id, from, to, is_lost } = *asked;
        let row_era = self.known(id)?.era;
        match self.work.get(&id.number) {
            Some(Work::Moving { relocation, from: own_from, to: own_to, is_lost: was_lost, era }) if *own_from == from => {
                let (relocation, own_to, era, was_lost) = (*relocation, *own_to, *era, *was_lost);
                let asked = Relocation { is_lost: is_lost || was_lost, ..*asked };
                if own_to == to {
                    let is_lost = asked.is_lost;
                    self.work.insert(id.number, Work::Moving { relocation, from, to, is_lost, era });
                    return Ok(Answer::Done);
                }
                self.check_change(&asked)?;
                let adds_another = own_to.is_some() && to.is_some();
                if adds_another && self.given_up_of(id.number).len() >= MAX_GIVEN_UP {
                    return Err(Refusal::Busy);
                }
                self.discard(id, relocation, own_to);
                self.begin_move(&asked, era)
            }
            Some(_) => Err(Refusal::UnderWay),
            // There is no growth to give up.
            None if from.is_none() && to.is_none() => Err(Refusal::Places),
            None => {
                self.check_change(asked)?;
                if self.moves.len() >= MAX_MOVING {
                    return Err(Refusal::Busy);
                }
                self.begin_move(asked, row_era)
            }
        }
    }

    /// Whether the places can be changed so; what they are then.
    fn check_change(&self, asked: &Relocation) -> Result<ChunkPlaces, Refusal> {
        let Relocation { id, from, to, is_lost } = *asked;
        let row = self.known(id)?;
        let is_allowed = match (from, to) {
            (Some(from), Some(to)) => from != to,
            (None, Some(_)) => row.is_short(),
            // A copy that is not lost may answer somebody who knows the former places.
            (Some(_), None) => is_lost,
            (None, None) => true,
        };
        let places = row.places.changed(from, to).filter(|_| is_allowed).ok_or(Refusal::Places)?;
        let Some(to) = to else { return Ok(places) };
        self.space.check(to, row.bytes)?;
        // A former copy there must be forgotten first, or the two would be taken for each other.
        if self.copies.in_limbo((id.number, to)).is_some() { Err(Refusal::UnderWay) } else { Ok(places) }
    }

    /// Another target takes its place, or none. Whether a copy is there nobody knows yet.
    fn discard(&mut self, id: ChunkId, relocation: u64, target: Option<BlockPlace>) {
        self.moves.remove(&relocation);
        let Some(target) = target else { return };
        let held = self.targets.commit((id.number, target)).expect("a relocation holds its target");
        let held = Held { is_discarded: true, ..held };
        self.copies.release((id.number, target), held).expect("a target is not in limbo");
        self.given_up.insert((id.number, target));
    }

    /// `after` is the newest era that a copy may have.
    fn begin_move(&mut self, asked: &Relocation, after: Era) -> Result<Answer, Refusal> {
        let Relocation { id, from, to, is_lost } = *asked;
        let row = *self.known(id)?;
        let copies = row.places.changed(from, to).ok_or(Refusal::Places)?.as_slice().len();
        let relocation = self.next_move;
        let (era, after_move) = (after.next(copies), relocation + 1);
        if let Some(to) = to {
            let held = Held { nonce: row.nonce, bytes: row.bytes, era, after_move, is_discarded: false };
            self.targets
                .reserve((id.number, to), held, None)
                .expect("the chunk is not moving, and the limit was looked at or another target has left");
            self.space.take(to, row.bytes);
        }
        self.next_move += 1;
        self.moves.insert(relocation, id.number);
        self.work.insert(id.number, Work::Moving { relocation, from, to, is_lost, era });
        Ok(Answer::Done)
    }

    /// The compare-and-swap at a relocation's end.
    pub(super) fn moved(&mut self, id: ChunkId, relocation: u64, changes: &mut Vec<IndexChange>) -> Result<Answer, Refusal> {
        let row = *self.known(id)?;
        let (from, to, era) = match self.work.get(&id.number) {
            Some(Work::Moving { relocation: own, from, to, era, .. }) if *own == relocation => (*from, *to, *era),
            // It is over, or was given up: asked again, it is so again.
            _ => return if relocation < self.next_move { Ok(Answer::Done) } else { Err(Refusal::Places) },
        };
        let places = row.places.changed(from, to).expect("looked at when the relocation began");
        self.work.remove(&id.number);
        self.moves.remove(&relocation);
        if let Some(to) = to {
            self.targets.commit((id.number, to)).expect("a relocation holds its target");
        }
        if let Some(from) = from {
            let after_move = relocation + 1;
            let left = Held { nonce: row.nonce, bytes: row.bytes, era: row.era, after_move, is_discarded: false };
            self.copies.release((id.number, from), left).expect("a published copy is not in limbo");
        }
        let former = row.places;
        self.rows.insert(id.number, Row { places, era, ..row });
        self.row_changed(id.number);
        // Readers find no pages.
        if !self.has_pages_number(id.number) && former != places {
            changes.push(IndexChange::Changed { id, from: former, to: places });
        }
        Ok(Answer::Done)
    }
}

#[cfg(test)]
mod tests;
