//! Commands of a maintenance unit, as they stand in its log (docs/rfd/0011).
//!
//! Two bytes, version and kind, then the fields of the kind in the order in which they are declared; a list begins with its count in two
//! bytes. Time and randomness are fields, so that every member that applies a log has the same state. Little endian.

use types::DeviceId;

use crate::chunk_block::Era;
use crate::chunk_id::{CHUNK_ID_BYTES, ChunkId, ChunkNonce, ChunkNumber};
use crate::chunk_page::{CHUNK_ROW_BYTES, ChunkRow, check_wanted};
use crate::chunk_place::{BlockPlace, ChunkPlaces};
use crate::decode::{DecodeError, Fault, Reader};

/// Version written. 1, in which there was no chunk with fewer copies than are wanted, was never released and is not read.
pub const CHUNK_COMMAND_VERSION: u8 = 2;
/// Most items of one list.
pub const MAX_COMMAND_ITEMS: usize = 4_096;

const COMMAND: &str = "chunk command";
const COPY_BYTES: usize = CHUNK_ID_BYTES + PLACE_BYTES;
const PLACE_BYTES: usize = 8;
const FORMER_COPY_BYTES: usize = COPY_BYTES + size_of::<u32>();
/// Stands for a place that there is not.
const NO_PLACE: u64 = u64::MAX;

/// Names a request of a client: its session, which the system gave, and its own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientCall {
    pub session: u32,
    pub request: u32,
}

/// A copy: of which chunk, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyOf {
    pub id: ChunkId,
    pub place: BlockPlace,
}

/// A copy as it was in one era: at another time there may be another one at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormerCopy {
    pub copy: CopyOf,
    pub era: Era,
}

/// A chunk is to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    pub call: ClientCall,
    /// Drawn by the proposer.
    pub nonce: ChunkNonce,
    /// Most bytes that the chunk will ever have.
    pub bytes: u32,
    /// Chosen by the proposer.
    pub places: ChunkPlaces,
    /// Copies that there are to be: no fewer than places.
    pub wanted: u8,
    /// When the registration ends, unless it is committed; milliseconds of the proposers' clock.
    pub deadline_ms: u64,
}

/// A copy is to be moved; one more is to be made, if there is no `from`; or a place whose copy is lost is to be given up, if there is no `to`. With neither
/// the growth that is under way is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    pub id: ChunkId,
    pub from: Option<BlockPlace>,
    pub to: Option<BlockPlace>,
    /// The device of `from` is lost: its lease has ended, and nobody will read there any more.
    pub is_lost: bool,
}

/// Rows of a closed shard that a page is to have: those from `first` to `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    pub first: ChunkNumber,
    pub last: ChunkNumber,
}

impl PageRange {
    pub fn contains(&self, number: ChunkNumber) -> bool {
        self.first <= number && number <= self.last
    }
}

/// What a unit is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkCommand {
    /// The unit may use these blocks of a device: a bulk.
    Grant {
        device: DeviceId,
        first_block: u32,
        blocks: u32,
    },
    Register(Registration),
    /// All copies are durable.
    Commit(ChunkId),
    /// The client gives its registration up.
    Revoke(ChunkId),
    /// It is at least this late: registrations whose deadline is not later end.
    Expire {
        now_ms: u64,
    },
    /// Nodes have dead copies of these.
    Freed(Vec<ChunkId>),
    /// These copies are dead, or departed, or their devices lost.
    Erased(Vec<CopyOf>),
    /// Nothing of these copies is left at their nodes.
    Forgotten(Vec<FormerCopy>),
    Relocate(Relocation),
    /// The relocation with this number is over: the copy is durable at its new place, if it has one.
    Moved {
        id: ChunkId,
        relocation: u64,
    },
    /// A unit that is sealed has nothing in these blocks, and uses them no more: a bulk.
    Release {
        device: DeviceId,
        first_block: u32,
        blocks: u32,
    },
    /// The manager has taken back the bulk that began here.
    Released {
        device: DeviceId,
        first_block: u32,
    },
    /// A chunk is to be put that has rows of the unit, which may leave its memory when that is committed.
    RegisterPage {
        registration: Registration,
        range: PageRange,
    },
    /// Rows that stand in a page, whose chunk has this number, are needed in memory.
    Touch {
        page: ChunkNumber,
        rows: Vec<ChunkRow>,
    },
    /// The shard was closed before it was full: no more is registered.
    Seal,
}

