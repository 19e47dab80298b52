//! Pages: the places and checksums of [`PAGE_BLOCKS`] blocks of an extent, as a checkpoint writes them, in one block each.
//!
//! Little endian:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `TfPg` |
//! | 4 | 4 | `crc` | CRC32C of all other bytes |
//! | 8 | 4 | `partition` | of the extent's id |
//! | 12 | 4 | `term` | |
//! | 16 | 8 | `number` | |
//! | 24 | 4 | `index` | which page of the extent |
//! | 28 | 4 | `flags` | 1: an earlier form of this page was lost, blocks without a place are damaged |
//! | 32 | 16 | `device_uuid` | |
//! | 48 | 16 | reserved | zero |
//! | 64 | 504 × 8 | blocks | place u32 (all bits set: none), CRC32C u32 |

use disk::{AlignedBuf, BLOCK_BYTES};

use super::sums::{crc_of_parts, u32_at, u64_at};
use crate::ids::ExtentId;

/// Blocks of an extent that a page describes.
pub const PAGE_BLOCKS: u64 = 504;

const MAGIC: &[u8; 4] = b"TfPg";
const HEAD_BYTES: usize = 64;
const ENTRY_BYTES: usize = 8;
const ABSENT: u32 = u32::MAX;
const FLAG_LOST: u32 = 1;

const _: () = assert!(HEAD_BYTES + PAGE_BLOCKS as usize * ENTRY_BYTES == BLOCK_BYTES);

/// Where a block stands, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    pub place: u32,
    pub sum: u32,
}

/// What a run of blocks within a page has: they follow one another on the volume too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Block of the page.
    first: u16,
    count: u16,
    place: u32,
}

/// The blocks of one page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Ascending.
    runs: Vec<Run>,
    /// As many as the last block of a run needs.
    sums: Vec<u32>,
    /// Where the last checkpoint, or one under way, has it.
    pub saved: Option<u32>,
    /// It is not as it was saved.
    pub is_dirty: bool,
    /// Blocks without a place were lost with an earlier form of the page.
    pub is_lost: bool,
}

impl Page {
    pub fn get(&self, block: u16) -> Option<Mapped> {
        let index = self.runs.partition_point(|run| run.first + run.count <= block);
        let run = self.runs.get(index).filter(|run| run.first <= block)?;
        Some(Mapped { place: run.place + u32::from(block - run.first), sum: self.sums[usize::from(block)] })
    }

    /// What stands for a page that can't be read.
    pub fn lost() -> Page {
        Page { is_lost: true, is_dirty: true, ..Page::default() }
    }

    /// The page as it is saved.
    pub fn saved_at(self, place: u32) -> Page {
        Page { saved: Some(place), ..self }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn block_count(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// All blocks that have a place.
    pub fn blocks(&self) -> impl Iterator<Item = (u16, Mapped)> {
        self.runs.iter().flat_map(|run| {
            (0..run.count).map(|more| {
                let block = run.first + more;
                (block, Mapped { place: run.place + u32::from(more), sum: self.sums[usize::from(block)] })
            })
        })
    }

    /// Changes blocks from `first` on; what stood there.
    pub fn set(&mut self, first: u16, blocks: &[Option<Mapped>]) -> Vec<u32> {
        let mut flat = self.flat();
        let mut former = Vec::new();
        for (at, block) in (usize::from(first)..).zip(blocks) {
            former.extend(std::mem::replace(&mut flat[at], *block).map(|mapped| mapped.place));
        }
        self.put_flat(&flat);
        self.is_dirty = true;
        former
    }

    fn flat(&self) -> Vec<Option<Mapped>> {
        let mut flat = vec![None; PAGE_BLOCKS as usize];
        for (block, mapped) in self.blocks() {
            flat[usize::from(block)] = Some(mapped);
        }
        flat
    }

    fn put_flat(&mut self, flat: &[Option<Mapped>]) {
        self.runs.clear();
        self.sums.clear();
        for (block, mapped) in flat.iter().enumerate() {
            let Some(mapped) = mapped else { continue };
            self.sums.resize(block, 0);
            self.sums.push(mapped.sum);
            let goes_on = |last: &&mut Run| {
                usize::from(last.first + last.count) == block && last.place + u32::from(last.count) == mapped.place
            };
            match self.runs.last_mut().filter(goes_on) {
                Some(last) => last.count += 1,
                None => self.runs.push(Run { first: block as u16, count: 1, place: mapped.place }),
            }
        }
        self.runs.shrink_to_fit();
        self.sums.shrink_to_fit();
    }

    pub fn encode(&self, extent: ExtentId, index: u32, device_uuid: &[u8; 16]) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        block[0..4].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&extent.partition.to_le_bytes());
        block[12..16].copy_from_slice(&extent.term.to_le_bytes());
        block[16..24].copy_from_slice(&extent.number.to_le_bytes());
        block[24..28].copy_from_slice(&index.to_le_bytes());
        block[28..32].copy_from_slice(&(if self.is_lost { FLAG_LOST } else { 0 }).to_le_bytes());
        block[32..48].copy_from_slice(device_uuid);
        for (entry, mapped) in block[HEAD_BYTES..].chunks_exact_mut(ENTRY_BYTES).zip(self.flat()) {
            let mapped = mapped.unwrap_or(Mapped { place: ABSENT, sum: 0 });
            entry[..4].copy_from_slice(&mapped.place.to_le_bytes());
            entry[4..].copy_from_slice(&mapped.sum.to_le_bytes());
        }
        let crc = crc_of_parts(&[&block[..4], &block[8..]]);
        block[4..8].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads a page of an extent; none where the block does not hold it whole.
    pub fn decode(block: &[u8], extent: ExtentId, index: u32, device_uuid: &[u8; 16]) -> Option<Page> {
        let found = ExtentId { partition: u32_at(block, 8), term: u32_at(block, 12), number: u64_at(block, 16) };
        let is_whole = &block[..4] == MAGIC && u32_at(block, 4) == crc_of_parts(&[&block[..4], &block[8..]]);
        if !is_whole || found != extent || u32_at(block, 24) != index || &block[32..48] != device_uuid {
            return None;
        }
        let entry = |entry: &[u8]| {
            let mapped = Mapped { place: u32_at(entry, 0), sum: u32_at(entry, 4) };
            (mapped.place != ABSENT).then_some(mapped)
        };
        let flat: Vec<Option<Mapped>> = block[HEAD_BYTES..].chunks_exact(ENTRY_BYTES).map(entry).collect();
        let mut page = Page { is_lost: u32_at(block, 28) & FLAG_LOST != 0, ..Page::default() };
        page.put_flat(&flat);
        Some(page)
    }
}
