//! A lookup host: the lookup units of some shards, in memory and without ids (RFD 11).
//!
//! ```text
//!   (nothing) ── snapshot ──► stream s at n ── update n ──► s at n + 1        before n: ignored.  after n: a gap
//!                                  ▲   │ gap, newer stream, damage: asks for a snapshot, and goes on serving
//!                                  └───┘ snapshot of s from beyond n, or of a newer stream: replaces all at once
//! ```
//!
//! A reader never sees half an update: the crate `ludo` guards each, and a snapshot is swapped in whole.

use std::collections::BTreeMap;

use format::chunk_id::{ChunkId, ChunkNumber, ShardId};
use format::chunk_place::ChunkPlaces;
use format::chunk_update::{LookupChange, LookupUpdate, Stream};
use ludo::{ApplyError, DecodeUpdateError, Exchanged, Lookup, Reader, SnapshotError, Update};

use crate::message::Located;

/// How far a host is with a shard. Its unit's leader takes it for an acknowledgement of all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub stream: Stream,
    /// Of the next update.
    pub number: u64,
    /// All chunks with lower numbers can be found.
    pub horizon: ChunkNumber,
}

impl Progress {
    /// Of two, the greater is newer.
    pub fn place(&self) -> (Stream, u64) {
        (self.stream, self.number)
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It counts, or counted before.
    Held(Progress),
    /// Something is missing before it: a snapshot is needed.
    NeedsSnapshot(ShardId),
}

/// Why a message can't be used, now or ever: its sender is at fault, and a snapshot is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    #[error("the snapshot of shard {:x}: {error}", .shard.0)]
    Snapshot { shard: ShardId, error: SnapshotError },
    #[error("values of {found} bits in shard {:x}, not {expected}", .shard.0)]
    Width { shard: ShardId, expected: u32, found: u32 },
    #[error("an update of shard {:x}: {error}", .shard.0)]
    Update { shard: ShardId, error: DecodeUpdateError },
    #[error("an update of shard {:x}: {error}", .shard.0)]
    Apply { shard: ShardId, error: ApplyError },
    #[error("chunk {id} has other places than its update says")]
    Exchange { id: ChunkId },
}

struct Unit {
    progress: Progress,
    lookup: Lookup,
    reader: Reader<u128>,
}

/// The units of one node.
#[derive(Default)]
pub struct LookupHost {
    units: BTreeMap<ShardId, Unit>,
}

impl LookupHost {
    pub fn new() -> Self {
        LookupHost::default()
    }

    /// Takes a message of a unit's leader.
    pub fn receive(&mut self, update: &LookupUpdate) -> Result<Received, UpdateError> {
        let shard = update.stream.shard;
        if let LookupChange::Snapshot(bytes) = &update.change {
            return self.replace(update, bytes);
        }
        let Some(unit) = self.units.get_mut(&shard) else { return Ok(Received::NeedsSnapshot(shard)) };
        let own = unit.progress;
        if update.stream < own.stream || (update.stream == own.stream && update.number < own.number) {
            return Ok(Received::Held(own));
        }
        if update.stream > own.stream || update.number > own.number {
            return Ok(Received::NeedsSnapshot(shard));
        }
        unit.apply(update)?;
        unit.progress.number += 1;
        unit.progress.horizon = update.horizon;
        Ok(Received::Held(unit.progress))
    }

    fn replace(&mut self, update: &LookupUpdate, bytes: &[u8]) -> Result<Received, UpdateError> {
        let shard = update.stream.shard;
        let progress = Progress { stream: update.stream, number: update.number, horizon: update.horizon };
        if let Some(unit) = self.units.get(&shard)
            && unit.progress.place() >= progress.place()
        {
            return Ok(Received::Held(unit.progress));
        }
        let lookup = Lookup::from_snapshot(bytes).map_err(|error| UpdateError::Snapshot { shard, error })?;
        let reader = lookup.reader().map_err(|error| UpdateError::Width { shard, expected: error.limit, found: error.bits })?;
        self.units.insert(shard, Unit { progress, lookup, reader });
        Ok(Received::Held(progress))
    }

    /// Where a chunk is, if there is one with this id.
    pub fn locate(&mut self, id: ChunkId) -> Located {
        let Some(unit) = self.units.get_mut(&id.shard) else { return Located::Nowhere };
        if id.number >= unit.progress.horizon {
            return Located::Behind;
        }
        let value = unit.reader.get(&id.to_bytes());
        value.and_then(ChunkPlaces::from_value).map_or(Located::Nowhere, Located::At)
    }

    /// What a host tells its units' leaders now and then, of its own accord: one that lost its memory is not found out otherwise.
    pub fn report(&self, shard: ShardId) -> Received {
        self.progress(shard).map_or(Received::NeedsSnapshot(shard), Received::Held)
    }

    /// How far the host is with a shard.
    pub fn progress(&self, shard: ShardId) -> Option<Progress> {
        self.units.get(&shard).map(|unit| unit.progress)
    }

    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.units.keys().copied()
    }

    /// The shard is another host's from now on.
    pub fn drop_shard(&mut self, shard: ShardId) {
        self.units.remove(&shard);
    }
}

impl Unit {
    fn apply(&mut self, update: &LookupUpdate) -> Result<(), UpdateError> {
        let shard = update.stream.shard;
        match &update.change {
            LookupChange::Keyed(bytes) => {
                let change =
                    Update::decode(bytes, &self.lookup.shape()).map_err(|error| UpdateError::Update { shard, error })?;
                self.lookup.apply(&change).map_err(|error| UpdateError::Apply { shard, error })?;
            }
            LookupChange::Exchanged { id, from, to } => {
                let exchanged = self.lookup.exchange(&id.to_bytes(), from.to_value(), to.to_value());
                if exchanged != Ok(Exchanged::Done) {
                    return Err(UpdateError::Exchange { id: *id });
                }
            }
            LookupChange::Snapshot(_) => unreachable!("snapshots are not applied but swapped in"),
        }
        Ok(())
    }
}
