//! Merging the layers of the key list, name by name.
//!
//! The merge runs without waiting: what it needs of a run must be among the scan's blocks. A block that is not ends the attempt with
//! [`Missing`]; the caller loads it and begins again at the name it had reached.

use super::{Rows, Run, ScanBlocks};
use bytes::Bytes;
use format::attributes::{ChecksumScheme, ETag, StorageClass};
use format::entry::EntryState;
use format::name_entry::NameEntry;
use format::record::{EntryName, Space};
use std::collections::btree_map::{BTreeMap, Range};
use std::ops::Bound;
use std::sync::Arc;
use types::{BucketId, Order};

/// Bytes of a sort key before the name: bucket and space.
const KEY_PREFIX_BYTES: usize = 9;

/// A block that must be loaded first.
#[derive(Clone)]
pub(crate) struct Missing {
    pub run: Arc<Run>,
    pub block: usize,
}

/// The newest row of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged {
    pub order: Order,
    pub state: EntryState,
    pub length: u64,
    pub modified_ms: u64,
    pub etag: ETag,
    pub storage_class: StorageClass,
    pub checksum: Option<ChecksumScheme>,
}

/// Walks the names of one bucket and space over all layers.
pub(crate) struct Merger<'a> {
    /// Newest layer first.
    sources: Vec<Source<'a>>,
    bucket: BucketId,
    space: Space,
    blocks: &'a ScanBlocks<'a>,
}

enum Source<'a> {
    Memory { map: &'a BTreeMap<EntryName, NameEntry>, range: Range<'a, EntryName, NameEntry>, head: Option<&'a NameEntry> },
    Run { run: Arc<Run>, rows: Option<Arc<Rows>>, block: usize, row: usize },
}

impl<'a> Merger<'a> {
    /// Starts at the first name not less than `from`. Call [`Merger::next`] for the rows.
    pub fn new(
        memtables: impl Iterator<Item = &'a BTreeMap<EntryName, NameEntry>>,
        runs: &[Arc<Run>],
        blocks: &'a ScanBlocks<'a>,
        (bucket, space): (BucketId, Space),
        from: &[u8],
    ) -> Result<Self, Missing> {
        let memory = memtables.map(|map| Source::Memory { map, range: map.range::<EntryName, _>(..), head: None });
        let on_log = runs.iter().map(|run| Source::Run { run: run.clone(), rows: None, block: 0, row: 0 });
        let mut merger = Merger { sources: memory.chain(on_log).collect(), bucket, space, blocks };
        merger.seek(from)?;
        Ok(merger)
    }

    /// Moves to the first name not less than `from`; forwards or backwards.
    pub fn seek(&mut self, from: &[u8]) -> Result<(), Missing> {
        let name = EntryName { bucket: self.bucket, space: self.space, name: Bytes::copy_from_slice(from) };
        let key = format::name_entry::SortKey::from(&name);
        for source in &mut self.sources {
            source.seek(&name, key.as_bytes(), self.blocks)?;
        }
        Ok(())
    }

    /// The next name and its newest row, tombstones included; `None` after the last. The name is left in `name`.
    pub fn next(&mut self, name: &mut Vec<u8>) -> Result<Option<Merged>, Missing> {
        let Some(least) = self.least() else { return Ok(None) };
        name.clear();
        name.extend_from_slice(self.sources[least].name(self.bucket, self.space).expect("the least has a name"));
        let mut newest = self.sources[least].row();
        for at in least..self.sources.len() {
            while self.sources[at].name(self.bucket, self.space) == Some(name) {
                let row = self.sources[at].row();
                // On equal orders the newer layer wins: it knows of the relocation.
                if row.order > newest.order {
                    newest = row;
                }
                self.sources[at].advance(self.blocks)?;
            }
        }
        Ok(Some(newest))
    }

