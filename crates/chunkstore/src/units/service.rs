//! The units that this node is a member of, and what is asked of them.

use std::sync::Arc;

use bytes::Bytes;
use consensus::Node;
use env::Env;
use format::chunk_id::ShardId;
use groups::{Host, Kind, Named, Placed};
use manager::{GroupKind, Manager, Snapshot};
use net::{BoxFuture, Refusal, Request, Service};
use types::NodeId;

use super::machine::UnitMachine;
use super::member::{Shares, UnitMember};
use crate::monitor::opening::Opening;
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::reach::Reach;
use crate::settings::ChunkSettings;
use crate::wire;

/// A node's units.
pub struct Units {
    host: Arc<Host<UnitKind>>,
    /// Whether the open shard's is there.
    _opening: Arc<Opening>,
}

/// Maintenance units among the placed groups.
struct UnitKind {
    env: Env,
    reach: Arc<dyn Reach>,
    settings: ChunkSettings,
    shares: Shares,
}

impl Kind for UnitKind {
    type Member = UnitMember;

    const KIND: GroupKind = GroupKind::CHUNK_UNITS;

    fn machine(&self, shard: u32, state: &Snapshot) -> Option<UnitMachine> {
        Some(UnitMachine::new(ShardId(shard), state.shard(shard)?.capacity))
    }

    fn begin(&self, placed: Arc<Placed<UnitMachine>>) -> Arc<UnitMember> {
        UnitMember::start(&self.env, placed, self.reach.clone(), self.settings, self.shares.clone())
    }
}

impl Units {
    pub fn new(
        env: &Env,
        me: NodeId,
        member: Node,
        manager: Arc<Manager>,
        reach: Arc<dyn Reach>,
        settings: ChunkSettings,
    ) -> Units {
        let _opening = Opening::begin(env, manager.clone(), reach.clone());
        let kind = UnitKind { env: env.clone(), reach, settings, shares: Shares::default() };
        Units { host: Arc::new(Host::new(env, me, member, manager, kind)), _opening }
    }

    /// Takes part in the units that the manager says, for as long as the node lives.
    pub async fn run(&self) {
        self.host.clone().run().await;
    }

    /// Ends this node's part in its units, for good; returns when it has none. `look` asks another node which nodes the members are to be.
    pub async fn leave(&self, look: impl Fn() -> BoxFuture<'static, Option<Named>>) {
        self.host.leave(look).await;
    }

    /// Lets other members lead the units that this node leads.
    pub async fn stop_leading(&self) {
        self.host.stop_leading().await;
    }

    /// How many units this node leads, and of how many it is a member.
    pub fn counts(&self) -> (usize, usize) {
        (self.led().len(), self.host.all().len())
    }

    /// Rows in memory of the units that this node leads, and the chunks that these have.
    pub fn rows(&self) -> (u64, u64) {
        self.led().iter().map(|unit| unit.rows()).fold((0, 0), |(here, chunks), unit| (here + unit.0, chunks + unit.1))
    }

    /// Chunks of the units that this node leads with fewer copies than are wanted.
    pub fn short_chunks(&self) -> u64 {
        self.led().iter().map(|unit| unit.short_chunks()).sum()
    }

    fn led(&self) -> Vec<Arc<UnitMember>> {
        self.host.all().into_iter().filter(|unit| unit.is_leading()).collect()
    }

    pub fn unit(&self, shard: ShardId) -> Option<Arc<UnitMember>> {
        self.host.get(shard.0)
    }

    async fn carry_out(&self, request: UnitRequest) -> UnitAnswer {
        match self.unit(shard_of(&request)) {
            Some(unit) => unit.answer(request).await,
            None => UnitAnswer::NotLeader(None),
        }
    }
}

impl Service for Units {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let request = wire::decode(&request.payload).map_err(Refusal::new)?;
            Ok(wire::encode(&self.carry_out(request).await))
        })
    }
}

fn shard_of(request: &UnitRequest) -> ShardId {
    match request {
        UnitRequest::Register { shard, .. } | UnitRequest::LastCopies { shard, .. } => *shard,
        UnitRequest::Commit(id) | UnitRequest::Revoke(id) | UnitRequest::Find(id) | UnitRequest::Relocate { id, .. } => {
            id.shard
        }
        UnitRequest::Report(report) => report.shard,
        UnitRequest::Suspect(copy) => copy.id.shard,
    }
}
