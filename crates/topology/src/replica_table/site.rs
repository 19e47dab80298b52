//! Where a device is, as far as it matters for what fails together.

use serde::{Deserialize, Serialize};
use types::{DeviceId, NodeId};

/// Levels of failure domains, the widest first: zone, rack, host, node.
pub(super) const LEVELS: usize = 4;
/// What has at least two of before [`super::ReplicaTable`] spreads over them.
pub(super) const HOST: usize = 2;
pub(super) const NODE: usize = 3;

/// A device, its weight and its failure domains. Domains are kept as hashes of their names with those of the domains around them: equal
/// hashes are one domain, and a host that comes or goes changes no other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    device: DeviceId,
    weight: u64,
    domains: [u64; LEVELS],
}

impl Site {
    /// A device of `capacity_bytes` at a node, on a host, in a rack, in a zone. Devices of no node are taken to be on one together. Names
    /// count within what is around them: `rack-1` of two zones are two racks. An empty name is a name like any other.
    pub fn new(device: DeviceId, capacity_bytes: u64, node: Option<NodeId>, [host, rack, zone]: [&str; 3]) -> Site {
        let zone = within(FNV_BASIS, zone.as_bytes());
        let rack = within(zone, rack.as_bytes());
        let host = within(rack, host.as_bytes());
        let node = within(host, &node.map_or(0, |node| u64::from(node.0) + 1).to_le_bytes());
        Site { device, weight: capacity_bytes, domains: [zone, rack, host, node] }
    }

    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Its share of the load, against that of the others.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    pub(super) fn domain(&self, level: usize) -> u64 {
        self.domains[level]
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a of a name behind the hash of what is around it.
fn within(around: u64, name: &[u8]) -> u64 {
    let around = around.to_le_bytes();
    let bytes = around.iter().chain(name);
    bytes.fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}