    /// The first source that stands at the least name.
    fn least(&self) -> Option<usize> {
        let mut least: Option<(usize, &[u8])> = None;
        for (at, source) in self.sources.iter().enumerate() {
            if let Some(name) = source.name(self.bucket, self.space)
                && least.is_none_or(|(_, known)| name < known)
            {
                least = Some((at, name));
            }
        }
        least.map(|(at, _)| at)
    }
}

impl<'a> Source<'a> {
    fn seek(&mut self, name: &EntryName, key: &[u8], blocks: &ScanBlocks<'_>) -> Result<(), Missing> {
        match self {
            Source::Memory { map, range, head } => {
                *range = map.range::<EntryName, _>((Bound::Included(name), Bound::Unbounded));
                *head = range.next().map(|(_, entry)| entry);
                Ok(())
            }
            Source::Run { run, rows, block, row } => {
                let first = run.first_block_for(key);
                // Strictly after the first row: rows of one name may begin in the block before.
                let within = |rows: &Rows| rows.len() > 0 && rows.key(0) < key && rows.key(rows.len() - 1) >= key;
                if !rows.as_ref().is_some_and(|rows| within(rows)) {
                    *block = first;
                    *rows = load(run, *block, blocks)?;
                }
                *row = rows.as_ref().map_or(0, |rows| rows.seek(key));
                self.skip_ends(blocks)
            }
        }
    }

    /// The name that the source stands at, if it is one of this bucket and space.
    fn name(&self, bucket: BucketId, space: Space) -> Option<&[u8]> {
        match self {
            Source::Memory { head, .. } => {
                head.filter(|entry| entry.name.bucket == bucket && entry.name.space == space).map(|entry| &entry.name.name[..])
            }
            Source::Run { rows, row, .. } => {
                let key = rows.as_ref()?.key(*row);
                let same = key[..8] == bucket.0.to_be_bytes() && key[8] == space as u8;
                same.then(|| &key[KEY_PREFIX_BYTES..])
            }
        }
    }

    fn row(&self) -> Merged {
        match self {
            Source::Memory { head, .. } => {
                let entry = head.expect("a source with a name has a row");
                Merged {
                    order: entry.entry.order,
                    state: entry.entry.state,
                    length: entry.entry.length,
                    modified_ms: entry.modified_ms,
                    etag: entry.etag,
                    storage_class: entry.storage_class,
                    checksum: entry.checksum,
                }
            }
            Source::Run { rows, row, .. } => {
                let row = rows.as_ref().expect("a source with a name has a row").row(*row);
                let super::RowSummary { order, state, length, modified_ms, etag, storage_class, checksum, .. } = *row;
                Merged { order, state, length, modified_ms, etag, storage_class, checksum }
            }
        }
    }

    fn advance(&mut self, blocks: &ScanBlocks<'_>) -> Result<(), Missing> {
        match self {
            Source::Memory { range, head, .. } => {
                *head = range.next().map(|(_, entry)| entry);
                Ok(())
            }
            Source::Run { row, .. } => {
                *row += 1;
                self.skip_ends(blocks)
            }
        }
    }

    /// Goes on to the next block when the present one is used up.
    fn skip_ends(&mut self, blocks: &ScanBlocks<'_>) -> Result<(), Missing> {
        if let Source::Run { run, rows, block, row } = self {
            while rows.as_ref().is_some_and(|rows| *row >= rows.len()) {
                *block += 1;
                *row = 0;
                *rows = load(run, *block, blocks)?;
            }
        }
        Ok(())
    }
}

/// A loaded block; `None` beyond the last.
fn load(run: &Arc<Run>, block: usize, blocks: &ScanBlocks<'_>) -> Result<Option<Arc<Rows>>, Missing> {
    if block >= run.blocks() {
        return Ok(None);
    }
    match blocks.get(run.id(), block) {
        Some(rows) => Ok(Some(rows)),
        None => Err(Missing { run: run.clone(), block }),
    }
}
