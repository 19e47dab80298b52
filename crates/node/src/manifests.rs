//! The cell's manifest, with the manager. Only the leader of the cell's view replaces it: one that was deposed is refused.

use crate::CELL;
use engine::{EngineError, EngineFuture};
use logstore::Manifests;
use manager::Manager;
use std::sync::Arc;
use types::{Epoch, GatewayId};

/// The manifest as one gateway sees it.
pub(crate) struct CellManifests {
    pub manager: Arc<Manager>,
    pub gateway: GatewayId,
}

impl Manifests for CellManifests {
    fn load(&self) -> Option<Vec<u8>> {
        self.manager.snapshot().manifest(CELL).map(|manifest| manifest.bytes.clone())
    }

    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let installed = self.manager.install_cell_manifest(CELL, self.gateway, expected, epoch, manifest).await;
            installed.map_err(|error| EngineError::Unavailable { reason: format!("installing a checkpoint: {error}") })
        })
    }

    fn incarnation(&self) -> EngineFuture<'_, u64> {
        Box::pin(async move {
            let start = self.manager.begin_start(CELL).await;
            start.map_err(|error| EngineError::Unavailable { reason: format!("counting the start: {error}") })
        })
    }
}