impl ChunkCommand {
    /// Panics when a list has more than [`MAX_COMMAND_ITEMS`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![CHUNK_COMMAND_VERSION, self.kind()];
        match self {
            ChunkCommand::Grant { device, first_block, blocks } | ChunkCommand::Release { device, first_block, blocks } => {
                [device.0, *first_block, *blocks].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            }
            ChunkCommand::Register(registration) => registration.write(&mut out),
            ChunkCommand::Commit(id) | ChunkCommand::Revoke(id) => out.extend_from_slice(&id.to_bytes()),
            ChunkCommand::Expire { now_ms } => out.extend_from_slice(&now_ms.to_le_bytes()),
            ChunkCommand::Freed(ids) => {
                put_count(&mut out, ids.len());
                ids.iter().for_each(|id| out.extend_from_slice(&id.to_bytes()));
            }
            ChunkCommand::Erased(copies) => {
                put_count(&mut out, copies.len());
                copies.iter().for_each(|copy| put_copy(&mut out, copy));
            }
            ChunkCommand::Forgotten(copies) => {
                put_count(&mut out, copies.len());
                for FormerCopy { copy, era } in copies {
                    put_copy(&mut out, copy);
                    out.extend_from_slice(&era.0.to_le_bytes());
                }
            }
            ChunkCommand::Relocate(Relocation { id, from, to, is_lost }) => {
                out.extend_from_slice(&id.to_bytes());
                put_optional(&mut out, *from);
                put_optional(&mut out, *to);
                out.push(u8::from(*is_lost));
            }
            ChunkCommand::Moved { id, relocation } => {
                out.extend_from_slice(&id.to_bytes());
                out.extend_from_slice(&relocation.to_le_bytes());
            }
            ChunkCommand::Released { device, first_block } => {
                [device.0, *first_block].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            }
            ChunkCommand::RegisterPage { registration, range } => {
                registration.write(&mut out);
                [range.first.0, range.last.0].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            }
            ChunkCommand::Touch { page, rows } => {
                out.extend_from_slice(&page.0.to_le_bytes());
                put_count(&mut out, rows.len());
                rows.iter().for_each(|row| row.write(&mut out));
            }
            ChunkCommand::Seal => {}
        }
        out
    }

    fn kind(&self) -> u8 {
        match self {
            ChunkCommand::Grant { .. } => 1,
            ChunkCommand::Register(_) => 2,
            ChunkCommand::Commit(_) => 3,
            ChunkCommand::Revoke(_) => 4,
            ChunkCommand::Expire { .. } => 5,
            ChunkCommand::Freed(_) => 6,
            ChunkCommand::Erased(_) => 7,
            ChunkCommand::Forgotten(_) => 8,
            ChunkCommand::Relocate(_) => 9,
            ChunkCommand::Moved { .. } => 10,
            ChunkCommand::Release { .. } => 11,
            ChunkCommand::Released { .. } => 12,
            ChunkCommand::RegisterPage { .. } => 13,
            ChunkCommand::Touch { .. } => 14,
            ChunkCommand::Seal => 15,
        }
    }

    /// Reads a command that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(COMMAND, bytes);
        let version = reader.u8("version")?;
        reader.check_versions(0, version, CHUNK_COMMAND_VERSION, CHUNK_COMMAND_VERSION)?;
        let command = match reader.u8("kind")? {
            1 => {
                let device = DeviceId(reader.u32("device")?);
                ChunkCommand::Grant { device, first_block: reader.u32("first_block")?, blocks: reader.u32("blocks")? }
            }
            11 => {
                let device = DeviceId(reader.u32("device")?);
                ChunkCommand::Release { device, first_block: reader.u32("first_block")?, blocks: reader.u32("blocks")? }
            }
            12 => {
                let device = DeviceId(reader.u32("device")?);
                ChunkCommand::Released { device, first_block: reader.u32("first_block")? }
            }
            2 => ChunkCommand::Register(Registration::read(&mut reader)?),
            3 => ChunkCommand::Commit(read_id(&mut reader)?),
            4 => ChunkCommand::Revoke(read_id(&mut reader)?),
            5 => ChunkCommand::Expire { now_ms: reader.u64("now_ms")? },
            6 => ChunkCommand::Freed(read_list(&mut reader, CHUNK_ID_BYTES, read_id)?),
            7 => ChunkCommand::Erased(read_list(&mut reader, COPY_BYTES, read_copy)?),
            8 => ChunkCommand::Forgotten(read_list(&mut reader, FORMER_COPY_BYTES, read_former)?),
            9 => {
                let (id, from, to) = (read_id(&mut reader)?, read_optional(&mut reader)?, read_optional(&mut reader)?);
                let at = reader.offset();
                let is_lost = match reader.u8("is_lost")? {
                    0 => false,
                    1 => true,
                    found => return Err(reader.error_at(at, "is_lost", Fault::Unknown { found: u64::from(found) })),
                };
                ChunkCommand::Relocate(Relocation { id, from, to, is_lost })
            }
            10 => ChunkCommand::Moved { id: read_id(&mut reader)?, relocation: reader.u64("relocation")? },
            13 => {
                let registration = Registration::read(&mut reader)?;
                let (first, last) = (ChunkNumber(reader.u64("first")?), ChunkNumber(reader.u64("last")?));
                ChunkCommand::RegisterPage { registration, range: PageRange { first, last } }
            }
            14 => {
                let page = ChunkNumber(reader.u64("page")?);
                ChunkCommand::Touch { page, rows: read_list(&mut reader, CHUNK_ROW_BYTES, ChunkRow::read)? }
            }
            15 => ChunkCommand::Seal,
            found => return Err(reader.error_at(1, "kind", Fault::Unknown { found: u64::from(found) })),
        };
        reader.finish()?;
        Ok(command)
    }
}

