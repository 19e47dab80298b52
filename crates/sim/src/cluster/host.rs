//! One machine of the cluster: its disks and its clock, and the node that runs on it.

use super::files::door::SimMounts;
use super::images::door::SimDoor;
use super::scenario::Topology;
use super::world::World;
use block::ImageStarter;
use chunkstore::blocks::volume_bytes;
use chunkstore::settings::ChunkSettings;
use chunkstore::{ChunkStarter, Chunks};
use consensus::{BASE_BYTES, LogPlace};
use device::{Device, DeviceConfig, FormatOptions};
use disk::{Disk, SimDisk, SimOptions};
use env::{Env, Process};
use filesystem::FileStarter;
use format::FORMAT_VERSION;
use format::zone_header::ZONE_DATA_START;
use kv::MemoryKv;
use logstore::LogStoreConfig;
use manager::{Manager, RegisterNode};
use net::{Identity, Network};
use node::{CELL, Node, NodeOptions, Role, Roles};
use std::sync::Arc;
use std::time::Duration;
use subsystem::Starter;
use types::{ClusterId, DeviceId, NodeIdentity};
use wal::RegionStore;

pub const CLUSTER: ClusterId = ClusterId([9; 16]);
/// The consensus log.
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
const SEGMENTS: usize = 8;
/// Beside a device's zones: superblock, notes, and the rounding of both.
pub const DEVICE_OVERHEAD_BYTES: u64 = 8 * 1024 * 1024;
/// Rows of a page of a unit: few, so that there are several.
const PAGE_ROWS: usize = 5;
/// Pause before the manager is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// What survives a process, and the process.
pub struct Host {
    pub number: usize,
    pub roles: Roles,
    pub log: SimDisk,
    /// What machines of rows are kept as, beside the log.
    pub rows: Arc<MemoryKv>,
    pub devices: Vec<SimDisk>,
    /// The numbers that the manager gave the devices; empty until they are formatted.
    pub ids: Vec<DeviceId>,
    pub drift_ppm: i64,
    pub wall_skew_ms: i64,
    /// Of the process that runs, or is starting.
    pub env: Option<Env>,
    pub node: Option<Arc<Node>>,
    /// Where the node lets clients of images in.
    pub door: Option<Arc<SimDoor>>,
    /// What has file volumes mounted, from the first start on.
    pub mounts: Option<SimMounts>,
    /// It never comes back.
    pub is_gone: bool,
}

pub fn address(number: usize) -> String {
    format!("node-{number}:9002")
}

/// Zones of a device that chunks can have.
fn chunk_zones(topology: &Topology) -> u64 {
    match topology.chunk_blocks {
        0 => 0,
        blocks => volume_bytes(blocks).div_ceil(topology.zone_bytes - ZONE_DATA_START),
    }
}

fn device_bytes(topology: &Topology) -> u64 {
    (topology.zones + chunk_zones(topology)) * topology.zone_bytes + DEVICE_OVERHEAD_BYTES
}

fn empty_disks(env: &Env, number: usize, roles: &Roles, topology: &Topology) -> Vec<SimDisk> {
    if !roles.has(Role::Target) {
        return Vec::new();
    }
    let capacity_bytes = Some(device_bytes(topology));
    let device = |index: usize| {
        let name = format!("device {index} of node {number}");
        SimDisk::new(env, SimOptions { name, capacity_bytes, seed: env.random_u64(), ..SimOptions::default() })
    };
    (0..topology.devices_per_node).map(device).collect()
}

impl Host {
    pub fn new(env: &Env, number: usize, roles: Roles, topology: &Topology, drift_ppm: i64) -> Host {
        let size_bytes = BASE_BYTES + SEGMENT_BYTES * SEGMENTS as u64;
        let log = SimOptions {
            name: format!("the log of node {number}"),
            size_bytes,
            seed: env.random_u64(),
            ..SimOptions::default()
        };
        Host {
            number,
            log: SimDisk::new(env, log),
            rows: Arc::new(MemoryKv::new()),
            devices: empty_disks(env, number, &roles, topology),
            roles,
            ids: Vec::new(),
            drift_ppm: if drift_ppm == 0 { 0 } else { env.random_below(2 * drift_ppm as u64 + 1) as i64 - drift_ppm },
            wall_skew_ms: 0,
            env: None,
            node: None,
            door: None,
            mounts: None,
            is_gone: false,
        }
    }

    /// Other, empty disks are in the places of its devices; the numbers of those that are lost.
    pub fn replace_disks(&mut self, env: &Env, topology: &Topology) -> Vec<DeviceId> {
        self.devices = empty_disks(env, self.number, &self.roles, topology);
        std::mem::take(&mut self.ids)
    }

    /// The disks that the next process finds, after the power was cut or not.
    pub fn take_over_disks(&mut self, env: &Env, power: bool) {
        let again = |disk: &SimDisk| if power { disk.crash() } else { disk.restart() };
        self.log = again(&self.log);
        self.devices.iter_mut().for_each(|disk| *disk = again(disk));
        let pending = self.rows.pending_batches();
        if power && pending > 0 {
            let kept = env.random_below(pending as u64 + 1) as usize;
            self.rows = Arc::new(self.rows.crash_keeping(kept));
        }
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
            version: "simulated".to_owned(),
            joined_ms: 0,
        }
    }
}

