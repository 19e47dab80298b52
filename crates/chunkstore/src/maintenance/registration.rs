//! From nothing to a published chunk, or to a registration that ran out.

use format::chunk_block::{BLOCK_DATA_BYTES, Era};
use format::chunk_command::Registration;
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_place::ChunkPlaces;
use reserve::Deadline;

use super::chunk::{Held, Refusal, Row, Work};
use super::{Answer, IndexChange, MaintenanceUnit};
use crate::limits::MAX_PENDING_COPIES;

impl MaintenanceUnit {
    pub(super) fn register(&mut self, asked: &Registration, changes: &mut Vec<IndexChange>) -> Result<Answer, Refusal> {
        if let Some(answer) = self.registered(asked) {
            return Ok(answer);
        }
        if self.is_sealed() {
            return Err(Refusal::Sealed);
        }
        let (id, places) = self.open(asked)?;
        changes.push(IndexChange::Inserted { id, places });
        Ok(Answer::Registered { id, places })
    }

    /// What is registered is all that there will be: pages have the numbers after it.
    pub(super) fn seal(&mut self) -> Result<Answer, Refusal> {
        self.capacity = self.capacity.min(self.next.0);
        Ok(Answer::Done)
    }

    /// What a repeated call is answered.
    pub(super) fn registered(&self, asked: &Registration) -> Option<Answer> {
        let number = self.calls.get(&asked.call)?;
        let row = &self.rows[number];
        Some(Answer::Registered { id: self.id_of(*number, row), places: row.places })
    }

    /// A chunk that is pending from now on.
    pub(super) fn open(&mut self, asked: &Registration) -> Result<(ChunkId, ChunkPlaces), Refusal> {
        if asked.bytes == 0 || asked.bytes > BLOCK_DATA_BYTES {
            return Err(Refusal::Size { limit: BLOCK_DATA_BYTES });
        }
        if self.copies.pending_len() + asked.places.as_slice().len() > MAX_PENDING_COPIES {
            return Err(Refusal::Busy);
        }
        for place in asked.places.iter() {
            self.space.check(place, asked.bytes)?;
        }
        let number = self.next;
        let era = Era::first(asked.places.as_slice().len());
        let row = Row { nonce: asked.nonce, places: asked.places, bytes: asked.bytes, wanted: asked.wanted, era };
        let held = Held { nonce: row.nonce, bytes: row.bytes, era: row.era, after_move: self.next_move, is_discarded: false };
        for place in row.places.iter() {
            self.space.take(place, row.bytes);
            let reserved = self.copies.reserve((number, place), held, Some(Deadline(asked.deadline_ms)));
            reserved.expect("the number is new, and the limit was looked at");
        }
        self.next = ChunkNumber(number.0 + 1);
        self.rows.insert(number, row);
        self.work.insert(number, Work::Pending { call: asked.call });
        self.calls.insert(asked.call, number);
        Ok((self.id_of(number, &row), row.places))
    }

    /// All copies are durable. Asked again, it is so again.
    pub(super) fn commit(&mut self, id: ChunkId) -> Result<Answer, Refusal> {
        let row = *self.known(id)?;
        match self.work.get(&id.number) {
            Some(Work::Pending { call }) => {
                self.calls.remove(call);
                self.work.remove(&id.number);
                for place in row.places.iter() {
                    self.copies.commit((id.number, place)).expect("the copies of a pending chunk are pending");
                }
                self.page_committed(id.number);
                Ok(Answer::Done)
            }
            Some(Work::Freeing { .. }) => Err(Refusal::NotPending),
            Some(Work::Moving { .. }) | None => Ok(Answer::Done),
        }
    }

    pub(super) fn revoke(&mut self, id: ChunkId) -> Result<Answer, Refusal> {
        self.known(id)?;
        if !matches!(self.work.get(&id.number), Some(Work::Pending { .. })) {
            return Err(Refusal::NotPending);
        }
        self.give_up(id.number);
        Ok(Answer::Done)
    }

    pub(super) fn expire(&mut self, now_ms: u64) -> Result<Answer, Refusal> {
        while let Some(deadline) = self.copies.next_deadline().filter(|deadline| deadline.0 <= now_ms) {
            let due = self.copies.expire(deadline);
            for (number, _) in due {
                // A chunk's copies come due together; the first of them ends it.
                if matches!(self.work.get(&number), Some(Work::Pending { .. })) {
                    self.give_up(number);
                }
            }
        }
        Ok(Answer::Done)
    }

    /// A late write may still make copies: they are ended as those of a deleted chunk.
    pub(super) fn give_up(&mut self, number: ChunkNumber) {
        let Some(Work::Pending { call }) = self.work.remove(&number) else { panic!("{number:?} is not pending") };
        self.calls.remove(&call);
        let places = self.rows[&number].places;
        let copies = places.iter().map(|place| (place, false)).collect();
        for place in places.iter() {
            // Those that expired are in limbo already.
            self.copies.revoke((number, place));
        }
        self.work.insert(number, Work::Freeing { copies });
        self.page_given_up(number);
    }
}

#[cfg(test)]
mod tests;
