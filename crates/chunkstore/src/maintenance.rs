//! The maintenance unit of a shard: the machine that a consensus group replicates (RFD 11).
//!
//! Its state is logical: which chunks there are, where, and what is under way. The cuckoo table and the lookup updates are derived from it by
//! the leader ([`publisher`](crate::publisher)); what the leader has to do is derived from it too ([`MaintenanceUnit::duties`]), so that a new
//! leader does the same.
//!
//! Invariants:
//! - A number is given once. A chunk's number is below `next`.
//! - A chunk is pending, or published; then it may be moving, or freeing, not both.
//! - A chunk has at least one place, and no more than copies are wanted. Its era counts them.
//! - The space of every copy that a node may have is held: pending in `copies` or `targets`, published, or in limbo.
//! - A sealed unit's rows may stand in [pages] instead, whose invariants are there.
//! - What is applied depends on nothing but the state and the command.

mod chunk;
mod duty;
mod freeing;
mod image;
mod moving;
mod pages;
mod registration;
mod rows;
mod space;

pub use chunk::Refusal;
pub use duty::{Duty, GivenUp, Move};
pub use image::{IMAGE_VERSION, ImageError};
pub use pages::{DuePage, PageRef};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::chunk_block::Era;
use format::chunk_command::{ChunkCommand, ClientCall};
use format::chunk_id::{ChunkId, ChunkNumber, ShardId};
use format::chunk_page::ChunkPage;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use reserve::Reserve;
use types::DeviceId;

use crate::limits::{MAX_MOVING, MAX_PENDING_COPIES};
use crate::message::{Found, Resolved};
use chunk::{Held, Row, Work};
use pages::Pages;
use rows::Rows;
pub use space::FreeBlocks;
use space::Space;

/// A copy: of which chunk of the shard, and where.
type CopyKey = (ChunkNumber, BlockPlace);

/// A shard's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceUnit {
    shard: ShardId,
    /// Registrations that the unit takes before it is sealed: the paper's α, or those that it had when it was sealed before.
    capacity: u64,
    next: ChunkNumber,
    rows: Rows,
    /// What is under way with a chunk. Most have nothing.
    work: BTreeMap<ChunkNumber, Work>,
    /// Calls whose registrations are pending: a repeated one gets the same id.
    calls: BTreeMap<ClientCall, ChunkNumber>,
    copies: Reserve<CopyKey, Held>,
    /// Where relocations go.
    targets: Reserve<CopyKey, Held>,
    /// Former targets that are in limbo.
    given_up: BTreeSet<CopyKey>,
    /// Relocations under way, by their numbers.
    moves: BTreeMap<u64, ChunkNumber>,
    next_move: u64,
    space: Space,
    pages: Pages,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub answer: Result<Answer, Refusal>,
    /// What lookup structures are told.
    pub changes: Vec<IndexChange>,
    /// [`MaintenanceUnit::next`] and [`MaintenanceUnit::is_sealed`] after it: who derives something from it may come later than further commands.
    pub next: ChunkNumber,
    pub is_sealed: bool,
}

/// What its proposer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Registered { id: ChunkId, places: ChunkPlaces },
    Done,
}

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    Found(Found),
    /// This must be read first.
    InPage(PageRef),
}

/// A change of what is found where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexChange {
    Inserted { id: ChunkId, places: ChunkPlaces },
    Changed { id: ChunkId, from: ChunkPlaces, to: ChunkPlaces },
    Removed(ChunkId),
}

impl MaintenanceUnit {
    /// A shard without chunks that takes up to `capacity` registrations.
    pub fn new(shard: ShardId, capacity: u64) -> Self {
        MaintenanceUnit {
            shard,
            capacity,
            next: ChunkNumber(0),
            rows: Rows::default(),
            work: BTreeMap::new(),
            calls: BTreeMap::new(),
            copies: Reserve::new(MAX_PENDING_COPIES),
            targets: Reserve::new(MAX_MOVING),
            given_up: BTreeSet::new(),
            moves: BTreeMap::new(),
            next_move: 0,
            space: Space::default(),
            pages: Pages::default(),
        }
    }

