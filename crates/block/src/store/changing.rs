//! Changes of blobs that are there, reads of them, and their end.

use std::sync::Arc;

use bytes::Bytes;
use device::Finishing;
use disk::AlignedBuf;

use super::Inner;
use super::checks::{Shape, invalid, read_of, shape_of};
use super::headers::Wish;
use super::layout::data_start;
use super::table::Head;
use super::work::{Begun, Right};
use crate::stores::{Admission, BlobAt, Change, StoreError};

impl Inner {
    pub(super) async fn change(self: &Arc<Self>, admission: Admission, at: BlobAt, change: Change) -> Result<(), StoreError> {
        check_image(&admission, at)?;
        let shape = shape_of(&change)?;
        let room = self.room_for(change.content.len()).await;
        let (begun, head) = self.begin(Some(&admission), at, Right::Writes, room).await?;
        self.change_begun(begun, admission, (at.block, head), shape, change).await
    }

    /// A change of a block that is pinned. A steady overwrite is one write, and no task.
    pub(super) async fn change_begun(
        self: &Arc<Self>,
        begun: Begun,
        admission: Admission,
        (block, head): (u32, Head),
        shape: Shape,
        change: Change,
    ) -> Result<(), StoreError> {
        shape.check(&change, head.data)?;
        let (intent, wish) = (Wish::announce(&admission), Wish::change(&admission, &change));
        let inner = self.clone();
        if wish.is_granted(&head) {
            let write = async move {
                let outcome = inner.write_content(block, &change).await;
                drop(begun);
                outcome
            };
            return Finishing::new(&self.env, write).await;
        }
        let steps = async move {
            let outcome = inner.change_with_header(block, &change, wish, !intent.is_granted(&head)).await;
            drop(begun);
            outcome
        };
        self.on_its_own(steps).await
    }

    async fn change_with_header(
        &self,
        block: u32,
        change: &Change,
        wish: Wish,
        is_unannounced: bool,
    ) -> Result<(), StoreError> {
        if !change.content.is_empty() {
            if is_unannounced {
                self.grant(block, wish.without_pieces()).await?;
                self.settle().await?;
            }
            self.write_content(block, change).await?;
            self.settle().await?;
        }
        self.grant(block, wish).await
    }

    pub(super) async fn write_content(&self, block: u32, change: &Change) -> Result<(), StoreError> {
        if change.content.is_empty() {
            return Ok(());
        }
        let buf = AlignedBuf::copy_of(&change.content);
        let written = self.volume.write(data_start(block, change.offset), buf).await;
        written.map_err(|error| self.refusal(&error))?;
        self.counters.writes.add(1);
        self.counters.written_bytes.add(change.content.len() as u64);
        Ok(())
    }

    /// Has what was written before stand on the medium before what follows, also where answers do not wait for that: a block never shows
    /// what another blob left in it.
    pub(super) async fn settle(&self) -> Result<(), StoreError> {
        self.volume.flush().await.map_err(|error| self.refusal(&error))
    }

    pub(super) async fn complete(self: &Arc<Self>, admission: Admission, at: BlobAt) -> Result<(), StoreError> {
        check_image(&admission, at)?;
        let room = self.room_for(0).await;
        let (begun, head) = self.begin(Some(&admission), at, Right::Writes, room).await?;
        let wish = Wish::complete(&admission);
        if wish.is_granted(&head) {
            return Ok(());
        }
        let inner = self.clone();
        let step = async move {
            let outcome = inner.grant(at.block, wish).await;
            drop(begun);
            outcome
        };
        self.on_its_own(step).await
    }

    pub(super) async fn read(
        self: &Arc<Self>,
        admission: Option<Admission>,
        at: BlobAt,
        offset: u32,
        length: u32,
    ) -> Result<Bytes, StoreError> {
        admission.as_ref().map_or(Ok(()), |admission| check_image(admission, at))?;
        let pieces = read_of(offset, length)?;
        let room = self.room_for(length as usize).await;
        let (begun, head) = self.begin(admission.as_ref(), at, Right::Reads, room).await?;
        let without = pieces & !head.data;
        if !without.is_empty() {
            return Err(invalid(format!("a read of pieces {:#018x}, which have no content", without.0)));
        }
        let read = self.volume.read_medium(data_start(at.block, offset), length as usize).await;
        drop(begun);
        let buf = read.map_err(|error| StoreError::Failed(error.to_string()))?;
        self.counters.reads.add(1);
        self.counters.read_bytes.add(buf.len() as u64);
        Ok(Bytes::from_owner(buf))
    }

    pub(super) async fn free(self: &Arc<Self>, admission: Admission, at: BlobAt) -> Result<(), StoreError> {
        check_image(&admission, at)?;
        let room = self.room_for(0).await;
        let (begun, _) = self.begin(Some(&admission), at, Right::Frees, room).await?;
        self.on_its_own(self.clone().free_begun(begun, at.block)).await
    }

    /// Frees a block once all else that is under way in it has ended.
    async fn free_begun(self: Arc<Self>, mut begun: Begun, block: u32) -> Result<(), StoreError> {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().table.is_alone(block) {
                break;
            }
            changed.await;
        }
        let head = Head::free(self.state.lock().table.head(block).serial + 1);
        let written = match self.put_header(block, &head).await {
            Ok(()) => self.settle().await,
            Err(error) => Err(error),
        };
        begun.block = None;
        self.state.lock().table.left(block, written.is_ok().then_some(head));
        drop(begun);
        self.changed.notify_waiters();
        written
    }
}

pub(super) fn check_image(admission: &Admission, at: BlobAt) -> Result<(), StoreError> {
    if admission.image == at.id.image {
        return Ok(());
    }
    Err(invalid(format!("a holder of image {} asks about blob {}", admission.image, at.id)))
}
