//! Where everything is.

use bytes::{BufMut, BytesMut};
use format::chunk_id::ShardId;
use types::{DeviceId, NodeId, NodeIdentity};

use super::field::{put_address, put_flag, put_list, take_address};
use super::limits::{MAX_MAP_DEVICES, MAX_MAP_NODES, MAX_MAP_SHARDS, MAX_SHARD_NODES};
use super::{Input, Wire, WireError};
use crate::protocol::{ChunkMap, NodePlace, ShardPlace};

/// There is one kind of map.
const MAP: u8 = 1;

/// The least bytes of a map's items.
const LEAST_NODE_BYTES: usize = 4 + 16 + 2;
const DEVICE_BYTES: usize = 4 + 4;
const LEAST_SHARD_BYTES: usize = 4 + 1 + 1 + 1;

impl Wire for ChunkMap {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(MAP);
        out.put_u64_le(self.version);
        put_list(&self.nodes, MAX_MAP_NODES, out);
        put_list(&self.devices, MAX_MAP_DEVICES, out);
        out.put_u32_le(self.next_shard);
        put_list(&self.shards, MAX_MAP_SHARDS, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match input.u8("kind")? {
            MAP => Ok(ChunkMap {
                version: input.u64("map version")?,
                nodes: input.list("nodes", (LEAST_NODE_BYTES, MAX_MAP_NODES), Wire::take)?,
                devices: input.list("devices", (DEVICE_BYTES, MAX_MAP_DEVICES), Wire::take)?,
                next_shard: input.u32("next_shard")?,
                shards: input.list("shards", (LEAST_SHARD_BYTES, MAX_MAP_SHARDS), Wire::take)?,
            }),
            found => Err(input.unknown("kind", found)),
        }
    }
}

impl Wire for NodePlace {
    fn put(&self, out: &mut BytesMut) {
        self.id.put(out);
        out.put_slice(&self.identity.0);
        put_address(&self.address, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (id, identity) = (NodeId::take(input)?, NodeIdentity(input.array("identity")?));
        Ok(NodePlace { id, identity, address: take_address(input)? })
    }
}

/// A device and its node.
impl Wire for (DeviceId, NodeId) {
    fn put(&self, out: &mut BytesMut) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        Ok((DeviceId::take(input)?, NodeId::take(input)?))
    }
}

impl Wire for ShardPlace {
    fn put(&self, out: &mut BytesMut) {
        self.shard.put(out);
        put_flag(self.is_open, out);
        put_nodes(&self.members, out);
        put_nodes(&self.hosts, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (shard, is_open) = (ShardId::take(input)?, input.flag("is_open")?);
        Ok(ShardPlace { shard, is_open, members: take_nodes(input, "members")?, hosts: take_nodes(input, "hosts")? })
    }
}

fn put_nodes(nodes: &[NodeId], out: &mut BytesMut) {
    assert!(nodes.len() <= MAX_SHARD_NODES, "{} nodes of one shard", nodes.len());
    out.put_u8(nodes.len() as u8);
    nodes.iter().for_each(|node| node.put(out));
}

fn take_nodes(input: &mut Input<'_>, field: &'static str) -> Result<Vec<NodeId>, WireError> {
    let at = input.offset();
    let count = usize::from(input.u8(field)?);
    input.check(at, field, count, MAX_SHARD_NODES)?;
    (0..count).map(|_| NodeId::take(input)).collect()
}
