//! From a dead copy to free space.

use format::chunk_command::{CopyOf, FormerCopy};
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_place::BlockPlace;

use super::chunk::{Held, Refusal, Work};
use super::{Answer, CopyKey, IndexChange, MaintenanceUnit};

impl MaintenanceUnit {
    /// Nodes have dead copies of these: whoever deletes them, and whether he lives, they end.
    pub(super) fn freed(&mut self, ids: &[ChunkId]) -> Result<Answer, Refusal> {
        for id in ids {
            if self.row(*id).is_some() && !self.is_page(id.number) {
                self.free(id.number);
            }
        }
        Ok(Answer::Done)
    }

    pub(super) fn free(&mut self, number: ChunkNumber) {
        let row = self.rows[&number];
        let mut ending: Vec<(BlockPlace, Held)> = Vec::new();
        let after_move = self.next_move;
        // A relocation may have raised the copies that stay.
        let era = match self.work.get(&number) {
            Some(Work::Moving { era, .. }) => *era,
            _ => row.era,
        };
        let held = Held { nonce: row.nonce, bytes: row.bytes, era, after_move, is_discarded: false };
        match self.work.get(&number) {
            // A pending chunk has no dead copies; whoever says so is taken at his word when it is published.
            Some(Work::Pending { .. } | Work::Freeing { .. }) => return,
            Some(Work::Moving { relocation, to, .. }) => {
                let (relocation, to) = (*relocation, *to);
                self.moves.remove(&relocation);
                if let Some(to) = to {
                    let target = self.targets.commit((number, to)).expect("a relocation holds its target");
                    ending.push((to, Held { after_move: self.next_move, ..target }));
                }
            }
            None => {}
        }
        ending.extend(row.places.iter().map(|place| (place, held)));
        // What was brought to a target that was given up must not outlive the chunk, of which nobody hears any more by then.
        for (place, held) in self.given_up_of(number) {
            self.copies.drained((number, place));
            self.given_up.remove(&(number, place));
            // A late word that it was forgotten before is not about its end; and an end in nobody's era counts for no delete.
            let era = held.era.just_after();
            ending.push((place, Held { era, after_move, is_discarded: false, ..held }));
        }
        // A source that has departed is in limbo already, and ends by itself.
        for (place, held) in &ending {
            self.copies.release((number, *place), *held).expect("a published copy is not in limbo");
        }
        let copies = ending.into_iter().map(|(place, _)| (place, false)).collect();
        self.work.insert(number, Work::Freeing { copies });
    }

    /// These copies have ended. When all of a chunk have, its id is forgotten; the space waits for the nodes.
    pub(super) fn erased(&mut self, erased: &[CopyOf], changes: &mut Vec<IndexChange>) -> Result<Answer, Refusal> {
        for CopyOf { id, place } in erased {
            if self.row(*id).is_none() {
                continue;
            }
            let Some(Work::Freeing { copies }) = self.work.get_mut(&id.number) else { continue };
            copies.iter_mut().filter(|(at, _)| at == place).for_each(|(_, has_ended)| *has_ended = true);
            if copies.iter().all(|(_, has_ended)| *has_ended) {
                self.work.remove(&id.number);
                self.rows.remove(id.number);
                self.row_ended(id.number);
                if !self.has_pages_number(id.number) {
                    changes.push(IndexChange::Removed(*id));
                }
            }
        }
        Ok(Answer::Done)
    }

    /// Nothing is left of these copies: their space is free. What was said of an earlier copy there says nothing of this one.
    pub(super) fn forgotten(&mut self, forgotten: &[FormerCopy]) -> Result<Answer, Refusal> {
        for FormerCopy { copy: CopyOf { id, place }, era } in forgotten {
            let key = (id.number, *place);
            let is_meant = |held: &Held| held.era == *era && self.is_forgettable(key, held);
            let is_due = id.shard == self.shard && self.copies.in_limbo(key).is_some_and(is_meant);
            if is_due && let Some(held) = self.copies.drained(key) {
                self.given_up.remove(&key);
                self.space.give_back(*place, &held);
            }
        }
        Ok(Answer::Done)
    }

    /// Whether nothing is left to decide about a copy in limbo.
    pub(super) fn is_forgettable(&self, (number, place): CopyKey, held: &Held) -> bool {
        // A source that has departed does not wait for its chunk's copies.
        let is_ending = match self.work.get(&number) {
            Some(Work::Freeing { copies }) => copies.iter().any(|(at, _)| *at == place),
            _ => false,
        };
        let resolved = self.resolved();
        !is_ending && number < resolved.puts && held.after_move <= resolved.moves
    }
}
