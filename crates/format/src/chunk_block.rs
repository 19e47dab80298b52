//! The header of a block of the chunk store (docs/rfd/0011): which chunks are in it, where, and what became of them.
//!
//! ```text
//! 0              16 KiB         32 KiB                                        32 KiB + 4 MiB
//! ├─ slot 0 ─────┼─ slot 1 ─────┼─ data area: filled from its end downwards ───┤
//! ```
//!
//! A header is written to the slot of its serial number's parity, so that a torn write leaves the one before. The newest slot that may be
//! believed counts. A slot is a head of 64 bytes and up to [`MAX_BLOCK_ENTRIES`] entries of 64 bytes; what follows them is not read.
//! Little endian.
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `crc` | CRC32C over `[4, 64 + 64 · count)` |
//! | 4 | 4 | `magic` | `TcBh` |
//! | 8 | 1 | `version` | [`BLOCK_HEADER_VERSION`] |
//! | 9 | 1 | `condemned` | 1: the header before was lost, and the block is out of use |
//! | 10 | 2 | `count` | entries |
//! | 12 | 4 | `block` | number of the block on its device |
//! | 16 | 16 | `device_uuid` | |
//! | 32 | 8 | `serial` | of this write of the header |
//! | 40 | 24 | reserved | zero |
//!
//! An entry:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 20 | `id` | |
//! | 20 | 4 | `offset` | of the content in the data area |
//! | 24 | 4 | `capacity` | bytes that are its own there; a chunk of which nothing came has none |
//! | 28 | 4 | `length` | bytes of content, at most `capacity` |
//! | 32 | 4 | `checksum` | CRC32C of the content |
//! | 36 | 4 | `era` | of the places that the copy belongs to: bits 0 and 1 how many these are, the others a number |
//! | 40 | 8 | `counter` | of its newest write |
//! | 48 | 8 | `writer` | of its newest write |
//! | 56 | 1 | `state` | [`CopyState`] |
//! | 57 | 1 | `settled` | 1: all copies have this version; 2: the copy is doubted, live or being overwritten: a header that was newer may have been lost |
//! | 58 | 6 | reserved | zero |
//!
//! Invariants: a condemned block has no entries; what is doubted is not settled; ids differ; contents lie in the data area and do not overlap. Whoever places them begins each at a multiple of
//! [`CONTENT_ALIGNMENT`] and leaves it [`room_of`] its capacity, so that no two share what a device writes at once.

use crc_fast::crc32_iscsi;
use types::DeviceUuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::chunk_id::{CHUNK_ID_BYTES, ChunkId};
use crate::decode::{DecodeError, Fault, Reader};

/// Version written; 1: the first.
pub const BLOCK_HEADER_VERSION: u8 = 1;
/// Bytes of one slot.
pub const HEADER_SLOT_BYTES: usize = 16 * 1024;
/// Slots in front of the data area.
pub const HEADER_SLOTS: u64 = 2;
/// Bytes of a block for content: a chunk of this size fills it.
pub const BLOCK_DATA_BYTES: u32 = 4 * 1024 * 1024;
/// Bytes from one block of a device to the next.
pub const BLOCK_STRIDE_BYTES: u64 = HEADER_SLOTS * HEADER_SLOT_BYTES as u64 + BLOCK_DATA_BYTES as u64;
/// Contents begin at multiples of this: what a device writes at once.
pub const CONTENT_ALIGNMENT: u32 = types::limits::BLOCK_BYTES as u32;
/// Most chunks of one block, dead marks included.
pub const MAX_BLOCK_ENTRIES: usize = (HEADER_SLOT_BYTES - HEAD_BYTES) / ENTRY_BYTES;

const MAGIC: [u8; 4] = *b"TcBh";
const HEAD_BYTES: usize = 64;
const ENTRY_BYTES: usize = 64;
const CRC_BYTES: usize = 4;
/// In the field `settled`.
const SETTLED: u8 = 1;
const DOUBTED: u8 = 2;
const HEADER: &str = "block header";

