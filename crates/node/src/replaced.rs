//! Devices in whose places a person has put others: they are forgotten without being asked for, as soon as nothing is lost with them.

use crate::node::{Inner, Node};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::DeviceId;

/// Pause before the first attempt, and the longest between two: it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Node {
    /// Declares a device gone for good when no object has copies on it alone, however long that takes, so that its copies are made again.
    pub fn forget_when_safe(&self, device: DeviceId) {
        let node = Arc::downgrade(&self.inner);
        self.inner.env.spawn(forget_when_safe(node, device));
    }
}

async fn forget_when_safe(node: Weak<Inner>, device: DeviceId) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(env) = node.upgrade().map(|node| node.env.clone()) else { return };
        env.sleep(pause).await;
        let Some(node) = node.upgrade().filter(|node| node.manager.snapshot().device(device).is_some()) else { return };
        match node.forget_device(device, false).await {
            Ok(()) => return,
            Err(reason) => tracing::warn!(device = device.0, reason, "a device that was replaced is not forgotten yet"),
        }
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}
