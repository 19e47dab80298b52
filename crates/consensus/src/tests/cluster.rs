//! A cluster in one thread, on simulated disks and a simulated network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use disk::{SimDisk, SimOptions};
use env::Env;
use kv::{Kv, MemoryKv};
use wal::{MIN_TAIL_BYTES, RegionStore, SegmentStore, SimTail};

use super::store::{Command, Store};
use crate::error::{OpenError, ProposeError};
use crate::group::Group;
use crate::id::{GroupId, NodeId};
use crate::log::{BASE_BYTES, LogPlace};
use crate::node::Node;
use crate::transport::{SimulatedTransport, Transport};

pub(super) const SEGMENT_BYTES: u64 = 2 << 20;
pub(super) const SEGMENTS: usize = 16;
pub(super) const GROUP: GroupId = GroupId(1);

/// A machine with a disk, and perhaps a node that runs on it.
pub(super) struct Host {
    pub(super) id: NodeId,
    pub(super) disk: SimDisk,
    /// Where its log's segments come from, if not from all of the disk.
    pub(super) store: Option<Arc<dyn SegmentStore>>,
    /// Beside its log.
    pub(super) rows: Arc<MemoryKv>,
    /// Of its log.
    pub(super) tail: SimTail,
    pub(super) node: Option<Node>,
    pub(super) groups: BTreeMap<GroupId, Group<Store>>,
    starts: u64,
}

pub(super) struct Cluster {
    pub(super) env: Env,
    pub(super) network: SimulatedTransport,
    pub(super) hosts: Vec<Host>,
    segments: usize,
    /// Whether states are kept as rows.
    pub(super) keeps_rows: bool,
    /// As many of them as a node may use.
    pub(super) most_segments: usize,
    pub(super) favoured: Option<GroupId>,
}

pub(super) fn address(node: NodeId) -> String {
    format!("node-{node}")
}

/// The disk of one host: the base, then the segments, so that one power cut hits both.
pub(super) fn new_disk(env: &Env, segments: usize) -> SimDisk {
    let size_bytes = BASE_BYTES + SEGMENT_BYTES * segments as u64;
    SimDisk::new(env, SimOptions { size_bytes, seed: env.random_u64(), ..SimOptions::default() })
}

pub(super) fn place_on(disk: &SimDisk, segments: usize) -> LogPlace {
    let disk = Arc::new(disk.clone());
    let store = RegionStore::new(disk.clone(), BASE_BYTES, SEGMENT_BYTES, segments);
    LogPlace::new(Arc::new(store), disk, segments)
}

impl Cluster {
    /// Hosts 1 to `count`, none of them running.
    pub(super) fn new(env: &Env, count: u64, segments: usize) -> Cluster {
        let host = |id| {
            let disk = new_disk(env, segments);
            let (rows, tail) = (Arc::default(), SimTail::new(MIN_TAIL_BYTES));
            Host { id: NodeId(id), disk, store: None, rows, tail, node: None, groups: BTreeMap::new(), starts: 0 }
        };
        let hosts = (1..=count).map(host).collect();
        Cluster {
            env: env.clone(),
            network: SimulatedTransport::new(env),
            hosts,
            segments,
            keeps_rows: false,
            most_segments: segments,
            favoured: None,
        }
    }

    /// A cluster of three with one group, and a leader.
    pub(super) async fn of_three(env: &Env) -> Cluster {
        Cluster::of(env, 3).await
    }

    /// A cluster of so many with one group, and a leader.
    pub(super) async fn of(env: &Env, nodes: u64) -> Cluster {
        Cluster::keeping(env, nodes, false).await
    }

    pub(super) async fn keeping(env: &Env, nodes: u64, keeps_rows: bool) -> Cluster {
        let mut cluster = Cluster { keeps_rows, ..Cluster::new(env, nodes, SEGMENTS) };
        cluster.start_all(&[GROUP]).await;
        cluster.initialize(GROUP, nodes).await;
        cluster.leader(GROUP).await;
        cluster
    }

    pub(super) fn host(&self, id: NodeId) -> &Host {
        &self.hosts[id.0 as usize - 1]
    }

    pub(super) fn host_mut(&mut self, id: NodeId) -> &mut Host {
        &mut self.hosts[id.0 as usize - 1]
    }

    pub(super) fn group(&self, id: NodeId, group: GroupId) -> &Group<Store> {
        &self.host(id).groups[&group]
    }

    pub(super) async fn start_all(&mut self, groups: &[GroupId]) {
        for id in self.ids() {
            self.start(id, groups).await.unwrap();
        }
    }

    pub(super) fn ids(&self) -> Vec<NodeId> {
        self.hosts.iter().map(|host| host.id).collect()
    }

