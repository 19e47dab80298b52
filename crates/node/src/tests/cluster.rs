//! Three nodes, their disks and the network between them.

use crate::{Node, NodeOptions, Role, Roles};
use chunkstore::ChunkStarter;
use consensus::{BASE_BYTES, LogPlace};
use device::{Device, DeviceConfig, DeviceStats, FormatOptions};
use disk::{Disk, DiskStats, Fault, FaultOdds, FaultRule, Operation, SimDisk, SimOptions};
use engine::ObjectEngine;
use env::Env;
use format::superblock::FIRST_REGION_BYTE;
use logstore::LogStoreConfig;
use manager::RegisterNode;
use net::{Identity, Network, SimulatedNetwork};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;
use subsystem::Starter;
use types::{BucketId, CellId, ClusterId, NodeIdentity};
use wal::RegionStore;

pub const BUCKET: BucketId = BucketId(7);
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
const SEGMENTS: usize = 16;
const ZONE_BYTES: u64 = 1024 * 1024;
const ZONES: u64 = 48;
/// How long a cluster may take to serve at every node, on the simulated clock.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Cluster {
    pub env: Env,
    pub network: SimulatedNetwork,
    pub machines: Vec<Machine>,
}

/// Nodes by number; they end when their machine lets go of them.
pub type Slots = Mutex<Vec<Weak<Node>>>;

/// What survives a node's process.
pub struct Machine {
    number: usize,
    roles: Roles,
    log: SimDisk,
    data: SimDisk,
    pub node: Option<Arc<Node>>,
    device: Option<Arc<Device>>,
    /// Zones of the device that chunks can have, and their size; none: it takes no chunks.
    chunk_blocks: u32,
}

pub fn address(number: usize) -> String {
    format!("node-{number}:9002")
}

fn empty_disk(env: &Env, chunk_blocks: u32) -> SimDisk {
    let capacity_bytes = Some(capacity_bytes(chunk_blocks));
    SimDisk::new(env, SimOptions { capacity_bytes, seed: env.random_u64(), ..SimOptions::default() })
}

/// Larger where chunks are taken: a zone has a block then.
fn zone_bytes(chunk_blocks: u32) -> u64 {
    if chunk_blocks > 0 { 4 * 1024 * 1024 + 256 * 1024 } else { ZONE_BYTES }
}

fn capacity_bytes(chunk_blocks: u32) -> u64 {
    (ZONES + u64::from(chunk_blocks)) * zone_bytes(chunk_blocks) + 8 * 1024 * 1024
}

impl Machine {
    pub fn new(env: &Env, number: usize, roles: Roles) -> Machine {
        let size_bytes = BASE_BYTES + SEGMENT_BYTES * SEGMENTS as u64;
        let log = SimDisk::new(env, SimOptions { size_bytes, seed: env.random_u64(), ..SimOptions::default() });
        Machine { number, roles, log, data: empty_disk(env, 0), node: None, device: None, chunk_blocks: 0 }
    }

    /// Of the device's disk and of the one that holds the manager's log.
    pub fn disk_stats(&self) -> (DiskStats, DiskStats) {
        (self.data.stats(), self.log.stats())
    }

    pub fn device_stats(&self) -> &DeviceStats {
        self.device.as_ref().expect("the node runs").stats()
    }

    fn register(&self) -> RegisterNode {
        let name = format!("node-{}", self.number);
        RegisterNode {
            identity: NodeIdentity([self.number as u8 + 1; 16]),
            name: name.clone(),
            address: address(self.number),
            admin_address: String::new(),
            s3_address: String::new(),
            host: name,
            rack: String::new(),
            zone: String::new(),
            version: "test".to_owned(),
            joined_ms: 0,
        }
    }

    async fn start(&mut self, env: &Env, network: &SimulatedNetwork) {
        self.start_with(env, network, true).await;
    }

    /// What its node is opened with.
    pub fn options(&self, network: &SimulatedNetwork) -> NodeOptions {
        let base: Arc<SimDisk> = Arc::new(self.log.clone());
        let segments = Arc::new(RegionStore::new(base.clone(), BASE_BYTES, SEGMENT_BYTES, SEGMENTS));
        let via = if self.number == 0 { Vec::new() } else { vec![address(0)] };
        NodeOptions {
            network: Arc::new(network.at(&address(self.number))) as Arc<dyn Network>,
            identity: Identity { cluster: ClusterId([9; 16]), node: self.register().identity },
            log: LogPlace::new(segments, base, SEGMENTS),
            register: self.register(),
            roles: self.roles.clone(),
            via,
            is_sole: false,
            guests: None,
        }
    }

