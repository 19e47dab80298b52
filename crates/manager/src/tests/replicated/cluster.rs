//! A cluster of managers in one thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use consensus::{BASE_BYTES, LogPlace, Node, NodeId, Peer, SimulatedTransport, TaggedTransport, Transport};
use disk::{SimDisk, SimOptions};
use env::{Env, Instant};
use net::{BoxFuture, Refusal, Request, Router, Service, ServiceTag};
use parking_lot::Mutex;
use wal::RegionStore;

use crate::manager::Backing;
use crate::replicated::Replicated;
use crate::{MANAGER_GROUP, Manager, ReplicatedOptions, Snapshot};

const SEGMENT_BYTES: u64 = 2 << 20;
const SEGMENTS: usize = 32;

/// A machine with a disk, and perhaps a manager that runs on it.
struct Host {
    disk: SimDisk,
    running: Option<(Node, Manager)>,
}

pub(crate) struct Cluster {
    pub(crate) env: Env,
    pub(crate) network: SimulatedTransport,
    hosts: BTreeMap<NodeId, Host>,
}

pub(crate) fn peer(id: NodeId) -> Peer {
    Peer { node: id, address: format!("node-{id}") }
}

pub(crate) fn new_place(env: &Env) -> LogPlace {
    place_on(&new_disk(env))
}

fn new_disk(env: &Env) -> SimDisk {
    let size_bytes = BASE_BYTES + SEGMENT_BYTES * SEGMENTS as u64;
    SimDisk::new(env, SimOptions { size_bytes, seed: env.random_u64(), ..SimOptions::default() })
}

fn place_on(disk: &SimDisk) -> LogPlace {
    let disk = Arc::new(disk.clone());
    let store = RegionStore::new(disk.clone(), BASE_BYTES, SEGMENT_BYTES, SEGMENTS);
    LogPlace::new(Arc::new(store), disk, SEGMENTS)
}

/// A replicated manager with one member.
pub(crate) async fn single_member(env: &Env) -> Manager {
    let mut cluster = Cluster::new(env, 1);
    cluster.start(NodeId(1)).await;
    cluster.form(1).await;
    cluster.manager(NodeId(1)).clone()
}

/// Requests in connections that have died: their bytes are on the way, and nobody waits for answers.
pub(crate) struct HeldBack {
    there: Arc<dyn Service>,
    held: Mutex<Vec<Bytes>>,
    is_over: AtomicBool,
}

impl HeldBack {
    /// What comes from now on gets there, and what was held back has not yet.
    pub(crate) fn ends(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// What was held back gets there. How much that was.
    pub(crate) async fn deliver(&self, deadline: Instant) -> usize {
        let held = std::mem::take(&mut *self.held.lock());
        for payload in &held {
            self.there.handle(Request { payload: payload.clone(), deadline }).await.unwrap();
        }
        held.len()
    }
}

impl Service for HeldBack {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        if self.is_over.load(Ordering::SeqCst) {
            return self.there.handle(request);
        }
        self.held.lock().push(request.payload);
        Box::pin(std::future::pending())
    }
}

impl Cluster {
    /// Hosts 1 to `count`, none of them running.
    pub(crate) fn new(env: &Env, count: u64) -> Cluster {
        let hosts = (1..=count).map(|id| (NodeId(id), Host { disk: new_disk(env), running: None }));
        Cluster { env: env.clone(), network: SimulatedTransport::new(env), hosts: hosts.collect() }
    }

