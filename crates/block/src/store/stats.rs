//! Counters of a device's blobs. They only count up, and order nothing.

use device::Counter;

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobStats {
    pub requests: u64,
    /// Of those, the ones that ended in an error.
    pub refused: u64,
    /// Contents returned, and their bytes.
    pub reads: u64,
    pub read_bytes: u64,
    /// Contents made durable, and their bytes.
    pub writes: u64,
    pub written_bytes: u64,
    pub header_writes: u64,
    /// Found when the store was opened: blocks without a header that can be believed, and blocks whose other slot counts, since one was
    /// torn or damaged.
    pub blocks_damaged: u64,
    pub headers_fallen_back: u64,
}

/// The live counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub requests: Counter,
    pub refused: Counter,
    pub reads: Counter,
    pub read_bytes: Counter,
    pub writes: Counter,
    pub written_bytes: Counter,
    pub header_writes: Counter,
    pub blocks_damaged: Counter,
    pub headers_fallen_back: Counter,
}

impl Counters {
    pub fn snapshot(&self) -> BlobStats {
        BlobStats {
            requests: self.requests.get(),
            refused: self.refused.get(),
            reads: self.reads.get(),
            read_bytes: self.read_bytes.get(),
            writes: self.writes.get(),
            written_bytes: self.written_bytes.get(),
            header_writes: self.header_writes.get(),
            blocks_damaged: self.blocks_damaged.get(),
            headers_fallen_back: self.headers_fallen_back.get(),
        }
    }
}
