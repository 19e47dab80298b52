//! The seam to the cluster: where everything is, and ways to get there.

use std::sync::Arc;

use format::chunk_id::ShardId;
use net::{BoxFuture, Caller, ServiceTag};
use types::{DeviceId, NodeId};

use crate::protocol::{ChunkMap, NodePlace, ShardPlace};

/// What a process knows of the cluster: within a node what the manager says, outside what a node says.
pub trait Reach: Send + Sync + 'static {
    /// Where everything is, as far as it is known here.
    fn map(&self) -> Arc<ChunkMap>;

    /// Asks again where everything is. If it says yes, [`Reach::map`] has everything that was so before the call.
    fn refresh(&self) -> BoxFuture<'_, bool>;

    /// The way to a service of a node.
    fn to_node(&self, node: &NodePlace, service: ServiceTag) -> Arc<dyn Caller>;

    /// The way to whoever listens at an address.
    fn to_address(&self, address: &str, service: ServiceTag) -> Arc<dyn Caller>;
}

impl ChunkMap {
    pub fn node(&self, id: NodeId) -> Option<&NodePlace> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node that serves a device.
    pub fn node_of(&self, device: DeviceId) -> Option<&NodePlace> {
        let (_, node) = self.devices.iter().find(|(known, _)| *known == device)?;
        self.node(*node)
    }

    pub fn shard(&self, shard: ShardId) -> Option<&ShardPlace> {
        self.shards.iter().find(|place| place.shard == shard)
    }

    /// The shard that takes registrations.
    pub fn open_shard(&self) -> Option<&ShardPlace> {
        self.shards.iter().find(|place| place.is_open)
    }
}
