//! Nodes with their devices, and a manager that never fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use device::{Device, DeviceConfig, SyncMode, Volume, VolumeOwner};
use disk::{CompletionOrder, SimDisk, SimOptions};
use env::Env;
use manager::{BucketEngine, EtagMode, Manager, NewBucket, PLACEMENT_GROUPS, PlacementRecord};
use net::{CallError, Caller, ServiceTag};
use parking_lot::Mutex;
use subsystem::Subsystem;
use types::limits::BLOCK_BYTES;
use types::{DeviceId, DeviceUuid, NodeId};

use super::wire::{Line, Wire, process};
use crate::gateway::Gateway;
use crate::limits::{GROUP_COPIES, JournalShape, LOGICAL_UNIT_BYTES, SHAPE, Shape};
use crate::members::Group;
use crate::office::Office;
use crate::part::{Objects, test_node};
use crate::place::Place;
use crate::store::test_support::{disk_bytes, format_options};
use crate::wire::{BlockAnswer, BlockQuestion};

/// With a journal though the devices are small, and although few writes are under way at once.
const SHAPE_WITH_JOURNAL: Shape =
    Shape { journal: JournalShape { segments: 5, segment_bytes: 256 * 1024, least_device_bytes: 0, from_writes: 2 }, ..SHAPE };
/// Zones of a device, a MiB each: the log takes 80 of them, each group at least five.
const ZONES: u64 = 320;

/// For so many seconds the fsck waits for what is lazy.
const REST_TRIES: u32 = 30;

const DISK_DELAY: Duration = Duration::from_millis(3);

/// Bytes of a copy's units.
fn space_of(volume: &Volume) -> u64 {
    volume.units().len() as u64 * volume.unit_bytes()
}

async fn empty_disk(env: &Env, seed: u64, device: u32) -> SimDisk {
    let disk = SimDisk::new(env, SimOptions { seed, ..SimOptions::default() });
    Device::format(&disk, env, &format_options(device, ZONES)).await.expect("formats");
    disk
}

pub struct World {
    seed: u64,
    env: Env,
    manager: Arc<Manager>,
    wire: Arc<Wire>,
    disks: Mutex<BTreeMap<NodeId, Vec<SimDisk>>>,
    running: Mutex<BTreeMap<NodeId, Running>>,
    starts: AtomicU64,
    kills: AtomicUsize,
}

struct Running {
    env: Env,
    objects: Arc<Objects>,
    _devices: Vec<Device>,
}

impl World {
    /// So many nodes, with so many devices each.
    pub async fn new(seed: u64, nodes: usize, devices: u32) -> World {
        let env = Env::simulated(seed);
        let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager in memory"));
        let (disks, running, starts, kills) = Default::default();
        let world = World { seed, env, manager, wire: Arc::default(), disks, running, starts, kills };
        for _ in 0..nodes {
            world.join(devices).await;
        }
        let bucket =
            NewBucket { name: "box".to_owned(), owner: "alice".to_owned(), engine: BucketEngine::Volume, etag: EtagMode::Md5 };
        world.manager.create_bucket(bucket).await.expect("a bucket is made");
        world
    }

    /// Another node, with so many devices.
    pub async fn join(&self, devices: u32) -> NodeId {
        let number = self.disks.lock().len() as u32 + 1;
        let env = Env::simulated(self.seed * 10 + u64::from(number));
        let node = self.manager.register_node(test_node(number as u8)).await.expect("registers").id;
        let mut disks = Vec::new();
        for at in 0..devices {
            let device = number * 10 + at;
            disks.push(empty_disk(&env, self.seed * 100 + u64::from(device), device).await);
        }
        self.disks.lock().insert(node, disks);
        self.start_all(false).await;
        node
    }

    /// The manager knows a device of the first node that is not there.
    pub async fn register_device_that_is_away(&self) {
        self.manager.add_device(DeviceUuid([1; 16]), "disk", 1 << 30).await.expect("adds");
    }

    /// What a node starts on the next time.
    pub fn replace_disk(&self, node: NodeId, at: usize, disk: SimDisk) {
        self.disks.lock().get_mut(&node).expect("there is such a node")[at] = disk;
    }