    /// `has_device`: whether it finds its device.
    async fn start_with(&mut self, env: &Env, network: &SimulatedNetwork, has_device: bool) {
        let options = self.options(network);
        let opened = tokio::time::timeout(PATIENCE, Node::open(env, options)).await.expect("a node opens").unwrap();
        let manager = opened.manager().clone();
        let until = env.now() + PATIENCE;
        while let Err(error) = manager.fresh().await {
            assert!(env.now() < until, "the manager is not to be had: {error}; {:?}", manager.replication());
        }
        let cluster = manager.ensure_cluster(format::FORMAT_VERSION).await.unwrap();
        let config = LogStoreConfig { checkpoint_entries: 60, ..LogStoreConfig::default() };
        if !self.roles.has(Role::Target) {
            self.node = Some(Arc::new(opened.start(Vec::new(), config, starters(self.chunk_blocks > 0)).await.unwrap()));
            return;
        }
        if self.data.size_bytes() == 0 {
            let record = manager.snapshot().next_device();
            let options = FormatOptions {
                cluster: cluster.id,
                device: record,
                cell: CellId(1),
                zone_bytes: Some(zone_bytes(self.chunk_blocks)),
                capacity_bytes: Some(capacity_bytes(self.chunk_blocks)),
                overwrite: false,
            };
            let uuid = Device::format(&self.data, env, &options).await.unwrap();
            let added = manager.add_device(uuid, "simulated", ZONES * ZONE_BYTES).await.unwrap();
            assert_eq!(added.id, record, "nodes start one after the other the first time");
        }
        let disk: Arc<dyn Disk> = Arc::new(self.data.clone());
        let device_config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
        let device = Arc::new(Device::open(disk, env, device_config).await.unwrap());
        self.device = Some(device.clone());
        let devices = if has_device { vec![device] } else { Vec::new() };
        self.node = Some(Arc::new(opened.start(devices, config, starters(self.chunk_blocks > 0)).await.unwrap()));
    }

    /// Another, empty disk is in the place of the machine's device.
    pub fn replace_disk(&mut self, env: &Env) {
        self.data = empty_disk(env, self.chunk_blocks);
    }

    /// The file system under the device's file takes no zone that was not written before, or as many as are wanted.
    pub fn limit_zones(&self, zones: Option<u64>) {
        self.data.set_space_limit(zones.map(|zones| FIRST_REGION_BYTE + zones * ZONE_BYTES));
    }

    /// Zones of the device that were ever written, counted to the last of them.
    pub fn zones_used(&self) -> u64 {
        let zones = self.device.as_ref().expect("the node runs").zones();
        zones.iter().rposition(|zone| zone.activation.0 > 0).map_or(0, |last| last as u64 + 1)
    }

    /// The next write to the machine's device fails, which is the end of it.
    pub fn fail_device(&self) {
        self.data.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    }

    /// The disk of the machine's device answers nothing until it is let go.
    pub fn hang_device(&self) {
        self.data.hang();
    }

    /// Nothing of the device is in the page cache any more, or will be.
    pub fn empty_page_cache(&self) {
        self.data.set_odds(FaultOdds { cache_miss: 1_000_000, ..FaultOdds::default() });
    }

    /// Returns how many requests it has held.
    pub fn let_device_go(&self) -> usize {
        self.data.let_go()
    }

    /// Writes to the machine's part of the manager's log fail from here on, which is the end of that.
    pub fn fail_log(&self) {
        self.log.add_rule(FaultRule::always_in(0..u64::MAX, Operation::Write, Fault::Fail));
    }

    pub fn device(&self) -> &Arc<Device> {
        self.device.as_ref().expect("the node runs")
    }

    /// The node is told to stop. What it does then, and when that has ended.
    pub fn close(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let (node, devices) = (self.node.take().expect("it runs"), Vec::from_iter(self.device.take()));
        async move { node.close(&devices).await }
    }

    /// The process dies; with it what its disks had not made durable, in part, if the power goes too.
    async fn die(&mut self, network: &SimulatedNetwork, power: bool) {
        network.cut(&address(self.number));
        self.device = None;
        if let Some(node) = self.node.take() {
            if power {
                self.log.power_cut();
                self.data.power_cut();
            }
            node.shut_down().await;
        }
        // Tasks that were told to end do so when they are next looked at.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let again = |disk: &SimDisk| if power { disk.crash() } else { disk.restart() };
        (self.log, self.data) = (again(&self.log), again(&self.data));
        network.mend(&address(self.number));
    }
}

