//! A unit's state as bytes: the snapshot of its consensus group (docs/rfd/0012).
//!
//! Little endian, one after the other; a list begins with its count, u64:
//!
//! | field | form |
//! |---|---|
//! | `version` | u8, [`IMAGE_VERSION`] |
//! | `shard`, `capacity`, `next`, `next_move` | u32, u64, u64, u64 |
//! | grants | device u32, first block u32, blocks u32 |
//! | released bulks | device u32, first block u32 |
//! | rows | a row of `format::chunk_page` |
//! | work | number u64, kind u8; 1 pending: session u32, request u32; 2 moving: relocation u64, from, to, lost u8, era u32; 3 freeing: count u8, each a place and ended u8 |
//! | pending copies | a held copy, then its deadline u64, 2⁶⁴ − 1 for none |
//! | copies in limbo | a held copy |
//! | targets | a held copy |
//! | pages | first u64, last u64, number u64, live u64, short u64 |
//! | gone | number u64 |
//! | draft, none or one | number u64, first u64, last u64, those that changed: a list of u64 |
//! | use by chunks in pages | [runs of blocks](uses) |
//!
//! A place has 8 bytes, all bits of which are set where there is none; a held copy is number u64, place, nonce u64, bytes u32, era u32, `after_move` u64, discarded u8. What follows from these
//! (space in use by what is here, calls, relocations by number, targets that were given up) is not written but derived, so that an image can't contradict itself there.

mod pages;
mod uses;

use std::collections::BTreeMap;

use format::chunk_block::Era;
use format::chunk_command::ClientCall;
use format::chunk_id::{ChunkNonce, ChunkNumber, ShardId};
use format::chunk_page::{CHUNK_ROW_BYTES, ChunkRow};
use format::chunk_place::BlockPlace;
use format::decode::{DecodeError, Reader};
use reserve::{Deadline, Reserve};
use types::DeviceId;

use super::chunk::{Held, Row, Work};
use super::{CopyKey, MaintenanceUnit};

/// Version written.
pub const IMAGE_VERSION: u8 = 4;
/// Is read as well: each block by itself where 4 has runs of them. 1 and 2, without pages and without the number of wanted copies, were never released and are not read.
const FORMER_VERSION: u8 = 3;

const IMAGE: &str = "image of a unit";
const NO_DEADLINE: u64 = u64::MAX;
const NO_PLACE: u64 = u64::MAX;
const PENDING: u8 = 1;
const MOVING: u8 = 2;
const FREEING: u8 = 3;
const HELD_BYTES: usize = 41;
const GRANT_BYTES: usize = 12;
const RELEASED_BYTES: usize = 8;
/// The shortest.
const WORK_BYTES: usize = 10;

/// Why bytes are no state of a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Record(#[from] DecodeError),
    #[error("the image of a unit can't be: {0}")]
    Impossible(&'static str),
}