const _: () = assert!(MAX_BLOCK_ENTRIES == 255);
const _: () = assert!(BLOCK_DATA_BYTES.is_multiple_of(CONTENT_ALIGNMENT));

/// Bytes of the data area that a chunk of so much capacity takes; none if that is more than a block has.
pub fn room_of(capacity: u32) -> Option<u32> {
    (capacity <= BLOCK_DATA_BYTES).then(|| capacity.next_multiple_of(CONTENT_ALIGNMENT))
}

/// Which write a copy has. Later ones are greater; a chunk is put with the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkVersion {
    pub counter: u64,
    /// Names one call of one client.
    pub writer: u64,
}

/// Names the set of places that a copy belongs to: a number that grows with every change of them, and below it, in [`COUNT_BITS`] bits, how many they are.
///
/// The count is there for those who know former places. Where one was added, the copies that stayed are in the new era, and a write in it to the former
/// places alone would be complete without the new copy (docs/rfd/0018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Era(pub u32);

/// Bits of an era that count its places.
const COUNT_BITS: u32 = 2;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

impl Era {
    /// Of a chunk that is put to so many places.
    pub fn first(copies: usize) -> Era {
        Era(0).next(copies)
    }

    /// The one after it, in which there are so many places.
    pub fn next(self, copies: usize) -> Era {
        assert!((1..=crate::chunk_place::MAX_CHUNK_COPIES).contains(&copies), "{copies} places");
        Era(((self.number() + 1) << COUNT_BITS) | copies as u32)
    }

    /// The least that is greater: below all of the next number.
    pub fn just_after(self) -> Era {
        Era(self.0.saturating_add(1))
    }

    pub fn number(self) -> u32 {
        self.0 >> COUNT_BITS
    }

    /// How many places it has.
    pub fn copies(self) -> usize {
        (self.0 & COUNT_MASK) as usize
    }
}

const _: () = assert!(crate::chunk_place::MAX_CHUNK_COPIES <= COUNT_MASK as usize);

/// What a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CopyState {
    Live = 1,
    /// Its content is being replaced where it stands: it is half old and half new until the next header.
    Overwriting = 2,
    /// Moved away: it answers nobody.
    Departed = 3,
    /// Deleted: a mark that stays until nothing can bring the chunk back.
    Dead = 4,
}

/// One chunk in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    pub id: ChunkId,
    pub offset: u32,
    pub capacity: u32,
    pub length: u32,
    pub checksum: u32,
    pub era: Era,
    pub version: ChunkVersion,
    pub state: CopyState,
    pub is_settled: bool,
    /// It may be older than what was answered: only its unit's leader ends that.
    pub is_doubted: bool,
}

/// A whole header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    pub device_uuid: DeviceUuid,
    pub block: u32,
    /// Decides the slot.
    pub serial: u64,
    /// What was in the block is lost for good, and it takes nothing any more.
    pub is_condemned: bool,
    pub entries: Vec<BlockEntry>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HeadLayout {
    crc: U32,
    magic: [u8; 4],
    version: u8,
    condemned: u8,
    count: U16,
    block: U32,
    device_uuid: [u8; 16],
    serial: U64,
    reserved: [u8; 24],
}

const _: () = assert!(size_of::<HeadLayout>() == HEAD_BYTES);
const _: () = assert!(std::mem::offset_of!(HeadLayout, count) == 10);
const _: () = assert!(std::mem::offset_of!(HeadLayout, device_uuid) == 16);
const _: () = assert!(std::mem::offset_of!(HeadLayout, serial) == 32);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BlockEntryLayout {
    id: [u8; 20],
    offset: U32,
    capacity: U32,
    length: U32,
    checksum: U32,
    era: U32,
    counter: U64,
    writer: U64,
    state: u8,
    settled: u8,
    reserved: [u8; 6],
}

