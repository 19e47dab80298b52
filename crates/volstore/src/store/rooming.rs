//! Reserved blocks for those who write, and the volume's space for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::engine::EngineError;
use types::limits::BLOCK_BYTES;

use super::Inner;
use super::held::Held;
use crate::content::Extent;
use crate::limits::{AHEAD_SHARE, LOGICAL_UNIT_BYTES};
use crate::pg::Purpose;

impl Inner {
    /// Reserves blocks for content. None are wanted where a record alone is to be written: then it is only seen to that the next dump finds room.
    pub(super) async fn allocate(self: &Arc<Self>, count: u64) -> Result<Held, EngineError> {
        let mut has_asked = false;
        loop {
            let changed = self.changed.notified();
            if let Some(held) = self.try_allocate(count)? {
                self.grow_ahead();
                return Ok(held);
            }
            self.settle().await?;
            if let Some(held) = self.try_allocate(count)? {
                return Ok(held);
            }
            let (known, is_pending) = {
                let state = self.state.lock();
                (state.pg.spare_blocks(), state.pg.floor() < state.pg.next())
            };
            match self.clone().grow(known).await {
                // Mutations under way may give blocks up.
                Err(EngineError::Full) if is_pending => changed.await,
                // Other groups may have space that they need no more.
                Err(EngineError::Full) if !has_asked => {
                    has_asked = true;
                    self.seat.ask_space_back().await;
                }
                grown => grown?,
            }
        }
    }

    fn try_allocate(self: &Arc<Self>, count: u64) -> Result<Option<Held>, EngineError> {
        let mut state = self.state.lock();
        state.check_writable()?;
        Ok(state.pg.reserve(count, Purpose::Content).map(|extents| Held::new(self.clone(), extents)))
    }

    /// Reserves blocks for a dump.
    pub(super) async fn allocate_for_dump(self: &Arc<Self>, count: u64) -> Result<Vec<Extent>, EngineError> {
        let reserve = || self.state.lock().pg.reserve(count, Purpose::Dump);
        if let Some(extents) = reserve() {
            return Ok(extents);
        }
        self.settle().await?;
        if let Some(extents) = reserve() {
            return Ok(extents);
        }
        if let Err(EngineError::Full) = self.add_unit_in_turn().await {
            self.seat.ask_space_back().await;
            self.add_unit_in_turn().await?;
        }
        reserve().ok_or(EngineError::Full)
    }

    /// Gets the volume another unit, unless another request has found space since there were so few spare blocks.
    async fn grow(self: Arc<Self>, known: u64) -> Result<(), EngineError> {
        let turn = self.growing.lock().await;
        {
            let state = self.state.lock();
            if state.pg.spare_blocks() > known && !state.pg.lacks_dump_room() {
                return Ok(());
            }
        }
        let grown = self.add_unit().await;
        drop(turn);
        self.changed.notify_waiters();
        grown
    }

    async fn add_unit_in_turn(&self) -> Result<(), EngineError> {
        let _turn = self.growing.lock().await;
        self.add_unit().await
    }

    /// The caller holds `growing`.
    async fn add_unit(&self) -> Result<(), EngineError> {
        let unit = self.state.lock().pg.space().next_unit().ok_or(EngineError::Full)?;
        let reserved = self.medium.volume.reserve(u64::from(unit) * LOGICAL_UNIT_BYTES, LOGICAL_UNIT_BYTES).await;
        reserved.map_err(|error| self.refuse(&error))?;
        self.state.lock().pg.space().add_unit(unit);
        Ok(())
    }

    /// Has the next unit get its space while this one is still being filled: that takes as long as zeros are written.
    fn grow_ahead(self: &Arc<Self>) {
        let known = self.state.lock().pg.spare_blocks();
        let enough = LOGICAL_UNIT_BYTES / BLOCK_BYTES as u64 / AHEAD_SHARE;
        if known >= enough || self.is_growing_ahead.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = self.clone();
        let work = async move {
            // A full device is told to the request that needs it.
            if let Err(error) = inner.clone().grow(known).await {
                tracing::debug!(%error, "no unit of space ahead");
            }
            inner.is_growing_ahead.store(false, Ordering::Release);
        };
        drop(self.env.spawn(work));
    }
}
