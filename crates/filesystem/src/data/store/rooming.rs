//! Fresh blocks for those who write, and the volume's space for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layout::{BLOCK, Span};
use super::limits::{AHEAD_SHARE, CHECKPOINT_BLOCKS, OVERWRITE_BLOCKS};
use super::page::PAGE_BLOCKS;
use super::{Inner, State};
use crate::data::{DataError, DataRoom};

/// For what blocks are wanted: how many free ones stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// As an append. The first piece makes the extent.
    Create,
    /// It leaves blocks for overwrites, and for the next checkpoint.
    Append,
    /// It leaves blocks for the next checkpoint.
    Overwrite,
    Checkpoint,
}

impl State {
    /// Free blocks that a purpose leaves to others.
    fn kept(&self, purpose: Purpose) -> u64 {
        let checkpoint = self.table.checkpoint_blocks() + CHECKPOINT_BLOCKS;
        match purpose {
            Purpose::Create | Purpose::Append => checkpoint + OVERWRITE_BLOCKS,
            Purpose::Overwrite => checkpoint,
            Purpose::Checkpoint => 0,
        }
    }

    /// Takes blocks, if enough are free. Pages that become dirty by it are part of the next checkpoint.
    fn take(&mut self, count: u64, near: Option<u32>, purpose: Purpose) -> Option<Vec<Span>> {
        let pages = if purpose == Purpose::Checkpoint { 0 } else { count / PAGE_BLOCKS + 2 };
        if self.space.free_blocks() < count + pages + self.kept(purpose) {
            return None;
        }
        if purpose != Purpose::Checkpoint {
            self.promised_blocks += count;
        }
        Some(self.space.take(count, near))
    }

    /// Whether blocks get free when what is under way has ended.
    fn awaits_blocks(&self) -> bool {
        self.promised_blocks > 0 || self.space.limbo_blocks() > 0
    }

    pub(super) fn spare_blocks(&self) -> u64 {
        self.space.free_blocks().saturating_sub(self.kept(Purpose::Append))
    }
}

impl Inner {
    /// Takes fresh blocks, from `near` on if that is free. They are the caller's until its change is in the table.
    pub(super) async fn allocate(
        self: &Arc<Self>,
        count: u64,
        near: Option<u32>,
        purpose: Purpose,
    ) -> Result<Vec<Span>, DataError> {
        loop {
            let changed = self.changed.notified();
            let taken = {
                let mut state = self.state.lock();
                state.take(count, near, purpose).map(|spans| (spans, state.spare_blocks(), state.space.free_blocks()))
            };
            if let Some((spans, spare_blocks, free_blocks)) = taken {
                if purpose == Purpose::Append && spare_blocks < self.layout.unit_blocks / AHEAD_SHARE {
                    self.grow_ahead(free_blocks);
                }
                return Ok(spans);
            }
            self.settle().await?;
            let (taken, free_blocks) = {
                let mut state = self.state.lock();
                (state.take(count, near, purpose), state.space.free_blocks())
            };
            if let Some(spans) = taken {
                return Ok(spans);
            }
            match self.clone().grow(free_blocks).await {
                // Requests under way give up the blocks that they replace, and reads let go of those that were given up.
                Err(DataError::Full) if self.state.lock().awaits_blocks() => changed.await,
                grown => grown?,
            }
        }
    }

    /// Gets one more unit of the volume its space, unless another request has done so since there were so few free blocks.
    async fn grow(self: Arc<Self>, free_before: u64) -> Result<(), DataError> {
        let _turn = self.growing.lock().await;
        let unit = {
            let state = self.state.lock();
            if state.space.free_blocks() > free_before {
                return Ok(());
            }
            state.space.next_unit().ok_or(DataError::Full)?
        };
        let unit_bytes = self.layout.unit_blocks * BLOCK;
        let reserved = self.volume.reserve(u64::from(unit) * unit_bytes, unit_bytes).await;
        reserved.map_err(|error| super::refusal(&error))?;
        self.state.lock().space.add_unit(unit);
        Ok(())
    }

    /// Has the next unit get its space while this one is still being filled: that takes as long as zeros are written.
    fn grow_ahead(self: &Arc<Self>, free_blocks: u64) {
        if self.volume.room_bytes() == 0 || self.is_growing_ahead.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = self.clone();
        let work = async move {
            // A full device is told to the request that needs it.
            if let Err(error) = inner.clone().grow(free_blocks).await {
                tracing::debug!(device = inner.volume.device().0, %error, "no unit of space ahead");
            }
            inner.is_growing_ahead.store(false, Ordering::Release);
        };
        drop(self.env.spawn(work));
    }

    pub(super) fn room(&self) -> DataRoom {
        let lendable = self.volume.room_bytes();
        let state = self.state.lock();
        let free_bytes = state.spare_blocks() * BLOCK + lendable;
        DataRoom { total_bytes: free_bytes + state.table.block_count() * BLOCK, free_bytes }
    }
}