impl MaintenanceUnit {
    /// The whole state.
    pub fn to_image(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + CHUNK_ROW_BYTES * self.rows.len());
        out.push(IMAGE_VERSION);
        out.extend_from_slice(&self.shard.0.to_le_bytes());
        [self.capacity, self.next.0, self.next_move].iter().for_each(|number| put_u64(&mut out, *number));
        let grants = self.space.grants();
        put_u64(&mut out, grants.len() as u64);
        for (device, first, blocks) in grants {
            [device.0, first, blocks].iter().for_each(|number| put_u32(&mut out, *number));
        }
        put_u64(&mut out, self.space.released().len() as u64);
        for (device, first) in self.space.released() {
            [device.0, *first].iter().for_each(|number| put_u32(&mut out, *number));
        }
        put_u64(&mut out, self.rows.len() as u64);
        self.rows.iter().for_each(|(number, row)| row.numbered(*number).write(&mut out));
        put_u64(&mut out, self.work.len() as u64);
        self.work.iter().for_each(|(number, work)| put_work(&mut out, *number, work));
        put_u64(&mut out, self.copies.pending_len() as u64);
        for (key, held) in self.copies.pending() {
            put_held(&mut out, key, held);
            put_u64(&mut out, self.copies.deadline(key).map_or(NO_DEADLINE, |deadline| deadline.0));
        }
        let limbo: Vec<(CopyKey, &Held)> = self.copies.limbo().collect();
        put_u64(&mut out, limbo.len() as u64);
        limbo.into_iter().for_each(|(key, held)| put_held(&mut out, key, held));
        put_u64(&mut out, self.targets.pending_len() as u64);
        self.targets.pending().for_each(|(key, held)| put_held(&mut out, key, held));
        self.put_pages(&mut out);
        out
    }

    /// The state that [`MaintenanceUnit::to_image`] wrote.
    pub fn from_image(bytes: &[u8]) -> Result<Self, ImageError> {
        let mut reader = Reader::new(IMAGE, bytes);
        let version = reader.u8("version")?;
        reader.check_versions(0, version, FORMER_VERSION, IMAGE_VERSION)?;
        let shard = ShardId(reader.u32("shard")?);
        let mut unit = MaintenanceUnit::new(shard, reader.u64("capacity")?);
        unit.next = ChunkNumber(reader.u64("next")?);
        unit.next_move = reader.u64("next_move")?;
        for _ in 0..count(&mut reader, GRANT_BYTES, "grants")? {
            let (device, first) = (DeviceId(reader.u32("device")?), reader.u32("first block")?);
            let granted = unit.space.grant(device, first, reader.u32("blocks")?);
            granted.map_err(|_| ImageError::Impossible("a grant of no blocks, or of blocks that it has"))?;
        }
        for _ in 0..count(&mut reader, RELEASED_BYTES, "released bulks")? {
            let device = DeviceId(reader.u32("device")?);
            unit.space.note_released(device, reader.u32("first block")?);
        }
        for _ in 0..count(&mut reader, CHUNK_ROW_BYTES, "rows")? {
            let row = ChunkRow::read(&mut reader)?;
            unit.rows.insert(row.number, Row::from(&row));
        }
        for _ in 0..count(&mut reader, WORK_BYTES, "work")? {
            let (number, work) = read_work(&mut reader)?;
            unit.work.insert(number, work);
        }
        for _ in 0..count(&mut reader, HELD_BYTES, "pending copies")? {
            let (key, held) = read_held(&mut reader)?;
            let deadline = Some(reader.u64("deadline")?).filter(|deadline| *deadline != NO_DEADLINE);
            reserve(&mut unit.copies, key, held, deadline.map(Deadline))?;
        }
        for _ in 0..count(&mut reader, HELD_BYTES, "copies in limbo")? {
            let (key, held) = read_held(&mut reader)?;
            unit.copies.release(key, held).map_err(|_| ImageError::Impossible("a copy that is held twice"))?;
        }
        for _ in 0..count(&mut reader, HELD_BYTES, "targets")? {
            let (key, held) = read_held(&mut reader)?;
            reserve(&mut unit.targets, key, held, None)?;
        }
        let archived = unit.read_pages(&mut reader, version)?;
        reader.finish()?;
        if unit.pages.current.is_empty() && archived.iter().any(|(_, bytes, entries)| (*bytes, *entries) != (0, 0)) {
            return Err(ImageError::Impossible("blocks that hold rows of pages, of which there are none"));
        }
        unit.derive()?;
        for (place, bytes, entries) in archived {
            let taken = unit.space.take_archived(place, bytes, entries);
            taken.map_err(|_| ImageError::Impossible("a block that holds more than it can"))?;
        }
        unit.check_pages()?;
        Ok(unit)
    }

    /// What follows from the rest.
    fn derive(&mut self) -> Result<(), ImageError> {
        if self.work.keys().any(|number| !self.rows.contains_key(number)) {
            return Err(ImageError::Impossible("work with a chunk that there is not"));
        }
        if self.rows.keys().next_back().is_some_and(|number| *number >= self.next) {
            return Err(ImageError::Impossible("a chunk whose number was not given yet"));
        }
        for (number, work) in &self.work {
            match work {
                Work::Pending { call } => _ = self.calls.insert(*call, *number),
                Work::Moving { relocation, .. } => _ = self.moves.insert(*relocation, *number),
                Work::Freeing { .. } => {}
            }
        }
        self.given_up = self.copies.limbo().filter(|(_, held)| held.is_discarded).map(|(key, _)| key).collect();
        let held: Vec<(BlockPlace, u32)> = self.held().collect();
        for (place, bytes) in held {
            self.space.check(place, bytes).map_err(|_| ImageError::Impossible("a block that holds more than it can"))?;
            self.space.take(place, bytes);
        }
        Ok(())
    }

    /// Copies that hold space and whose rows are here, with their bytes.
    fn held(&self) -> impl Iterator<Item = (BlockPlace, u32)> {
        // The copies of a chunk that ends are in limbo.
        let is_ending = |number: &ChunkNumber| matches!(self.work.get(number), Some(Work::Freeing { .. }));
        let rows = self.rows.iter().filter(move |(number, _)| !is_ending(number));
        let published = rows.flat_map(|(_, row)| row.places.iter().map(|place| (place, row.bytes)).collect::<Vec<_>>());
        let others = self.copies.limbo().chain(self.targets.pending()).map(|((_, place), held)| (place, held.bytes));
        published.chain(others)
    }
}

