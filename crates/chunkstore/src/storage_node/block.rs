//! One block: what its header says, and where there is room.

use format::chunk_block::{BLOCK_DATA_BYTES, BlockEntry, BlockHeader, MAX_BLOCK_ENTRIES};
use format::chunk_id::ChunkId;

use super::Queue;

/// Contents begin at multiples of this: what a device writes at once.
const ALIGNMENT: u32 = 4096;

#[derive(Default)]
pub(super) struct Block {
    entries: Vec<BlockEntry>,
    /// Of the newest header.
    serial: u64,
    pub is_busy: bool,
    pub waiting: Queue,
}

impl Block {
    pub fn of_header(header: BlockHeader) -> Self {
        Block { entries: header.entries, serial: header.serial, ..Block::default() }
    }

    pub fn entries(&self) -> impl Iterator<Item = &BlockEntry> {
        self.entries.iter()
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    pub fn entry_mut(&mut self, id: ChunkId) -> Option<&mut BlockEntry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    pub fn entry(&self, id: ChunkId) -> Option<&BlockEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// A header is durable. What was settled meanwhile stays so, if it is the same write.
    pub fn install(&mut self, mut entries: Vec<BlockEntry>, serial: u64) {
        for entry in &mut entries {
            let same = |known: &&BlockEntry| (known.state, known.version) == (entry.state, entry.version);
            let was_settled = self.entry(entry.id).filter(same).is_some_and(|known| known.is_settled);
            entry.is_settled |= was_settled;
        }
        self.entries = entries;
        self.serial = serial;
    }

    /// All entries, the one of this id replaced, added, or left out.
    pub fn with(&self, id: ChunkId, entry: Option<BlockEntry>) -> Vec<BlockEntry> {
        let others = self.entries.iter().filter(|known| known.id != id).copied();
        others.chain(entry).collect()
    }

    pub fn has_entry_room(&self) -> bool {
        self.entries.len() < MAX_BLOCK_ENTRIES
    }

    /// The highest gap of `bytes`: data grows from the end downwards.
    pub fn gap(&self, bytes: u32) -> Option<u32> {
        let mut used: Vec<(u32, u32)> =
            self.entries.iter().filter(|entry| entry.capacity > 0).map(|entry| (entry.offset, entry.capacity)).collect();
        used.sort_unstable();
        let mut end = BLOCK_DATA_BYTES;
        for (offset, capacity) in used.into_iter().rev() {
            let start = (offset + capacity).next_multiple_of(ALIGNMENT).min(end);
            if end - start >= bytes {
                return Some(place_below(end, bytes, start));
            }
            end = offset;
        }
        (end >= bytes).then(|| place_below(end, bytes, 0))
    }
}

/// The highest aligned offset from which `bytes` end at or before `end`, and not below `start`, which is aligned.
fn place_below(end: u32, bytes: u32, start: u32) -> u32 {
    let offset = end - bytes;
    (offset - offset % ALIGNMENT).max(start)
}
