//! What a person can set of a node's part of the chunk store.

use format::chunk_page::MAX_PAGE_ROWS;

use crate::limits::DEFAULT_SHARD_CHUNKS;
use crate::placement::PlacerChoice;

/// The settings. Those of the node that leads the manager, or a unit, count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSettings {
    /// Registrations that shards take which are opened from now on: the paper's α.
    pub shard_chunks: u64,
    pub placer: PlacerChoice,
    /// Most rows of a page of a closed shard's unit.
    pub page_rows: usize,
    /// Whether hot copies move to nodes that do less.
    pub is_balanced: bool,
}

impl Default for ChunkSettings {
    fn default() -> ChunkSettings {
        ChunkSettings {
            shard_chunks: DEFAULT_SHARD_CHUNKS,
            placer: PlacerChoice::default(),
            page_rows: MAX_PAGE_ROWS,
            is_balanced: true,
        }
    }
}