async fn start_one(machine: &mut Machine, env: &Env, network: &SimulatedNetwork, without_device: &[usize]) {
    let has_device = !without_device.contains(&machine.number);
    machine.start_with(env, network, has_device).await;
}

impl Cluster {
    pub async fn start(seed: u64) -> Cluster {
        Cluster::start_with(seed, vec![Roles::all(); 3]).await
    }

    /// Nodes with these roles, by number.
    pub async fn start_with(seed: u64, roles: Vec<Roles>) -> Cluster {
        Cluster::start_with_chunks(seed, roles, 0).await
    }

    /// The same, with space for so many blocks of chunks on each device.
    pub async fn start_with_chunks(seed: u64, roles: Vec<Roles>, chunk_blocks: u32) -> Cluster {
        let env = Env::simulated(seed);
        let network = SimulatedNetwork::new(&env);
        let machines = roles.into_iter().enumerate().map(|(number, roles)| Machine::new(&env, number, roles)).collect();
        let mut cluster = Cluster { env, network, machines };
        for machine in &mut cluster.machines {
            if chunk_blocks > 0 {
                machine.chunk_blocks = chunk_blocks;
                machine.replace_disk(&cluster.env);
            }
            machine.start(&cluster.env, &cluster.network).await;
        }
        cluster.all_serve().await;
        cluster
    }

    pub async fn kill(&mut self, number: usize, power: bool) {
        self.machines[number].die(&self.network, power).await;
    }

    pub async fn restart(&mut self, number: usize) {
        self.machines[number].start(&self.env, &self.network).await;
    }

    /// Starts a node that does not find its device.
    pub async fn restart_without_device(&mut self, number: usize) {
        self.machines[number].start_with(&self.env, &self.network, false).await;
    }

    /// Starts several nodes that are down, together.
    pub async fn restart_all(&mut self, numbers: &[usize]) {
        self.restart_together(numbers, &[]).await;
    }

    /// As [`Cluster::restart_all`]; these don't find their devices.
    pub async fn restart_together(&mut self, numbers: &[usize], without_device: &[usize]) {
        let (env, network) = (&self.env, &self.network);
        let starting = self.machines.iter_mut().filter(|machine| numbers.contains(&machine.number));
        let starting: Vec<_> = starting.map(|machine| Box::pin(start_one(machine, env, network, without_device))).collect();
        let mut left = starting;
        // Polled together, on one task.
        std::future::poll_fn(|context| {
            left.retain_mut(|start| start.as_mut().poll(context).is_pending());
            if left.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// Two machines that are down change their disks.
    pub fn swap_disks(&mut self, one: usize, other: usize) {
        let (low, high) = self.machines.split_at_mut(one.max(other));
        std::mem::swap(&mut low[one.min(other)].data, &mut high[0].data);
    }

    /// The nodes that clients use.
    pub fn slots(&self) -> Slots {
        let node = |machine: &Machine| machine.node.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Mutex::new(self.machines.iter().map(node).collect())
    }

    /// Lets clients use the nodes that run now.
    pub fn follow(&self, slots: &Slots) {
        *slots.lock() = self.slots().into_inner();
    }

    /// The engines of the nodes that run.
    pub fn engines(&self) -> Vec<Arc<dyn ObjectEngine>> {
        self.machines.iter().filter_map(|machine| machine.node.as_ref()).map(|node| node.engine()).collect()
    }

    /// The nodes that run and have a role.
    fn running(&self, role: Role) -> Vec<&Arc<Node>> {
        self.machines.iter().filter(|machine| machine.roles.has(role)).filter_map(|machine| machine.node.as_ref()).collect()
    }

    /// Waits until every gateway that runs serves, all in one view that writes to all devices.
    pub async fn all_serve(&self) {
        let until = self.env.now() + PATIENCE;
        let (gateways, targets) = (self.running(Role::Gateway), self.running(Role::Target));
        loop {
            let state = gateways[0].manager().snapshot();
            let cell = state.cell(crate::CELL);
            let is_whole = cell.is_some_and(|cell| {
                let installed = cell.installed.as_ref();
                let table = installed.map_or(0, |installed| installed.table.devices().len());
                cell.view_members().len() == gateways.len() && table == targets.len() && cell.undecided.is_empty()
            });
            if is_whole && gateways.iter().all(|node| node.status().serves) {
                return;
            }
            assert!(self.env.now() < until, "not all nodes serve: {cell:?}");
            self.env.sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What a node of these tests runs besides the log engine.
fn starters(takes_chunks: bool) -> Vec<Box<dyn Starter>> {
    if takes_chunks { vec![Box::<ChunkStarter>::default()] } else { Vec::new() }
}
