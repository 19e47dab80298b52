//! A page: rows of a closed shard's maintenance unit, as the content of a chunk of that shard (docs/rfd/0015).
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | `version` | [`CHUNK_PAGE_VERSION`] |
//! | 1 | 3 | reserved | 0 |
//! | 4 | 4 | `shard` | whose rows these are |
//! | 8 | 8 | `page` | number of the chunk that this is the content of |
//! | 16 | 8 | `first` | the page has the rows from here |
//! | 24 | 8 | `last` | to here, those that there were |
//! | 32 | 40 · n | rows | by ascending number, to the end |
//!
//! A row, here, in images of units and in commands:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | `number` | of the chunk in its shard |
//! | 8 | 8 | `nonce` | the rest of its id |
//! | 16 | 16 | `places` | of its copies (`chunk_place.rs`) |
//! | 32 | 3 | `bytes` | space of each copy |
//! | 35 | 1 | `wanted` | copies that there are to be: as many as places, or more (docs/rfd/0018) |
//! | 36 | 4 | `era` | of the copies |
//!
//! Its bytes are checked as those of all chunks are, by their node and on their way.

use crate::chunk_block::{BLOCK_DATA_BYTES, Era};
use crate::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use crate::chunk_place::{ChunkPlaces, MAX_CHUNK_COPIES};
use crate::decode::{DecodeError, Fault, Reader};

/// Version written. 1, whose rows did not say how many copies are wanted, was never released and is not read.
pub const CHUNK_PAGE_VERSION: u8 = 2;
/// Bytes before the rows.
pub const PAGE_HEAD_BYTES: usize = 32;
/// Most rows of a page: 64 KiB of them.
pub const MAX_PAGE_ROWS: usize = (64 * 1024 - PAGE_HEAD_BYTES) / CHUNK_ROW_BYTES;

const PAGE: &str = "page of a unit";

/// Bytes of a row.
pub const CHUNK_ROW_BYTES: usize = 40;

/// Below the wanted copies.
const BYTES_BITS: u32 = 24;

const _: () = assert!(BLOCK_DATA_BYTES < 1 << BYTES_BITS);

/// A chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRow {
    pub number: ChunkNumber,
    pub nonce: ChunkNonce,
    pub places: ChunkPlaces,
    /// Space of each copy.
    pub bytes: u32,
    /// Copies that there are to be.
    pub wanted: u8,
    pub era: Era,
}

impl ChunkRow {
    /// The id of the chunk, whose shard no row repeats.
    pub fn id(&self, shard: ShardId) -> ChunkId {
        ChunkId { shard, number: self.number, nonce: self.nonce }
    }

    /// Whether there are fewer copies than are wanted.
    pub fn is_short(&self) -> bool {
        self.places.as_slice().len() < usize::from(self.wanted)
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.0.to_le_bytes());
        out.extend_from_slice(&self.nonce.0.to_le_bytes());
        out.extend_from_slice(&self.places.to_value().to_le_bytes());
        out.extend_from_slice(&(self.bytes | u32::from(self.wanted) << BYTES_BITS).to_le_bytes());
        out.extend_from_slice(&self.era.0.to_le_bytes());
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (number, nonce) = (ChunkNumber(reader.u64("number")?), ChunkNonce(reader.u64("nonce")?));
        let places = ChunkPlaces::read(reader)?;
        let at = reader.offset();
        let bytes = reader.u32("bytes")?;
        let (bytes, wanted) = (bytes & ((1 << BYTES_BITS) - 1), (bytes >> BYTES_BITS) as u8);
        check_wanted(reader, at, wanted, &places)?;
        Ok(ChunkRow { number, nonce, places, bytes, wanted, era: Era(reader.u32("era")?) })
    }
}

/// No fewer copies are wanted than there are, and no more than there can be.
pub(crate) fn check_wanted(reader: &Reader<'_>, at: usize, wanted: u8, places: &ChunkPlaces) -> Result<(), DecodeError> {
    let (least, most) = (places.as_slice().len() as u64, MAX_CHUNK_COPIES as u64);
    match u64::from(wanted) {
        found if found < least || found > most => Err(reader.error_at(at, "wanted", Fault::OutOfRange { least, most, found })),
        _ => Ok(()),
    }
}

/// Rows of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkPage {
    pub shard: ShardId,
    pub page: ChunkNumber,
    pub first: ChunkNumber,
    pub last: ChunkNumber,
    rows: Vec<ChunkRow>,
}

impl ChunkPage {
    /// An empty page.
    pub fn new(shard: ShardId, page: ChunkNumber, first: ChunkNumber, last: ChunkNumber) -> Self {
        ChunkPage { shard, page, first, last, rows: Vec::new() }
    }

    /// By ascending number.
    pub fn rows(&self) -> &[ChunkRow] {
        &self.rows
    }

    /// The row of a number, if the page has it.
    pub fn row(&self, number: ChunkNumber) -> Option<&ChunkRow> {
        self.rows.binary_search_by_key(&number, |row| row.number).ok().map(|at| &self.rows[at])
    }

    /// Adds a row. Panics if it does not come after those that are there, is outside of the page's range, or there are [`MAX_PAGE_ROWS`].
    pub fn push(&mut self, row: ChunkRow) {
        assert!(self.rows.len() < MAX_PAGE_ROWS, "a page has at most {MAX_PAGE_ROWS} rows");
        assert!(self.takes(row.number), "{:?} can't come next in a page of {:?} to {:?}", row.number, self.first, self.last);
        self.rows.push(row);
    }

    fn takes(&self, number: ChunkNumber) -> bool {
        let is_next = self.rows.last().is_none_or(|last| last.number < number);
        is_next && self.first <= number && number <= self.last
    }

    /// Bytes of a page with so many rows.
    pub fn bytes_of(rows: usize) -> usize {
        PAGE_HEAD_BYTES + CHUNK_ROW_BYTES * rows
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(ChunkPage::bytes_of(self.rows.len()));
        out.extend_from_slice(&[CHUNK_PAGE_VERSION, 0, 0, 0]);
        out.extend_from_slice(&self.shard.0.to_le_bytes());
        [self.page, self.first, self.last].iter().for_each(|number| out.extend_from_slice(&number.0.to_le_bytes()));
        self.rows.iter().for_each(|row| row.write(&mut out));
        out
    }

    /// Reads a page that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(PAGE, bytes);
        let version = reader.u8("version")?;
        reader.check_versions(0, version, CHUNK_PAGE_VERSION, CHUNK_PAGE_VERSION)?;
        let reserved: [u8; 3] = reader.array("reserved")?;
        if reserved != [0; 3] {
            return Err(reader.error_at(1, "reserved", Fault::Unknown { found: u64::from(reserved[0]) }));
        }
        let shard = ShardId(reader.u32("shard")?);
        let mut number = |field| reader.u64(field).map(ChunkNumber);
        let (page, first, last) = (number("page")?, number("first")?, number("last")?);
        let mut page = ChunkPage::new(shard, page, first, last);
        while reader.remaining() > 0 {
            let at = reader.offset();
            let row = ChunkRow::read(&mut reader)?;
            if !page.takes(row.number) || page.rows.len() == MAX_PAGE_ROWS {
                return Err(reader.error_at(at, "number", Fault::Unknown { found: row.number.0 }));
            }
            page.rows.push(row);
        }
        Ok(page)
    }
}

#[cfg(test)]
pub(crate) mod tests;
