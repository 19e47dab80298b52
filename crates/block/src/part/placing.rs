//! Where new blobs go: to devices of distinct hosts, each device with its share by size.

use super::local::LocalStores;
use crate::image::Placement;
use manager::{DeviceRecord, DeviceState, Snapshot};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use subsystem::Surroundings;
use topology::choose;
use types::{BlobId, DeviceId, NodeId};

/// Tells hosts from devices where both have numbers, so that a host does not favour the device of its number.
const HOST: u64 = 1 << 63;

/// Devices of the cluster, as this node sees them.
pub struct ClusterPlacement {
    pub around: Surroundings,
    pub local: Arc<LocalStores>,
}

/// A device that may get blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Site {
    device: DeviceId,
    host: NodeId,
    weight: u64,
}

/// The number of the host that a device is on: that of the first node there.
pub fn host_in(state: &Snapshot, device: DeviceId) -> Option<NodeId> {
    state.host_of(state.device(device)?.node?)
}

impl ClusterPlacement {
    fn sites(&self, state: &Snapshot) -> Vec<Site> {
        let silent = (self.around.silent)();
        let answers = |device: &&Arc<DeviceRecord>| match self.local.get(device.id) {
            Some(store) => !store.is_stuck(),
            None => device.node.is_some_and(|node| node != self.around.me && !silent.contains(&node)),
        };
        let site = |device: &Arc<DeviceRecord>| {
            Some(Site { device: device.id, host: host_in(state, device.id)?, weight: device.capacity_bytes })
        };
        state.devices().filter(|device| device.state == DeviceState::Active).filter(answers).filter_map(site).collect()
    }

    /// How many hosts have devices that may get blobs.
    pub fn host_count(&self) -> usize {
        let hosts: BTreeSet<NodeId> = self.sites(&self.around.manager.snapshot()).iter().map(|site| site.host).collect();
        hosts.len()
    }

    /// Those devices whose nodes are silent, with what people call the nodes.
    pub fn silent_among(&self, devices: &[DeviceId]) -> Vec<(DeviceId, String)> {
        let (state, silent) = (self.around.manager.snapshot(), (self.around.silent)());
        let on_silent = |device: &DeviceId| {
            let node = state.device(*device)?.node.filter(|node| silent.contains(node))?;
            Some((*device, state.node(node).map_or_else(|| node.to_string(), |node| node.name.clone())))
        };
        devices.iter().filter_map(on_silent).collect()
    }
}

impl Placement for ClusterPlacement {
    fn devices(&self) -> Vec<DeviceId> {
        self.sites(&self.around.manager.snapshot()).iter().map(|site| site.device).collect()
    }

    fn host_of(&self, device: DeviceId) -> Option<NodeId> {
        host_in(&self.around.manager.snapshot(), device)
    }

    fn is_leaving(&self, device: DeviceId) -> bool {
        self.around.manager.snapshot().device(device).is_some_and(|record| record.state != DeviceState::Active)
    }

    fn is_here(&self, device: DeviceId) -> bool {
        self.local.has(device)
    }

    fn places(&self, blob: BlobId, count: usize, beside: &[DeviceId], without: &[DeviceId]) -> SmallVec<[DeviceId; 3]> {
        let state = self.around.manager.snapshot();
        let mut sites = self.sites(&state);
        sites.retain(|site| !beside.contains(&site.device) && !without.contains(&site.device));
        let used = beside.iter().filter_map(|device| host_in(&state, *device)).collect();
        spread(blob, count, sites, used)
    }
}

/// Picks one site after the other: on a host that has no copy as long as there is one, on any afterwards.
fn spread(blob: BlobId, count: usize, mut sites: Vec<Site>, mut used: BTreeSet<NodeId>) -> SmallVec<[DeviceId; 3]> {
    let question = blob.image.0.rotate_left(32) ^ u64::from(blob.index) ^ (u64::from(blob.layer.0) << 40);
    let mut chosen = SmallVec::new();
    while chosen.len() < count {
        let has_fresh = sites.iter().any(|site| !used.contains(&site.host));
        let mut hosts: BTreeMap<NodeId, u64> = BTreeMap::new();
        for site in sites.iter().filter(|site| !has_fresh || !used.contains(&site.host)) {
            *hosts.entry(site.host).or_default() += site.weight;
        }
        let host = choose(question, hosts.iter().map(|(host, weight)| (HOST | u64::from(host.0), *weight)));
        let Some(host) = host.map(|host| NodeId((host & !HOST) as u32)) else { break };
        let there = sites.iter().filter(|site| site.host == host);
        let device = choose(question, there.map(|site| (u64::from(site.device.0), site.weight)));
        let device = DeviceId(device.expect("the host has a device") as u32);
        sites.retain(|site| site.device != device);
        used.insert(host);
        chosen.push(device);
    }
    chosen
}

#[cfg(test)]
mod tests;
