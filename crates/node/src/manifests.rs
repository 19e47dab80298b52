//! The cell's manifest, with the manager. Only the leader of the cell's view replaces it: one that was deposed is refused.

use crate::CELL;
use crate::notes::Notes;
use engine::{EngineError, EngineFuture};
use format::manifest::Manifest;
use logstore::Manifests;
use manager::Manager;
use std::sync::Arc;
use types::{Epoch, GatewayId, Generation};

/// The manifest as one gateway sees it.
pub(crate) struct CellManifests {
    pub manager: Arc<Manager>,
    pub gateway: GatewayId,
    pub notes: Arc<Notes>,
}

impl Manifests for CellManifests {
    fn load(&self) -> Option<Vec<u8>> {
        self.manager.snapshot().manifest(CELL).map(|manifest| manifest.bytes.clone())
    }

    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let covered = covered_below(&manifest);
            let installed = self.manager.install_cell_manifest(CELL, self.gateway, expected, epoch, manifest).await;
            installed.map_err(|error| EngineError::Unavailable { reason: format!("installing a checkpoint: {error}") })?;
            // Collection resets zones after this, which the manifest before may need.
            self.notes.write().await;
            if let Some(below) = covered {
                self.forget_tables(below).await;
            }
            Ok(())
        })
    }

    fn reach(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let reached = self.manager.fresh().await;
            reached.map_err(|error| EngineError::Unavailable { reason: format!("before a checkpoint: {error}") })
        })
    }

    fn incarnation(&self) -> EngineFuture<'_, u64> {
        Box::pin(async move {
            let start = self.manager.begin_start(CELL).await;
            start.map_err(|error| EngineError::Unavailable { reason: format!("counting the start: {error}") })
        })
    }
}

impl CellManifests {
    /// Tables that wait for nothing any more. If the manager can't be told, the next checkpoint tells it.
    async fn forget_tables(&self, below: Generation) {
        let state = self.manager.snapshot();
        let mut former = state.cell(CELL).into_iter().flat_map(|cell| &cell.former_tables);
        if former.any(|table| table.generation() < below)
            && let Err(error) = self.manager.forget_tables(CELL, below).await
        {
            tracing::warn!(%error, "tables that a checkpoint has covered are kept until the next one");
        }
    }
}

/// Every write by a table of a lower generation is in this checkpoint; none if it does not cover all that it might.
fn covered_below(manifest: &[u8]) -> Option<Generation> {
    let manifest = Manifest::decode(manifest).ok()?;
    (manifest.covered == manifest.epoch).then_some(manifest.generation)
}
