//! One block: what its header says, and where there is room.

use format::chunk_block::{BLOCK_DATA_BYTES, BlockEntry, BlockHeader, CONTENT_ALIGNMENT, MAX_BLOCK_ENTRIES, room_of};
use format::chunk_id::ChunkId;

use super::Queue;

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

    /// A header is durable; returns what stood in the one before. What was settled meanwhile stays so, if it is the same write, and what was trusted.
    pub fn install(&mut self, mut entries: Vec<BlockEntry>, serial: u64) -> Vec<BlockEntry> {
        for entry in &mut entries {
            let same = |known: &&BlockEntry| (known.state, known.version) == (entry.state, entry.version);
            let was_settled = self.entry(entry.id).filter(same).is_some_and(|known| known.is_settled);
            entry.is_settled |= was_settled;
            // A doubt begins when the block is read, and never later.
            entry.is_doubted &= self.entry(entry.id).is_some_and(|known| known.is_doubted);
        }
        self.serial = serial;
        std::mem::replace(&mut self.entries, entries)
    }

    /// All entries, the one of this id replaced, added, or left out.
    pub fn with(&self, id: ChunkId, entry: Option<BlockEntry>) -> Vec<BlockEntry> {
        let others = self.entries.iter().filter(|known| known.id != id).copied();
        others.chain(entry).collect()
    }

    pub fn has_entry_room(&self) -> bool {
        self.entries.len() < MAX_BLOCK_ENTRIES
    }

    /// The highest gap for a chunk of `capacity`: data grows from the end downwards. What a device writes at once belongs to one chunk.
    pub fn gap(&self, capacity: u32) -> Option<u32> {
        let room = room_of(capacity)?;
        self.gaps().find(|(bytes, _)| *bytes >= room).map(|(_, end)| end - room)
    }

    /// What it takes in one piece; nothing where its header is full.
    pub fn longest_gap(&self) -> u32 {
        let longest = self.gaps().map(|(bytes, _)| bytes).max().unwrap_or_default();
        if self.has_entry_room() { longest } else { 0 }
    }

    /// What is between the extents of chunks, from the end downwards: bytes, and where it ends.
    fn gaps(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut used: Vec<(u32, u32)> = self.entries.iter().filter(|entry| entry.capacity > 0).map(extent).collect();
        used.sort_unstable();
        used.insert(0, (0, 0));
        let mut end = BLOCK_DATA_BYTES;
        used.into_iter().rev().map(move |(first, last)| {
            let gap = (end.saturating_sub(last), end);
            end = first;
            gap
        })
    }
}

/// What belongs to a chunk: whole blocks of the device, whoever placed it.
fn extent(entry: &BlockEntry) -> (u32, u32) {
    let end = (entry.offset + entry.capacity).next_multiple_of(CONTENT_ALIGNMENT);
    (entry.offset - entry.offset % CONTENT_ALIGNMENT, end)
}
