//! Clusters in this process: a thread for each node, a device for each node, calls in place of a network, and a manager that never fails.
//!
//! ```text
//!   store ── a client that knows the map: each request goes to the thread of its group's primary
//!   node ─── thread, runtime, device (a file behind a tap), its part of the placement groups
//!     └── wire ── calls on the thread of the node that is asked; bytes of blocks are counted by sender and receiver
//! ```
//!
//! What a node does costs its thread processor time, which is counted by node whatever the number of cores. An end of a node is known to all others
//! at once: how long that takes where nodes are processes, figure 15 shows.

mod node;
mod store;
mod wire;

pub use node::Node;
pub use store::ClusterStore;
pub use wire::Carried;

use super::ground::Ground;
use super::tap::{LeaveOut, Tap};
use super::volume_engine::{make_bucket, register};
use crate::clock;
use anyhow::{Context, ensure};
use env::Env;
use manager::{Manager, PLACEMENT_GROUPS};
use std::sync::Arc;
use std::time::Duration;
use types::NodeId;
use wire::Wire;

/// Copies of a group, where there are nodes enough.
pub const COPIES: usize = 3;
/// How long a cluster may take until all copies are there.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// The cluster.
pub struct Cluster {
    manager: Arc<Manager>,
    wire: Arc<Wire>,
    nodes: Vec<Node>,
    ended: Vec<NodeId>,
    device_bytes: u64,
}

impl Cluster {
    /// So many nodes, whose devices are files of so many bytes.
    pub async fn begin(ground: &Ground, nodes: usize, device_bytes: u64) -> anyhow::Result<Cluster> {
        let manager = Arc::new(Manager::open_in_memory(&Env::real_with_cores(1)).await.context("opening a manager")?);
        let (wire, ended) = (Arc::default(), Vec::new());
        let mut cluster = Cluster { manager, wire, nodes: Vec::new(), ended, device_bytes };
        for _ in 0..nodes {
            cluster.join(ground).await?;
        }
        make_bucket(&cluster.manager).await?;
        cluster.until_whole().await?;
        Ok(cluster)
    }

    /// Another node, with an empty device.
    pub async fn join(&mut self, ground: &Ground) -> anyhow::Result<NodeId> {
        let number = self.nodes.len() + 1;
        let disk = ground.file(&format!("node-{number}"), self.device_bytes).await?;
        let tap = Tap::over(disk, LeaveOut::Nothing);
        let id = register(&self.manager, number as u8).await?;
        let (manager, wire) = (self.manager.clone(), self.wire.clone());
        self.nodes.push(Node::begin(id, manager, wire, tap, self.device_bytes).await?);
        Ok(id)
    }

    /// Waits until every group has all copies, on nodes that are there, and its primary can be asked.
    pub async fn until_whole(&self) -> anyhow::Result<()> {
        let until = clock::now() + PATIENCE;
        let store = self.store();
        while !(self.is_whole() && store.is_served().await) {
            ensure!(clock::now() < until, "the copies of the placement groups are not whole after {PATIENCE:?}");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    pub fn is_whole(&self) -> bool {
        let copies = (self.nodes.len() - self.ended.len()).min(COPIES);
        let state = self.manager.snapshot();
        (0..PLACEMENT_GROUPS).all(|group| {
            let is_whole = |record: &Arc<manager::PlacementRecord>| {
                record.is_active && record.voters.len() == copies && !record.voters.iter().any(|node| self.ended.contains(node))
            };
            state.placement(group).is_some_and(is_whole)
        })
    }

    /// A node ends, with its device, and all others know it.
    pub fn lose(&mut self, at: usize) -> NodeId {
        let node = &mut self.nodes[at];
        self.wire.end(node.id);
        node.end();
        self.ended.push(node.id);
        node.id
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Groups in which a node has a copy, and those that it leads.
    pub fn part_of(&self, node: NodeId) -> (usize, usize) {
        let state = self.manager.snapshot();
        let of = |is_it: &dyn Fn(&manager::PlacementRecord) -> bool| state.placements().filter(|record| is_it(record)).count();
        (of(&|record| record.voters.contains(&node)), of(&|record| record.primary == node))
    }

    /// Bytes of blocks so far, by sender and receiver.
    pub fn carried(&self) -> Carried {
        self.wire.carried()
    }

    /// A client.
    pub fn store(&self) -> Arc<ClusterStore> {
        Arc::new(ClusterStore::new(self.manager.clone(), &self.nodes))
    }
}
