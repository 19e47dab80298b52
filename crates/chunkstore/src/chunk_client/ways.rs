//! A client's ways to units, lookup hosts and nodes.

use std::sync::Arc;

use env::Env;
use format::chunk_id::ShardId;
use types::NodeId;

use crate::asking::{ask_block, ask_host};
use crate::breakers::Breakers;
use crate::limits::{CLIENT_PATIENCE, CLIENT_UNIT_PATIENCE, MAX_AVOIDED};
use crate::look_around::LookAround;
use crate::message::{NodeAnswer, ToNode};
use crate::protocol::{ChunkMap, HostAnswer, HostRequest, UnitAnswer, UnitRequest};
use crate::reach::Reach;
use crate::unit_ways::UnitWays;

/// All calls of a client go these ways.
pub(super) struct Ways {
    env: Env,
    pub reach: Arc<dyn Reach>,
    look_around: LookAround,
    units: UnitWays,
    /// Of nodes with blocks, and of lookup hosts.
    breakers: Breakers,
}

impl Ways {
    pub fn new(env: &Env, reach: Arc<dyn Reach>) -> Ways {
        let (look_around, units) = (LookAround::new(env, reach.clone()), UnitWays::new(env, reach.clone()));
        Ways { env: env.clone(), reach, look_around, units, breakers: Breakers::new(env) }
    }

    pub fn map(&self) -> Arc<ChunkMap> {
        self.reach.map()
    }

    /// None if nobody who leads the unit answers.
    pub async fn ask_unit(&self, shard: ShardId, request: &UnitRequest) -> Option<UnitAnswer> {
        self.units.ask(shard, request, self.env.now() + CLIENT_UNIT_PATIENCE).await
    }

    /// None if the node does not answer.
    pub async fn ask_node(&self, to: ToNode) -> Option<NodeAnswer> {
        let node = self.map().node_of(to.place.device())?.id;
        self.breakers.watch(node, ask_block(&self.env, &*self.reach, to, CLIENT_PATIENCE)).await
    }

    /// None if the host does not answer.
    pub async fn ask_host(&self, host: NodeId, request: &HostRequest) -> Option<HostAnswer> {
        self.breakers.watch(host, ask_host(&self.env, &*self.reach, host, request, CLIENT_PATIENCE)).await
    }

    /// Has one of a shard's hosts forward a request: that of this number, or one after it. Whether one did.
    pub async fn route(&self, shard: ShardId, number: u32, request: &HostRequest) -> bool {
        let map = self.map();
        let hosts = map.shard(shard).map_or(&[][..], |place| &place.hosts);
        let in_turn = hosts.iter().cycle().skip(number as usize % hosts.len().max(1)).take(hosts.len());
        let (last, first): (Vec<NodeId>, Vec<NodeId>) = in_turn.partition(|host| self.breakers.is_open(**host));
        for host in first.into_iter().chain(last) {
            if let Some(answer) = self.ask_host(host, request).await {
                return answer == HostAnswer::Forwarded;
            }
        }
        false
    }

    /// Something is not where the map says: the map may be old.
    pub async fn look_around(&self) {
        self.look_around.look().await;
    }

    /// Nodes that copies had better not go to.
    pub fn silent_nodes(&self) -> Vec<NodeId> {
        let mut silent = self.breakers.open_nodes();
        silent.truncate(MAX_AVOIDED);
        silent
    }
}
