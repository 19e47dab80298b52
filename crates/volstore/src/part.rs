//! A node's part of the volume engine, among its subsystems.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::engine::{ObjectEngine, ObjectKey};
use device::{Volume, VolumeOwner};
use env::Env;
use futures_util::future::join_all;
use manager::Manager;
use net::{BoxFuture, Caller, Service, ServiceTag};
use subsystem::{Figure, Loss, Silent, Starter, StatusLine, Subsystem, Surroundings, Task};
use types::{DeviceId, NodeId};

use crate::block_service::BlockService;
use crate::desk::QuestionService;
use crate::gateway::Gateway;
use crate::keeper::keep;
use crate::limits::{GROUP_COPIES, SETTLE_PATIENCE, SHAPE, Shape};
use crate::members::{Members, MessageService, Ways};
use crate::name::Name;
use crate::place::Place;
use crate::store::StoreStats;

/// Begins a node's part.
pub struct ObjectsStarter;

/// A node's part of the placement groups that have the objects of volume buckets.
pub struct Objects {
    place: Place,
    me: NodeId,
    silent: Silent,
    /// What copies stand on.
    devices: Vec<Volume>,
    shape: Shape,
}

/// What a program that measures the engine puts around a node.
pub struct Around {
    /// The way to a service of another node; none if no such node is known.
    pub ways: Ways,
    /// Nodes that are not heard.
    pub silent: Silent,
    /// The log of a group takes one part in so many of what it takes on a server, before its names are written.
    pub log_divisor: usize,
}

impl Around {
    /// No other node.
    pub fn nothing() -> Around {
        Around { ways: Arc::new(|_, _| None), silent: Arc::new(BTreeSet::new), log_divisor: 1 }
    }
}

impl Objects {
    pub(crate) fn new(place: Place, me: NodeId, silent: Silent, devices: Vec<Volume>, shape: Shape) -> Objects {
        Objects { place, me, silent, devices, shape }
    }

    /// Serves the groups of a node that has no others around it, for as long as its process runs: for programs that look at the engine by itself.
    pub fn serve_alone(env: &Env, manager: Arc<Manager>, me: NodeId, devices: Vec<Volume>) -> Arc<Objects> {
        Objects::serve(env, manager, me, devices, Around::nothing())
    }

    /// The same with what is around the node.
    pub fn serve(env: &Env, manager: Arc<Manager>, me: NodeId, devices: Vec<Volume>, around: Around) -> Arc<Objects> {
        let Around { ways, silent, log_divisor } = around;
        let place = Place::new(env, me, manager, ways);
        let objects = Arc::new(Objects::new(place, me, silent, devices, SHAPE.with_logs_divided_by(log_divisor)));
        for task in objects.clone().tasks() {
            drop(env.spawn(task));
        }
        objects
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The engine of S3 buckets.
    pub fn engine(&self) -> Arc<dyn ObjectEngine> {
        Arc::new(Gateway::new(self.place.clone(), false))
    }

    /// The engine of strict buckets.
    pub fn strict_engine(&self) -> Arc<dyn ObjectEngine> {
        Arc::new(Gateway::new(self.place.clone(), true))
    }

    /// The placement group of an object.
    pub fn group_of(key: &ObjectKey) -> u32 {
        Place::group_of(&Name::of(key))
    }

    /// What other nodes of the groups ask this one.
    pub fn services_for_others(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        let place = || self.place.clone();
        vec![
            (ServiceTag::OBJECT_MESSAGES, Arc::new(MessageService(place()))),
            (ServiceTag::OBJECT_BLOCKS, Arc::new(BlockService(place()))),
            (ServiceTag::OBJECTS, Arc::new(QuestionService(place()))),
        ]
    }

    /// Counts of each group that is served here now.
    pub fn stats(&self) -> Vec<StoreStats> {
        self.stores()()
    }

    /// Counts of each group that is served here.
    fn stores(&self) -> impl Fn() -> Vec<StoreStats> + Send + Sync + 'static {
        let place = self.place.clone();
        move || {
            let groups = place.members().map(|members| members.groups()).unwrap_or_default();
            groups.iter().filter_map(|group| Some(group.office()?.store.stats())).collect()
        }
    }

