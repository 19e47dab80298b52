//! The store's beginning, which takes space only with the first mutation.

use std::sync::Arc;

use ::engine::EngineError;

use super::Inner;
use crate::limits::LOGICAL_UNIT_BYTES;
use crate::name::Opseq;
use crate::record::Mutation;
use crate::superblock::Superblock;

/// The number of a log's first record.
pub const FIRST_OPSEQ: Opseq = Opseq(1);

impl Inner {
    pub(super) fn is_founded(&self) -> bool {
        self.state.lock().superblock.is_some()
    }

    /// Gets the volume its first space and its superblock, if it has none.
    pub(super) async fn found(self: &Arc<Self>) -> Result<(), EngineError> {
        if self.is_founded() {
            return Ok(());
        }
        match self.found_in_turn().await {
            // Other groups may have space that they need no more.
            Err(EngineError::Full) => {
                self.seat.ask_space_back().await;
                self.found_in_turn().await
            }
            founded => founded,
        }
    }

    async fn found_in_turn(&self) -> Result<(), EngineError> {
        let _turn = self.growing.lock().await;
        if self.is_founded() {
            return Ok(());
        }
        self.state.lock().check_writable()?;
        let superblock = Superblock::first();
        self.medium.volume.reserve(0, LOGICAL_UNIT_BYTES).await.map_err(|error| self.refuse(&error))?;
        self.medium.put_superblock(&superblock).await.map_err(|error| self.refuse(&error))?;
        let mut state = self.state.lock();
        state.pg.space().add_unit(0);
        state.superblock = Some(superblock);
        Ok(())
    }

    /// A start goes on from what it found: what it revoked is logged before anything else.
    pub(super) async fn begin(self: &Arc<Self>, revoked: Vec<Opseq>) -> Result<(), EngineError> {
        if !self.is_founded() {
            return Ok(());
        }
        // All copies have the superblock of this start.
        let needed_from = self.state.lock().superblock.as_ref().map_or(FIRST_OPSEQ, |superblock| Opseq(superblock.keep_from));
        self.seat.note_released_before(needed_from).await;
        // What was found is durable behind it, in every mode of the device.
        self.medium.settle().await.map_err(|error| self.refuse(&error))?;
        if !revoked.is_empty() {
            env::mark("volume engine: puts were revoked");
            tracing::warn!(count = revoked.len(), "puts that were not answered before the last end have left no content");
            self.commit(Mutation::Revoke { revoked }, Default::default(), None).await?;
        }
        Ok(())
    }
}