    /// Three members, and a leader.
    pub(crate) async fn of_three(env: &Env) -> Cluster {
        let mut cluster = Cluster::new(env, 3);
        cluster.start_all().await;
        cluster.form(3).await;
        cluster.leader().await;
        cluster
    }

    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.hosts.keys().copied().collect()
    }

    pub(crate) fn manager(&self, id: NodeId) -> &Manager {
        &self.hosts[&id].running.as_ref().expect("a running host").1
    }

    pub(crate) fn managers(&self) -> Vec<Manager> {
        self.hosts.values().filter_map(|host| host.running.as_ref()).map(|(_, manager)| manager.clone()).collect()
    }

    pub(crate) fn replicated(&self, id: NodeId) -> Arc<Replicated> {
        match &self.manager(id).inner.backing {
            Backing::Replicated(replicated) => Arc::clone(replicated),
            Backing::Alone(_) => unreachable!("all managers of the cluster are replicated"),
        }
    }

    pub(crate) async fn start_all(&mut self) {
        for id in self.ids() {
            self.start(id).await;
        }
    }

    pub(crate) async fn start(&mut self, id: NodeId) {
        let elapsed = self.env.simulation().expect("a simulated environment").elapsed();
        let env = Env::simulated_after(self.env.random_u64(), elapsed);
        let port = self.network.port(id);
        let to = |tag| -> Arc<dyn Transport> { Arc::new(TaggedTransport::new(Arc::clone(&port), tag)) };
        let host = self.hosts.get_mut(&id).expect("a host");
        let node = Node::open(&env, id, &place_on(&host.disk), to(ServiceTag::CONSENSUS)).await.unwrap();
        let options = ReplicatedOptions { group: MANAGER_GROUP, transport: to(ServiceTag::MANAGER) };
        let manager = Manager::open_replicated(&env, &node, options).await.unwrap();
        let router = Router::new().with(ServiceTag::CONSENSUS, node.service()).with(ServiceTag::MANAGER, manager.service());
        self.network.plug_in(id, Arc::new(router));
        host.running = Some((node, manager));
    }

    /// From now on what members ask this one's manager does not get there.
    pub(crate) fn hold_back(&self, id: NodeId) -> Arc<HeldBack> {
        let (node, manager) = self.hosts[&id].running.as_ref().expect("a running host");
        let held_back =
            Arc::new(HeldBack { there: manager.service(), held: Mutex::default(), is_over: AtomicBool::new(false) });
        let router = Router::new().with(ServiceTag::CONSENSUS, node.service());
        self.network.plug_in(id, Arc::new(router.with(ServiceTag::MANAGER, Arc::clone(&held_back) as Arc<dyn Service>)));
        held_back
    }

    /// The power of a host goes: what was not durable is lost.
    pub(crate) async fn crash(&mut self, id: NodeId) {
        self.network.unplug(id);
        let host = self.hosts.get_mut(&id).expect("a host");
        host.disk.power_cut();
        if let Some((node, _)) = host.running.take() {
            node.shut_down().await;
        }
        host.disk = host.disk.restart();
    }

    pub(crate) async fn form(&self, count: u64) {
        let members = (1..=count).map(|id| (NodeId(id), peer(NodeId(id)).address)).collect();
        self.manager(NodeId(1)).form(&members).await.unwrap();
    }

    /// Waits for a leader whom a quorum confirms.
    pub(crate) async fn leader(&self) -> NodeId {
        for _ in 0..600 {
            for (id, host) in &self.hosts {
                let Some((_, manager)) = &host.running else { continue };
                if manager.is_leader() && manager.fresh().await.is_ok() && manager.is_leader() {
                    return *id;
                }
            }
            self.env.sleep(Duration::from_millis(50)).await;
        }
        panic!("no leader");
    }

    /// A member that does not lead.
    pub(crate) async fn follower(&self) -> NodeId {
        let leader = self.leader().await;
        self.ids().into_iter().find(|id| *id != leader).expect("a second member")
    }

    /// Waits until all running members have applied the same and returns that state.
    pub(crate) async fn settled(&self) -> Snapshot {
        for _ in 0..600 {
            let states: Vec<Arc<Snapshot>> = self.managers().iter().map(Manager::snapshot).collect();
            if states.iter().all(|state| *state == states[0]) {
                return Snapshot::clone(&states[0]);
            }
            self.env.sleep(Duration::from_millis(50)).await;
        }
        panic!("members differ");
    }

    pub(crate) async fn shut_down(&mut self) {
        for host in self.hosts.values_mut() {
            if let Some((node, _)) = host.running.take() {
                node.shut_down().await;
            }
        }
    }
}