    /// The disks of a node.
    pub fn disks(&self, node: NodeId) -> Vec<SimDisk> {
        self.disks.lock()[&node].clone()
    }

    /// Starts the nodes that are down. With `is_powerless` they have lost what was not durable, else only their process has ended.
    pub async fn start_all(&self, is_powerless: bool) {
        let down: Vec<NodeId> = self.disks.lock().keys().copied().filter(|node| !self.wire.is_up(*node)).collect();
        for node in down {
            let again = |disk: &SimDisk| if is_powerless { disk.crash() } else { disk.restart() };
            let disks: Vec<SimDisk> = self.disks(node).iter().map(again).collect();
            self.disks.lock().insert(node, disks.clone());
            self.start(node, disks).await;
        }
    }

    /// Starts a node on some of its disks.
    pub async fn start(&self, node: NodeId, disks: Vec<SimDisk>) {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        let env = Env::simulated(self.seed * 1000 + number + 1);
        let mut devices = Vec::new();
        for disk in disks {
            let config = DeviceConfig { prewrite_zones: 0, sync: SyncMode::Always, ..DeviceConfig::default() };
            disk.set_order(CompletionOrder::Inline);
            devices.push(Device::open(Arc::new(disk.clone()), &env, config).await.expect("the device opens"));
            // Some writes are under way when a node is killed.
            disk.set_order(CompletionOrder::Timed(DISK_DELAY));
        }
        let (wire, from) = (self.wire.clone(), env.clone());
        let ways = Arc::new(move |to, tag| {
            let line = Line { wire: wire.clone(), me: node, from: from.clone(), to, tag };
            Some(Arc::new(line) as Arc<dyn Caller>)
        });
        let place = Place::new(&env, node, self.manager.clone(), ways);
        let (wire, manager) = (self.wire.clone(), self.manager.clone());
        let silent = Arc::new(move || {
            let nodes = manager.snapshot();
            nodes.nodes().map(|node| node.id).filter(|node| !wire.is_up(*node)).collect::<BTreeSet<NodeId>>()
        });
        let volumes = devices.iter().map(|device| device.volume(VolumeOwner::Objects)).collect();
        let shape = if self.seed.is_multiple_of(2) { SHAPE } else { SHAPE_WITH_JOURNAL };
        let objects = Arc::new(Objects::new(place, node, silent, volumes, shape));
        self.wire.begin(node, env.clone(), objects.services().into_iter().collect());
        for task in objects.clone().tasks() {
            drop(env.spawn(task));
        }
        self.running.lock().insert(node, Running { env, objects, _devices: devices });
    }

    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The first disk of a node.
    pub fn disk(&self, node: NodeId) -> SimDisk {
        self.disks(node).swap_remove(0)
    }

    /// A node's office of a group.
    pub fn office(&self, node: NodeId, group: u32) -> Option<Arc<Office>> {
        self.running.lock().get(&node)?.objects.place().office(group)
    }

    /// A node's member of a group.
    pub fn member(&self, node: NodeId, group: u32) -> Option<Arc<Group>> {
        let place = self.running.lock().get(&node)?.objects.place().clone();
        place.members()?.group(group)
    }

    /// A node that is down gets another first disk, which is empty.
    pub async fn give_empty_disk(&self, node: NodeId) {
        let disk = empty_disk(&Env::simulated(self.seed + 1), self.seed * 10 + 9, node.0 * 10).await;
        self.replace_disk(node, 0, disk);
    }

    /// Where these bytes stand on a node's disk.
    pub fn find(&self, node: NodeId, is_it: impl Fn(&[u8]) -> bool) -> Vec<u64> {
        let disk = self.disk(node);
        let blocks = (0..disk_bytes(ZONES)).step_by(BLOCK_BYTES);
        blocks.filter(|at| is_it(&disk.peek(*at, BLOCK_BYTES))).collect()
    }

    pub fn now(&self) -> env::Instant {
        self.env.now()
    }

    /// Waits until something is so.
    pub async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..3000 {
            if is_so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let state = self.manager.snapshot();
        panic!("seed {}: never: {what}: {:#?}", self.seed, state.placements().collect::<Vec<_>>());
    }

