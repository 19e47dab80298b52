//! Where everything is, by what the manager says: for processes that have no manager.

use std::sync::Arc;

use bytes::Bytes;
use format::chunk_id::ShardId;
use manager::{Manager, Snapshot};
use net::{BoxFuture, Refusal, Request, Service};

use crate::protocol::{ChunkMap, NodePlace, ShardPlace};
use crate::wire;

/// The part of the manager's state that clients of the chunk store need.
pub fn map_of(state: &Snapshot) -> ChunkMap {
    let node =
        |node: &Arc<manager::NodeRecord>| NodePlace { id: node.id, identity: node.identity, address: node.address.clone() };
    let shard = |shard: &Arc<manager::ShardRecord>| ShardPlace {
        shard: ShardId(shard.id),
        is_open: shard.is_open,
        members: state.unit(shard.id).map(|unit| unit.members.clone()).unwrap_or_default(),
        hosts: shard.hosts.clone(),
    };
    ChunkMap {
        version: state.applied().0,
        nodes: state.nodes().map(node).collect(),
        devices: state.devices().filter_map(|device| Some((device.id, device.node?))).collect(),
        next_shard: state.next_shard(),
        shards: state.shards().map(shard).collect(),
    }
}

/// Asks for what is so now; without it, for what the node knows. A cluster whose manager has no leader at the moment has the latter only.
pub const FRESH: &[u8] = &[1];

/// Tells whoever asks.
pub struct MapService {
    manager: Arc<Manager>,
}

impl MapService {
    pub fn new(manager: Arc<Manager>) -> MapService {
        MapService { manager }
    }
}

impl Service for MapService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            if request.payload == FRESH {
                self.manager.fresh().await.map_err(Refusal::early)?;
            }
            Ok(wire::encode(&map_of(&self.manager.snapshot())))
        })
    }
}
