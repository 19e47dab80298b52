//! The index of a sorted run: what the run holds, and the first key and the places of each of its blocks.
//!
//! ```text
//! 0        48            48+l+h      48+l+h+r       …+4n
//! ├─ head ─┼─ lowest, ───┼─ rows ────┼─ row offsets ┤
//!            highest key   r bytes     u32 per block
//! ```
//!
//! A row is a fixed part of 12 bytes, the block's places and its first key. The index of a large run is longer than one
//! record: the engine cuts these bytes into pieces, and the manifest names the pieces in order.
//!
//! Invariants:
//! - First keys ascend, and stand between the lowest and the highest key. They may repeat: rows of one name, which differ in
//!   order, can fill more than one block.
//! - A run without rows has no blocks and is not stored.

use bytes::Bytes;
use types::Epoch;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;
use crate::name_entry::{MAX_SORT_KEY_BYTES, SortKey};
use crate::replicas::{PLACE_BYTES, PlaceLayout, Places, check_count};

/// Version written; 1: the first.
pub const RUN_INDEX_VERSION: u8 = 1;

/// Most blocks of one run: with full blocks, 64 GiB of rows.
pub const MAX_RUN_BLOCKS: usize = 1 << 20;

const RUN_INDEX: &str = "run index";
const OFFSET_BYTES: usize = 4;
const MAX_BLOCK_ROW_BYTES: usize = size_of::<BlockLayout>() + 3 * PLACE_BYTES + MAX_SORT_KEY_BYTES;

const _: () = assert!(MAX_RUN_BLOCKS * MAX_BLOCK_ROW_BYTES <= u32::MAX as usize, "offsets of rows are 32 bits wide");

/// A sorted run's number within its cell; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// What a run holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunHeader {
    pub run: RunId,
    /// Distance from the newest: 0 is written by checkpoints, others by merges.
    pub level: u8,
    /// Rows of all blocks.
    pub entries: u64,
    /// The oldest epoch of any row.
    pub min_epoch: Epoch,
    /// The newest epoch of any row.
    pub max_epoch: Epoch,
    pub lowest: SortKey,
    pub highest: SortKey,
}

/// One block of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef<'a> {
    /// The sort key of its first row.
    pub first_key: &'a [u8],
    pub entries: u32,
    /// Bytes of the record's frame.
    pub frame_bytes: u32,
    pub places: Places,
}

/// An index whose every row has been checked.
#[derive(Clone, Debug)]
pub struct RunIndex {
    header: RunHeader,
    bytes: Bytes,
    blocks: usize,
    /// Where the rows begin.
    rows: usize,
    /// Where the row offsets begin.
    offsets: usize,
}

/// Gathers the blocks of a run as they are written.
#[derive(Debug, Default)]
pub struct RunIndexBuilder {
    rows: Vec<u8>,
    offsets: Vec<u32>,
    entries: u64,
}

fixed_layout! {
    pub(crate) struct RunIndexLayout: 48 {
        0 version: u8,
        1 level: u8,
        2 reserved: U16,
        4 blocks: U32,
        8 run: U64,
        16 entries: U64,
        24 min_epoch: U64,
        32 max_epoch: U64,
        40 rows_bytes: U32,
        44 lowest_bytes: U16,
        46 highest_bytes: U16,
    }
}

fixed_layout! {
    pub(crate) struct BlockLayout: 12 {
        0 entries: U32,
        4 frame_bytes: U32,
        8 key_bytes: U16,
        10 places: u8,
        11 reserved: u8,
    }
}

impl RunIndex {
    /// Checks an index that fills `bytes`.
    pub fn decode(bytes: Bytes) -> Result<RunIndex, DecodeError> {
        let mut reader = Reader::new(RUN_INDEX, &bytes);
        let head: &RunIndexLayout = reader.fixed("head")?;
        reader.check_version(0, head.version, RUN_INDEX_VERSION)?;
        let blocks = head.blocks.get() as usize;
        if blocks > MAX_RUN_BLOCKS {
            let fault = Fault::OutOfRange { least: 0, most: MAX_RUN_BLOCKS as u64, found: blocks as u64 };
            return Err(reader.error_at(4, "blocks", fault));
        }
        let header = RunHeader {
            run: RunId(head.run.get()),
            level: head.level,
            entries: head.entries.get(),
            min_epoch: Epoch(head.min_epoch.get()),
            max_epoch: Epoch(head.max_epoch.get()),
            lowest: key(&mut reader, head.lowest_bytes, "lowest key")?,
            highest: key(&mut reader, head.highest_bytes, "highest key")?,
        };
        let rows = reader.offset();
        let rows_bytes = head.rows_bytes.get() as usize;
        reader.take(rows_bytes, "rows")?;
        let offsets = reader.offset();
        reader.take(blocks * OFFSET_BYTES, "row offsets")?;
        reader.finish()?;
        let index = RunIndex { header, bytes, blocks, rows, offsets };
        index.check_rows()?;
        Ok(index)
    }