    /// SIGKILL.
    pub fn kill(&self, node: NodeId) {
        self.wire.end(node);
        if let Some(running) = self.running.lock().remove(&node) {
            process(&running.env).end();
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn kills(&self) -> usize {
        self.kills.load(Ordering::Relaxed)
    }

    pub fn up(&self) -> Vec<NodeId> {
        self.running.lock().keys().copied().collect()
    }

    /// What a request through a node is answered; none if the node was killed first.
    pub async fn until_killed<T>(&self, node: NodeId, request: impl Future<Output = T>) -> Option<T> {
        let env = self.running.lock().get(&node)?.env.clone();
        let process = process(&env);
        tokio::select! {
            answer = request => Some(answer),
            () = process.ended() => None,
        }
    }

    pub fn gateway(&self, node: NodeId) -> Gateway {
        Gateway::new(self.running.lock()[&node].objects.place().clone(), false)
    }

    pub fn strict_gateway(&self, node: NodeId) -> Gateway {
        Gateway::new(self.running.lock()[&node].objects.place().clone(), true)
    }

    /// Waits until each group has all copies, and is served.
    pub async fn until_whole(&self) {
        let copies = self.disks.lock().len().min(GROUP_COPIES);
        for _ in 0..6000 {
            let state = self.manager.snapshot();
            let is_whole = |group: u32| {
                let Some(record) = state.placement(group) else { return false };
                let running = self.running.lock();
                let is_served =
                    || running.get(&record.primary).is_some_and(|node| node.objects.place().office(group).is_some());
                record.is_active && record.voters.len() == copies && is_served()
            };
            if (0..PLACEMENT_GROUPS).all(is_whole) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let state = self.manager.snapshot();
        panic!("seed {}: the groups are not whole: {:#?}", self.seed, state.placements().collect::<Vec<_>>());
    }

    /// On which of a node's devices a group's copy stands.
    pub fn device_of(&self, node: NodeId, group: u32) -> DeviceId {
        let members = self.running.lock()[&node].objects.place().members().expect("it is a member").clone();
        members.group(group).expect("it has a copy").volume.device()
    }

    pub fn placement(&self, group: u32) -> Arc<PlacementRecord> {
        self.manager.snapshot().placement(group).expect("it was founded").clone()
    }

    /// Asks a member about blocks of its copy.
    pub async fn ask_blocks(&self, node: NodeId, question: BlockQuestion) -> Result<BlockAnswer, CallError> {
        let from = Env::simulated(self.seed);
        let deadline = from.now() + Duration::from_secs(5);
        let line = Line { wire: self.wire.clone(), me: question.from, from, to: node, tag: ServiceTag::OBJECT_BLOCKS };
        let answer = line.call(question.encode(), deadline).await?;
        Ok(BlockAnswer::decode(answer).expect("an answer"))
    }

    /// The fsck of all groups: all copies of all objects have their bytes, each block has one owner, and nothing has leaked. Trimming is lazy, and a node may
    /// have started a moment ago: what is wrong at first may be mended in a while.
    pub async fn check_copies(&self) {
        for group in 0..PLACEMENT_GROUPS {
            let mut wrong = Some(String::new());
            for _ in 0..REST_TRIES {
                wrong = self.wrong_in(group).await;
                if wrong.is_none() {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(wrong, None, "seed {}, group {group}", self.seed);
        }
    }

    /// What the fsck finds in a group.
    async fn wrong_in(&self, group: u32) -> Option<String> {
        let record = self.placement(group);
        let Some(office) = self.office(record.primary, group) else { return Some("it is not served".to_owned()) };
        office.store.check().expect("each block has one owner");
        match office.store.lacking_copies().await {
            Ok(0) => {}
            Ok(lacking) => return Some(format!("{lacking} pieces are missing in copies")),
            Err(error) => return Some(error.to_string()),
        }
        let (account, units) = office.store.account();
        let members = record.voters.iter().filter_map(|node| self.member(*node, group));
        let copies: Vec<u64> = members.map(|member| space_of(&member.volume)).collect();
        let space = units.len() as u64 * LOGICAL_UNIT_BYTES;
        let is_clean = account.unsettled == 0 && account.used == account.named + account.dump;
        let is_as_large = copies.iter().all(|copy| *copy == space);
        (!is_clean || !is_as_large).then(|| format!("{account:?}, {space} bytes of units, and the copies have {copies:?}"))
    }
}
