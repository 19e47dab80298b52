//! The start of an open node: its targets, its subsystems, their services and tasks.

use crate::CELL;
use crate::device_way::Ways;
use crate::error::NodeError;
use crate::log_engine::LogEngine;
use crate::node::{Ending, Inner, Node, OpenNode};
use crate::notes::Notes;
use crate::placed::Having;
use crate::remove::RemovalService;
use crate::roles::Role;
use crate::settle::{DrainSlot, SettleService};
use device::Device;
use groups::MapService;
use logstore::LogStoreConfig;
use manager::{ManagerError, RegisterNode};
use net::BoxFuture;
use net::{Router, Service, ServiceTag};
use parking_lot::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use subsystem::{Starter, Subsystem, Surroundings};
use target::{Begin, Target, TargetService};
use topology::LeaseTerms;
use types::Generation;

impl OpenNode {
    /// Serves these devices and runs a gateway, as far as its roles go, and the subsystems of these starters.
    pub fn start(
        self,
        devices: Vec<Arc<Device>>,
        config: LogStoreConfig,
        starters: Vec<Box<dyn Starter>>,
    ) -> BoxFuture<'static, Result<Node, NodeError>> {
        Box::pin(async move {
            assert!(devices.is_empty() || self.roles.has(Role::Target), "devices are a target's");
            let targets = self.open_targets(&devices).await?;
            if self.manager.snapshot().cell(CELL).is_none() {
                match self.manager.create_cell(CELL, Generation(0)).await {
                    Ok(()) | Err(ManagerError::Refused(_)) => {}
                    Err(error) => return Err(NodeError::State(error.to_string())),
                }
            }
            let started = self.start_subsystems(&devices, starters).await?;
            let inner = self.inner(targets, devices.clone(), config, started);
            let weak = || -> Weak<Inner> { Arc::downgrade(&inner) };
            let own: [(ServiceTag, Arc<dyn Service>); 3] = [
                (ServiceTag::GROUPS, Arc::new(MapService(self.manager.clone()))),
                (ServiceTag::SETTLINGS, Arc::new(SettleService(weak()))),
                (ServiceTag::REMOVALS, Arc::new(RemovalService::new(weak()))),
            ];
            let all = own.into_iter().chain(inner.subsystems.iter().flat_map(|subsystem| subsystem.services()));
            let router = all.fold(Router::new(), |router, (tag, service)| router.with(tag, service));
            assert!(self.services.0.set(router).is_ok(), "a node starts once");
            devices.iter().for_each(|device| self.told.haves.note(device.uuid(), Having::Serves));
            let OpenNode { env, register, roles, member, id, mut tasks, .. } = self;
            let RegisterNode { identity, name, address, .. } = register;
            tasks.extend([
                Ending(env.spawn(inner.notes.clone().keep(env.clone()))),
                Ending(env.spawn(inner.clone().ping_others())),
                Ending(env.spawn(inner.clone().watch_disks())),
                Ending(env.spawn(inner.clone().send_heartbeats())),
                Ending(env.spawn(inner.clone().forget_replaced())),
                Ending(env.spawn(inner.clone().end_with_manager())),
                Ending(env.spawn(inner.clone().notice_removal(identity, address.clone()))),
            ]);
            let of_subsystems = inner.subsystems.iter().flat_map(|subsystem| subsystem.clone().tasks());
            tasks.extend(of_subsystems.map(|task| Ending(env.spawn(task))));
            let runs: Vec<_> = inner.subsystems.iter().map(|subsystem| subsystem.name()).collect();
            tracing::info!(node = id.0, name, address, %roles, ?runs, "the node takes part in its cluster");
            Ok(Node { inner, member, tasks: Mutex::new(tasks) })
        })
    }

    /// Tells the manager that these devices are here, and opens their targets.
    async fn open_targets(&self, devices: &[Arc<Device>]) -> Result<Vec<Arc<Target>>, NodeError> {
        let mut targets = Vec::new();
        for device in devices.iter().cloned() {
            let record = self.manager.snapshot().device(device.id()).cloned();
            if record.is_none_or(|record| record.node != Some(self.id)) {
                let placed = self.manager.place_device(device.id(), Some(self.id)).await;
                placed.map_err(|error| NodeError::State(error.to_string()))?;
            }
            targets.push(Arc::new(Target::open(device, &self.env, Begin::WithFences).await?));
        }
        Ok(targets)
    }

    /// The subsystems of these starters.
    async fn start_subsystems(
        &self,
        devices: &[Arc<Device>],
        starters: Vec<Box<dyn Starter>>,
    ) -> Result<Vec<Arc<dyn Subsystem>>, NodeError> {
        let vitals = self.vitals.clone();
        let around = Surroundings {
            env: self.env.clone(),
            me: self.id,
            address: self.register.address.clone(),
            member: self.member.clone(),
            manager: self.manager.clone(),
            callers: self.callers.clone(),
            silent: Arc::new(move || vitals.get().silent_nodes),
            devices: devices.to_vec(),
        };
        let mut started = Vec::new();
        for starter in starters {
            started.push(starter.start(around.clone()).await.map_err(NodeError::State)?);
        }
        Ok(started)
    }

    /// The node's state, with the log engine before the other subsystems.
    fn inner(
        &self,
        targets: Vec<Arc<Target>>,
        devices: Vec<Arc<Device>>,
        config: LogStoreConfig,
        started: Vec<Arc<dyn Subsystem>>,
    ) -> Arc<Inner> {
        let OpenNode { env, manager, callers, .. } = self;
        Arc::new_cyclic(|weak| {
            let service = TargetService::new(env, targets.clone());
            let log_engine: Arc<dyn Subsystem> = Arc::new(LogEngine::new(weak.clone(), self.roles.clone(), service));
            Inner {
                env: env.clone(),
                id: self.id,
                ways: Ways::new(env, manager, callers),
                callers: callers.clone(),
                manager: manager.clone(),
                targets,
                engine: Arc::default(),
                vitals: self.vitals.clone(),
                lease_terms: LeaseTerms::default(),
                notes: Notes::new(manager.clone(), devices),
                is_sole: self.is_sole,
                config,
                drain: DrainSlot::default(),
                subsystems: std::iter::once(log_engine).chain(started).collect(),
                is_leaving: AtomicBool::new(false),
                was_removed: AtomicBool::new(false),
                repair_left: self.told.repair_left.clone(),
            }
        })
    }
}
