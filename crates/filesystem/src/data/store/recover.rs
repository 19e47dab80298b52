//! The journal's records applied to the last checkpoint.
//!
//! Content and record of a write are written at once. So of the records that were not settled before the end, as the later ones say, each block is looked
//! at: where its content is not there, the block is what it was before. An append that is not there in part ends where its first block is absent.
//!
//! ```text
//!   a block:   checkpoint, settled records ─► base      unsettled records ─► version 1 ─► version 2   the last one that is whole counts
//! ```

use std::collections::BTreeMap;

use device::{Volume, VolumeError};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::committing::mapped;
use super::layout::BLOCK;
use super::limits::LOAD_READS;
use super::load::{OpenStoreError, read_block};
use super::page::Mapped;
use super::record::{Change, Record, Write};
use super::sums::crc;
use super::table::Table;
use crate::ids::ExtentId;

/// What a block was at some time.
#[derive(Clone, Copy, Debug)]
struct Version {
    mapped: Option<Mapped>,
    /// The extent's length behind the record.
    len: u64,
}

/// Records on their way into the table.
pub struct Replay {
    table: Table,
    settled_below: u64,
    records: Vec<(u64, Change)>,
    /// Blocks that unsettled records have written: the base first.
    doubts: BTreeMap<(ExtentId, u64), Vec<Version>>,
}

impl Replay {
    /// The records below a number are in the table, and settled.
    pub fn new(table: Table, settled_below: u64) -> Replay {
        Replay { table, settled_below, records: Vec::new(), doubts: BTreeMap::new() }
    }

    /// The next record. What it says is settled goes into the table: so only few are kept.
    pub fn push(&mut self, number: u64, record: Record) {
        self.records.push((number, record.change));
        if record.settled_below > self.settled_below {
            self.settled_below = record.settled_below;
            let unsettled = self.records.partition_point(|(number, _)| *number < record.settled_below);
            let settled: Vec<_> = self.records.drain(..unsettled).collect();
            settled.iter().for_each(|(_, change)| self.apply(change));
        }
    }

    /// The table, and how many blocks are not what the records say.
    pub async fn finish(mut self, volume: &Volume) -> Result<(Table, u64), OpenStoreError> {
        for (_, change) in std::mem::take(&mut self.records) {
            self.doubt(&change);
            self.apply(&change);
        }
        let whole = self.look(volume).await?;
        let mut fallen_back = 0;
        for ((extent, block), versions) in std::mem::take(&mut self.doubts) {
            let last = versions.len() - 1;
            let chosen = (1..=last).rev().find(|index| whole.contains_key(&(extent, block, *index))).unwrap_or(0);
            if chosen < last {
                fallen_back += 1;
                self.fall_back(extent, block, versions[chosen]);
            }
        }
        Ok((self.table, fallen_back))
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Create(extent) => self.table.create(*extent),
            // None: the checkpoint knows already that the extent is no more, and that record follows.
            Change::Write(write) => {
                if write.makes_extent {
                    self.table.create(write.extent);
                }
                drop(self.table.put(write.extent, write.first_block, write.len, &mapped(write)));
            }
            Change::Punch { extent, first_block, count } => drop(self.table.punch(*extent, *first_block..first_block + count)),
            Change::Remove(extent) => drop(self.table.remove(*extent)),
            Change::Cut { extent, len } => drop(self.table.cut(*extent, *len)),
            Change::Settled => {}
        }
    }

    /// Keeps what a record replaces, before it is applied.
    fn doubt(&mut self, change: &Change) {
        match change {
            Change::Write(write) => self.doubt_write(write),
            Change::Punch { extent, first_block, count } => self.believe(*extent, *first_block, first_block + count),
            Change::Remove(extent) => self.believe(*extent, 0, u64::MAX),
            Change::Cut { extent, len } => self.doubt_cut(*extent, *len),
            Change::Create(_) | Change::Settled => {}
        }
    }

    /// Where the content of a new extent is not there, the extent is empty: no file names it.
    fn doubt_write(&mut self, write: &Write) {
        if write.makes_extent {
            self.table.create(write.extent);
        }
        let Some(extent) = self.table.get(write.extent) else { return };
        let len = extent.len;
        for (block, mapped) in (write.first_block..).zip(mapped(write)) {
            let base = Version { mapped: extent.get(block), len };
            let versions = self.doubts.entry((write.extent, block)).or_insert_with(|| vec![base]);
            versions.push(Version { mapped, len: len.max(write.len) });
        }
    }

    /// Blocks behind the end are gone. Whatever the last one was, the extent is no longer than this.
    fn doubt_cut(&mut self, extent: ExtentId, len: u64) {
        self.believe(extent, len.div_ceil(BLOCK), u64::MAX);
        for (_, versions) in self.doubts.range_mut((extent, 0)..(extent, u64::MAX)) {
            versions.iter_mut().for_each(|version| version.len = version.len.min(len));
        }
    }

    /// Blocks are gone, whatever was in them.
    fn believe(&mut self, extent: ExtentId, first: u64, end: u64) {
        let gone: Vec<_> = self.doubts.range((extent, first)..(extent, end)).map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| drop(self.doubts.remove(key)));
    }

    /// The versions whose content is there.
    async fn look(&self, volume: &Volume) -> Result<BTreeMap<(ExtentId, u64, usize), ()>, VolumeError> {
        let versions = self.doubts.iter().flat_map(|((extent, block), versions)| {
            let numbered = versions.iter().enumerate().skip(1);
            numbered.filter_map(|(index, version)| Some((*extent, *block, index, version.mapped?)))
        });
        let looking = |(extent, block, index, mapped): (ExtentId, u64, usize, Mapped)| async move {
            let found = read_block(volume, mapped.place).await?;
            Ok::<_, VolumeError>(found.filter(|found| crc(found) == mapped.sum).map(|_| ((extent, block, index), ())))
        };
        let found: Vec<Option<_>> =
            stream::iter(versions.collect::<Vec<_>>()).map(looking).buffer_unordered(LOAD_READS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// A block is what it was. An append that had made the extent longer has not.
    fn fall_back(&mut self, extent: ExtentId, block: u64, to: Version) {
        let Some(found) = self.table.get(extent) else { return };
        let len = found.len;
        if found.get(block).is_some() {
            self.table.put(extent, block, 0, &[to.mapped]);
        }
        let end = match to.mapped {
            Some(_) => to.len,
            None => block * BLOCK,
        };
        if end < len && end < (block + 1) * BLOCK {
            self.table.cut(extent, end);
        }
    }
}