const _: () = assert!(size_of::<BlockEntryLayout>() == ENTRY_BYTES);
const _: () = assert!(std::mem::offset_of!(BlockEntryLayout, offset) == 20);
const _: () = assert!(std::mem::offset_of!(BlockEntryLayout, era) == 36);
const _: () = assert!(std::mem::offset_of!(BlockEntryLayout, counter) == 40);
const _: () = assert!(std::mem::offset_of!(BlockEntryLayout, state) == 56);

const _: () = assert!(CHUNK_ID_BYTES == 20);

impl BlockEntry {
    fn to_layout(self) -> BlockEntryLayout {
        BlockEntryLayout {
            id: self.id.to_bytes(),
            offset: self.offset.into(),
            capacity: self.capacity.into(),
            length: self.length.into(),
            checksum: self.checksum.into(),
            era: self.era.0.into(),
            counter: self.version.counter.into(),
            writer: self.version.writer.into(),
            state: self.state as u8,
            settled: if self.is_doubted { DOUBTED } else { u8::from(self.is_settled) },
            reserved: [0; 6],
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.offset();
        let layout: &BlockEntryLayout = reader.fixed("entry")?;
        let refuse = |offset, field, found| Err(reader.error_at(at + offset, field, Fault::Unknown { found }));
        let state = match layout.state {
            1 => CopyState::Live,
            2 => CopyState::Overwriting,
            3 => CopyState::Departed,
            4 => CopyState::Dead,
            found => return refuse(56, "state", u64::from(found)),
        };
        let is_known = match layout.settled {
            DOUBTED => matches!(state, CopyState::Live | CopyState::Overwriting),
            settled => settled <= SETTLED,
        };
        if !is_known {
            return refuse(57, "settled", u64::from(layout.settled));
        }
        if layout.reserved != [0; 6] {
            return refuse(58, "reserved", u64::from(layout.reserved[0]));
        }
        let (offset, capacity, length) = (layout.offset.get(), layout.capacity.get(), layout.length.get());
        let range = |most: u32, found: u32| Fault::OutOfRange { least: 0, most: most.into(), found: found.into() };
        if offset > BLOCK_DATA_BYTES {
            return Err(reader.error_at(at + 20, "offset", range(BLOCK_DATA_BYTES, offset)));
        }
        if capacity > BLOCK_DATA_BYTES - offset {
            return Err(reader.error_at(at + 24, "capacity", range(BLOCK_DATA_BYTES - offset, capacity)));
        }
        if length > capacity {
            return Err(reader.error_at(at + 28, "length", range(capacity, length)));
        }
        Ok(BlockEntry {
            id: ChunkId::from_bytes(layout.id),
            offset,
            capacity,
            length,
            checksum: layout.checksum.get(),
            era: Era(layout.era.get()),
            version: ChunkVersion { counter: layout.counter.get(), writer: layout.writer.get() },
            state,
            is_settled: layout.settled == SETTLED,
            is_doubted: layout.settled == DOUBTED,
        })
    }
}

impl BlockHeader {
    /// The slot in which a header stands.
    pub fn slot(&self) -> u64 {
        self.serial % HEADER_SLOTS
    }

