//! A node's part of the volume engine, among its subsystems.

use std::sync::Arc;

use ::engine::ObjectEngine;
use device::{Volume, VolumeOwner};
use manager::Snapshot;
use net::{BoxFuture, Caller, Service, ServiceTag};
use subsystem::{Figure, Loss, Silent, Starter, StatusLine, Subsystem, Surroundings, Task};
use types::{DeviceId, NodeId};

use crate::block_service::BlockService;
use crate::desk::QuestionService;
use crate::gateway::Gateway;
use crate::interface::VolumeEngine;
use crate::keeper::keep;
use crate::limits::{GROUP_COPIES, OPEN_PAUSE};
use crate::members::{Members, MessageService, Ways, is_region};
use crate::place::Place;
use crate::store::{Founding, Store, StoreStats};

/// Begins a node's part.
pub struct ObjectsStarter;

/// A node's objects of volume buckets: those of a server of its own, or its part of the cluster's.
pub struct Objects {
    store: Store,
    place: Place,
    me: NodeId,
    silent: Silent,
    devices: Vec<Volume>,
}

impl Objects {
    /// `store`: of this server alone. `devices`: what a member of groups keeps its copies on.
    pub(crate) fn new(store: Store, place: Place, me: NodeId, silent: Silent, devices: Vec<Volume>) -> Objects {
        Objects { store, place, me, silent, devices }
    }

    #[cfg(test)]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    #[cfg(test)]
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The engine of S3 buckets.
    pub fn engine(&self) -> Arc<dyn ObjectEngine> {
        Arc::new(Gateway::new(VolumeEngine::overwriting(self.store.clone()), self.place.clone(), false))
    }

    /// The engine of strict buckets.
    pub fn strict_engine(&self) -> Arc<dyn ObjectEngine> {
        Arc::new(Gateway::new(VolumeEngine::strict(self.store.clone()), self.place.clone(), true))
    }

    /// Counts of the store of this server, and of each group that is served here.
    fn stores(&self) -> impl Fn() -> Vec<StoreStats> + Send + Sync + 'static {
        let (lone, place) = (self.store.clone(), self.place.clone());
        move || {
            let offices = place.members().map(|members| members.groups()).unwrap_or_default();
            let offices = offices.iter().filter_map(|group| place.office(group.number));
            std::iter::once(lone.stats()).chain(offices.map(|office| office.store.stats())).collect()
        }
    }

    /// Takes part in groups, as soon as one names this node.
    async fn take_part(&self) {
        let (manager, env) = (self.place.manager(), self.place.env());
        let mut changes = manager.changes();
        let is_named = || manager.snapshot().placements().any(|record| record.members().any(|node| node == self.me));
        let mut has_region = is_region(&self.devices).await;
        while !has_region && !is_named() {
            if changes.changed().await.is_err() {
                return;
            }
            has_region = false;
        }
        let members = loop {
            let (ways, devices) = (self.place.ways().clone(), self.devices.clone());
            match Members::open(env, self.me, manager.clone(), ways, devices).await {
                Ok(members) => break members,
                Err(error) => tracing::error!(error, "this node can't take part in placement groups of volume buckets"),
            }
            env.sleep(OPEN_PAUSE).await;
        };
        self.place.set_members(members.clone());
        members.run().await;
    }
}

