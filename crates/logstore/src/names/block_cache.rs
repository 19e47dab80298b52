//! Run blocks as lists read them: decoded once, then walked and searched without parsing.

use bytes::Bytes;
use format::attributes::{ChecksumScheme, ETag, StorageClass};
use format::decode::DecodeError;
use format::entry::EntryState;
use format::run_block::RunBlock;
use format::run_index::RunId;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use types::Order;

/// Blocks that the cache holds; decoded, 128 of them take some 12 MiB.
const MAX_CACHED_BLOCKS: usize = 128;
/// Blocks of a run that a scan keeps of those it has loaded itself: it may stand between two.
const LOADED_PER_RUN: usize = 2;

/// What a list needs of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSummary {
    key_start: u32,
    key_end: u32,
    pub order: Order,
    pub state: EntryState,
    pub length: u64,
    pub modified_ms: u64,
    pub etag: ETag,
    pub storage_class: StorageClass,
    pub checksum: Option<ChecksumScheme>,
}

/// The rows of one block.
#[derive(Debug)]
pub(crate) struct Rows {
    keys: Vec<u8>,
    rows: Vec<RowSummary>,
}

impl Rows {
    pub fn decode(payload: Bytes) -> Result<Self, DecodeError> {
        let block = RunBlock::decode(payload)?;
        let mut keys = Vec::new();
        let mut summaries = Vec::with_capacity(block.len());
        let mut rows = block.rows();
        while let Some(row) = rows.next() {
            let row = row?;
            let key_start = keys.len() as u32;
            keys.extend_from_slice(row.sort_key());
            summaries.push(RowSummary {
                key_start,
                key_end: keys.len() as u32,
                order: row.order(),
                state: row.state(),
                length: row.length(),
                modified_ms: row.modified_ms(),
                etag: row.etag(),
                storage_class: row.storage_class(),
                checksum: row.checksum(),
            });
        }
        Ok(Rows { keys, rows: summaries })
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn row(&self, index: usize) -> &RowSummary {
        &self.rows[index]
    }

    /// A row's sort key.
    pub fn key(&self, index: usize) -> &[u8] {
        let row = &self.rows[index];
        &self.keys[row.key_start as usize..row.key_end as usize]
    }

    /// The first row whose key is not less than `key`.
    pub fn seek(&self, key: &[u8]) -> usize {
        self.rows.partition_point(|row| &self.keys[row.key_start as usize..row.key_end as usize] < key)
    }
}

/// The blocks that lists used last, first in first out.
#[derive(Default)]
pub(crate) struct BlockCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    blocks: HashMap<(RunId, usize), Arc<Rows>>,
    arrivals: VecDeque<(RunId, usize)>,
}

impl BlockCache {
    fn get(&self, run: RunId, block: usize) -> Option<Arc<Rows>> {
        self.0.lock().blocks.get(&(run, block)).cloned()
    }

    fn insert(&self, run: RunId, block: usize, rows: Arc<Rows>) {
        let mut cached = self.0.lock();
        if cached.blocks.insert((run, block), rows).is_none() {
            cached.arrivals.push_back((run, block));
        }
        while cached.arrivals.len() > MAX_CACHED_BLOCKS {
            let oldest = cached.arrivals.pop_front().expect("longer than the limit");
            cached.blocks.remove(&oldest);
        }
    }
}

/// The blocks of one scan: those of the cache, and of each run the ones that it loaded last itself. So it goes on also with more runs than the
/// cache has blocks, and with other scans beside it.
pub(crate) struct ScanBlocks<'a> {
    cache: &'a BlockCache,
    loaded: HashMap<RunId, LoadedBlocks>,
}

/// Of one run, by their numbers.
type LoadedBlocks = SmallVec<[(usize, Arc<Rows>); LOADED_PER_RUN]>;

impl<'a> ScanBlocks<'a> {
    pub fn new(cache: &'a BlockCache) -> Self {
        ScanBlocks { cache, loaded: HashMap::new() }
    }

    pub fn get(&self, run: RunId, block: usize) -> Option<Arc<Rows>> {
        let own = self.loaded.get(&run).and_then(|blocks| blocks.iter().find(|(number, _)| *number == block));
        own.map(|(_, rows)| rows.clone()).or_else(|| self.cache.get(run, block))
    }

    pub fn insert(&mut self, run: RunId, block: usize, rows: Rows) {
        let rows = Arc::new(rows);
        let own = self.loaded.entry(run).or_default();
        if own.len() == LOADED_PER_RUN {
            own.remove(0);
        }
        own.push((block, rows.clone()));
        self.cache.insert(run, block, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        Rows { keys: Vec::new(), rows: Vec::new() }
    }

    #[test]
    fn a_scan_over_more_runs_than_the_cache_has_blocks_keeps_a_block_of_each() {
        let (cache, runs) = (BlockCache::default(), 2 * MAX_CACHED_BLOCKS as u64);
        let mut blocks = ScanBlocks::new(&cache);
        for block in 0..5 {
            (0..runs).for_each(|run| blocks.insert(RunId(run), block, rows()));
            assert!((0..runs).all(|run| blocks.get(RunId(run), block).is_some()));
            assert!((0..runs).all(|run| block == 0 || blocks.get(RunId(run), block - 1).is_some()));
        }
        assert!(blocks.get(RunId(0), 2).is_none(), "a scan holds two blocks of a run");
        assert_eq!(cache.0.lock().blocks.len(), MAX_CACHED_BLOCKS);
    }
}
