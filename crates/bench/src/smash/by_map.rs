//! Gets as a system without lookups makes them: the client computes the nodes of a chunk from its id and asks one of them itself.
//!
//! Such a node finds the block in an index of its own, in memory. The chunk store's nodes have none, so the client remembers the blocks in its
//! stead: what is measured is the least that such a get can take.

use anyhow::{Context, ensure};
use bytes::Bytes;
use chunkstore::chunk_client::ChunkClient;
use chunkstore::placement::{Cluster, Load, Made, Node, Placer, PlacerChoice, Request};
use chunkstore::protocol::ChunkMap;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use std::collections::BTreeMap;
use std::sync::Arc;
use topology::{Branch, Level};
use types::NodeId;

/// Every node weighs the same.
const BLOCKS: u32 = 1024;

/// The map of a cluster, and the places of chunks.
pub struct ByMap {
    map: Arc<ChunkMap>,
    cluster: Cluster,
    placer: Box<dyn Placer + Send + Sync>,
    places: BTreeMap<ChunkId, ChunkPlaces>,
    /// Chunks whose copies are where they are computed to be, and all others.
    pub agree: u64,
    pub differ: u64,
}

impl ByMap {
    /// Of a cluster that places so, without chunks.
    pub fn new(placer: &str, map: Arc<ChunkMap>) -> anyhow::Result<ByMap> {
        let cluster = cluster_of(&map)?;
        let choice: PlacerChoice = placer.parse()?;
        let placer = choice.over(&cluster).context("the nodes are too few for the placer")?;
        Ok(ByMap { map, cluster, placer, places: BTreeMap::new(), agree: 0, differ: 0 })
    }

    /// Remembers a chunk's blocks.
    pub async fn learn(&mut self, client: &ChunkClient, id: ChunkId) -> anyhow::Result<()> {
        let places = client.places(id).await.with_context(|| format!("nobody knows chunk {id}"))?;
        let computed = self.nodes(id, places.as_slice().len())?;
        let is_there = |node: &NodeId| self.place_on(&places, *node).is_some();
        match computed.iter().all(is_there) {
            true => self.agree += 1,
            false => self.differ += 1,
        }
        self.places.insert(id, places);
        Ok(())
    }

    /// Where the map says that a chunk is.
    pub fn nodes(&self, id: ChunkId, copies: usize) -> anyhow::Result<Vec<NodeId>> {
        let made = Made(u64::from(id.shard.0));
        let request = Request { copies, apart: Level::Host, has: &[], writer: None, chunk: id.nonce.0, made };
        self.placer.place(&self.cluster, &request, &mut || 0).map_err(|error| anyhow::anyhow!("by the map: {error}"))
    }

    fn place_on(&self, places: &ChunkPlaces, node: NodeId) -> Option<BlockPlace> {
        places.iter().find(|place| self.map.node_of(place.device()).is_some_and(|found| found.id == node))
    }

    /// The content of the chunk's copy on the node of this turn.
    pub async fn get(&self, client: &ChunkClient, id: ChunkId, turn: usize) -> anyhow::Result<Bytes> {
        let places = self.places.get(&id).context("a chunk whose blocks are remembered")?;
        let nodes = self.nodes(id, places.as_slice().len())?;
        ensure!(!nodes.is_empty(), "a chunk without nodes");
        let place = self.place_on(places, nodes[turn % nodes.len()]).unwrap_or(places.as_slice()[0]);
        client.read_at(id, place).await.with_context(|| format!("the copy of chunk {id} at device {}", place.device()))
    }
}

/// The nodes that have devices, as a unit's leader sees them: every node is a host of its own, whose number is the node's, and all are in the first
/// one's rack.
fn cluster_of(map: &ChunkMap) -> anyhow::Result<Cluster> {
    let first = map.nodes.iter().map(|node| node.id.0).min().context("a cluster without nodes")?;
    let has_device = |id: NodeId| map.devices.iter().any(|(_, of)| *of == id);
    let node = |id: NodeId| {
        let branch = Branch { zone: first, pod: 0, rack: first, host: id.0 };
        Node { id, branch, load: Load::empty(BLOCKS), is_up: true }
    };
    let nodes = map.nodes.iter().map(|place| place.id).filter(|id| has_device(*id)).map(node);
    Ok(Cluster::new(nodes.collect())?)
}
