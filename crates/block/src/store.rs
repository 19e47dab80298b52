//! The blobs of one device, in the blocks of its volume (docs/rfd/0024, rules 2 to 5).
//!
//! ```text
//!   change ─► holder admitted? block pinned ─┬─ steady ───────────────────────────► content, one write ─► answer
//!                                            └─ a task ─ header: token, epoch ─► content ─► header: pieces ─► answer
//!   create ─► block with space, or reserve ─── a task ─ content ─► header ─► answer
//!   free   ─► the block is pinned by no other ─ a task ─ header: free ─► ready ─► (unit given back)
//!
//!   volume   ├─ block 0: header, two slots │ 4 MiB of content ─┼─ block 1 …
//! ```
//!
//! Invariants:
//! - Only the present pair of token and session of an image is admitted. A later one has the image's blobs when all that was under way before has ended.
//! - What is answered as done is durable, as [`device::SyncMode`] says. Content stands on the medium before the header that says that a piece has it.
//! - Before a holder changes content for the first time, the header has its token and epoch.
//! - A row in memory says what is durable. Nothing is read of a piece that has no content.
//! - A block is used again only when its header says that it is free, and no request is under way in it.
//! - What was begun goes on if the caller waits for it no more.
//! - A block whose header can't be believed is left alone.

mod changing;
mod checks;
mod entered;
mod error;
mod headers;
pub(crate) mod layout;
mod limits;
pub(crate) mod load;
mod making;
mod returning;
mod stats;
pub(crate) mod summing;
pub(crate) mod table;
mod work;

pub use error::OpenStoreError;
pub use stats::BlobStats;

use std::sync::Arc;

use bytes::Bytes;
use device::{Volume, VolumeError};
use disk::BLOCK_BYTES;
use env::Env;
use format::blob_header::BLOB_STRIDE_BYTES;
use net::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use types::{BlobId, DeviceId, ImageId};

use crate::stores::{Admission, BlobAt, BlobRow, BlobSums, Change, NewBlob, StoreError};
use entered::Pair;
use layout::STRIDES;
use limits::{MAX_REQUEST_BYTES, MAX_REQUESTS};
use stats::Counters;
use table::Table;
use work::State;

/// A device's blobs, being served.
pub struct BlobStore {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    volume: Volume,
    block_count: u32,
    /// Never held during I/O.
    state: Mutex<State>,
    /// Held while units of the volume get or lose their space.
    space: tokio::sync::Mutex<()>,
    /// Something ended for which requests may wait.
    changed: Notify,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    counters: Counters,
}

/// What a device has of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageUse {
    pub image: ImageId,
    pub blocks: u32,
    /// Pieces with content.
    pub pieces: u64,
}

