//! Counters of a store of extents. They only count up, and order nothing.

use device::Counter;

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentStats {
    pub requests: u64,
    /// Of those, the ones that ended in an error.
    pub refused: u64,
    /// Pieces of content that were read, and their bytes in whole blocks.
    pub reads: u64,
    pub read_bytes: u64,
    /// Pieces of content that were made durable, and their bytes in whole blocks.
    pub writes: u64,
    pub written_bytes: u64,
    /// Of the reads, those that a partial block needed before it was written anew.
    pub partial_reads: u64,
    pub journal_records: u64,
    pub checkpoints: u64,
    /// Pages that checkpoints wrote.
    pub checkpoint_pages: u64,
    /// Blocks that were found damaged, by reads and when the store was opened.
    pub damaged_blocks: u64,
    /// Blocks of unanswered writes that were not there when the store was opened.
    pub blocks_fallen_back: u64,
}

/// The live counters.
#[derive(Debug, Default)]
pub struct Counters {
    pub requests: Counter,
    pub refused: Counter,
    pub reads: Counter,
    pub read_bytes: Counter,
    pub writes: Counter,
    pub written_bytes: Counter,
    pub partial_reads: Counter,
    pub journal_records: Counter,
    pub checkpoints: Counter,
    pub checkpoint_pages: Counter,
    pub damaged_blocks: Counter,
    pub blocks_fallen_back: Counter,
}

impl Counters {
    pub fn snapshot(&self) -> ExtentStats {
        ExtentStats {
            requests: self.requests.get(),
            refused: self.refused.get(),
            reads: self.reads.get(),
            read_bytes: self.read_bytes.get(),
            writes: self.writes.get(),
            written_bytes: self.written_bytes.get(),
            partial_reads: self.partial_reads.get(),
            journal_records: self.journal_records.get(),
            checkpoints: self.checkpoints.get(),
            checkpoint_pages: self.checkpoint_pages.get(),
            damaged_blocks: self.damaged_blocks.get(),
            blocks_fallen_back: self.blocks_fallen_back.get(),
        }
    }
}
