//! Fences of the cell: who may not write any more, told to targets.

use crate::CELL;
use crate::TARGETS;
use crate::node::Inner;
use manager::{CellRecord, NodeRecord};
use std::sync::Arc;
use std::time::Duration;
use target::{FenceKey, FenceKind, Target, TargetControl, TargetFailure, Writer};
use types::{DeviceId, NodeId, Token};

/// Pause after a device could not take its fences.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The gateway of a node, as targets know it: of all incarnations, so that a newer one's token says who is meant.
pub(crate) fn writer(node: NodeId, token: Token) -> Writer {
    Writer { key: FenceKey { kind: FenceKind::Gateway, scope: u64::from(CELL.0) << 32 | u64::from(node.0) }, token }
}

/// All fences of a cell.
pub(crate) fn fences_of(cell: &CellRecord) -> Vec<Writer> {
    cell.fences.iter().map(|(node, token)| writer(*node, *token)).collect()
}

/// Who fences a device's writers.
enum Control<'a> {
    Here(&'a Target),
    There(TargetControl),
}

impl Inner {
    /// Keeps the fences of this node's targets as the manager has them.
    pub(crate) async fn keep_fences(self: Arc<Self>) {
        let mut changes = self.manager.changes();
        let mut loaded = None;
        loop {
            if let Some(cell) = self.manager.snapshot().cell(CELL).cloned()
                && loaded.as_ref() != Some(&(cell.view_number(), cell.fences.clone()))
            {
                match self.load_fences(&cell).await {
                    Ok(()) => {
                        self.vitals.change(|present| present.fences = cell.view_number());
                        loaded = Some((cell.view_number(), cell.fences.clone()));
                    }
                    Err(error) => {
                        tracing::error!(%error, "a device can't take its fences");
                        self.env.sleep(RETRY_PAUSE).await;
                        continue;
                    }
                }
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn load_fences(&self, cell: &CellRecord) -> Result<(), target::FenceError> {
        let fences: Vec<_> = fences_of(cell).iter().map(|writer| (writer.key, writer.token)).collect();
        // A failed device takes no appends, fenced or not, and no fences: the others don't wait for it.
        let working = self.targets.iter().filter(|target| target.device().poisoned_by().is_none());
        for target in working {
            target.load_fences(&fences).await?;
        }
        Ok(())
    }

    /// Fences these writers at a device, drains it and seals its open zones.
    pub(crate) async fn fence_and_seal(&self, device: DeviceId, fences: &[Writer]) -> Result<(), TargetFailure> {
        match self.control_of(device)? {
            Control::Here(target) => {
                for fence in fences {
                    let fenced = target.fence_and_seal(fence.key, fence.token).await;
                    fenced.map_err(|error| failure(device, error))?;
                }
            }
            Control::There(control) => {
                for fence in fences {
                    control.fence_and_seal(*fence).await?;
                }
            }
        }
        Ok(())
    }

    /// Fences these writers at a device and waits until what they had under way has ended. Its zones stay open: a recovery looks for what
    /// the fenced have written, which changes no more, and on a full device every zone that is ended early is one of the reserve.
    pub(crate) async fn fence_and_drain(&self, device: DeviceId, fences: &[Writer]) -> Result<(), TargetFailure> {
        match self.control_of(device)? {
            Control::Here(target) => {
                for fence in fences {
                    target.raise_fence(fence.key, fence.token).await.map_err(|error| failure(device, error))?;
                }
                target.drain().await;
                Ok(())
            }
            Control::There(control) => {
                for fence in fences {
                    control.raise_fence(*fence).await?;
                }
                control.drain().await
            }
        }
    }

    /// The way to a device's fences.
    fn control_of(&self, device: DeviceId) -> Result<Control<'_>, TargetFailure> {
        if let Some(target) = self.targets.iter().find(|target| target.device().id() == device) {
            return Ok(Control::Here(target));
        }
        let node = self.node_of(device).ok_or_else(|| failure(device, "no node serves it"))?;
        Ok(Control::There(TargetControl::new(&self.env, self.callers.to_node(&node, TARGETS), device)))
    }

    /// The node that serves a device.
    pub(crate) fn node_of(&self, device: DeviceId) -> Option<Arc<NodeRecord>> {
        let state = self.manager.snapshot();
        let node = state.device(device)?.node?;
        state.node(node).cloned()
    }
}

fn failure(device: DeviceId, reason: impl ToString) -> TargetFailure {
    TargetFailure { kind: types::ErrorKind::Unavailable, reason: format!("device {device}: {}", reason.to_string()) }
}
