//! Devices in whose places a person has put others: they are forgotten without being asked for, as soon as nothing is lost with them. That they
//! were replaced stands in their records, so that it does not matter when this node ends.

use crate::node::Inner;
use manager::DeviceState;
use std::sync::Arc;
use std::time::Duration;
use types::DeviceId;

/// Pause between two looks, and the longest while a device can't be forgotten yet: it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Inner {
    /// Declares this node's replaced devices gone for good when no object has copies on them alone, however long that takes, so that their copies
    /// are made again.
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

    /// Also those whose forgetting was begun and not ended: it makes them failed first.
    fn replaced(&self) -> Vec<DeviceId> {
        let state = self.manager.snapshot();
        let own = state.devices().filter(|device| device.node == Some(self.id));
        let is_given_up = |state: DeviceState| matches!(state, DeviceState::Replaced | DeviceState::Failed);
        own.filter(|device| is_given_up(device.state)).map(|device| device.id).collect()
    }
}
