//! What is under way: counted from where a request is admitted to where its last write has ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use types::limits::BLOCK_BYTES;
use types::{BlobId, ImageId};

use super::Inner;
use super::entered::{Entered, Pair};
use super::limits::MAX_REQUEST_BYTES;
use super::table::{Head, Pinned, Table};
use crate::stores::{Admission, BlobAt, StoreError};

pub struct State {
    pub table: Table,
    pub entered: Entered,
    /// Blobs that are being made.
    pub making: BTreeSet<BlobId>,
    pub is_closed: bool,
    /// Requests under way that may write, and returns of space.
    writing: usize,
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Reads,
    Writes,
    /// Writes, and ends the blob.
    Frees,
}

/// Room for a request and its bytes.
pub struct Room {
    _request: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

/// A request under way. It ends when this is dropped.
pub struct Begun {
    inner: Arc<Inner>,
    holder: Option<(ImageId, Pair)>,
    pub block: Option<u32>,
    writes: bool,
    _room: Option<Room>,
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        let mut matters = self.block.is_some_and(|block| state.table.unpin(block));
        if let Some((image, pair)) = self.holder {
            matters |= state.entered.end(image, pair);
        }
        state.writing -= usize::from(self.writes);
        matters |= state.is_closed && state.writing == 0;
        drop(state);
        if matters {
            self.inner.changed.notify_waiters();
        }
    }
}

impl State {
    pub fn new(table: Table) -> State {
        State { table, entered: Entered::default(), making: BTreeSet::new(), is_closed: false, writing: 0 }
    }

    pub fn is_idle(&self) -> bool {
        self.writing == 0
    }

    /// Whether a request may begin.
    pub fn admit(&self, admission: Option<&Admission>, right: Right) -> Result<(), StoreError> {
        if self.is_closed && right != Right::Reads {
            return Err(StoreError::Failed("the store is being closed and takes no writes".to_owned()));
        }
        admission.map_or(Ok(()), |admission| self.entered.check(admission.image, Pair::of(admission)))
    }

    /// A request that was admitted begins, in a block that it has pinned.
    pub fn begin(
        &mut self,
        inner: &Arc<Inner>,
        admission: Option<&Admission>,
        block: Option<u32>,
        right: Right,
        room: Option<Room>,
    ) -> Begun {
        let holder = admission.map(|admission| (admission.image, Pair::of(admission)));
        if let Some((image, pair)) = holder {
            self.entered.begin(image, pair);
        }
        let writes = right != Right::Reads;
        self.writing += usize::from(writes);
        Begun { inner: inner.clone(), holder, block, writes, _room: room }
    }
}

impl Inner {
    /// Waits for room for a request.
    pub(super) async fn room_for(&self, bytes: usize) -> Room {
        let blocks = bytes.min(MAX_REQUEST_BYTES).div_ceil(BLOCK_BYTES) as u32;
        let closed = "the semaphores are never closed";
        let request = self.requests.clone().acquire_owned().await.expect(closed);
        let bytes = self.bytes.clone().acquire_many_owned(blocks).await.expect(closed);
        Room { _request: request, _bytes: bytes }
    }

    /// Begins a request about a blob, once the blob is not being freed.
    pub(super) async fn begin(
        self: &Arc<Self>,
        admission: Option<&Admission>,
        at: BlobAt,
        right: Right,
        room: Room,
    ) -> Result<(Begun, Head), StoreError> {
        let mut room = Some(room);
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state.lock();
                state.admit(admission, right)?;
                match state.table.pin(at, right == Right::Frees) {
                    Pinned::Head(head) => return Ok((state.begin(self, admission, Some(at.block), right, room.take()), head)),
                    Pinned::Leaving => {}
                    Pinned::Damaged => return Err(self.unbelievable(at.block)),
                    Pinned::Absent => return Err(StoreError::Absent),
                }
            }
            changed.await;
        }
    }

    pub(super) fn unbelievable(&self, block: u32) -> StoreError {
        let device = self.volume.device();
        StoreError::Failed(format!(
            "device {device}: what the header of block {block} says is not known: it is damaged, or a write of it failed"
        ))
    }

    /// Carries out steps that go on if the caller is gone.
    pub(super) async fn on_its_own<T: Send + 'static>(
        &self,
        job: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ended = self.env.spawn(job).await;
        ended.unwrap_or_else(|error| Err(StoreError::Failed(format!("the request was ended: {error}"))))
    }
}
