//! The log engine's manifests, as a copy of the manager's state has them.

use engine::{EngineError, EngineFuture};
use logstore::Manifests;
use manager::Manager;
use std::sync::Arc;
use types::{CellId, Epoch};

/// One cell's manifest with the manager of this process.
pub struct ManagerManifests {
    manager: Arc<Manager>,
    cell: CellId,
}

impl ManagerManifests {
    pub fn new(manager: Arc<Manager>, cell: CellId) -> Self {
        ManagerManifests { manager, cell }
    }
}

impl Manifests for ManagerManifests {
    fn load(&self) -> Option<Vec<u8>> {
        self.manager.snapshot().manifest(self.cell).map(|manifest| manifest.bytes.clone())
    }

    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let installed = self.manager.install_manifest(self.cell, expected, epoch, manifest).await;
            installed.map_err(|error| EngineError::Unavailable { reason: format!("installing a checkpoint: {error}") })
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
            let start = self.manager.begin_start(self.cell).await;
            start.map_err(|error| EngineError::Unavailable { reason: format!("counting the start: {error}") })
        })
    }
}
