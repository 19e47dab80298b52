//! What a node says of itself: filled in by its incarnation, read by its heartbeats.

use env::Instant;
use logstore::LogStore;
use manager::Registered;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::Notify;
use topology::HeldLease;
use types::{DeviceId, NodeId, ViewNumber};

/// The present incarnation, and what is known of others.
#[derive(Default)]
pub(crate) struct Vitals {
    present: Mutex<Present>,
    /// Something has changed that the manager should hear of at once.
    pub news: Notify,
}

/// What another node said of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeardOf {
    /// How far its wall clock is ahead of this node's.
    pub clock_off_ms: i64,
    /// [`crate::inquiry::Saying::repair_left`].
    pub repair_left: u32,
}

/// One moment.
#[derive(Clone, Default)]
pub(crate) struct Present {
    pub registered: Option<Registered>,
    /// The incarnation's engine, from when it is opened.
    pub store: Option<LogStore>,
    /// The incarnation's last lease.
    pub lease: Option<HeldLease>,
    /// When the manager's leader last answered as one does who knows this node.
    pub known_at: Option<Instant>,
    pub founding_done: bool,
    /// The view whose fences each local target holds; none before it holds any.
    pub fences: BTreeMap<DeviceId, ViewNumber>,
    /// Local targets whose disks hang, or have not got all fences since.
    pub hanging: BTreeSet<DeviceId>,
    /// Nodes that do not answer.
    pub silent_nodes: BTreeSet<NodeId>,
    /// Devices of others that leave everything unanswered, though their nodes answer.
    pub unanswered_devices: BTreeSet<DeviceId>,
    /// What the others said last.
    pub heard: BTreeMap<NodeId, HeardOf>,
    /// Devices in the table that this gateway could not get hold of.
    pub unreachable_devices: BTreeSet<DeviceId>,
}

impl Vitals {
    pub fn get(&self) -> Present {
        self.present.lock().clone()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Present) -> T) -> T {
        change(&mut self.present.lock())
    }
}