/// The process of an environment.
pub fn process_of(env: &Env) -> Process {
    env.simulation().expect("hosts are simulated").process().clone()
}

/// What a process needs to start, taken from its host.
struct Start {
    env: Env,
    options: NodeOptions,
    devices: Vec<SimDisk>,
    ids: Vec<DeviceId>,
    topology: Topology,
    scrub_period: Duration,
    images: Option<ImageStarter>,
    files: Option<FileStarter>,
}

/// Starts the process of a host; returns its node, and its devices' numbers.
pub async fn start(world: &Arc<World>, number: usize, env: Env) -> Result<(Arc<Node>, Vec<DeviceId>), String> {
    let (start, spawner) = {
        let via = world.living_address(number).into_iter().collect();
        let mut hosts = world.hosts.lock();
        let host = &mut hosts[number];
        let base: Arc<SimDisk> = Arc::new(host.log.clone());
        let segments = Arc::new(RegionStore::new(base.clone(), BASE_BYTES, SEGMENT_BYTES, SEGMENTS));
        let register = host.register();
        let options = NodeOptions {
            network: Arc::new(world.network.at(&register.address)) as Arc<dyn Network>,
            identity: Identity { cluster: CLUSTER, node: register.identity },
            log: LogPlace {
                rows: host.rows.clone(),
                snapshot_after: world.scenario.topology.snapshot_after,
                ..LogPlace::new(segments, base, SEGMENTS)
            },
            register,
            roles: host.roles.clone(),
            via,
            is_sole: false,
            guests: None,
        };
        let (devices, ids) = (host.devices.clone(), host.ids.clone());
        let (topology, scrub_period) = (world.scenario.topology, world.scenario.faults.scrub_period);
        let images = world.served_file(number).map(|served_file| {
            let door = host.door.insert(Arc::default()).clone();
            ImageStarter { door, served_file }
        });
        let files = world.mounts_file(number).map(|mounts_file| {
            let mounts = host.mounts.get_or_insert_with(|| SimMounts::new(mounts_file.with_extension("record"))).clone();
            FileStarter { door: Arc::new(mounts), mounts_file, soft_inodes: filesystem::meta::limits::SOFT_INODES }
        });
        (Start { env: env.clone(), options, devices, ids, topology, scrub_period, images, files }, env)
    };
    let started = spawner.spawn(start.run()).await;
    started.map_err(|error| format!("the start of node {number} ended: {error}"))?
}

/// A node's part of the chunk store.
pub(in crate::cluster) fn chunks_of(node: &Node) -> &Chunks {
    node.subsystem().expect("nodes of a topology with chunks run it")
}

impl Start {
    async fn run(self) -> Result<(Arc<Node>, Vec<DeviceId>), String> {
        let Start { env, options, devices, mut ids, topology, scrub_period, images, files } = self;
        let settings = ChunkSettings { shard_chunks: topology.shard_chunks, page_rows: PAGE_ROWS, ..ChunkSettings::default() };
        let opened = Node::open(&env, options).await.map_err(text)?;
        let manager = opened.manager().clone();
        while manager.fresh().await.is_err() {
            env.sleep(RETRY_PAUSE).await;
        }
        if ids.is_empty() {
            ids = format(&env, &manager, &devices, &topology).await?;
        }
        let mut served = Vec::new();
        for disk in devices {
            let disk: Arc<dyn Disk> = Arc::new(disk);
            let config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
            served.push(Arc::new(Device::open(disk, &env, config).await.map_err(text)?));
        }
        let config =
            LogStoreConfig { checkpoint_entries: topology.checkpoint_entries, scrub_period, ..LogStoreConfig::default() };
        let chunks = (topology.chunk_blocks > 0).then(|| Box::new(ChunkStarter { settings, scrub_period }) as Box<dyn Starter>);
        let images = images.map(|images| Box::new(images) as Box<dyn Starter>);
        let files = files.map(|files| Box::new(files) as Box<dyn Starter>);
        let starters = chunks.into_iter().chain(images).chain(files).collect();
        let node = opened.start(served, config, starters).await.map_err(text)?;
        Ok((Arc::new(node), ids))
    }
}

/// Nodes start one after the other the first time, so that numbers are not taken twice.
async fn format(env: &Env, manager: &Manager, devices: &[SimDisk], topology: &Topology) -> Result<Vec<DeviceId>, String> {
    let cluster = manager.ensure_cluster(FORMAT_VERSION).await.map_err(text)?;
    let mut ids = Vec::new();
    for disk in devices {
        let device = manager.snapshot().next_device();
        let options = FormatOptions {
            cluster: cluster.id,
            device,
            cell: CELL,
            zone_bytes: Some(topology.zone_bytes),
            capacity_bytes: disk.capacity_bytes(),
            overwrite: false,
        };
        let uuid = Device::format(disk, env, &options).await.map_err(text)?;
        let added = manager.add_device(uuid, "simulated", topology.zones * topology.zone_bytes).await.map_err(text)?;
        if added.id != device {
            return Err(format!("device {device} was formatted under another number than the manager gave it"));
        }
        ids.push(device);
    }
    Ok(ids)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
