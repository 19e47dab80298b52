//! The extents of one device, in the blocks of its volume for files (docs/rfd/0025, "Data partitions").
//!
//! ```text
//!   append, overwrite ─► latch ─► checksums ─► fresh blocks ─┬─► content ─┐
//!                                                            └─► journal ─┴─► table ─► answer;  old blocks ─► limbo ─► free
//!   punch, remove ─► latch ─► journal ─► table ─► answer;  blocks ─► limbo ─► free ─► (unit given back)
//!   read ─► table ─► blocks, checked ─► answer
//!   checkpoint: pages that changed ─► directory ─► superblock ─► the journal is cut
//! ```
//!
//! A block is never written where it stands: each write of content goes to fresh blocks, while its record goes to the journal. So one round of two
//! parallel writes is enough, a block is as it was or as it was to be even where the medium writes sectors of 512 bytes, and a weak mode of the device needs nothing
//! special. Writing in place would take two rounds, and the torn block would match neither checksum.
//!
//! Invariants:
//! - What is answered is durable, as [`device::SyncMode`] says: content and record. The journal itself is durable in every mode ([`segments`]).
//! - A block that the table or the last checkpoint names is written by no request.
//! - A start finds each record's content whole, or goes back to what the block was: that is not used again before the record is settled ([`space`]).
//! - What was begun goes on if the caller waits for it no more.
//! - A volume without extents that were ever made has no space.

mod changing;
mod checkpoint;
mod committing;
mod directory;
mod founding;
mod layout;
mod limits;
mod load;
mod maintain;
mod page;
mod reading;
mod record;
mod recover;
mod rooming;
mod segments;
mod space;
mod stats;
mod sums;
mod superblock;
mod table;

pub use load::OpenStoreError;
pub use stats::ExtentStats;

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use device::{Finishing, Volume, VolumeError};
use env::Env;
use net::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use types::{DeviceId, ErrorKind};
use wal::Wal;

use self::layout::Layout;
use self::limits::{MAX_REQUEST_BYTES, MAX_REQUESTS, PIECE_BYTES};
use self::space::Space;
use self::stats::Counters;
use self::superblock::Superblock;
use self::table::Table;
use super::copies::{self, BlockSum, ExtentSums};
use super::latches::Latches;
use super::{DataError, DataPartition, DataRoom, Extents, PartitionUse};
use crate::ids::ExtentId;
use wal::Settling;

/// A device's extents, being served.
pub struct ExtentStore {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    volume: Volume,
    layout: Layout,
    /// Never held during I/O.
    state: Mutex<State>,
    latches: Latches,
    /// None before the first extent is made.
    journal: OnceLock<Wal>,
    settling: Arc<Settling>,
    /// Held while units of the volume get or lose their space.
    growing: tokio::sync::Mutex<()>,
    /// Held over a checkpoint.
    checkpointing: tokio::sync::Mutex<()>,
    is_growing_ahead: AtomicBool,
    /// A checkpoint is wanted or under way.
    is_checkpoint_due: AtomicBool,
    /// Something ended for which requests may wait.
    changed: Notify,
    requests: Arc<Semaphore>,
    /// In pieces.
    pieces: Arc<Semaphore>,
    counters: Counters,
}

struct State {
    table: Table,
    space: Space,
    /// Records that were handed to the journal, and whose writes have not all ended.
    flight: BTreeSet<u64>,
    /// Blocks that were taken for content that is not in the table yet.
    promised_blocks: u64,
    /// Blocks that were given back since the last checkpoint, whose pages that one still holds.
    freed_blocks: u64,
    /// What the next record was called when [`ExtentStore::maintain`] last looked.
    looked_at_record: u64,
    /// The last record of content, and what the last record of all says is settled.
    last_write: u64,
    told_settled: u64,
    /// What the next record will be called.
    next_record: u64,
    next_number: u64,
    /// None before the first extent is made.
    superblock: Option<Superblock>,
    /// Blocks that the last checkpoint names, and those of one that was begun.
    saved: HashSet<u32>,
    is_closed: bool,
    /// Why nothing is written any more.
    failure: Option<String>,
}

/// An extent, for a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentUse {
    pub extent: ExtentId,
    pub len: u64,
    /// Of blocks that have space.
    pub bytes: u64,
}

/// What a store has of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUse {
    pub extents: u64,
    /// Content, in whole blocks.
    pub content_bytes: u64,
    /// What was given back and can't be used again yet.
    pub limbo_bytes: u64,
    /// Free, in units that have space.
    pub free_bytes: u64,
    /// Pages and directory of the last checkpoint.
    pub checkpoint_bytes: u64,
    /// Segments of the journal that hold records which are needed, and all segments.
    pub journal_live_segments: u64,
    pub journal_segments: u64,
}

