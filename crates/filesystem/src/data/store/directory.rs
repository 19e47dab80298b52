//! The directory of a checkpoint: the extents, their lengths, where their pages stand. It is a string of entries in chunks of whole blocks, each of
//! which names the one before it; the superblock names the last.
//!
//! ```text
//!   chunk    magic 4 │ crc 4 │ bytes 4 │ place and blocks of the chunk before 8 │ device_uuid 16 │ checkpoint 8 │ entries …
//!   entry    partition 4 │ term 4 │ number 8 │ length 8 │ pages 4 │ pages × (index 4, place 4)
//! ```
//!
//! Little endian. An extent may have several entries, each with some of its pages. An entry may go on in the next chunk.

use disk::{AlignedBuf, BLOCK_BYTES};

use super::layout::Span;
use super::sums::{crc_of_parts, u32_at, u64_at};
use crate::ids::ExtentId;

const MAGIC: &[u8; 4] = b"TfDr";
const HEAD_BYTES: usize = 44;
pub const ENTRY_BYTES: usize = 28;
pub const PAGE_BYTES: usize = 8;

/// Some pages of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub extent: ExtentId,
    pub len: u64,
    /// Index and place.
    pub pages: Vec<(u32, u32)>,
}

impl Entry {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.extent.partition.to_le_bytes());
        out.extend_from_slice(&self.extent.term.to_le_bytes());
        out.extend_from_slice(&self.extent.number.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&(self.pages.len() as u32).to_le_bytes());
        for (index, place) in &self.pages {
            out.extend_from_slice(&index.to_le_bytes());
            out.extend_from_slice(&place.to_le_bytes());
        }
    }

    /// Reads all entries of a directory; none where they do not end with it.
    pub fn decode_all(mut bytes: &[u8]) -> Option<Vec<Entry>> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at_checked(ENTRY_BYTES)?;
            let count = u32_at(head, 24) as usize;
            let (pages, rest) = rest.split_at_checked(count.checked_mul(PAGE_BYTES)?)?;
            let extent = ExtentId { partition: u32_at(head, 0), term: u32_at(head, 4), number: u64_at(head, 8) };
            let pages = pages.chunks_exact(PAGE_BYTES).map(|page| (u32_at(page, 0), u32_at(page, 4))).collect();
            entries.push(Entry { extent, len: u64_at(head, 16), pages });
            bytes = rest;
        }
        Some(entries)
    }
}

/// Bytes of entries that a chunk of so many blocks takes.
pub fn chunk_room(blocks: u32) -> usize {
    blocks as usize * BLOCK_BYTES - HEAD_BYTES
}

/// A chunk's bytes.
pub fn encode_chunk(blocks: u32, entries: &[u8], before: Option<Span>, device_uuid: &[u8; 16], checkpoint: u64) -> AlignedBuf {
    assert!(entries.len() <= chunk_room(blocks), "{} bytes in {blocks} blocks", entries.len());
    let before = before.unwrap_or(Span { place: 0, count: 0 });
    let mut chunk = AlignedBuf::zeroed(blocks as usize * BLOCK_BYTES);
    chunk[..4].copy_from_slice(MAGIC);
    chunk[8..12].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    chunk[12..16].copy_from_slice(&before.place.to_le_bytes());
    chunk[16..20].copy_from_slice(&before.count.to_le_bytes());
    chunk[20..36].copy_from_slice(device_uuid);
    chunk[36..44].copy_from_slice(&checkpoint.to_le_bytes());
    chunk[HEAD_BYTES..HEAD_BYTES + entries.len()].copy_from_slice(entries);
    let crc = crc_of_parts(&[&chunk[..4], &chunk[8..]]);
    chunk[4..8].copy_from_slice(&crc.to_le_bytes());
    chunk
}

/// Reads a chunk: its entries, and the chunk before it. None where it is not whole, or of another checkpoint.
pub fn decode_chunk<'a>(chunk: &'a [u8], device_uuid: &[u8; 16], checkpoint: u64) -> Option<(&'a [u8], Option<Span>)> {
    let is_whole = &chunk[..4] == MAGIC && u32_at(chunk, 4) == crc_of_parts(&[&chunk[..4], &chunk[8..]]);
    if !is_whole || &chunk[20..36] != device_uuid || u64_at(chunk, 36) != checkpoint {
        return None;
    }
    let before = Span { place: u32_at(chunk, 12), count: u32_at(chunk, 16) };
    let entries = chunk[HEAD_BYTES..].get(..u32_at(chunk, 8) as usize)?;
    Some((entries, (before.count > 0).then_some(before)))
}
