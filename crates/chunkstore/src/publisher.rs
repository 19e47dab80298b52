//! What a unit's leader derives from the state for lookup hosts: a table with the keys, and a stream of numbered updates (RFD 11, rule 12).
//!
//! Nothing of it is replicated. A new leader builds it anew under its term, which makes another stream; hosts go on with the old one
//! until they have the new one's snapshot. A sealed shard needs no keys: what changes there are values.

use format::chunk_id::{CHUNK_ID_BYTES, ChunkId, ChunkNumber};
use format::chunk_place::{ChunkPlaces, PLACES_BITS};
use format::chunk_update::{LookupChange, LookupUpdate, Stream};
use ludo::{BuildError, ChangeError, Config, Exchanged, InsertError, Lookup, Maintenance, Renewal, Shape, ShapeError, Update};

use crate::maintenance::{IndexChange, MaintenanceUnit};

/// Keys that a renewal of the classifier takes up beside each change. A full table has 3 insertions a key until the next renewal is due, so
/// that any number above 1 ends in time; more only make single changes slower.
const RENEWAL_BUDGET: u64 = 64;

/// Rebuilds for one key. Each leaves the key without room only in the smallest of tables, and then about every tenth time.
const MAX_REBUILDS: u32 = 64;

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("a shard of this capacity: {0}")]
    Shape(ShapeError),
    #[error("the table can't be built: {0}")]
    Build(BuildError),
    #[error("the table and the unit's state differ at chunk {0}")]
    Diverged(ChunkId),
}

/// A leader's first stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begins {
    pub term: u64,
    pub generation: u64,
}

impl Begins {
    /// Of a leader that has had none in its term.
    pub fn with(term: u64) -> Begins {
        Begins { term, generation: 0 }
    }

    /// In this term: behind the streams up to this one, which is the newest that the leader has had.
    pub fn after(newest: Option<Stream>, term: u64) -> Begins {
        let newest = newest.filter(|newest| newest.term == term);
        Begins { term, generation: newest.map_or(0, |newest| newest.generation + 1) }
    }
}

enum Table {
    Keyed(Box<Maintenance<u128>>),
    Sealed(Lookup),
}

/// The leader's side of a shard's lookup units.
pub struct Publisher {
    /// Of which the generation is the first stream's and the table's together.
    stream: Stream,
    first_generation: u64,
    /// Of the next update.
    number: u64,
    horizon: ChunkNumber,
    shape: Shape,
    table: Table,
}

impl Publisher {
    /// Builds the table of a unit's state. Each leader has a term of its own, later ones greater ones; one that builds a table again in its term begins with
    /// a greater generation than it has used. `seed` is random, since ids carry what clients can see.
    ///
    /// `entries` are the unit's, from its state and its pages ([`MaintenanceUnit::lookup_entries`]).
    pub fn new(
        unit: &MaintenanceUnit,
        entries: impl Iterator<Item = (ChunkId, ChunkPlaces)>,
        begins: Begins,
        seed: u64,
    ) -> Result<Self, PublishError> {
        // One that was sealed before its first chunk has no room for any.
        let shape = Shape::new(unit.capacity().max(1), PLACES_BITS, 0).map_err(PublishError::Shape)?;
        let config = Config { key_bytes: CHUNK_ID_BYTES, shape, seed };
        let entries = entries.map(|(id, places)| (id.to_bytes(), places.to_value()));
        let keyed = Maintenance::build(config, entries).map_err(PublishError::Build)?;
        let Begins { term, generation: first_generation } = begins;
        let stream = Stream { shard: unit.shard(), term, generation: first_generation + keyed.lookup().generation() };
        let (horizon, table) = (unit.next(), Table::Keyed(Box::new(keyed)));
        let mut publisher = Publisher { stream, first_generation, number: 0, horizon, shape, table };
        if unit.is_sealed() {
            publisher.seal();
        }
        Ok(publisher)
    }

    /// Lets the keys of a sealed shard go; the lookup structure stays, for snapshots and for the disk.
    pub fn seal(&mut self) {
        if let Table::Keyed(keyed) = &self.table {
            let lookup = Lookup::from_snapshot(&keyed.lookup().snapshot()).expect("a snapshot of one's own can be read");
            self.table = Table::Sealed(lookup);
        }
    }

    /// How far the stream is: its next update.
    pub fn place(&self) -> (Stream, u64) {
        (self.stream, self.number)
    }

    /// The whole structure, for a host that has nothing or lacks something.
    pub fn snapshot(&self) -> LookupUpdate {
        let lookup = match &self.table {
            Table::Keyed(keyed) => keyed.lookup(),
            Table::Sealed(lookup) => lookup,
        };
        self.update(self.number, LookupChange::Snapshot(lookup.snapshot()))
    }