impl ExtentStore {
    /// Loads what stands on the volume. A volume that never had an extent gets no space by it.
    pub async fn open(env: &Env, volume: Volume) -> Result<ExtentStore, OpenStoreError> {
        let layout = Layout::of(&volume);
        load::check_layout(&volume, &layout)?;
        let loaded = load::load(env, &volume, layout).await?;
        let counters = Counters::default();
        counters.damaged_blocks.add(loaded.lost_blocks);
        counters.blocks_fallen_back.add(loaded.fallen_back);
        let journal = OnceLock::new();
        loaded.journal.into_iter().for_each(|found| drop(journal.set(found)));
        let inner = Inner {
            env: env.clone(),
            volume,
            layout,
            state: Mutex::new(loaded.state),
            latches: Latches::default(),
            journal,
            settling: loaded.settling,
            growing: tokio::sync::Mutex::default(),
            checkpointing: tokio::sync::Mutex::default(),
            is_growing_ahead: AtomicBool::new(false),
            is_checkpoint_due: AtomicBool::new(false),
            changed: Notify::new(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            pieces: Arc::new(Semaphore::new(MAX_REQUEST_BYTES / PIECE_BYTES)),
            counters,
        };
        let inner = Arc::new(inner);
        inner.begin_term(loaded.fallen_back > 0).await.map_err(OpenStoreError::Failed)?;
        Ok(ExtentStore { inner })
    }

    pub fn device(&self) -> DeviceId {
        self.inner.volume.device()
    }

    /// Up to `most` extents in the order of their ids, those behind one if it is given: to compare with what files name.
    pub fn extents(&self, after: Option<ExtentId>, most: usize) -> Vec<ExtentUse> {
        let state = self.inner.state.lock();
        let first = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let behind = state.table.extents().range((first, std::ops::Bound::Unbounded));
        let of = |(id, extent): (&ExtentId, &table::Extent)| ExtentUse {
            extent: *id,
            len: extent.len,
            bytes: extent.block_count() * layout::BLOCK,
        };
        behind.take(most).map(of).collect()
    }

    pub fn usage(&self) -> StoreUse {
        let journal = self.inner.journal.get();
        let state = self.inner.state.lock();
        StoreUse {
            extents: state.table.len() as u64,
            content_bytes: state.table.block_count() * layout::BLOCK,
            limbo_bytes: state.space.limbo_blocks() * layout::BLOCK,
            free_bytes: state.space.free_blocks() * layout::BLOCK,
            checkpoint_bytes: state.saved.len() as u64 * layout::BLOCK,
            journal_live_segments: journal.map_or(0, |journal| journal.live_segment_count() as u64),
            journal_segments: journal.map_or(0, |journal| journal.segment_count() as u64),
        }
    }

    /// What has been done since the store was opened.
    pub fn stats(&self) -> ExtentStats {
        self.inner.counters.snapshot()
    }

    /// Whether the device takes no writes now: one has failed, which is the end of them until the next start, or its disk hangs.
    pub fn is_stuck(&self) -> bool {
        let volume = &self.inner.volume;
        self.inner.state.lock().failure.is_some() || volume.poisoned_by().is_some() || volume.hangs()
    }

    /// Refuses what would write from now on, and returns when all that was begun has ended: then the device may be sealed.
    pub async fn close(&self) {
        self.inner.state.lock().is_closed = true;
        drop(self.inner.requests.acquire_many(MAX_REQUESTS as u32).await);
        drop(self.inner.checkpointing.lock().await);
        drop(self.inner.growing.lock().await);
    }

    /// Carries out a request, which goes on if its caller is gone.
    fn on_its_own<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, DataError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, DataError>> {
        let inner = self.inner.clone();
        inner.counters.requests.add(1);
        let work = async move {
            let turn = inner.requests.clone().acquire_owned().await.expect("the semaphore is never closed");
            let outcome = request.await;
            inner.counters.refused.add(u64::from(outcome.is_err()));
            drop(turn);
            outcome
        };
        Box::pin(Finishing::new(&self.inner.env, work))
    }
}

impl copies::CopyStore for ExtentStore {
    fn create_as(&self, extent: ExtentId, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        self.on_its_own(self.inner.clone().create_as(extent, data))
    }

    fn cut(&self, extent: ExtentId, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        self.on_its_own(self.inner.clone().cut(extent, len))
    }

    fn sums(&self, extent: ExtentId, first_block: u64, most: usize) -> Option<ExtentSums> {
        let state = self.inner.state.lock();
        let found = state.table.get(extent)?;
        let end = found.len.div_ceil(layout::BLOCK).min(first_block.saturating_add(most as u64));
        let sum = |block| match found.look(block..block + 1) {
            Ok(mapped) => BlockSum::Has(mapped[0].sum),
            Err(gap) if gap.is_lost => BlockSum::Lost,
            Err(_) => BlockSum::Absent,
        };
        Some(ExtentSums { len: found.len, blocks: (first_block..end).map(sum).collect() })
    }

    fn list(&self, partition: u32, after: Option<ExtentId>, most: usize) -> Vec<ExtentId> {
        let first = after.unwrap_or(ExtentId { partition, term: 0, number: 0 });
        let state = self.inner.state.lock();
        let behind = state.table.extents().range((std::ops::Bound::Excluded(first), std::ops::Bound::Unbounded));
        behind.map(|(id, _)| *id).take_while(|id| id.partition == partition).take(most).collect()
    }

    fn used(&self, partition: u32) -> PartitionUse {
        self.inner.state.lock().table.used(partition)
    }

    fn is_stuck(&self) -> bool {
        ExtentStore::is_stuck(self)
    }
}

impl Extents for ExtentStore {
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        self.on_its_own(self.inner.clone().append(extent, offset, data))
    }

    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        self.on_its_own(self.inner.clone().overwrite(extent, offset, data))
    }

    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>> {
        self.on_its_own(self.inner.clone().read(extent, offset, len))
    }

    fn punch(&self, extent: ExtentId, offset: u64, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        self.on_its_own(self.inner.clone().punch(extent, offset, len))
    }

    fn remove(&self, extent: ExtentId) -> BoxFuture<'_, Result<(), DataError>> {
        self.on_its_own(self.inner.clone().remove(extent))
    }

    fn room(&self) -> DataRoom {
        self.inner.room()
    }
}

impl DataPartition for ExtentStore {
    fn create(&self, data: Bytes) -> BoxFuture<'_, Result<ExtentId, DataError>> {
        self.on_its_own(self.inner.clone().create(data))
    }
}

/// What a request is told of an error of the volume.
fn refusal(error: &VolumeError) -> DataError {
    match error.kind() {
        ErrorKind::Full => DataError::Full,
        _ => DataError::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
