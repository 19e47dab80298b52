//! Where chunks are on a disk, for whoever has them rot.

use disk::SimDisk;
use format::chunk_block::{BlockHeader, CopyState, HEADER_SLOT_BYTES, HEADER_SLOTS};

/// Both headers of a block, and the contents in it, by where they begin on the disk.
pub struct BlockOnDisk {
    pub headers: Vec<u64>,
    pub contents: Vec<u64>,
}

const STEP_BYTES: u64 = 4096;

/// The blocks that have chunks, found by their headers: a block counts once, with what either header says.
pub fn blocks_on(disk: &SimDisk) -> Vec<BlockOnDisk> {
    let mut blocks: std::collections::BTreeMap<u64, BlockOnDisk> = std::collections::BTreeMap::new();
    for at in (0..disk::Disk::size_bytes(disk)).step_by(STEP_BYTES as usize) {
        let Some(bytes) = BlockHeader::encoded_bytes(&disk.peek(at, STEP_BYTES as usize)) else { continue };
        let Ok(header) = BlockHeader::decode(&disk.peek(at, bytes)) else { continue };
        let start = at - header.slot() * HEADER_SLOT_BYTES as u64;
        let data = start + HEADER_SLOTS * HEADER_SLOT_BYTES as u64;
        let live = header.entries.iter().filter(|entry| entry.state == CopyState::Live);
        let contents = live.map(|entry| data + u64::from(entry.offset));
        let headers = (0..HEADER_SLOTS).map(|slot| start + slot * HEADER_SLOT_BYTES as u64).collect();
        blocks.entry(start).or_insert(BlockOnDisk { headers, contents: Vec::new() }).contents.extend(contents);
    }
    blocks.into_values().collect()
}
