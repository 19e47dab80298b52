//! Devices in whose places a person has put others: they are forgotten without being asked for, as soon as nothing is lost with them. That they
//! were replaced stands in their records, so that it does not matter when a node ends.
//!
//! The gateway that leads the cell's view does it for all nodes: whether something is lost only a gateway that serves can tell,
//! and a node without one has disks too.

use crate::CELL;
use crate::holds::devices_in;
use crate::node::Inner;
use manager::{DeviceState, Snapshot};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::DeviceId;

/// Pause between two looks, and the longest while a device can't be forgotten yet: it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Inner {
    /// While this node's gateway leads the view: declares replaced devices gone for good when no object has copies on them alone,
    /// however long that takes, so that their copies are made again.
    pub(crate) async fn forget_replaced(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        loop {
            self.env.sleep(pause).await;
            let replaced = self.replaced();
            pause = if replaced.is_empty() { FIRST_PAUSE } else { (2 * pause).min(LONGEST_PAUSE) };
            for device in replaced {
                if let Err(reason) = self.forget_device(device, false).await {
                    tracing::warn!(device = device.0, reason, "a device that was replaced is not forgotten yet");
                }
            }
        }
    }

    /// What is for this node to forget. Also devices whose forgetting was begun and not ended: it makes them failed first.
    fn replaced(&self) -> BTreeSet<DeviceId> {
        let state = self.manager.snapshot();
        match self.leads_view(&state) {
            true => devices_in(&state, |state| matches!(state, DeviceState::Replaced | DeviceState::Failed)),
            false => BTreeSet::new(),
        }
    }

    fn leads_view(&self, state: &Snapshot) -> bool {
        let installed = state.cell(CELL).and_then(|cell| cell.installed.as_ref());
        let own = self.vitals.get().registered.map(|registered| registered.gateway);
        self.engine.serving().is_some() && own.is_some() && own == installed.map(|installed| installed.leader)
    }
}