    /// Starts a node with the groups that its log knows, and these.
    pub(super) async fn start(&mut self, id: NodeId, groups: &[GroupId]) -> Result<(), OpenError> {
        self.open(id).await?;
        let first = if self.keeps_rows { Store::of_rows } else { Store::default };
        let host = self.host_mut(id);
        let node = host.node.clone().unwrap();
        let mut all: BTreeSet<GroupId> = node.known_groups().into_iter().collect();
        all.extend(groups);
        for group in all {
            let started = node.start_group(group, first()).await.unwrap();
            host.groups.insert(group, started);
        }
        self.network.plug_in(id, node.service());
        Ok(())
    }

    /// Why the group does not start on a node, if so.
    pub(super) async fn try_start(&mut self, id: NodeId) -> Result<(), String> {
        self.open(id).await.unwrap();
        let node = self.host(id).node.clone().unwrap();
        node.start_group(GROUP, Store::of_rows()).await.map(drop).map_err(|error| error.to_string())
    }

    async fn open(&mut self, id: NodeId) -> Result<(), OpenError> {
        let (segments, most_segments, favoured) = (self.segments, self.most_segments, self.favoured);
        let port: Arc<dyn Transport> = self.network.port(id);
        let seed = self.env.random_u64();
        let elapsed = self.env.simulation().map(|simulation| simulation.elapsed());
        let env = elapsed.map_or_else(|| self.env.clone(), |elapsed| Env::simulated_after(seed, elapsed));
        let host = self.host_mut(id);
        host.starts += 1;
        let rows: Arc<dyn Kv> = host.rows.clone();
        let tail = Some(Arc::new(host.tail.clone()) as Arc<dyn wal::Tail>);
        let mut place = LogPlace { favoured, most_segments, rows, tail, ..place_on(&host.disk, segments) };
        place.segments = host.store.clone().unwrap_or(place.segments);
        host.node = Some(Node::open(&env, id, &place, port).await?);
        Ok(())
    }

    /// The power of a host goes: what was not durable is lost.
    pub(super) async fn crash(&mut self, id: NodeId) {
        self.network.unplug(id);
        let (kept, env) = (self.env.random_below(4) as usize, self.env.clone());
        let host = self.host_mut(id);
        host.disk.power_cut();
        if let Some(node) = host.node.take() {
            node.shut_down().await;
        }
        host.groups.clear();
        host.disk = host.disk.restart();
        host.tail = host.tail.crash(&env);
        host.rows = Arc::new(host.rows.crash_keeping(kept));
    }

    /// The process of a host is killed: what it has written is there.
    pub(super) async fn kill(&mut self, id: NodeId) {
        self.network.unplug(id);
        let host = self.host_mut(id);
        host.disk = host.disk.restart();
        host.tail = host.tail.restart();
        host.rows = Arc::new(host.rows.crash_keeping(usize::MAX));
        if let Some(node) = host.node.take() {
            node.shut_down().await;
        }
        host.groups.clear();
    }

    pub(super) async fn initialize(&self, group: GroupId, count: u64) {
        let members = (1..=count).map(|id| (NodeId(id), address(NodeId(id)))).collect();
        self.group(NodeId(1), group).initialize(&members).await.unwrap();
    }

    /// Waits for a leader that a quorum confirms.
    pub(super) async fn leader(&self, group: GroupId) -> NodeId {
        for _ in 0..300 {
            for host in self.hosts.iter().filter(|host| host.node.is_some()) {
                let Some(member) = host.groups.get(&group) else { continue };
                if member.status().is_leader && member.read(crate::ReadMode::Confirmed, |_| ()).await.is_ok() {
                    return host.id;
                }
            }
            self.env.sleep(Duration::from_millis(50)).await;
        }
        panic!("group {group} has no leader");
    }

    /// Proposes at whoever leads, again and again until it is done. The command may be carried out more than once.
    pub(super) async fn propose(&self, group: GroupId, command: &Command) {
        let mut last = None;
        for _ in 0..300 {
            let leader = self.leader(group).await;
            match self.group(leader, group).propose(command).await {
                Ok(_) => return,
                Err(ProposeError::Length { found }) => panic!("a command of {found} bytes"),
                Err(error) => last = Some(error),
            }
            self.env.sleep(Duration::from_millis(50)).await;
        }
        panic!("nobody took a command: {last:?}");
    }

    /// Waits until all running members of a group have applied the same and returns that state.
    pub(super) async fn settled(&self, group: GroupId) -> Store {
        for _ in 0..600 {
            let running = self.hosts.iter().filter_map(|host| host.groups.get(&group));
            let states: Vec<Store> = running.map(|member| member.look(Store::clone)).collect();
            if states.iter().all(|state| *state == states[0]) {
                return states[0].clone();
            }
            self.env.sleep(Duration::from_millis(50)).await;
        }
        panic!("members of group {group} differ");
    }

    pub(super) async fn shut_down(&mut self) {
        for host in &mut self.hosts {
            if let Some(node) = host.node.take() {
                node.shut_down().await;
            }
        }
    }
}