    /// The bytes of a slot, up to the last entry.
    ///
    /// Panics when there are more than [`MAX_BLOCK_ENTRIES`], any in a condemned block, or one that is both settled and doubted.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= MAX_BLOCK_ENTRIES, "{} entries", self.entries.len());
        assert!(!self.is_condemned || self.entries.is_empty(), "{} entries of a condemned block", self.entries.len());
        let is_both = self.entries.iter().any(|entry| entry.is_settled && entry.is_doubted);
        assert!(!is_both, "a copy is settled and doubted");
        let head = HeadLayout {
            crc: U32::ZERO,
            magic: MAGIC,
            version: BLOCK_HEADER_VERSION,
            condemned: u8::from(self.is_condemned),
            count: (self.entries.len() as u16).into(),
            block: self.block.into(),
            device_uuid: self.device_uuid.0,
            serial: self.serial.into(),
            reserved: [0; 24],
        };
        let mut out = Vec::with_capacity(HEAD_BYTES + ENTRY_BYTES * self.entries.len());
        out.extend_from_slice(head.as_bytes());
        for entry in &self.entries {
            out.extend_from_slice(entry.to_layout().as_bytes());
        }
        let crc = crc32_iscsi(&out[CRC_BYTES..]);
        out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// How much of a slot is to be read before it can be judged, by its first bytes; none if those are no header's.
    pub fn encoded_bytes(start: &[u8]) -> Option<usize> {
        let (head, _) = HeadLayout::ref_from_prefix(start).ok()?;
        let count = usize::from(head.count.get());
        (head.magic == MAGIC && count <= MAX_BLOCK_ENTRIES).then_some(HEAD_BYTES + ENTRY_BYTES * count)
    }

    /// Reads one slot; bytes behind the entries do not count.
    pub fn decode(slot: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(HEADER, slot);
        let head: &HeadLayout = reader.fixed("head")?;
        if head.magic != MAGIC {
            let found = u64::from(u32::from_le_bytes(head.magic));
            return Err(reader.error_at(4, "magic", Fault::Unknown { found }));
        }
        reader.check_version(8, head.version, BLOCK_HEADER_VERSION)?;
        let count = usize::from(head.count.get());
        reader.check_count(10, count, ENTRY_BYTES, "count")?;
        if count > MAX_BLOCK_ENTRIES {
            let fault = Fault::OutOfRange { least: 0, most: MAX_BLOCK_ENTRIES as u64, found: count as u64 };
            return Err(reader.error_at(10, "count", fault));
        }
        let (expected, found) = (crc32_iscsi(&slot[CRC_BYTES..HEAD_BYTES + ENTRY_BYTES * count]), head.crc.get());
        if expected != found {
            return Err(reader.error_at(0, "crc", Fault::Checksum { expected, found }));
        }
        if head.condemned > 1 || (head.condemned == 1 && count > 0) {
            return Err(reader.error_at(9, "condemned", Fault::Unknown { found: u64::from(head.condemned) }));
        }
        if head.reserved != [0; 24] {
            return Err(reader.error_at(40, "reserved", Fault::Unknown { found: u64::from(head.reserved[0]) }));
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(BlockEntry::read(&mut reader)?);
        }
        check_entries(&reader, &entries)?;
        let (device_uuid, block, serial) = (DeviceUuid(head.device_uuid), head.block.get(), head.serial.get());
        Ok(BlockHeader { device_uuid, block, serial, is_condemned: head.condemned == 1, entries })
    }

    /// The newest of the slots that may be believed; if none may, what is wrong with the first.
    pub fn decode_newest(slots: [&[u8]; HEADER_SLOTS as usize]) -> Result<Self, DecodeError> {
        let [first, second] = slots.map(BlockHeader::decode);
        match (first, second) {
            (Ok(first), Ok(second)) => Ok(if first.serial > second.serial { first } else { second }),
            (Err(_), Ok(second)) => Ok(second),
            (first, Err(_)) => first,
        }
    }
}

fn check_entries(reader: &Reader<'_>, entries: &[BlockEntry]) -> Result<(), DecodeError> {
    let mut ids: Vec<ChunkId> = entries.iter().map(|entry| entry.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(reader.error_at(HEAD_BYTES, "ids", Fault::Unordered));
    }
    let mut extents: Vec<(u32, u32)> =
        entries.iter().filter(|entry| entry.capacity > 0).map(|entry| (entry.offset, entry.offset + entry.capacity)).collect();
    extents.sort_unstable();
    if extents.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(reader.error_at(HEAD_BYTES, "extents", Fault::Unordered));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
