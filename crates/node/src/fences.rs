//! Fences of the cell: who may not write any more, told to targets.

use crate::CELL;
use crate::node::Inner;
use manager::CellRecord;
use net::ServiceTag;
use std::sync::Arc;
use std::time::Duration;
use target::limits::CONTROL_DEADLINE;
use target::{FenceError, FenceKey, FenceKind, Target, TargetControl, TargetFailure, Writer};
use types::{DeviceId, NodeId, Token};

/// Pause after a device could not take its fences.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The gateway of a node, as targets know it: of all incarnations, so that a newer one's token says who is meant.
pub(crate) fn writer(node: NodeId, token: Token) -> Writer {
    Writer { key: FenceKey { kind: FenceKind::Gateway, scope: u64::from(CELL.0) << 32 | u64::from(node.0) }, token }
}

fn of_target(fences: &[Writer]) -> Vec<(FenceKey, Token)> {
    fences.iter().map(|fence| (fence.key, fence.token)).collect()
}

/// All fences of a cell.
pub(crate) fn fences_of(cell: &CellRecord) -> Vec<Writer> {
    cell.fences.iter().map(|(node, token)| writer(*node, *token)).collect()
}

/// Who fences a device's writers.
enum Control<'a> {
    Here(&'a Arc<Target>),
    There(TargetControl),
}

impl Inner {
    /// Keeps the fences of one of this node's targets as the manager has them. Each by itself: a disk that hangs keeps none from the others.
    pub(crate) async fn keep_fences(self: Arc<Self>, target: Arc<Target>) {
        let device = target.device();
        let mut changes = self.manager.changes();
        let mut loaded = None;
        // One that has failed takes no appends, fenced or not, and no fences.
        while device.poisoned_by().is_none() {
            if let Some(cell) = self.manager.snapshot().cell(CELL).cloned()
                && loaded.as_ref() != Some(&(cell.view_number(), cell.fences.clone()))
            {
                let fences = of_target(&fences_of(&cell));
                match target.load_fences(&fences).await {
                    Ok(()) => {
                        self.vitals.change(|present| present.fences.insert(device.id(), cell.view_number()));
                        loaded = Some((cell.view_number(), cell.fences.clone()));
                    }
                    Err(error) => {
                        tracing::error!(device = device.id().0, %error, "a device can't take its fences");
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

    /// Fences these writers at a device and waits until what they had under way has ended: once for all of them, who may be all nodes that ever were.
    /// Its zones stay open: who walks it looks for what the fenced have written, which changes no more, and on a full device every zone that is ended
    /// early is one of the reserve. Without writers there is nothing to do.
    pub(crate) async fn fence_and_drain(&self, device: DeviceId, fences: &[Writer]) -> Result<(), TargetFailure> {
        if fences.is_empty() {
            return Ok(());
        }
        match self.control_of(device)? {
            Control::Here(target) => {
                let (target, fences) = (target.clone(), of_target(fences));
                self.in_time(device, async move { target.fence_and_drain(&fences).await }).await
            }
            Control::There(control) => control.fence_and_drain(fences).await,
        }
    }

    /// What a device of this node is to do, for as long as another node's may take for it: its disk may hang. It goes on when nobody waits any more.
    async fn in_time(
        &self,
        device: DeviceId,
        work: impl Future<Output = Result<(), FenceError>> + Send + 'static,
    ) -> Result<(), TargetFailure> {
        let working = self.env.spawn(work);
        tokio::select! {
            biased;
            ended = working => match ended {
                Ok(ended) => ended.map_err(|error| failure(device, error)),
                Err(error) => Err(failure(device, error)),
            },
            () = self.env.sleep(CONTROL_DEADLINE) => {
                env::mark("node: a local fence was given up");
                Err(failure(device, format!("its disk has not answered for {} s", CONTROL_DEADLINE.as_secs())))
            }
        }
    }

    /// The way to a device's fences.
    fn control_of(&self, device: DeviceId) -> Result<Control<'_>, TargetFailure> {
        if let Some(target) = self.targets.iter().find(|target| target.device().id() == device) {
            return Ok(Control::Here(target));
        }
        let node = self.manager.node_of(device).ok_or_else(|| failure(device, "no node serves it"))?;
        Ok(Control::There(TargetControl::new(&self.env, self.callers.to_node(&node, ServiceTag::TARGETS), device)))
    }
}

fn failure(device: DeviceId, reason: impl ToString) -> TargetFailure {
    TargetFailure { kind: types::ErrorKind::Unavailable, reason: format!("device {device}: {}", reason.to_string()) }
}
