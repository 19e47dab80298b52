//! A dump on a group's volume: a string of rows in chunks of whole blocks, each of which names the one before it; the superblock names the last.
//!
//! ```text
//!   chunk    magic 4 │ crc 4 │ bytes 4 │ place and blocks of the chunk before 8 │ device_uuid 16 │ number of the dump 8 │ rows …
//!   rows     (length 4 │ row in postcard) …; a row may go on in the next chunk
//! ```
//!
//! Little endian.

use disk::{AlignedBuf, BLOCK_BYTES};

use crate::sums::{crc_of_parts, u32_at, u64_at};

const MAGIC: &[u8; 4] = b"TvDu";
const HEAD_BYTES: usize = 44;

/// Bytes of rows for which one block is always enough.
pub const BLOCK_ROOM: u64 = (BLOCK_BYTES - HEAD_BYTES) as u64;

/// Where a chunk stands on the volume, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    pub first: u32,
    pub count: u32,
}

/// Bytes of rows that a chunk of so many blocks takes.
pub fn chunk_room(blocks: u32) -> usize {
    blocks as usize * BLOCK_BYTES - HEAD_BYTES
}

/// A chunk's bytes.
pub fn encode_chunk(blocks: u32, rows: &[u8], before: Option<ChunkPlace>, device_uuid: &[u8; 16], dump: u64) -> AlignedBuf {
    assert!(rows.len() <= chunk_room(blocks), "{} bytes in {blocks} blocks", rows.len());
    let before = before.unwrap_or(ChunkPlace { first: 0, count: 0 });
    let mut chunk = AlignedBuf::zeroed(blocks as usize * BLOCK_BYTES);
    chunk[..4].copy_from_slice(MAGIC);
    chunk[8..12].copy_from_slice(&(rows.len() as u32).to_le_bytes());
    chunk[12..16].copy_from_slice(&before.first.to_le_bytes());
    chunk[16..20].copy_from_slice(&before.count.to_le_bytes());
    chunk[20..36].copy_from_slice(device_uuid);
    chunk[36..44].copy_from_slice(&dump.to_le_bytes());
    chunk[HEAD_BYTES..HEAD_BYTES + rows.len()].copy_from_slice(rows);
    let crc = crc_of_parts(&[&chunk[..4], &chunk[8..]]);
    chunk[4..8].copy_from_slice(&crc.to_le_bytes());
    chunk
}

/// Reads a chunk: its rows, and the chunk before it. None where it is not whole, or of another dump.
pub fn decode_chunk<'a>(chunk: &'a [u8], device_uuid: &[u8; 16], dump: u64) -> Option<(&'a [u8], Option<ChunkPlace>)> {
    let is_whole = &chunk[..4] == MAGIC && u32_at(chunk, 4) == crc_of_parts(&[&chunk[..4], &chunk[8..]]);
    if !is_whole || &chunk[20..36] != device_uuid || u64_at(chunk, 36) != dump {
        return None;
    }
    let before = ChunkPlace { first: u32_at(chunk, 12), count: u32_at(chunk, 16) };
    let rows = chunk[HEAD_BYTES..].get(..u32_at(chunk, 8) as usize)?;
    Some((rows, (before.count > 0).then_some(before)))
}

#[cfg(test)]
mod tests {
    use super::{ChunkPlace, chunk_room, decode_chunk, encode_chunk};

    #[test]
    fn a_chunk_is_read_as_it_was_written() {
        let before = ChunkPlace { first: 9, count: 3 };
        let rows = vec![7; chunk_room(2)];
        let mut chunk = encode_chunk(2, &rows, Some(before), &[3; 16], 8);
        assert_eq!(decode_chunk(&chunk, &[3; 16], 8), Some((&rows[..], Some(before))));
        assert_eq!(decode_chunk(&chunk, &[3; 16], 7), None, "another dump");
        assert_eq!(decode_chunk(&chunk, &[4; 16], 8), None, "another device");
        chunk[5000] ^= 1;
        assert_eq!(decode_chunk(&chunk, &[3; 16], 8), None, "a changed bit");
    }
}
