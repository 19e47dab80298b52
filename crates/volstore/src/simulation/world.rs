//! Three nodes with a device each, and a manager that never fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use device::{Device, DeviceConfig, SyncMode, VolumeOwner};
use disk::{CompletionOrder, SimDisk, SimOptions};
use env::Env;
use manager::{BucketEngine, EtagMode, Manager, NewBucket, PLACEMENT_GROUPS, PlacementRecord};
use net::{CallError, Caller, ServiceTag};
use parking_lot::Mutex;
use subsystem::Subsystem;
use types::NodeId;
use types::limits::BLOCK_BYTES;

use super::wire::{Line, Wire, process};
use crate::gateway::Gateway;
use crate::interface::VolumeEngine;
use crate::members::Group;
use crate::office::Office;
use crate::part::{Objects, test_node};
use crate::place::Place;
use crate::store::test_support::format_options;
use crate::store::{Founding, Store};
use crate::wire::{BlockAnswer, BlockQuestion};

const NODES: u32 = 3;
/// Zones of a device, a MiB each: the node's log takes 80 of them, each group at least five.
const ZONES: u64 = 320;

const DISK_DELAY: Duration = Duration::from_millis(3);

/// Bytes of a disk.
fn disk_bytes() -> u64 {
    format_options(1, ZONES).capacity_bytes.expect("it has a size")
}

pub struct World {
    seed: u64,
    env: Env,
    manager: Arc<Manager>,
    wire: Arc<Wire>,
    disks: Mutex<BTreeMap<NodeId, SimDisk>>,
    running: Mutex<BTreeMap<NodeId, Running>>,
    starts: AtomicU64,
    kills: AtomicUsize,
}

struct Running {
    env: Env,
    objects: Arc<Objects>,
    _device: Arc<Device>,
}

impl World {
    pub async fn new(seed: u64) -> World {
        let env = Env::simulated(seed);
        let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager in memory"));
        let mut disks = BTreeMap::new();
        for number in 1..=NODES {
            let node = manager.register_node(test_node(number as u8)).await.expect("registers");
            let disk = SimDisk::new(&env, SimOptions { seed: seed * 10 + u64::from(number), ..SimOptions::default() });
            Device::format(&disk, &env, &format_options(number, ZONES)).await.expect("formats");
            disks.insert(node.id, disk);
        }
        let bucket =
            NewBucket { name: "box".to_owned(), owner: "alice".to_owned(), engine: BucketEngine::Volume, etag: EtagMode::Md5 };
        manager.create_bucket(bucket).await.expect("a bucket is made");
        let world = World {
            seed,
            env: env.clone(),
            manager,
            wire: Arc::default(),
            disks: Mutex::new(disks),
            running: Mutex::default(),
            starts: AtomicU64::new(0),
            kills: AtomicUsize::new(0),
        };
        world.start_all(false).await;
        world
    }

    /// Starts the nodes that are down. With `is_powerless` they have lost what was not durable, else only their process has ended.
    pub async fn start_all(&self, is_powerless: bool) {
        let down: Vec<NodeId> = self.disks.lock().keys().copied().filter(|node| !self.wire.is_up(*node)).collect();
        for node in down {
            let disk = {
                let mut disks = self.disks.lock();
                let former = &disks[&node];
                let disk = if is_powerless { former.crash() } else { former.restart() };
                disks.insert(node, disk.clone());
                disk
            };
            self.start(node, disk).await;
        }
    }

    async fn start(&self, node: NodeId, disk: SimDisk) {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        let env = Env::simulated(self.seed * 1000 + number + 1);
        let config = DeviceConfig { prewrite_zones: 0, sync: SyncMode::Always, ..DeviceConfig::default() };
        disk.set_order(CompletionOrder::Inline);
        let device = Arc::new(Device::open(Arc::new(disk.clone()), &env, config).await.expect("the device opens"));
        // Some writes are under way when a node is killed.
        disk.set_order(CompletionOrder::Timed(DISK_DELAY));
        let (wire, from) = (self.wire.clone(), env.clone());
        let ways = Arc::new(move |to, tag| {
            let line = Line { wire: wire.clone(), me: node, from: from.clone(), to, tag };
            Some(Arc::new(line) as Arc<dyn Caller>)
        });
        let refuses = Founding { check: Box::new(|| Err("it is a cluster".to_owned())), ..Founding::free() };
        let store = Store::open(&env, Vec::new(), refuses).await;
        let place = Place::new(&env, node, self.manager.clone(), ways);
        let (wire, all): (_, Vec<NodeId>) = (self.wire.clone(), self.disks.lock().keys().copied().collect());
        let silent = Arc::new(move || all.iter().copied().filter(|node| !wire.is_up(*node)).collect::<BTreeSet<NodeId>>());
        let devices = vec![device.volume(VolumeOwner::Objects)];
        let objects = Arc::new(Objects::new(store, place, node, silent, devices));
        self.wire.begin(node, env.clone(), objects.services().into_iter().collect());
        for task in objects.clone().tasks() {
            drop(env.spawn(task));
        }
        self.running.lock().insert(node, Running { env, objects, _device: device });
    }

    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    pub fn disk(&self, node: NodeId) -> SimDisk {
        self.disks.lock()[&node].clone()
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

    /// A node that is down gets another disk, which is empty.
    pub async fn replace_disk(&self, node: NodeId) {
        let env = Env::simulated(self.seed + 1);
        let disk = SimDisk::new(&env, SimOptions { seed: self.seed * 10 + 9, ..SimOptions::default() });
        Device::format(&disk, &env, &format_options(node.0, ZONES)).await.expect("formats");
        self.disks.lock().insert(node, disk);
    }

    /// Where these bytes stand on a node's disk.
    pub fn find(&self, node: NodeId, is_it: impl Fn(&[u8]) -> bool) -> Vec<u64> {
        let disk = self.disk(node);
        let blocks = (0..disk_bytes()).step_by(BLOCK_BYTES);
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
        let running = self.running.lock();
        let objects = &running[&node].objects;
        Gateway::new(VolumeEngine::overwriting(objects.store().clone()), objects.place().clone(), false)
    }

    /// Waits until each group has all copies, and is served.
    pub async fn until_whole(&self) {
        for _ in 0..6000 {
            let state = self.manager.snapshot();
            let is_whole = |group: u32| {
                let Some(record) = state.placement(group) else { return false };
                let running = self.running.lock();
                let is_served =
                    || running.get(&record.primary).is_some_and(|node| node.objects.place().office(group).is_some());
                record.is_active && record.voters.len() == NODES as usize && is_served()
            };
            if (0..PLACEMENT_GROUPS).all(is_whole) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let state = self.manager.snapshot();
        panic!("seed {}: the groups are not whole: {:#?}", self.seed, state.placements().collect::<Vec<_>>());
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

    /// All copies of all objects have their bytes, and each block has one owner.
    pub async fn check_copies(&self) {
        for node in self.up() {
            let place = self.running.lock()[&node].objects.place().clone();
            for group in 0..PLACEMENT_GROUPS {
                if let Some(office) = place.office(group) {
                    office.store.check().expect("each block has one owner");
                    let lacking = office.store.lacking_copies().await.expect("reads");
                    assert_eq!(lacking, 0, "seed {}: pieces of group {group} are missing in copies", self.seed);
                }
            }
        }
    }
}
