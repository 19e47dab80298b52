//! Reserved blocks for those who write, and the volumes' space for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::engine::EngineError;
use types::limits::BLOCK_BYTES;

use super::Inner;
use super::held::Held;
use crate::content::{Extent, VolumeIndex};
use crate::limits::AHEAD_SHARE;
use crate::pg::Purpose;

impl Inner {
    /// Reserves blocks for content. None are wanted where a record alone is to be written: then it is only seen to that the next dump finds room.
    pub(super) async fn allocate(self: &Arc<Self>, count: u64) -> Result<Held, EngineError> {
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
                (state.spare_blocks(self), state.pg.floor() < state.pg.next())
            };
            match self.clone().grow(known).await {
                // Mutations under way may give blocks up.
                Err(EngineError::Full) if is_pending => changed.await,
                grown => grown?,
            }
        }
    }

    fn try_allocate(self: &Arc<Self>, count: u64) -> Result<Option<Held>, EngineError> {
        let mut state = self.state.lock();
        state.check_writable()?;
        Ok(state.pg.reserve(count, Purpose::Content).map(|extents| Held::new(self.clone(), extents)))
    }

    /// Reserves blocks of the home volume for a dump.
    pub(super) async fn allocate_for_dump(self: &Arc<Self>, count: u64) -> Result<Vec<Extent>, EngineError> {
        let reserve = || self.state.lock().pg.reserve(count, Purpose::Dump);
        if let Some(extents) = reserve() {
            return Ok(extents);
        }
        self.settle().await?;
        if let Some(extents) = reserve() {
            return Ok(extents);
        }
        let home = self.state.lock().pg.home().expect("a store that is founded has a home");
        self.clone().grow_volume(home).await?;
        reserve().ok_or(EngineError::Full)
    }

    /// Gets the volume with the most room another unit, unless another request has found space since there were so few spare blocks.
    async fn grow(self: Arc<Self>, known: u64) -> Result<(), EngineError> {
        let turn = self.growing.lock().await;
        {
            let state = self.state.lock();
            if state.spare_blocks(&self) > known && !state.pg.lacks_dump_room() {
                return Ok(());
            }
        }
        let mut rooms: Vec<(u64, VolumeIndex)> = Vec::new();
        for (index, volume) in self.volumes.all.iter().enumerate() {
            if let Some(volume) = volume.as_ref().filter(|volume| volume.takes_writes()) {
                rooms.push((volume.room_bytes(), VolumeIndex(index as u16)));
            }
        }
        let must_be = {
            let state = self.state.lock();
            state.pg.home().filter(|_| state.pg.lacks_dump_room())
        };
        rooms.retain(|(room, index)| *room > 0 && must_be.is_none_or(|home| home == *index));
        let (_, index) = rooms.into_iter().max().ok_or(EngineError::Full)?;
        let grown = self.add_unit(index).await;
        drop(turn);
        self.changed.notify_waiters();
        grown
    }

    async fn grow_volume(self: Arc<Self>, index: VolumeIndex) -> Result<(), EngineError> {
        let _turn = self.growing.lock().await;
        self.add_unit(index).await
    }

    /// The caller holds `growing`.
    async fn add_unit(&self, index: VolumeIndex) -> Result<(), EngineError> {
        let volume = self.volumes.get(index)?;
        let unit = self.state.lock().pg.space(index).and_then(|space| space.next_unit()).ok_or(EngineError::Full)?;
        let unit_bytes = volume.unit_bytes();
        volume.reserve(u64::from(unit) * unit_bytes, unit_bytes).await.map_err(|error| self.refuse(&error))?;
        self.state.lock().pg.space(index).expect("its device is there").add_unit(unit);
        Ok(())
    }

    /// Has the next unit get its space while this one is still being filled: that takes as long as zeros are written.
    fn grow_ahead(self: &Arc<Self>) {
        let volumes = self.volumes.all.iter().flatten();
        let Some(unit_bytes) = volumes.map(|volume| volume.unit_bytes()).max() else { return };
        let known = self.state.lock().spare_blocks(self);
        if known >= unit_bytes / BLOCK_BYTES as u64 / AHEAD_SHARE || self.is_growing_ahead.swap(true, Ordering::AcqRel) {
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

impl super::State {
    /// Blocks that content may have without more units.
    fn spare_blocks(&self, of: &Inner) -> u64 {
        (0..of.volumes.all.len() as u16).map(|index| self.pg.spare_blocks(VolumeIndex(index))).sum()
    }
}