impl Registration {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.call.session.to_le_bytes());
        out.extend_from_slice(&self.call.request.to_le_bytes());
        out.extend_from_slice(&self.nonce.0.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.places.to_value().to_le_bytes());
        out.push(self.wanted);
        out.extend_from_slice(&self.deadline_ms.to_le_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let call = ClientCall { session: reader.u32("session")?, request: reader.u32("request")? };
        let (nonce, bytes) = (ChunkNonce(reader.u64("nonce")?), reader.u32("bytes")?);
        let places = ChunkPlaces::read(reader)?;
        let at = reader.offset();
        let wanted = reader.u8("wanted")?;
        check_wanted(reader, at, wanted, &places)?;
        Ok(Registration { call, nonce, bytes, places, wanted, deadline_ms: reader.u64("deadline_ms")? })
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    assert!(count <= MAX_COMMAND_ITEMS, "{count} items in one command");
    out.extend_from_slice(&(count as u16).to_le_bytes());
}

fn put_place(out: &mut Vec<u8>, place: BlockPlace) {
    out.extend_from_slice(&place.to_bits().to_le_bytes());
}

fn put_copy(out: &mut Vec<u8>, copy: &CopyOf) {
    out.extend_from_slice(&copy.id.to_bytes());
    put_place(out, copy.place);
}

fn put_optional(out: &mut Vec<u8>, place: Option<BlockPlace>) {
    out.extend_from_slice(&place.map_or(NO_PLACE, BlockPlace::to_bits).to_le_bytes());
}

fn read_id(reader: &mut Reader<'_>) -> Result<ChunkId, DecodeError> {
    Ok(ChunkId::from_bytes(reader.array("id")?))
}

fn read_place(reader: &mut Reader<'_>) -> Result<BlockPlace, DecodeError> {
    let at = reader.offset();
    let bits = reader.u64("place")?;
    BlockPlace::from_bits(bits).ok_or(reader.error_at(at, "place", Fault::Unknown { found: bits }))
}

fn read_optional(reader: &mut Reader<'_>) -> Result<Option<BlockPlace>, DecodeError> {
    let at = reader.offset();
    match reader.u64("place")? {
        NO_PLACE => Ok(None),
        bits => BlockPlace::from_bits(bits).map(Some).ok_or(reader.error_at(at, "place", Fault::Unknown { found: bits })),
    }
}

fn read_copy(reader: &mut Reader<'_>) -> Result<CopyOf, DecodeError> {
    Ok(CopyOf { id: read_id(reader)?, place: read_place(reader)? })
}

fn read_former(reader: &mut Reader<'_>) -> Result<FormerCopy, DecodeError> {
    Ok(FormerCopy { copy: read_copy(reader)?, era: Era(reader.u32("era")?) })
}

fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    item_bytes: usize,
    read: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let at = reader.offset();
    let count = usize::from(reader.u16("count")?);
    reader.check_count(at, count, item_bytes, "count")?;
    if count > MAX_COMMAND_ITEMS {
        let fault = Fault::OutOfRange { least: 0, most: MAX_COMMAND_ITEMS as u64, found: count as u64 };
        return Err(reader.error_at(at, "count", fault));
    }
    (0..count).map(|_| read(reader)).collect()
}

#[cfg(test)]
mod tests;
