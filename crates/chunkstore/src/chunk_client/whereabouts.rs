//! What hosts, unit and nodes say of a chunk, for people who want to see it.

use std::sync::Arc;

use bytes::Bytes;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::NodeId;

use super::{ChunkClient, ChunkError};
use crate::message::{Found, Located, NodeAnswer, NodeRequest, ToNode};
use crate::protocol::{ChunkMap, HostAnswer, HostRequest, UnitAnswer, UnitRequest};

/// Everything that is known of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// What each lookup host says; none for one that does not answer.
    pub hosts: Vec<(NodeId, Option<Located>)>,
    /// What the unit knows.
    pub unit: Found,
    /// The copies, where the unit says that they are.
    pub copies: Vec<CopySeen>,
}

/// A copy, as its node describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySeen {
    pub place: BlockPlace,
    pub node: Option<NodeId>,
    /// None if the node does not answer.
    pub answer: Option<NodeAnswer>,
}

impl ChunkClient {
    /// Asks all that know something of a chunk.
    pub async fn locate(&self, id: ChunkId) -> Result<Whereabouts, ChunkError> {
        self.know_shard(id).await?;
        let map = self.ways.map();
        let mut hosts = Vec::new();
        for host in map.shard(id.shard).map(|shard| shard.hosts.clone()).unwrap_or_default() {
            hosts.push((host, self.ask_host(host, id).await));
        }
        let found = self.ways.ask_unit(id.shard, &UnitRequest::Find(id)).await;
        let Some(UnitAnswer::Found(unit)) = found else { return Err(ChunkError::Unavailable) };
        let Some(places) = unit.places() else { return Ok(Whereabouts { hosts, unit, copies: Vec::new() }) };
        let mut copies = Vec::new();
        for place in places.iter() {
            let node = map.node_of(place.device()).map(|node| node.id);
            copies.push(CopySeen { place, node, answer: self.describe(id, place).await });
        }
        Ok(Whereabouts { hosts, unit, copies })
    }

    /// Where the copies of a chunk are, as its unit says; none if it does not answer, or knows no such chunk.
    pub async fn places(&self, id: ChunkId) -> Option<ChunkPlaces> {
        match self.ways.ask_unit(id.shard, &UnitRequest::Find(id)).await? {
            UnitAnswer::Found(found) => found.places(),
            _ => None,
        }
    }

    /// The content of a copy whose place is known, from its node and without a lookup: what a client does whose places are computed. Another copy may
    /// be newer.
    pub async fn read_at(&self, id: ChunkId, place: BlockPlace) -> Option<Bytes> {
        let read = ToNode { place, id, request: NodeRequest::Read };
        match self.ways.ask_node(read).await? {
            NodeAnswer::Live(copy) => copy.content,
            _ => None,
        }
    }

    /// Asks where everything is, and says it.
    pub async fn look_around(&self) -> Arc<ChunkMap> {
        self.ways.reach.refresh().await;
        self.ways.map()
    }

    async fn ask_host(&self, host: NodeId, id: ChunkId) -> Option<Located> {
        match self.ways.ask_host(host, &HostRequest::Locate(id)).await? {
            HostAnswer::Located(located) => Some(located),
            _ => None,
        }
    }

    async fn describe(&self, id: ChunkId, place: BlockPlace) -> Option<NodeAnswer> {
        let query = ToNode { place, id, request: NodeRequest::Query };
        self.ways.ask_node(query).await
    }
}
