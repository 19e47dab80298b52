//! Blobs in free blocks.

use std::sync::Arc;

use device::VolumeError;
use format::blob_header::{BLOB_STRIDE_BYTES, BlobState};
use types::ErrorKind;

use super::Inner;
use super::checks::{Shape, invalid, shape_of};
use super::layout::STRIDES;
use super::table::{Head, Pinned};
use super::work::{Begun, Right, Room};
use crate::stores::{Admission, BlobAt, Change, NewBlob, StoreError};

/// How the making of a blob begins.
enum Start {
    /// It is there already.
    There(Begun, u32, Head),
    New(Begun),
}

impl Inner {
    pub(super) async fn create(
        self: &Arc<Self>,
        admission: Admission,
        blob: NewBlob,
        change: Change,
    ) -> Result<u32, StoreError> {
        if admission.image != blob.id.image || blob.state == BlobState::Free {
            let reason = format!("a holder of image {} makes blob {} as {:?}", admission.image, blob.id, blob.state);
            return Err(invalid(reason));
        }
        let shape = shape_of(&change)?;
        let room = self.room_for(change.content.len()).await;
        match self.start(&admission, blob, &change, shape, room).await? {
            Start::There(begun, block, head) => {
                self.change_begun(begun, admission, (block, head), shape, change).await?;
                Ok(block)
            }
            Start::New(begun) => self.on_its_own(self.clone().make(begun, admission, blob, change)).await,
        }
    }

    /// Waits while the same blob is being made, or freed.
    async fn start(
        self: &Arc<Self>,
        admission: &Admission,
        blob: NewBlob,
        change: &Change,
        shape: Shape,
        room: Room,
    ) -> Result<Start, StoreError> {
        let mut room = Some(room);
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state.lock();
                state.admit(Some(admission), Right::Writes)?;
                let found = state.table.block_of(blob.id);
                if let Some(block) = found {
                    match state.table.pin(BlobAt { block, id: blob.id }, false) {
                        Pinned::Head(head) => {
                            let begun = state.begin(self, Some(admission), Some(block), Right::Writes, room.take());
                            return Ok(Start::There(begun, block, head));
                        }
                        Pinned::Damaged => return Err(self.unbelievable(block)),
                        Pinned::Leaving | Pinned::Absent => {}
                    }
                } else if !state.making.contains(&blob.id) {
                    shape.check(change, types::Pieces::NONE)?;
                    state.making.insert(blob.id);
                    return Ok(Start::New(state.begin(self, Some(admission), None, Right::Writes, room.take())));
                }
            }
            changed.await;
        }
    }

    async fn make(
        self: Arc<Self>,
        begun: Begun,
        admission: Admission,
        blob: NewBlob,
        change: Change,
    ) -> Result<u32, StoreError> {
        let outcome = self.make_somewhere(&admission, blob, &change).await;
        self.state.lock().making.remove(&blob.id);
        drop(begun);
        self.changed.notify_waiters();
        outcome
    }

    async fn make_somewhere(&self, admission: &Admission, blob: NewBlob, change: &Change) -> Result<u32, StoreError> {
        let block = self.take_block().await?;
        if let Err(error) = self.write_first_content(block, change).await {
            self.state.lock().table.put_back(block);
            return Err(error);
        }
        let head = self.new_head(block, admission, blob, change);
        let written = self.put_header(block, &head).await;
        let mut state = self.state.lock();
        match &written {
            Ok(()) => state.table.put(block, head),
            Err(StoreError::NoSpace(_)) => state.table.put_back(block),
            // It may be on the medium all the same.
            Err(_) => state.table.put_in_doubt(block, head),
        }
        written.map(|()| block)
    }

    /// Content before the header.
    async fn write_first_content(&self, block: u32, change: &Change) -> Result<(), StoreError> {
        self.write_content(block, change).await?;
        self.settle().await
    }

    fn new_head(&self, block: u32, admission: &Admission, blob: NewBlob, change: &Change) -> Head {
        Head {
            serial: self.state.lock().table.head(block).serial + 1,
            state: blob.state,
            id: blob.id,
            token: admission.token,
            epoch: admission.epoch,
            owned: change.filled | change.zeroed,
            data: change.filled,
            parent: blob.parent,
        }
    }

    /// The lowest free block with space, else the lowest one that gets it.
    async fn take_block(&self) -> Result<u32, StoreError> {
        if let Some(block) = self.state.lock().table.take_ready() {
            return Ok(block);
        }
        let _space = self.space.lock().await;
        let candidate = {
            let mut state = self.state.lock();
            // Another may have reserved a unit meanwhile.
            if let Some(block) = state.table.take_ready() {
                return Ok(block);
            }
            state.table.lowest_without_space().ok_or(StoreError::NoSpace(self.volume.device()))?
        };
        let reserved = self.volume.reserve(STRIDES.block_start(candidate), BLOB_STRIDE_BYTES).await;
        let mut state = self.state.lock();
        // A loan that succeeded in part may have been enough for a later block.
        self.note_space(&mut state.table, candidate);
        if let Some(block) = state.table.take_ready() {
            return Ok(block);
        }
        state.table.note_vacant(candidate);
        Err(match reserved {
            Ok(()) => unreachable!("a block with space is ready"),
            Err(error) => self.no_space(&error),
        })
    }

    fn no_space(&self, error: &VolumeError) -> StoreError {
        if error.kind() != ErrorKind::Full {
            tracing::warn!(device = self.volume.device().0, %error, "a blob gets no space");
        }
        self.refusal(error)
    }

    /// The free blocks that stand in the same units as this one are ready if they have all of their space.
    pub(super) fn note_space(&self, table: &mut super::table::Table, block: u32) {
        let unit_bytes = self.volume.unit_bytes();
        for unit in STRIDES.units_of(block, unit_bytes) {
            for block in STRIDES.blocks_of(unit, unit_bytes, self.block_count) {
                if table.is_free(block) && self.volume.is_reserved(STRIDES.block_start(block), BLOB_STRIDE_BYTES) {
                    table.make_ready(block);
                }
            }
        }
    }
}
