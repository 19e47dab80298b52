//! What a lookup host is told: updates and snapshots of a lookup unit (docs/rfd/0011).
//!
//! A stream is (shard, term, generation); its updates are numbered from its snapshot on, without gaps. The carrier has checksums.
//! Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | `version` | [`CHUNK_UPDATE_VERSION`] |
//! | 1 | 1 | `kind` | 1 keyed change, 2 value exchanged, 3 snapshot |
//! | 2 | 2 | reserved | zero |
//! | 4 | 4 | `shard` | |
//! | 8 | 8 | `term` | of the unit's leader |
//! | 16 | 8 | `generation` | of the leader's structure |
//! | 24 | 8 | `number` | of the update; of a snapshot, that of the next update |
//! | 32 | 8 | `horizon` | all chunks with lower numbers are in |
//! | 40 | | body | bytes of the crate `ludo`; of an exchange: the id, 16 bytes of old places, 16 bytes of new ones |

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::chunk_id::{CHUNK_ID_BYTES, ChunkId, ChunkNumber, ShardId};
use crate::chunk_place::ChunkPlaces;
use crate::decode::{DecodeError, Fault, Reader};

/// Version written; 1: the first.
pub const CHUNK_UPDATE_VERSION: u8 = 1;

const UPDATE: &str = "lookup update";

/// One line of updates. Of two streams of a shard the greater is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    pub shard: ShardId,
    /// Each leader of the unit has one of its own, and later ones have greater ones.
    pub term: u64,
    pub generation: u64,
}

/// What happens to a lookup structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupChange {
    /// An encoded update of the crate `ludo`, made with the keys.
    Keyed(Vec<u8>),
    /// A chunk that is known to be in the structure has other places.
    Exchanged { id: ChunkId, from: ChunkPlaces, to: ChunkPlaces },
    /// The whole structure as the crate `ludo` encodes it.
    Snapshot(Vec<u8>),
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupUpdate {
    pub stream: Stream,
    pub number: u64,
    pub horizon: ChunkNumber,
    pub change: LookupChange,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LookupUpdateLayout {
    version: u8,
    kind: u8,
    reserved: U16,
    shard: U32,
    term: U64,
    generation: U64,
    number: U64,
    horizon: U64,
}

const _: () = assert!(size_of::<LookupUpdateLayout>() == 40);
const _: () = assert!(std::mem::offset_of!(LookupUpdateLayout, shard) == 4);
const _: () = assert!(std::mem::offset_of!(LookupUpdateLayout, term) == 8);
const _: () = assert!(std::mem::offset_of!(LookupUpdateLayout, horizon) == 32);

impl LookupUpdate {
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = match &self.change {
            LookupChange::Keyed(bytes) => {
                body.extend_from_slice(bytes);
                1
            }
            LookupChange::Exchanged { id, from, to } => {
                body.extend_from_slice(&id.to_bytes());
                body.extend_from_slice(&from.to_value().to_le_bytes());
                body.extend_from_slice(&to.to_value().to_le_bytes());
                2
            }
            LookupChange::Snapshot(bytes) => {
                body.extend_from_slice(bytes);
                3
            }
        };
        let layout = LookupUpdateLayout {
            version: CHUNK_UPDATE_VERSION,
            kind,
            reserved: U16::ZERO,
            shard: self.stream.shard.0.into(),
            term: self.stream.term.into(),
            generation: self.stream.generation.into(),
            number: self.number.into(),
            horizon: self.horizon.0.into(),
        };
        [layout.as_bytes(), &body].concat()
    }

    /// Reads a message that fills `bytes`. What stands in the crate `ludo`'s bytes is not judged here.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(UPDATE, bytes);
        let layout: &LookupUpdateLayout = reader.fixed("head")?;
        reader.check_version(0, layout.version, CHUNK_UPDATE_VERSION)?;
        if layout.reserved != U16::ZERO {
            return Err(reader.error_at(2, "reserved", Fault::Unknown { found: u64::from(layout.reserved.get()) }));
        }
        let change = match layout.kind {
            1 => LookupChange::Keyed(reader.take(reader.remaining(), "update")?.to_vec()),
            2 => LookupChange::Exchanged {
                id: ChunkId::from_bytes(reader.array::<CHUNK_ID_BYTES>("id")?),
                from: ChunkPlaces::read(&mut reader)?,
                to: ChunkPlaces::read(&mut reader)?,
            },
            3 => LookupChange::Snapshot(reader.take(reader.remaining(), "snapshot")?.to_vec()),
            found => return Err(reader.error_at(1, "kind", Fault::Unknown { found: u64::from(found) })),
        };
        reader.finish()?;
        let (shard, term, generation) = (ShardId(layout.shard.get()), layout.term.get(), layout.generation.get());
        let (number, horizon) = (layout.number.get(), ChunkNumber(layout.horizon.get()));
        Ok(LookupUpdate { stream: Stream { shard, term, generation }, number, horizon, change })
    }
}

#[cfg(test)]
mod tests;
