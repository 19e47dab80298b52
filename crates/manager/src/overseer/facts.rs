//! What an overseer knows of the state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use types::{CellId, DeviceId, NodeId};

use crate::modules::cell::CellRecord;
use crate::modules::device::DeviceState;
use crate::modules::node::NodeRecord;
use crate::snapshot::Snapshot;

/// A cell, the nodes, and where the devices are that take writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub(super) cell: Arc<CellRecord>,
    pub(super) nodes: BTreeMap<NodeId, Arc<NodeRecord>>,
    /// Active devices.
    pub(super) devices: BTreeMap<DeviceId, Option<NodeId>>,
}

impl Facts {
    /// Of a cell; none if there is no such cell.
    pub fn of(state: &Snapshot, cell: CellId) -> Option<Facts> {
        let cell = Arc::clone(state.cell(cell)?);
        let nodes = state.nodes().map(|node| (node.id, Arc::clone(node))).collect();
        let active = state.devices().filter(|device| device.state == DeviceState::Active);
        Some(Facts { cell, nodes, devices: active.map(|device| (device.id, device.node)).collect() })
    }

    /// The node of a device; none if it has none, or takes no writes.
    pub(super) fn node_of(&self, device: DeviceId) -> Option<NodeId> {
        self.devices.get(&device).copied().flatten()
    }

    /// What the view writes to.
    pub(super) fn table_devices(&self) -> BTreeSet<DeviceId> {
        let table = self.cell.installed.as_ref().map(|installed| &installed.table);
        table.map_or_else(BTreeSet::new, |table| table.devices().iter().copied().collect())
    }
}