impl Starter for ObjectsStarter {
    fn start(self: Box<Self>, around: Surroundings) -> BoxFuture<'static, Result<Arc<dyn Subsystem>, String>> {
        Box::pin(async move {
            let devices: Vec<Volume> = around.devices.iter().map(|device| device.volume(VolumeOwner::Objects)).collect();
            let there: Vec<DeviceId> = around.devices.iter().map(|device| device.id()).collect();
            let (manager, me) = (around.manager.clone(), around.me);
            let founding = Founding {
                check: Box::new({
                    let manager = manager.clone();
                    move || may_found(&manager.snapshot(), &there)
                }),
                claim: Box::new(move || {
                    let manager = manager.clone();
                    Box::pin(async move { manager.claim_lone_store(me).await.map_err(|error| error.to_string()) })
                }),
            };
            // What a member of groups has on its devices is no store of its own.
            let volumes = if is_region(&devices).await { Vec::new() } else { devices.clone() };
            let store = Store::open(&around.env, volumes, founding).await;
            let place = Place::new(&around.env, me, around.manager.clone(), ways(&around));
            Ok(Arc::new(Objects::new(store, place, me, around.silent, devices)) as Arc<dyn Subsystem>)
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

/// Whether a store that is not on this node's devices is nowhere else.
fn may_found(state: &Snapshot, there: &[DeviceId]) -> Result<(), String> {
    if state.nodes().count() > 1 {
        return Err("this cluster has several nodes: its objects of volume buckets are in placement groups".to_owned());
    }
    let missing = state.devices().find(|device| !there.contains(&device.id));
    missing.map_or(Ok(()), |device| {
        Err(format!("device {} ({}) is missing, and objects of volume buckets may be on it: attach it", device.id, device.path))
    })
}

impl Objects {
    /// Refuses a loss after which a placement group has no whole copy.
    fn check_copies_elsewhere(&self, loss: &Loss) -> Result<(), String> {
        let state = self.place.manager().snapshot();
        let keeps_own = self.devices.iter().any(|device| !loss.devices.contains(&device.device()));
        let uses = |device: &&DeviceId| self.place.members().is_some_and(|members| members.uses(**device));
        if let Some(device) = loss.devices.iter().find(uses).filter(|_| keeps_own) {
            return Err(format!(
                "copies of volume buckets are on device {device} of this node: remove the node; {} gives them up",
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
    ("log_live_segments", "Segments of the log that are needed", |stats| stats.log_live_segments),
];

impl Subsystem for Objects {
    fn name(&self) -> &'static str {
        "volume-engine"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        let place = || self.place.clone();
        vec![
            (ServiceTag::OBJECT_MESSAGES, Arc::new(MessageService(place()))),
            (ServiceTag::OBJECT_BLOCKS, Arc::new(BlockService(place()))),
            (ServiceTag::OBJECTS, Arc::new(QuestionService(place()))),
        ]
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        let (lone, member, keeper) = (self.clone(), self.clone(), self);
        vec![
            Box::pin(async move { lone.store.maintain().await }),
            Box::pin(async move { member.take_part().await }),
            Box::pin(async move { keep(keeper.place.clone(), keeper.silent.clone()).await }),
        ]
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            self.check_copies_elsewhere(loss)?;
            match loss.devices.iter().any(|device| self.store.needs_device(*device)) {
                false => Ok(()),
                true => Err(format!(
                    "objects of volume buckets, or their names, are on {} alone. Copy these buckets elsewhere and remove them; {} gives them up",
                    loss.whose, loss.all_the_same
                )),
            }
        })
    }

    fn close_device(&self, _: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(members) = self.place.members() {
                members.close().await;
            }
            self.store.close().await;
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
        COUNTERS.iter().map(counter).chain(GAUGES.iter().map(gauge)).collect()
    }

    fn status(&self) -> Vec<StatusLine> {
        let line = |text| vec![StatusLine { label: "volumes".to_owned(), text }];
        let stats = self.stores()();
        let sum = |pick: Pick| stats.iter().map(pick).sum::<u64>();
        let (objects, used_bytes) = (sum(|stats| stats.objects), sum(|stats| stats.used_bytes));
        let state = self.place.manager().snapshot();
        let all = state.placements().count();
        if all > 0 {
            let is_whole = |record: &&Arc<manager::PlacementRecord>| record.is_active && record.voters.len() >= GROUP_COPIES;
            let whole = state.placements().filter(is_whole).count();
            return line(format!(
                "{whole} placement groups of {all} have {GROUP_COPIES} copies; this node leads {} with {objects} objects of volume buckets, {used_bytes} bytes of blocks",
                stats.len() - 1
            ));
        }
        match objects == 0 && used_bytes == 0 {
            true => Vec::new(),
            false => line(format!("{objects} objects of volume buckets, {used_bytes} bytes of blocks")),
        }
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
mod tests {
    use env::Env;
    use manager::Manager;
    use types::DeviceUuid;

    use super::{may_found, test_node};

    #[tokio::test]
    async fn a_store_is_founded_where_nothing_can_be_elsewhere() {
        let manager = Manager::open_in_memory(&Env::simulated(1)).await.expect("a manager in memory");
        let device = manager.add_device(DeviceUuid([1; 16]), "disk", 1 << 30).await.expect("adds");
        assert_eq!(may_found(&manager.snapshot(), &[device.id]), Ok(()));
        let refused = may_found(&manager.snapshot(), &[]).expect_err("its device is missing");
        assert!(refused.contains("is missing"), "{refused}");
        for number in 1..=2 {
            assert_eq!(may_found(&manager.snapshot(), &[device.id]), Ok(()), "one node at most");
            manager.register_node(test_node(number)).await.expect("registers");
        }
        let refused = may_found(&manager.snapshot(), &[device.id]).expect_err("another node has it");
        assert!(refused.contains("several nodes"), "{refused}");
    }
}
