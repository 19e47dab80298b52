//! Simulated clusters.

use chunkstore::placement::{Cluster, Load, Node};
use topology::Branch;
use types::NodeId;

/// An even cluster: a node on each host. The paper's datacenters are zones here, its clusters pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub zones: u32,
    pub pods: u32,
    pub racks: u32,
    pub hosts: u32,
}

impl Layout {
    pub fn nodes(&self) -> u32 {
        self.zones * self.pods * self.racks * self.hosts
    }

    /// Where a node stands; nodes are numbered rack by rack.
    pub fn branch(&self, node: u32) -> Branch {
        let (rack, pod) = (node / self.hosts, node / self.hosts / self.racks);
        Branch { zone: pod / self.pods, pod: pod % self.pods, rack: rack % self.racks, host: node % self.hosts }
    }

    pub fn node(&self, number: u32, blocks: u32) -> Node {
        Node { id: NodeId(number), branch: self.branch(number), load: Load::empty(blocks), is_up: true }
    }

    /// All nodes, empty.
    pub fn cluster(&self, blocks: u32) -> anyhow::Result<Cluster> {
        Ok(Cluster::new((0..self.nodes()).map(|number| self.node(number, blocks)).collect())?)
    }

    /// `3 x 5 x 16 x 30`, the widest first.
    pub fn text(&self) -> String {
        format!("{} x {} x {} x {}", self.zones, self.pods, self.racks, self.hosts)
    }
}