fn reserve(
    reserve: &mut Reserve<CopyKey, Held>,
    key: CopyKey,
    held: Held,
    deadline: Option<Deadline>,
) -> Result<(), ImageError> {
    reserve.reserve(key, held, deadline).map_err(|_| ImageError::Impossible("a copy that is held twice, or too many"))
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_work(out: &mut Vec<u8>, number: ChunkNumber, work: &Work) {
    put_u64(out, number.0);
    match work {
        Work::Pending { call } => {
            out.push(PENDING);
            put_u32(out, call.session);
            put_u32(out, call.request);
        }
        Work::Moving { relocation, from, to, is_lost, era } => {
            out.push(MOVING);
            put_u64(out, *relocation);
            [from, to].iter().for_each(|place| put_u64(out, place.map_or(NO_PLACE, BlockPlace::to_bits)));
            out.push(u8::from(*is_lost));
            put_u32(out, era.0);
        }
        Work::Freeing { copies } => {
            out.push(FREEING);
            out.push(u8::try_from(copies.len()).expect("a chunk has few copies"));
            for (place, has_ended) in copies {
                put_u64(out, place.to_bits());
                out.push(u8::from(*has_ended));
            }
        }
    }
}

fn put_held(out: &mut Vec<u8>, (number, place): CopyKey, held: &Held) {
    [number.0, place.to_bits(), held.nonce.0].iter().for_each(|number| put_u64(out, *number));
    put_u32(out, held.bytes);
    put_u32(out, held.era.0);
    put_u64(out, held.after_move);
    out.push(u8::from(held.is_discarded));
}

/// A count that the bytes which are left can have.
fn count(reader: &mut Reader<'_>, item_bytes: usize, field: &'static str) -> Result<usize, ImageError> {
    let at = reader.offset();
    let count = usize::try_from(reader.u64(field)?).map_err(|_| ImageError::Impossible("a count"))?;
    reader.check_count(at, count, item_bytes, field)?;
    Ok(count)
}

fn read_place(reader: &mut Reader<'_>) -> Result<BlockPlace, ImageError> {
    BlockPlace::from_bits(reader.u64("place")?).ok_or(ImageError::Impossible("a place that there can't be"))
}

fn read_optional(reader: &mut Reader<'_>) -> Result<Option<BlockPlace>, ImageError> {
    match reader.u64("place")? {
        NO_PLACE => Ok(None),
        bits => BlockPlace::from_bits(bits).map(Some).ok_or(ImageError::Impossible("a place that there can't be")),
    }
}

fn read_flag(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, ImageError> {
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ImageError::Impossible("a flag that is neither set nor not")),
    }
}

fn read_work(reader: &mut Reader<'_>) -> Result<(ChunkNumber, Work), ImageError> {
    let number = ChunkNumber(reader.u64("number")?);
    let work = match reader.u8("kind")? {
        PENDING => Work::Pending { call: ClientCall { session: reader.u32("session")?, request: reader.u32("request")? } },
        MOVING => Work::Moving {
            relocation: reader.u64("relocation")?,
            from: read_optional(reader)?,
            to: read_optional(reader)?,
            is_lost: read_flag(reader, "lost")?,
            era: Era(reader.u32("era")?),
        },
        FREEING => {
            let copies = (0..reader.u8("copies")?).map(|_| Ok((read_place(reader)?, read_flag(reader, "ended")?)));
            Work::Freeing { copies: copies.collect::<Result<_, ImageError>>()? }
        }
        _ => return Err(ImageError::Impossible("work of an unknown kind")),
    };
    Ok((number, work))
}

fn read_held(reader: &mut Reader<'_>) -> Result<(CopyKey, Held), ImageError> {
    let number = ChunkNumber(reader.u64("number")?);
    let key = (number, read_place(reader)?);
    let held = Held {
        nonce: ChunkNonce(reader.u64("nonce")?),
        bytes: reader.u32("bytes")?,
        era: Era(reader.u32("era")?),
        after_move: reader.u64("after_move")?,
        is_discarded: read_flag(reader, "discarded")?,
    };
    Ok((key, held))
}

/// Runs of neighbouring blocks, none longer than a grant.
pub(super) fn runs(blocks: impl Iterator<Item = BlockPlace>) -> Vec<(DeviceId, u32, u32)> {
    let mut runs: BTreeMap<(DeviceId, u32), u32> = BTreeMap::new();
    let mut last: Option<(DeviceId, u32)> = None;
    for place in blocks {
        match last.and_then(|first| runs.get_mut(&first).map(|count| (first, count))) {
            Some(((device, first), count))
                if device == place.device() && first + *count == place.block() && *count < crate::limits::MAX_GRANT_BLOCKS =>
            {
                *count += 1;
            }
            _ => {
                last = Some((place.device(), place.block()));
                runs.insert((place.device(), place.block()), 1);
            }
        }
    }
    runs.into_iter().map(|((device, first), count)| (device, first, count)).collect()
}

#[cfg(test)]
mod tests;