impl BlobStore {
    /// Loads the headers of all blocks that have space.
    pub fn open(env: &Env, volume: Volume) -> BoxFuture<'_, Result<BlobStore, OpenStoreError>> {
        Box::pin(async move {
            let block_count = layout::block_count(volume.byte_count());
            if block_count == 0 {
                let (device, bytes) = (volume.device(), volume.byte_count());
                return Err(OpenStoreError::TooSmall { device, bytes, least: BLOB_STRIDE_BYTES });
            }
            let loaded = load::load(&volume, block_count).await?;
            let counters = Counters::default();
            counters.blocks_damaged.add(loaded.damaged.len() as u64);
            counters.headers_fallen_back.add(loaded.fallen_back.len() as u64);
            let mut table = Table::new(block_count, loaded.heads, loaded.damaged);
            for block in loaded.lent.into_iter().filter(|block| table.is_free(*block)).collect::<Vec<_>>() {
                if volume.is_reserved(STRIDES.block_start(block), BLOB_STRIDE_BYTES) {
                    table.make_ready(block);
                }
                table.note_vacant(block);
            }
            let inner = Inner {
                env: env.clone(),
                volume,
                block_count,
                state: Mutex::new(State::new(table)),
                space: tokio::sync::Mutex::default(),
                changed: Notify::new(),
                requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
                bytes: Arc::new(Semaphore::new(MAX_REQUEST_BYTES / BLOCK_BYTES)),
                counters,
            };
            Ok(BlobStore { inner: Arc::new(inner) })
        })
    }

    /// As [`crate::stores::Stores::enter`] says. The caller has checked that the manager's state names the token.
    pub async fn enter(&self, admission: Admission) -> Result<Vec<BlobRow>, StoreError> {
        self.enter_page(admission, None, usize::MAX).await
    }

    /// The same with a page of the rows: at most so many, those behind a blob if one is given.
    pub async fn enter_page(
        &self,
        admission: Admission,
        after: Option<BlobId>,
        most: usize,
    ) -> Result<Vec<BlobRow>, StoreError> {
        self.inner.counted(self.inner.enter(admission, after, most)).await
    }

    /// As [`crate::stores::Stores::create`] says.
    pub async fn create(&self, admission: Admission, blob: NewBlob, change: Change) -> Result<u32, StoreError> {
        self.inner.counted(self.inner.create(admission, blob, change)).await
    }

    /// As [`crate::stores::Stores::change`] says.
    pub async fn change(&self, admission: Admission, at: BlobAt, change: Change) -> Result<(), StoreError> {
        self.inner.counted(self.inner.change(admission, at, change)).await
    }

    /// As [`crate::stores::Stores::complete`] says.
    pub async fn complete(&self, admission: Admission, at: BlobAt) -> Result<(), StoreError> {
        self.inner.counted(self.inner.complete(admission, at)).await
    }

    /// As [`crate::stores::Stores::read`] says. Only pieces with content can be read. The caller has checked that a blob that is read without an
    /// admission is of an ended layer.
    pub async fn read(&self, admission: Option<Admission>, at: BlobAt, offset: u32, length: u32) -> Result<Bytes, StoreError> {
        self.inner.counted(self.inner.read(admission, at, offset, length)).await
    }

    /// As [`crate::stores::Stores::sums`] says.
    pub async fn sums(&self, admission: Admission, id: BlobId) -> Result<BlobSums, StoreError> {
        self.inner.counted(self.inner.sums(admission, id)).await
    }

    /// As [`crate::stores::Stores::free`] says.
    pub async fn free(&self, admission: Admission, at: BlobAt) -> Result<(), StoreError> {
        self.inner.counted(self.inner.free(admission, at)).await
    }

    /// As [`crate::stores::Stores::flush`] says.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.counted(self.inner.settle()).await
    }

    /// What the device has of an image now, without entering it: for layers that have ended.
    pub fn rows_of(&self, image: ImageId) -> Vec<BlobRow> {
        self.inner.state.lock().table.rows_of(image)
    }

    /// A page of it: at most so many rows, those behind a blob if one is given.
    pub fn rows_page(&self, image: ImageId, after: Option<BlobId>, most: usize) -> Vec<BlobRow> {
        self.inner.state.lock().table.rows_behind(image, after, most)
    }

    pub fn device(&self) -> DeviceId {
        self.inner.volume.device()
    }

    /// The images that have blobs here, ascending.
    pub fn images(&self) -> Vec<ImageUse> {
        let mut images: Vec<ImageUse> = Vec::new();
        for head in self.inner.state.lock().table.heads() {
            let pieces = u64::from(head.data.count());
            match images.last_mut().filter(|last| last.image == head.id.image) {
                Some(last) => *last = ImageUse { blocks: last.blocks + 1, pieces: last.pieces + pieces, ..*last },
                None => images.push(ImageUse { image: head.id.image, blocks: 1, pieces }),
            }
        }
        images
    }

    /// Whether the device takes no writes now: one has failed, which is the end of them until the next start, or its disk hangs.
    pub fn is_stuck(&self) -> bool {
        let volume = &self.inner.volume;
        volume.poisoned_by().is_some() || volume.hangs()
    }

    /// What has been done since the store was opened.
    pub fn stats(&self) -> BlobStats {
        self.inner.counters.snapshot()
    }

    /// Refuses what would write from now on, and returns when all that was begun has ended: then the device may be sealed.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.inner.state.lock().is_closed = true;
            loop {
                let changed = self.inner.changed.notified();
                if self.inner.state.lock().is_idle() {
                    break;
                }
                changed.await;
            }
        })
    }
}

impl Inner {
    async fn enter(&self, admission: Admission, after: Option<BlobId>, most: usize) -> Result<Vec<BlobRow>, StoreError> {
        let (image, pair) = (admission.image, Pair::of(&admission));
        self.state.lock().entered.enter(image, pair)?;
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.lock();
                state.entered.check(image, pair)?;
                if state.entered.is_drained(image) {
                    return Ok(state.table.rows_behind(image, after, most));
                }
            }
            changed.await;
        }
    }

    async fn counted<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.counters.requests.add(1);
        let outcome = request.await;
        self.counters.refused.add(u64::from(outcome.is_err()));
        outcome
    }

    fn refusal(&self, error: &VolumeError) -> StoreError {
        error::refusal(self.volume.device(), error)
    }
}

#[cfg(test)]
pub(crate) mod tests;
