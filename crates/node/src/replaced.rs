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
                if self.is_taken_back(device).await {
                    continue;
                }
                if let Err(reason) = self.forget_device(device, false).await {
                    tracing::warn!(device = device.0, reason, "a device that was replaced is not forgotten yet");
                }
            }
        }
    }

    /// Whether a node serves a device that was replaced: it is used again. A start takes back what it finds replaced; but where the disk was carried to
    /// another node, and both start at once, that one may have looked before the one that it came from noted that another disk is in its place.
    async fn is_taken_back(&self, device: DeviceId) -> bool {
        let is_replaced = || {
            let state = self.manager.snapshot();
            state.device(device).is_some_and(|record| record.state == DeviceState::Replaced)
        };
        // Looked at again, for to ask may take long: a person may give it up meanwhile.
        if !is_replaced() || self.is_served(device).await != Some(true) || !is_replaced() {
            return false;
        }
        env::mark("node: a device that was replaced is served, and used again");
        match self.manager.set_device_state(device, DeviceState::Active).await {
            Ok(_) => tracing::info!(device = device.0, "a device that had been replaced is back"),
            Err(error) => {
                tracing::warn!(device = device.0, %error, "a device that had been replaced is back, and not used yet")
            }
        }
        true
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