    /// What the journals of this node's devices have done.
    fn journal_figures(&self) -> [Figure; 2] {
        let counted = |pick: fn((u64, u64)) -> u64| {
            let place = self.place.clone();
            move || {
                let journals = place.members().map(|members| members.journals()).unwrap_or_default();
                journals.iter().map(|journal| pick(journal.counts())).sum()
            }
        };
        let (journaled, placed) =
            ("Small writes that shared durable writes of a journal", "Writes by which these went to their places");
        [
            Figure::counter("trilith_volume_engine_journaled_writes_total".to_owned(), journaled, counted(|counts| counts.0)),
            Figure::counter("trilith_volume_engine_placed_writes_total".to_owned(), placed, counted(|counts| counts.1)),
        ]
    }

    /// Takes part in groups, as soon as one names this node.
    async fn take_part(&self) {
        let (manager, env) = (self.place.manager(), self.place.env());
        let mut changes = manager.changes();
        let is_named = || manager.snapshot().placements().any(|record| record.members().any(|node| node == self.me));
        while !is_named() {
            if changes.changed().await.is_err() {
                return;
            }
        }
        let (ways, devices) = (self.place.ways().clone(), self.devices.clone());
        let members = Members::open(env, self.me, manager.clone(), ways, devices, self.shape).await;
        self.place.set_members(members.clone());
        members.run().await;
    }
}

/// Offices hold the members that hold them. When no task of the node is left, the devices are to be let go.
impl Drop for Objects {
    fn drop(&mut self) {
        if let Some(members) = self.place.members() {
            members.end_offices();
        }
    }
}

impl Starter for ObjectsStarter {
    fn start(self: Box<Self>, around: Surroundings) -> BoxFuture<'static, Result<Arc<dyn Subsystem>, String>> {
        Box::pin(async move {
            let devices: Vec<Volume> = around.devices.iter().map(|device| device.volume(VolumeOwner::Objects)).collect();
            let me = around.me;
            let place = Place::new(&around.env, me, around.manager.clone(), ways(&around));
            Ok(Arc::new(Objects::new(place, me, around.silent, devices, SHAPE)) as Arc<dyn Subsystem>)
        })
    }
}

fn ways(around: &Surroundings) -> Ways {
    let (manager, callers) = (around.manager.clone(), around.callers.clone());
    Arc::new(move |node, tag| {
        let record = manager.snapshot().node(node).cloned()?;
        Some(callers.to_node(&record, tag) as Arc<dyn Caller>)
    })
}

impl Objects {
    /// Refuses a loss after which a placement group has no whole copy, or a member that stays has lost its own.
    fn check_copies_elsewhere(&self, loss: &Loss) -> Result<(), String> {
        let state = self.place.manager().snapshot();
        let keeps_own = self.devices.iter().any(|device| !loss.devices.contains(&device.device()));
        let uses = |device: &&DeviceId| self.place.members().is_some_and(|members| members.uses(**device));
        if let Some(device) = loss.devices.iter().find(uses).filter(|_| keeps_own) {
            return Err(format!(
                "objects of volume buckets are on device {device}. Remove the node, if other nodes have them too, or copy these buckets elsewhere and remove them; {} gives them up",
                loss.all_the_same
            ));
        }
        let hit: Vec<NodeId> = loss.devices.iter().filter_map(|device| state.device(*device)?.node).collect();
        let is_last = |record: &Arc<manager::PlacementRecord>| {
            record.active().is_some_and(|active| active.voters.iter().all(|node| hit.contains(node)))
        };
        match state.placements().find(|record| is_last(record)) {
            None => Ok(()),
            Some(record) => Err(format!(
                "the last whole copies of placement group {} of volume buckets are on {}: wait until other nodes have it; {} gives it up",
                record.group, loss.whose, loss.all_the_same
            )),
        }
    }
}

type Pick = fn(&StoreStats) -> u64;

