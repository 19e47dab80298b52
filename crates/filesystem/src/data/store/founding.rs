//! The store's beginning, which takes space only when the first extent is made, and the superblock.

use std::sync::Arc;

use wal::{Lsn, OpenOptions, Wal};

use super::layout::BLOCK;
use super::superblock::Superblock;
use super::{Inner, segments};
use crate::data::DataError;

/// The term of a store's first extents.
const FIRST_TERM: u32 = 1;

impl Inner {
    /// Gets the journal its space, if it has none.
    pub(super) async fn found(self: &Arc<Self>) -> Result<(), DataError> {
        if self.journal.get().is_some() {
            return Ok(());
        }
        let _turn = self.growing.lock().await;
        if self.journal.get().is_some() {
            return Ok(());
        }
        self.state.lock().check_writable()?;
        let units = self.layout.fixed_units();
        let bytes = u64::from(units) * self.layout.unit_blocks * BLOCK;
        if let Err(error) = self.volume.reserve(0, bytes).await {
            self.give_back_all().await;
            return Err(super::refusal(&error));
        }
        let superblock = Superblock {
            sequence: 1,
            term: FIRST_TERM,
            keep_from: Lsn::FIRST.0,
            segment_bytes: self.layout.segment_bytes,
            directory_bytes: 0,
            last_chunk: None,
            checkpoint: 0,
        };
        self.put_superblock(&superblock).await?;
        let store = segments::segments(&self.volume, self.layout, &self.settling);
        let opened = Wal::open(&self.env, store, OpenOptions::default(), &mut |_, _| {}).await;
        let journal = opened.map_err(|error| self.fail(&error))?;
        {
            let mut state = self.state.lock();
            (0..units).for_each(|unit| state.space.add_unit(unit));
            state.superblock = Some(superblock);
        }
        assert!(self.journal.set(journal).is_ok(), "a store is founded once");
        Ok(())
    }

    /// Nothing stands in the volume yet, and it does not all find space.
    async fn give_back_all(&self) {
        for unit in self.volume.units() {
            if let Err(error) = self.volume.give_back(unit).await {
                tracing::warn!(device = self.volume.device().0, unit, %error, "space was not given back");
            }
        }
    }

    /// Extents that are made from now on have a term of their own: ids that a weak mode has lost are not used again. Nor are those of a term whose
    /// superblock has rotted. What was found is durable behind it, in every mode.
    pub(super) async fn begin_term(self: &Arc<Self>, needs_checkpoint: bool) -> Result<(), DataError> {
        let (superblock, used) = {
            let state = self.state.lock();
            let Some(superblock) = state.superblock else { return Ok(()) };
            (superblock, state.table.extents().keys().map(|id| id.term).max().unwrap_or(0))
        };
        let term = superblock.term.max(used) + 1;
        let superblock = Superblock { sequence: superblock.sequence + 1, term, ..superblock };
        self.put_superblock(&superblock).await?;
        self.state.lock().superblock = Some(superblock);
        segments::flush(&self.volume, &self.settling).await.map_err(|error| super::refusal(&error))?;
        // Records whose content is not there must not be believed by the next start: the journal ends with them.
        if needs_checkpoint { self.checkpoint().await } else { Ok(()) }
    }

    /// Writes a superblock. It is durable behind it, and so is all that was written before.
    pub(super) async fn put_superblock(&self, superblock: &Superblock) -> Result<(), DataError> {
        let block = superblock.encode(&self.volume.device_uuid().0);
        self.volume.write(superblock.slot() * BLOCK, block).await.map_err(|error| self.fail(&error))?;
        self.volume.flush().await.map_err(|error| self.fail(&error))
    }
}