    pub fn header(&self) -> &RunHeader {
        &self.header
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks
    }

    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Bytes that the index holds in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The n-th block.
    pub fn get(&self, index: usize) -> Option<BlockRef<'_>> {
        if index >= self.blocks {
            return None;
        }
        let (block, _) = self.row_at(self.row_offset(index)).expect("every row was checked");
        Some(block)
    }

    /// The number of the first block that can hold a row whose key is not less than `key`.
    pub fn first_block_for(&self, key: &SortKey) -> usize {
        let (mut low, mut high) = (0, self.blocks);
        while low < high {
            let middle = (low + high) / 2;
            match self.get(middle).is_some_and(|block| block.first_key < key.as_bytes()) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        // The block before the first that begins at `key` or later may end with rows of that key.
        low.saturating_sub(1)
    }

    fn row_offset(&self, index: usize) -> usize {
        let at = self.offsets + index * OFFSET_BYTES;
        let (offset, _) = U32::ref_from_prefix(&self.bytes[at..]).expect("the table was checked");
        self.rows + offset.get() as usize
    }

    /// The row at an offset, and where it ends.
    fn row_at(&self, at: usize) -> Result<(BlockRef<'_>, usize), DecodeError> {
        let mut reader = Reader::starting_at(RUN_INDEX, &self.bytes[..self.offsets], at);
        let head: &BlockLayout = reader.fixed("row")?;
        let count = check_count(head.places).map_err(|fault| reader.error_at(at + 10, "places", fault))?;
        let places = reader.take(usize::from(count) * PLACE_BYTES, "places")?;
        let places = <[PlaceLayout]>::ref_from_bytes(places).expect("whole places");
        let first_key = reader.take(usize::from(head.key_bytes.get()), "first key")?;
        let block = BlockRef {
            first_key,
            entries: head.entries.get(),
            frame_bytes: head.frame_bytes.get(),
            places: PlaceLayout::unpack(places, count),
        };
        Ok((block, reader.offset()))
    }

    /// Rows follow one another without a gap, their offsets name them, their keys ascend and their entries add up.
    fn check_rows(&self) -> Result<(), DecodeError> {
        let error = |offset, field, fault| DecodeError { record: RUN_INDEX, field, offset, fault };
        let (mut at, mut entries) = (self.rows, 0u64);
        let mut previous = self.header.lowest.as_bytes();
        for index in 0..self.blocks {
            let offset = self.row_offset(index);
            if offset != at {
                let (only, found) = ((at - self.rows) as u64, (offset - self.rows) as u64);
                let fault = Fault::OutOfRange { least: only, most: only, found };
                return Err(error(self.offsets + index * OFFSET_BYTES, "row offset", fault));
            }
            let (block, end) = self.row_at(at)?;
            if block.first_key < previous || block.first_key > self.header.highest.as_bytes() {
                return Err(error(at, "first key", Fault::Unordered));
            }
            previous = block.first_key;
            entries += u64::from(block.entries);
            at = end;
        }
        if at != self.offsets {
            return Err(error(at, "rows", Fault::Trailing { bytes: self.offsets - at }));
        }
        if entries != self.header.entries {
            let fault = Fault::OutOfRange { least: entries, most: entries, found: self.header.entries };
            return Err(error(16, "entries", fault));
        }
        Ok(())
    }
}

fn key(reader: &mut Reader<'_>, bytes: U16, field: &'static str) -> Result<SortKey, DecodeError> {
    let bytes = usize::from(bytes.get());
    if bytes > MAX_SORT_KEY_BYTES {
        let fault = Fault::OutOfRange { least: 0, most: MAX_SORT_KEY_BYTES as u64, found: bytes as u64 };
        return Err(reader.error_at(reader.offset(), field, fault));
    }
    Ok(SortKey::from_bytes(reader.take(bytes, field)?))
}

impl RunIndexBuilder {
    pub fn new() -> Self {
        RunIndexBuilder::default()
    }

    /// Number of blocks so far.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Rows of all blocks so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds the next block.
    pub fn push(&mut self, block: &BlockRef<'_>) {
        assert!(self.offsets.len() < MAX_RUN_BLOCKS);
        assert!(block.first_key.len() <= MAX_SORT_KEY_BYTES);
        let head = BlockLayout {
            entries: block.entries.into(),
            frame_bytes: block.frame_bytes.into(),
            key_bytes: (block.first_key.len() as u16).into(),
            places: block.places.len() as u8,
            reserved: 0,
        };
        let offset = u32::try_from(self.rows.len()).expect("the rows of all allowed blocks are shorter than 4 GiB");
        self.offsets.push(offset);
        self.entries += u64::from(block.entries);
        self.rows.extend_from_slice(head.as_bytes());
        self.rows.extend_from_slice(PlaceLayout::pack(&block.places)[..block.places.len()].as_bytes());
        self.rows.extend_from_slice(block.first_key);
    }

    /// The index. `header.entries` must be what the blocks hold.
    pub fn finish(self, header: &RunHeader) -> Vec<u8> {
        assert_eq!(header.entries, self.entries);
        let (lowest, highest) = (header.lowest.as_bytes(), header.highest.as_bytes());
        assert!(lowest.len() <= MAX_SORT_KEY_BYTES && highest.len() <= MAX_SORT_KEY_BYTES);
        let head = RunIndexLayout {
            version: RUN_INDEX_VERSION,
            level: header.level,
            reserved: U16::ZERO,
            blocks: (self.offsets.len() as u32).into(),
            run: header.run.0.into(),
            entries: header.entries.into(),
            min_epoch: header.min_epoch.0.into(),
            max_epoch: header.max_epoch.0.into(),
            rows_bytes: u32::try_from(self.rows.len()).expect("offsets of rows fit").into(),
            lowest_bytes: (lowest.len() as u16).into(),
            highest_bytes: (highest.len() as u16).into(),
        };
        let mut index = Vec::with_capacity(size_of::<RunIndexLayout>() + self.rows.len() + self.offsets.len() * OFFSET_BYTES);
        index.extend_from_slice(head.as_bytes());
        index.extend_from_slice(lowest);
        index.extend_from_slice(highest);
        index.extend_from_slice(&self.rows);
        for offset in &self.offsets {
            index.extend_from_slice(&offset.to_le_bytes());
        }
        index
    }
}

#[cfg(test)]
mod tests;
