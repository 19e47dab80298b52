//! The units that this node is a member of, and what is asked of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use consensus::{Group, GroupId, MemberError, Node};
use env::Env;
use format::chunk_id::ShardId;
use manager::{Manager, ShardRecord, Snapshot};
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use types::NodeId;

use super::machine::UnitMachine;
use super::member::{Shares, UnitMember};
use crate::limits::START_REST;
use crate::monitor::opening::Opening;
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::reach::Reach;
use crate::settings::ChunkSettings;
use crate::wire;

/// The group of shard 0; the manager's and others have lower numbers.
const FIRST_UNIT_GROUP: u64 = 1 << 32;

/// A node's units.
pub struct Units {
    pub(super) env: Env,
    me: NodeId,
    member: Node,
    manager: Arc<Manager>,
    reach: Arc<dyn Reach>,
    units: Mutex<BTreeMap<ShardId, Arc<UnitMember>>>,
    settings: ChunkSettings,
    shares: Shares,
    /// Whether the open shard's is there.
    _opening: Arc<Opening>,
    /// This node is no part of the cluster any more: what its manager says has no effect.
    pub(super) has_left: AtomicBool,
    /// Of whoever starts and ends units as the manager says.
    pub(super) following: Semaphore,
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
        let (env, units, has_left) = (env.clone(), Mutex::default(), AtomicBool::new(false));
        let (shares, following) = (Shares::default(), Semaphore::new(1));
        Units { env, me, member, manager, reach, units, settings, shares, _opening, has_left, following }
    }

    /// Starts the units that the manager says this node is a member of, and ends the others. Called after every change there; what fails is tried again.
    pub async fn follow(&self, state: &Snapshot) {
        let mut changes = self.manager.changes();
        let mut have_started = self.follow_once(state).await;
        while !have_started {
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { return },
                () = self.env.sleep(START_REST) => {}
            }
            have_started = self.follow_once(&self.manager.snapshot()).await;
        }
    }

    /// Whether all have started.
    async fn follow_once(&self, state: &Snapshot) -> bool {
        // Before it is looked at: who leaves waits for this.
        let _following = self.following.acquire().await.expect("the semaphore is never closed");
        let has_left = || self.has_left.load(Ordering::SeqCst);
        if has_left() {
            return true;
        }
        let wanted: BTreeSet<ShardId> =
            state.shards().filter(|shard| shard.members.contains(&self.me)).map(|shard| ShardId(shard.id)).collect();
        let running: BTreeSet<ShardId> = self.units.lock().keys().copied().collect();
        for shard in running.difference(&wanted).filter(|_| !has_left()) {
            self.end(*shard).await;
        }
        let mut have_started = true;
        for shard in wanted.difference(&running).filter(|_| !has_left()) {
            if let Err(error) = self.start(*shard, state).await {
                tracing::warn!(shard = shard.0, %error, "a maintenance unit did not start here");
                have_started = false;
            }
        }
        have_started
    }

    pub(super) async fn end(&self, shard: ShardId) {
        self.units.lock().remove(&shard);
        self.member.stop_group(group_of(shard)).await;
    }

    async fn start(&self, shard: ShardId, state: &Snapshot) -> Result<(), consensus::StartError> {
        let Some(record) = state.shard(shard.0) else { return Ok(()) };
        let group = self.member.start_group(group_of(shard), UnitMachine::new(shard, record.capacity)).await?;
        if record.founders.contains(&self.me) && group.status().addresses.is_empty() {
            self.found(record, &group, state).await;
        }
        let unit = UnitMember::start(
            &self.env,
            shard,
            group,
            self.manager.clone(),
            self.reach.clone(),
            self.settings,
            self.shares.clone(),
        );
        self.units.lock().insert(shard, unit);
        Ok(())
    }

    /// Begins the group with the members that it is to begin with, and no others: all who do this do the same, so that it does not matter who is
    /// first, or that the record has other members by now.
    async fn found(&self, record: &ShardRecord, group: &Group<UnitMachine>, state: &Snapshot) {
        let member = |node: &NodeId| {
            let node = state.node(*node)?;
            Some((consensus::NodeId::of_identity(&node.identity.0), node.address.clone()))
        };
        let Some(founders) = record.founders.iter().map(member).collect::<Option<_>>() else { return };
        match group.initialize(&founders).await {
            Ok(()) | Err(MemberError::Initialized { .. }) => {}
            Err(error) => tracing::warn!(shard = record.id, %error, "a maintenance unit has no members yet"),
        }
    }

    /// How many units this node leads, and of how many it is a member.
    pub fn counts(&self) -> (usize, usize) {
        let units = self.units.lock();
        (units.values().filter(|unit| unit.is_leading()).count(), units.len())
    }

    /// Rows in memory of the units that this node leads, and the chunks that these have.
    pub fn rows(&self) -> (u64, u64) {
        self.led().iter().map(|unit| unit.rows()).fold((0, 0), |(here, chunks), unit| (here + unit.0, chunks + unit.1))
    }

    /// Chunks of the units that this node leads with fewer copies than are wanted.
    pub fn short_chunks(&self) -> u64 {
        self.led().iter().map(|unit| unit.short_chunks()).sum()
    }

    pub(super) fn all(&self) -> Vec<Arc<UnitMember>> {
        self.units.lock().values().cloned().collect()
    }

    fn led(&self) -> Vec<Arc<UnitMember>> {
        self.all().into_iter().filter(|unit| unit.is_leading()).collect()
    }

    pub fn unit(&self, shard: ShardId) -> Option<Arc<UnitMember>> {
        self.units.lock().get(&shard).cloned()
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

fn group_of(shard: ShardId) -> GroupId {
    GroupId(FIRST_UNIT_GROUP + u64::from(shard.0))
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
