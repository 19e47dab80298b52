//! Relocations: a place of a published chunk is replaced by another.
//!
//! Also what a sealed unit does: a place is a value, and the table of keys is not needed to change it.

use format::chunk_block::Era;
use format::chunk_command::Relocation;
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;

use super::chunk::{Held, Refusal, Work};
use super::{Answer, IndexChange, MaintenanceUnit};
use crate::limits::MAX_MOVING;

impl MaintenanceUnit {
    /// Begins a relocation, or gives one that is under way another target. There is no way back but the end of the chunk: the source may
    /// have departed.
    pub(super) fn relocate(&mut self, asked: &Relocation) -> Result<Answer, Refusal> {
        let Relocation { id, from, to, is_lost } = *asked;
        self.known(id)?;
        match self.work.get(&id.number) {
            Some(Work::Moving { relocation, from: own_from, to: own_to, is_lost: was_lost }) if *own_from == from => {
                let (relocation, own_to, is_lost) = (*relocation, *own_to, is_lost || *was_lost);
                if own_to == to {
                    self.work.insert(id.number, Work::Moving { relocation, from, to, is_lost });
                    return Ok(Answer::Done);
                }
                self.check_target(id, from, to)?;
                self.discard(id, relocation, own_to);
                return self.begin_move(id, from, to, is_lost);
            }
            Some(_) => return Err(Refusal::UnderWay),
            None => {}
        }
        self.check_target(id, from, to)?;
        if self.moves.len() >= MAX_MOVING {
            return Err(Refusal::Busy);
        }
        self.begin_move(id, from, to, is_lost)
    }

    fn check_target(&self, id: ChunkId, from: BlockPlace, to: BlockPlace) -> Result<(), Refusal> {
        let row = self.known(id)?;
        row.places.replaced(from, to).filter(|_| from != to).ok_or(Refusal::Places)?;
        self.space.check(to, row.bytes)?;
        // A former copy there must be forgotten first, or the two would be taken for each other.
        if self.copies.in_limbo((id.number, to)).is_some() { Err(Refusal::UnderWay) } else { Ok(()) }
    }

    /// Another target takes its place. Whether a copy is there nobody knows yet.
    fn discard(&mut self, id: ChunkId, relocation: u64, target: BlockPlace) {
        self.moves.remove(&relocation);
        let held = self.targets.commit((id.number, target)).expect("a relocation holds its target");
        let held = Held { is_discarded: true, ..held };
        self.copies.release((id.number, target), held).expect("a target is not in limbo");
    }

    fn begin_move(&mut self, id: ChunkId, from: BlockPlace, to: BlockPlace, is_lost: bool) -> Result<Answer, Refusal> {
        let row = *self.known(id)?;
        let relocation = self.next_move;
        let (era, after_move) = (Era(row.era.0 + 1), relocation + 1);
        let held = Held { nonce: row.nonce, bytes: row.bytes, era, after_move, is_discarded: false };
        self.targets
            .reserve((id.number, to), held, None)
            .expect("the chunk is not moving, and the limit was looked at or another target has left");
        self.space.take(to, row.bytes);
        self.next_move += 1;
        self.moves.insert(relocation, id.number);
        self.work.insert(id.number, Work::Moving { relocation, from, to, is_lost });
        Ok(Answer::Done)
    }

    /// The compare-and-swap at a relocation's end.
    pub(super) fn moved(
        &mut self,
        id: ChunkId,
        from: BlockPlace,
        to: BlockPlace,
        changes: &mut Vec<IndexChange>,
    ) -> Result<Answer, Refusal> {
        let row = *self.known(id)?;
        let under_way = match self.work.get(&id.number) {
            Some(Work::Moving { relocation, from: own_from, to: own_to, .. }) if (*own_from, *own_to) == (from, to) => {
                Some(*relocation)
            }
            _ => None,
        };
        let Some(relocation) = under_way else {
            // Asked again, it is so again.
            let is_over = row.places.contains(to) && !row.places.contains(from);
            return if is_over { Ok(Answer::Done) } else { Err(Refusal::Places) };
        };
        let places = row.places.replaced(from, to).expect("looked at when the relocation began");
        self.work.remove(&id.number);
        self.moves.remove(&relocation);
        self.targets.commit((id.number, to)).expect("a relocation holds its target");
        let after_move = relocation + 1;
        let left = Held { nonce: row.nonce, bytes: row.bytes, era: row.era, after_move, is_discarded: false };
        self.copies.release((id.number, from), left).expect("a published copy is not in limbo");
        let row = self.rows.get_mut(&id.number).expect("it was there");
        let former = std::mem::replace(&mut row.places, places);
        row.era = Era(row.era.0 + 1);
        self.row_changed(id.number);
        // Readers find no pages.
        if !self.has_pages_number(id.number) {
            changes.push(IndexChange::Changed { id, from: former, to: places });
        }
        Ok(Answer::Done)
    }
}

#[cfg(test)]
mod tests;