/// Name between `trilith_volume_engine_` and `_total`, help, and which count.
const COUNTERS: &[(&str, &str, Pick)] = &[
    ("mutations", "Mutations of volume buckets", |stats| stats.mutations),
    ("written_bytes", "Bytes of content that were written, in whole blocks", |stats| stats.written_bytes),
    ("reads", "Reads of pieces of content", |stats| stats.reads),
    ("read_bytes", "Bytes of those reads", |stats| stats.read_bytes),
    ("damaged_reads", "Reads whose bytes did not match their sums", |stats| stats.damaged),
    ("dumps", "Dumps of the names", |stats| stats.dumps),
    ("dump_bytes", "Bytes of those dumps", |stats| stats.dump_bytes),
    ("revoked", "Mutations whose content the last start has not found", |stats| stats.revoked),
];

const GAUGES: &[(&str, &str, Pick)] = &[
    ("objects", "Objects of volume buckets", |stats| stats.objects),
    ("used_bytes", "Bytes of blocks that have an owner", |stats| stats.used_bytes),
    ("limbo_bytes", "Bytes of those blocks that will be free", |stats| stats.limbo_bytes),
];

impl Subsystem for Objects {
    fn name(&self) -> &'static str {
        "volume-engine"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        self.services_for_others()
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        let (member, keeper) = (self.clone(), self);
        vec![
            Box::pin(async move { member.take_part().await }),
            Box::pin(async move { keep(keeper.place.clone(), keeper.silent.clone()).await }),
        ]
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { self.check_copies_elsewhere(loss) })
    }

    /// All that was written is noted as settled. Other nodes take the groups over when they miss this one.
    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(members) = self.place.members() else { return };
            let offices = members.groups().into_iter().filter_map(|group| group.office());
            let settled = async {
                join_all(offices.map(|office| async move { office.store.maintain_now().await })).await;
                join_all(members.journals().iter().map(|journal| journal.close())).await
            };
            tokio::select! {
                biased;
                _ = settled => {}
                () = self.place.env().sleep(SETTLE_PATIENCE) => tracing::warn!("what was put into volume buckets last is not noted as settled in time"),
            }
        })
    }

    fn close_device(&self, device: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(members) = self.place.members() {
                members.close(device).await;
            }
        })
    }

    fn figures(&self) -> Vec<Figure> {
        let counter = |(name, help, pick): &(&str, &'static str, Pick)| {
            let (stores, pick) = (self.stores(), *pick);
            Figure::counter(format!("trilith_volume_engine_{name}_total"), help, move || stores().iter().map(pick).sum())
        };
        let gauge = |(name, help, pick): &(&str, &'static str, Pick)| {
            let (stores, pick) = (self.stores(), *pick);
            Figure::gauge(format!("trilith_volume_engine_{name}"), help, move || stores().iter().map(pick).sum::<u64>() as f64)
        };
        COUNTERS.iter().map(counter).chain(GAUGES.iter().map(gauge)).chain(self.journal_figures()).collect()
    }

    fn status(&self) -> Vec<StatusLine> {
        let state = self.place.manager().snapshot();
        let all = state.placements().count();
        if all == 0 {
            return Vec::new();
        }
        let stats = self.stats();
        let sum = |pick: Pick| stats.iter().map(pick).sum::<u64>();
        let (objects, used_bytes) = (sum(|stats| stats.objects), sum(|stats| stats.used_bytes));
        let copies = state.nodes().count().clamp(1, GROUP_COPIES);
        let is_whole = |record: &&Arc<manager::PlacementRecord>| record.is_active && record.voters.len() >= copies;
        let (whole, leads) = (state.placements().filter(is_whole).count(), stats.len());
        let text = format!(
            "{whole} placement groups of {all} have {copies} {}; this node leads {leads} with {objects} objects of volume buckets, {used_bytes} bytes of blocks",
            if copies == 1 { "copy" } else { "copies" }
        );
        vec![StatusLine { label: "volumes".to_owned(), text }]
    }
}

/// A node as tests register it.
#[cfg(test)]
pub(crate) fn test_node(number: u8) -> manager::RegisterNode {
    let text = |port: u16| format!("127.0.0.{number}:{port}");
    manager::RegisterNode {
        identity: types::NodeIdentity([number; 16]),
        name: format!("n{number}"),
        address: text(9002),
        admin_address: text(9001),
        s3_address: text(9000),
        host: String::new(),
        rack: String::new(),
        zone: String::new(),
        version: "1".to_owned(),
        joined_ms: 1,
    }
}

#[cfg(test)]
mod tests;