    pub fn memory_bytes(&self) -> usize {
        match &self.table {
            Table::Keyed(keyed) => keyed.memory_bytes(),
            Table::Sealed(lookup) => lookup.memory_bytes(),
        }
    }

    /// Takes a change of the state over; what hosts are told. `next` is the unit's after it. After a snapshot among it, the updates are of
    /// another stream.
    pub fn publish(&mut self, next: ChunkNumber, change: &IndexChange) -> Result<Vec<LookupUpdate>, PublishError> {
        self.horizon = self.horizon.max(next);
        let mut updates = match &mut self.table {
            Table::Keyed(keyed) => match change_keyed(keyed, change)? {
                Some(update) => vec![self.keyed_update(&update)],
                None => vec![self.rebuild_for(change)?],
            },
            Table::Sealed(lookup) => match *change {
                IndexChange::Changed { id, from, to } => vec![exchange(lookup, id, from, to).map(|change| self.next(change))?],
                // The place of a chunk that is gone may be found: its node has nothing of it.
                IndexChange::Removed(_) => Vec::new(),
                IndexChange::Inserted { id, .. } => return Err(PublishError::Diverged(id)),
            },
        };
        updates.extend(self.renew()?);
        Ok(updates)
    }

    /// One step of a new classifier, if one is due.
    fn renew(&mut self) -> Result<Option<LookupUpdate>, PublishError> {
        let Table::Keyed(keyed) = &mut self.table else { return Ok(None) };
        if !keyed.needs_renewal() && !keyed.is_renewing() {
            return Ok(None);
        }
        match keyed.renew(RENEWAL_BUDGET) {
            Renewal::Building => Ok(None),
            Renewal::Done => Ok(Some(self.new_generation())),
            Renewal::Failed => self.rebuild().map(Some),
        }
    }

    /// Chance has it that a key does not fit: everything is built under other seeds until it does.
    fn rebuild_for(&mut self, change: &IndexChange) -> Result<LookupUpdate, PublishError> {
        for _ in 0..MAX_REBUILDS {
            self.rebuild()?;
            let Table::Keyed(keyed) = &mut self.table else { unreachable!("a sealed table takes no keys") };
            if change_keyed(keyed, change)?.is_some() {
                return Ok(self.snapshot());
            }
        }
        Err(PublishError::Build(BuildError::Seeds))
    }

    fn rebuild(&mut self) -> Result<LookupUpdate, PublishError> {
        let Table::Keyed(keyed) = &mut self.table else { unreachable!("a sealed table takes no keys") };
        keyed.rebuild(self.shape).map_err(PublishError::Build)?;
        Ok(self.new_generation())
    }

    fn new_generation(&mut self) -> LookupUpdate {
        let Table::Keyed(keyed) = &self.table else { unreachable!("a sealed table stays as it is") };
        self.stream.generation = self.first_generation + keyed.lookup().generation();
        self.number = 0;
        self.snapshot()
    }

    fn keyed_update(&mut self, update: &Update) -> LookupUpdate {
        let mut bytes = Vec::new();
        update.encode(&self.shape, &mut bytes);
        self.next(LookupChange::Keyed(bytes))
    }

    fn next(&mut self, change: LookupChange) -> LookupUpdate {
        self.number += 1;
        self.update(self.number - 1, change)
    }

    fn update(&self, number: u64, change: LookupChange) -> LookupUpdate {
        LookupUpdate { stream: self.stream, number, horizon: self.horizon, change }
    }
}

/// None if the key must wait for a rebuild, which then has it.
fn change_keyed(keyed: &mut Maintenance<u128>, change: &IndexChange) -> Result<Option<Update>, PublishError> {
    match *change {
        IndexChange::Inserted { id, places } => match keyed.insert(&id.to_bytes(), places.to_value()) {
            Ok(update) => Ok(Some(update)),
            Err(InsertError::NeedsRebuild) => Ok(None),
            Err(_) => Err(PublishError::Diverged(id)),
        },
        IndexChange::Changed { id, to, .. } => match keyed.change(&id.to_bytes(), to.to_value()) {
            Ok(update) => Ok(Some(update)),
            Err(ChangeError::Absent | ChangeError::Value(_)) => Err(PublishError::Diverged(id)),
        },
        IndexChange::Removed(id) => keyed.remove(&id.to_bytes()).map(Some).ok_or(PublishError::Diverged(id)),
    }
}

fn exchange(lookup: &mut Lookup, id: ChunkId, from: ChunkPlaces, to: ChunkPlaces) -> Result<LookupChange, PublishError> {
    match lookup.exchange(&id.to_bytes(), from.to_value(), to.to_value()) {
        Ok(Exchanged::Done) => Ok(LookupChange::Exchanged { id, from, to }),
        _ => Err(PublishError::Diverged(id)),
    }
}