    /// Carries a command out. One that is refused, and one that comes again, changes nothing.
    pub fn apply(&mut self, command: &ChunkCommand) -> Applied {
        let mut changes = Vec::new();
        let answer = match command {
            ChunkCommand::Grant { device, first_block, blocks } => self.space.grant(*device, *first_block, *blocks),
            ChunkCommand::Release { device, first_block, blocks } => self.release(*device, *first_block, *blocks),
            ChunkCommand::Released { device, first_block } => {
                self.space.forget_released(*device, *first_block);
                Ok(Answer::Done)
            }
            ChunkCommand::Register(registration) => self.register(registration, &mut changes),
            ChunkCommand::Commit(id) => self.commit(*id),
            ChunkCommand::Revoke(id) => self.revoke(*id),
            ChunkCommand::Expire { now_ms } => self.expire(*now_ms),
            ChunkCommand::Freed(ids) => self.freed(ids),
            ChunkCommand::Erased(copies) => self.erased(copies, &mut changes),
            ChunkCommand::Forgotten(copies) => self.forgotten(copies),
            ChunkCommand::Relocate(relocation) => self.relocate(relocation),
            ChunkCommand::Moved { id, relocation } => self.moved(*id, *relocation, &mut changes),
            ChunkCommand::RegisterPage { registration, range } => self.register_page(registration, *range),
            ChunkCommand::Touch { page, rows } => self.touch(*page, rows),
            ChunkCommand::Seal => self.seal(),
        };
        Applied { answer, changes, next: self.next, is_sealed: self.is_sealed() }
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The number that the next registration gets: all lower ones were given.
    pub fn next(&self) -> ChunkNumber {
        self.next
    }

    /// Whether the unit takes no more registrations: the next shard is to be opened.
    pub fn is_sealed(&self) -> bool {
        self.next.0 >= self.capacity
    }

    /// All chunks whose rows are here, with their places; the unit's pages among them.
    pub fn index(&self) -> impl Iterator<Item = (ChunkId, ChunkPlaces)> {
        self.rows.iter().map(|(number, row)| (self.id_of(*number, row), row.places))
    }

    /// The same, from a number on.
    pub fn index_from(&self, first: ChunkNumber) -> impl Iterator<Item = (ChunkId, ChunkPlaces)> {
        self.rows.range(first..).map(|(number, row)| (self.id_of(*number, row), row.places))
    }

    /// What a lookup structure is built from, with all pages; none if one is lacking.
    pub fn lookup_entries<'a>(
        &'a self,
        pages: &'a BTreeMap<ChunkNumber, Arc<ChunkPage>>,
    ) -> Option<impl Iterator<Item = (ChunkId, ChunkPlaces)>> {
        let is_read = |page: PageRef| pages.contains_key(&page.id.number);
        self.pages().all(is_read).then(|| {
            let here = self.index().filter(|(id, _)| !self.has_pages_number(id.number));
            let archived = self.pages().flat_map(|page| self.rows_in(&pages[&page.id.number]));
            here.chain(archived.map(|row| (row.id(self.shard), row.places)))
        })
    }

    /// Rows that are here, those of pages among them.
    pub fn rows_here(&self) -> usize {
        self.rows.len()
    }

    /// Rows here of chunks that have fewer copies than are wanted.
    pub fn short_here(&self) -> usize {
        self.rows.short().len()
    }

    /// These chunks from a number on, and then from the first.
    pub fn short_from(&self, first: ChunkNumber) -> impl Iterator<Item = (ChunkId, ChunkPlaces)> {
        let short = self.rows.short();
        let numbers = short.range(first..).chain(short.range(..first));
        numbers.map(|number| (self.id_of(*number, &self.rows[number]), self.rows[number].places))
    }

    /// Chunks that there are, wherever their rows stand.
    pub fn chunks(&self) -> u64 {
        let archived: u64 = self.pages.current.values().map(|page| page.live).sum();
        // Of those some rows are here.
        let pages = self.rows.range(ChunkNumber(self.capacity)..).count();
        archived + (self.rows.len() - self.rows_of_pages() - pages) as u64
    }

    /// Chunks have numbers below the capacity, pages from there on.
    fn has_pages_number(&self, number: ChunkNumber) -> bool {
        number.0 >= self.capacity
    }

