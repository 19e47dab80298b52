//! Which copies of a data partition there are to be: a function of the manager's state.

use std::collections::BTreeMap;

use manager::{DeviceState, FilePartitionId, Snapshot};
use types::{DeviceId, NodeId};

/// Devices of each node that take writes.
pub type Takers = BTreeMap<NodeId, Vec<DeviceId>>;

/// As the manager's state has them.
pub fn takers(state: &Snapshot) -> Takers {
    let mut takers = Takers::new();
    for device in state.devices().filter(|device| device.state == DeviceState::Active) {
        if let Some(node) = device.node {
            takers.entry(node).or_default().push(device.id);
        }
    }
    takers
}

/// One copy on each member of the partition's group that has a device for it. A copy stays where it is, if its device takes writes. Another one comes to the device
/// that the manager's record says; where that says none, they are spread by the partition's number.
pub fn copies_on(
    members: &[NodeId],
    takers: &Takers,
    partition: FilePartitionId,
    said: &[DeviceId],
    present: &BTreeMap<NodeId, DeviceId>,
) -> BTreeMap<NodeId, DeviceId> {
    let mut copies = BTreeMap::new();
    for node in members {
        let Some(devices) = takers.get(node) else { continue };
        let present = present.get(node).filter(|present| devices.contains(present));
        let said = said.iter().find(|said| devices.contains(said));
        let device = present.or(said).copied();
        copies.insert(*node, device.unwrap_or(devices[partition.0 as usize % devices.len()]));
    }
    copies
}

#[cfg(test)]
mod tests;
