//! What the state obliges the leader to: asked for again and again, until commands say that it is done.

use format::chunk_block::Era;
use format::chunk_command::CopyOf;
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_place::{BlockPlace, ChunkPlaces};

use super::MaintenanceUnit;
use super::chunk::{Held, Row, Work};
use crate::message::Resolved;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// End a copy, then [`Erased`](format::chunk_command::ChunkCommand::Erased).
    Erase { copy: CopyOf, era: Era, moves: u64 },
    /// Have a copy forgotten, then [`Forgotten`](format::chunk_command::ChunkCommand::Forgotten).
    Forget { copy: CopyOf, era: Era, resolved: Resolved },
    /// Have a copy depart that may have been made at a place given up for another, then have it forgotten.
    Discard { copy: CopyOf, era: Era, resolved: Resolved },
    /// Drive a relocation, then [`Moved`](format::chunk_command::ChunkCommand::Moved).
    Move(Move),
}

/// A relocation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub relocation: u64,
    pub id: ChunkId,
    pub places: ChunkPlaces,
    /// None where a copy is added.
    pub from: Option<BlockPlace>,
    /// None where a lost copy is given up, or the target of a growth.
    pub to: Option<BlockPlace>,
    pub is_lost: bool,
    /// That the copies will have.
    pub era: Era,
}

/// A target that was given up for the next one: its copy may be there, or may come late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    pub place: BlockPlace,
    /// Of the copy.
    pub era: Era,
    /// The relocation that brought it has a lower number.
    pub moves: u64,
}

impl MaintenanceUnit {
    /// Targets of a chunk's relocation that were given up before its present one, and to which somebody may be led who knows where the chunk once stood.
    pub fn left_behind(&self, id: ChunkId) -> Vec<GivenUp> {
        // Nobody was ever told other places of one that has not moved yet. (One whose growth was given up has another era as well, and counts as moved.)
        let is_led_there = |row: &&Row| row.era != Era::first(row.places.as_slice().len());
        let Some(row) = self.row(id).filter(is_led_there) else { return Vec::new() };
        // Those of relocations that are over departed before that, if anybody is led to them.
        let given_up = self.given_up_of(id.number).into_iter().filter(|(_, held)| held.era > row.era);
        given_up.map(|(place, held)| GivenUp { place, era: held.era, moves: held.after_move }).collect()
    }

    pub(super) fn given_up_of(&self, number: ChunkNumber) -> Vec<(BlockPlace, Held)> {
        let first = BlockPlace::from_bits(0).expect("the first block of the first device");
        let keys = self.given_up.range((number, first)..).take_while(|key| key.0 == number);
        keys.map(|key| (key.1, *self.copies.in_limbo(*key).expect("what was given up is in limbo"))).collect()
    }

    /// All there is to do now.
    pub fn duties(&self) -> impl Iterator<Item = Duty> {
        let resolved = self.resolved();
        let forgettable = self.copies.limbo().filter(|(key, held)| self.is_forgettable(*key, held));
        let forgets = forgettable.map(move |((number, place), held)| {
            let id = ChunkId { shard: self.shard, number, nonce: held.nonce };
            let (copy, era) = (CopyOf { id, place }, held.era);
            if held.is_discarded { Duty::Discard { copy, era, resolved } } else { Duty::Forget { copy, era, resolved } }
        });
        let others = self.work.iter().flat_map(|(number, work)| {
            let row = &self.rows[number];
            let id = self.id_of(*number, row);
            match work {
                Work::Pending { .. } => Vec::new(),
                Work::Moving { relocation, from, to, is_lost, era } => vec![Duty::Move(Move {
                    relocation: *relocation,
                    id,
                    places: row.places,
                    from: *from,
                    to: *to,
                    is_lost: *is_lost,
                    era: *era,
                })],
                Work::Freeing { copies } => {
                    let left = copies.iter().filter(|(_, has_ended)| !has_ended);
                    left.map(|(place, _)| self.erase(id, *place)).collect()
                }
            }
        });
        forgets.chain(others)
    }

    fn erase(&self, id: ChunkId, place: BlockPlace) -> Duty {
        let held = self.copies.in_limbo((id.number, place)).expect("the copies of a chunk that ends are in limbo");
        Duty::Erase { copy: CopyOf { id, place }, era: held.era, moves: held.after_move }
    }
}