    /// Where a chunk is published to be, or is going to be.
    pub fn places_of(&self, id: ChunkId) -> Option<ChunkPlaces> {
        self.row(id).map(|row| row.places)
    }

    /// Space of each of a chunk's copies.
    pub fn bytes_of(&self, id: ChunkId) -> Option<u32> {
        self.row(id).map(|row| row.bytes)
    }

    /// Of a chunk's copies, when nothing is under way with it.
    pub fn era_of(&self, id: ChunkId) -> Option<Era> {
        self.row(id).map(|row| row.era)
    }

    /// Whether nothing is under way with a chunk.
    pub fn is_at_rest(&self, id: ChunkId) -> bool {
        self.row(id).is_some() && !self.work.contains_key(&id.number)
    }

    /// Whether a chunk is committed, and has not ended.
    pub fn is_kept(&self, id: ChunkId) -> bool {
        self.row(id).is_some() && matches!(self.work.get(&id.number), None | Some(Work::Moving { .. }))
    }

    /// Whether a chunk is being ended.
    pub fn is_ending(&self, id: ChunkId) -> bool {
        self.row(id).is_some() && matches!(self.work.get(&id.number), Some(Work::Freeing { .. }))
    }

    /// Relocations that are under way.
    pub fn moves_under_way(&self) -> usize {
        self.moves.len()
    }

    /// Bytes that are held in a block, limbo included; none for a block that was not granted.
    pub fn held_bytes(&self, place: BlockPlace) -> Option<u32> {
        self.space.held_bytes(place)
    }

    /// Bytes that a block has left for one chunk more; none for a block that was not granted, or that has too many chunks.
    pub fn room(&self, place: BlockPlace) -> Option<u32> {
        self.space.room(place)
    }

    /// How many blocks of a device that were granted are free.
    pub fn free_blocks(&self, device: DeviceId) -> FreeBlocks {
        self.space.free(device)
    }

    /// Granted blocks of a device, from one on and then from the first.
    pub fn blocks_from(&self, device: DeviceId, block: u32) -> impl Iterator<Item = BlockPlace> {
        self.space.blocks_from(device, block)
    }

    /// Whether these blocks are granted, and nothing is in them.
    pub fn is_unused(&self, device: DeviceId, first_block: u32, blocks: u32) -> bool {
        self.space.is_unused(device, first_block, blocks)
    }

    /// Granted blocks of a device in which nothing is, in runs as long as a grant at most: first block, blocks.
    pub fn unused_blocks(&self, device: DeviceId) -> impl Iterator<Item = (u32, u32)> {
        self.space.unused(device)
    }

    /// Bulks that the unit has given up and of which it does not know that the manager has them: device and first block.
    pub fn released(&self) -> &BTreeSet<(DeviceId, u32)> {
        self.space.released()
    }

    /// A unit that takes registrations needs what it has.
    fn release(&mut self, device: DeviceId, first_block: u32, blocks: u32) -> Result<Answer, Refusal> {
        match self.is_sealed() {
            true => self.space.release(device, first_block, blocks),
            false => Err(Refusal::Grant),
        }
    }

    /// Devices on which blocks are granted.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.space.devices()
    }

    /// When [`ChunkCommand::Expire`] has something to do again, in milliseconds.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.copies.next_deadline().map(|deadline| deadline.0)
    }

    /// Below these numbers nothing can be decided any more.
    pub fn resolved(&self) -> Resolved {
        let puts = self.copies.first_pending().map_or(self.next, |(number, _)| number);
        let moves = self.moves.keys().next().copied().unwrap_or(self.next_move);
        Resolved { puts, moves }
    }

    fn id_of(&self, number: ChunkNumber, row: &Row) -> ChunkId {
        ChunkId { shard: self.shard, number, nonce: row.nonce }
    }

    /// The row of an id, or why there is none.
    fn known(&self, id: ChunkId) -> Result<&Row, Refusal> {
        let absent = || if self.page_of(id).is_some() { Refusal::Archived } else { Refusal::Unknown };
        self.row(id).ok_or_else(absent)
    }

    /// The row of an id, if it is here; of an id that was made up, none.
    fn row(&self, id: ChunkId) -> Option<&Row> {
        let is_own = id.shard == self.shard;
        self.rows.get(&id.number).filter(|row| is_own && row.nonce == id.nonce)
    }
}
