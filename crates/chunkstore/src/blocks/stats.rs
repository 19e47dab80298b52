//! Counters of a device's chunks. They only count up, and order nothing.

use device::Counter;

use crate::message::NodeAnswer;

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockStats {
    pub requests: u64,
    /// Of those, the ones that were refused.
    pub refused: u64,
    /// Contents returned, and their bytes.
    pub reads: u64,
    pub read_bytes: u64,
    /// Contents made durable, and their bytes.
    pub writes: u64,
    pub written_bytes: u64,
    pub header_writes: u64,
    pub fence_writes: u64,
    /// Copies that relocations have brought here, and the bytes of their contents.
    pub brought: u64,
    pub brought_bytes: u64,
    /// Contents that were wrong at first and right on the medium, or elsewhere meanwhile.
    pub repeated_reads: u64,
    /// Requests that met a damaged copy.
    pub damaged: u64,
    /// Found when the store was opened: blocks without a header that can be believed, and blocks whose other slot counts, since one was
    /// torn or damaged.
    pub blocks_damaged: u64,
    pub headers_fallen_back: u64,
}

/// The live counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub requests: Counter,
    refused: Counter,
    pub reads: Counter,
    pub read_bytes: Counter,
    pub writes: Counter,
    pub written_bytes: Counter,
    pub header_writes: Counter,
    pub fence_writes: Counter,
    brought: Counter,
    brought_bytes: Counter,
    pub repeated_reads: Counter,
    damaged: Counter,
    pub blocks_damaged: Counter,
    pub headers_fallen_back: Counter,
}

impl Counters {
    pub fn count_answer(&self, answer: &NodeAnswer) {
        match answer {
            NodeAnswer::Refused(_) => self.refused.add(1),
            NodeAnswer::Damaged => self.damaged.add(1),
            _ => {}
        }
    }

    /// A relocation's copy is durable here.
    pub fn count_brought(&self, bytes: u64) {
        self.brought.add(1);
        self.brought_bytes.add(bytes);
    }

    pub fn snapshot(&self) -> BlockStats {
        BlockStats {
            requests: self.requests.get(),
            refused: self.refused.get(),
            reads: self.reads.get(),
            read_bytes: self.read_bytes.get(),
            writes: self.writes.get(),
            written_bytes: self.written_bytes.get(),
            header_writes: self.header_writes.get(),
            fence_writes: self.fence_writes.get(),
            brought: self.brought.get(),
            brought_bytes: self.brought_bytes.get(),
            repeated_reads: self.repeated_reads.get(),
            damaged: self.damaged.get(),
            blocks_damaged: self.blocks_damaged.get(),
            headers_fallen_back: self.headers_fallen_back.get(),
        }
    }
}
