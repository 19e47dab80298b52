//! The lookup units of a node as a service: updates from leaders, and requests of clients that are forwarded to the node with the block.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use format::chunk_id::{ChunkId, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::{LookupUpdate, Stream};
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;

use crate::breakers::Breakers;
use crate::limits::FORWARD_PATIENCE;
use crate::lookup::{LookupHost, Received};
use crate::message::{Located, NodeRequest, ToNode};
use crate::protocol::{BLOCKS, BlockRequest, HostAnswer, HostRequest, NodePlace, ReplyTo, SnapshotPiece};
use crate::reach::Reach;
use crate::wire;

/// A node's lookup units.
pub struct HostService {
    env: Env,
    reach: Arc<dyn Reach>,
    /// Of the nodes with the blocks.
    breakers: Breakers,
    host: Mutex<LookupHost>,
    gathering: Mutex<BTreeMap<ShardId, Gathered>>,
}

/// The pieces of a snapshot so far.
struct Gathered {
    stream: Stream,
    number: u64,
    bytes: Vec<u8>,
}

impl HostService {
    pub fn new(env: &Env, reach: Arc<dyn Reach>) -> HostService {
        let (host, gathering) = (Mutex::new(LookupHost::new()), Mutex::default());
        HostService { env: env.clone(), reach, breakers: Breakers::new(env), host, gathering }
    }

    /// What the leader of a shard's unit is told now and then.
    pub fn report(&self, shard: ShardId) -> Received {
        self.host.lock().report(shard)
    }

    /// Lets the shards go that are others' now.
    pub fn keep_only(&self, is_own: impl Fn(ShardId) -> bool) {
        self.gathering.lock().retain(|shard, _| is_own(*shard));
        let mut host = self.host.lock();
        let others: Vec<ShardId> = host.shards().filter(|shard| !is_own(*shard)).collect();
        others.into_iter().for_each(|shard| host.drop_shard(shard));
    }

    async fn carry_out(&self, request: HostRequest) -> Result<HostAnswer, Refusal> {
        match request {
            HostRequest::Update(update) => self.receive(&update),
            HostRequest::Piece(piece) => self.gather(piece),
            HostRequest::Locate(id) => Ok(HostAnswer::Located(self.host.lock().locate(id))),
            HostRequest::Route { id, has_content, reply } => Ok(self.route(id, has_content, reply).await),
        }
    }

    fn receive(&self, update: &LookupUpdate) -> Result<HostAnswer, Refusal> {
        let shard = update.stream.shard;
        match self.host.lock().receive(update) {
            Ok(received) => Ok(HostAnswer::Received(received)),
            Err(error) => {
                tracing::warn!(%error, "a lookup update can't be used: a snapshot is asked for");
                Ok(HostAnswer::Received(Received::NeedsSnapshot(shard)))
            }
        }
    }

    fn gather(&self, piece: SnapshotPiece) -> Result<HostAnswer, Refusal> {
        let SnapshotPiece { stream, number, total_bytes, offset, bytes } = piece;
        let mut gathering = self.gathering.lock();
        let gathered = gathering.entry(stream.shard).or_insert(Gathered { stream, number, bytes: Vec::new() });
        if offset == 0 {
            *gathered = Gathered { stream, number, bytes: Vec::new() };
        }
        let follows = (gathered.stream, gathered.number, gathered.bytes.len()) == (stream, number, offset as usize);
        if !follows {
            gathering.remove(&stream.shard);
            return Ok(HostAnswer::Received(Received::NeedsSnapshot(stream.shard)));
        }
        gathered.bytes.extend_from_slice(&bytes);
        if gathered.bytes.len() < total_bytes as usize {
            return Ok(HostAnswer::Gathering);
        }
        let whole = gathering.remove(&stream.shard).map(|gathered| gathered.bytes).unwrap_or_default();
        drop(gathering);
        let update = LookupUpdate::decode(&whole).map_err(Refusal::new)?;
        self.receive(&update)
    }

    async fn route(&self, id: ChunkId, has_content: bool, reply: ReplyTo) -> HostAnswer {
        let Located::At(places) = self.host.lock().locate(id) else { return HostAnswer::NotRouted };
        let map = self.reach.map();
        let nodes = in_turn(places, self.env.random_u64()).filter_map(|place| Some((place, map.node_of(place.device())?)));
        let (last, first): (Vec<_>, Vec<_>) = nodes.partition(|(_, node)| self.breakers.is_open(node.id));
        let request = if has_content { NodeRequest::Read } else { NodeRequest::Query };
        for (place, node) in first.into_iter().chain(last) {
            let to = ToNode { place, id, request: request.clone() };
            let forwarded = BlockRequest::Forwarded { to, places, reply: reply.clone() };
            if self.breakers.watch(node.id, self.forward(node, &forwarded)).await.is_some() {
                return HostAnswer::Forwarded;
            }
        }
        HostAnswer::NotRouted
    }

    /// None if the node does not take it.
    async fn forward(&self, node: &NodePlace, request: &BlockRequest) -> Option<()> {
        let caller = self.reach.to_node(node, BLOCKS);
        caller.call(wire::encode(request), self.env.now() + FORWARD_PATIENCE).await.ok().map(|_| ())
    }
}

/// All places, beginning with one of chance: copies share the readers.
fn in_turn(places: ChunkPlaces, chance: u64) -> impl Iterator<Item = BlockPlace> {
    let count = places.as_slice().len();
    let first = (chance % count as u64) as usize;
    (0..count).map(move |at| places.as_slice()[(first + at) % count])
}

impl Service for HostService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let request = wire::decode(&request.payload).map_err(Refusal::new)?;
            Ok(wire::encode(&self.carry_out(request).await?))
        })
    }
}

#[cfg(test)]
mod tests;
