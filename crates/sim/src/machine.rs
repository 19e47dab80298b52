//! One machine: its disks, its manager, and the processes that run on it one after another.

use crate::draw::Draw;
use crate::manifests::ManagerManifests;
use crate::power::{Plugged, Power};
use crate::scenario::MachineShape;
use crate::trace::Trace;
use device::{Device, DeviceConfig, FormatOptions};
use disk::{CompletionOrder, Disk, FaultOdds, SimDisk, SimOptions};
use env::Env;
use format::FORMAT_VERSION;
use kv::{Kv, MemoryKv};
use logstore::{LogStore, LogStoreConfig};
use manager::{BucketEngine, EtagMode, Manager, NewBucket, ROOT_USER};
use object::{Engines, ObjectService};
use std::sync::Arc;
use std::time::Duration;
use types::{CellId, DeviceId};
use wal::RegionStore;

pub const BUCKET: &str = "simulated";

const CELL: CellId = CellId(1);
/// The manager's log: small segments, so that it is shortened often.
const LOG_SEGMENT_BYTES: u64 = 128 * 1024;
const LOG_SEGMENTS: usize = 8;
/// Beside a device's zones: superblock, notes, and the rounding of both.
const DEVICE_OVERHEAD_BYTES: u64 = 8 * 1024 * 1024;
/// How old a checkpoint may become; lives are shorter, so that counts decide.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(3600);

/// What survives the end of a process.
pub struct Machine {
    pub number: usize,
    shape: MachineShape,
    seed: u64,
    /// The environment of the disks, which outlive processes.
    env: Env,
    pub devices: Vec<SimDisk>,
    /// The manager's log is on a disk of its own.
    log: SimDisk,
    kv: Arc<MemoryKv>,
    pub power: Arc<Power>,
    trace: Arc<Trace>,
    lives: u64,
}

/// What a start finds around it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// A device that is not there, by its place in `devices`.
    pub missing: Option<usize>,
    /// How far the wall clock is off.
    pub wall_skew_ms: i64,
}

/// A process that serves.
pub struct Process {
    pub env: Env,
    pub service: Arc<ObjectService>,
    pub store: LogStore,
    devices: Vec<Arc<Device>>,
}

impl Machine {
    /// A machine with formatted devices that its manager knows, and a bucket.
    pub async fn new(
        number: usize,
        shape: MachineShape,
        seed: u64,
        odds: FaultOdds,
        trace: Arc<Trace>,
    ) -> Result<Machine, String> {
        let env = Env::simulated(seed);
        let capacity = shape.zones * shape.zone_bytes + DEVICE_OVERHEAD_BYTES;
        let device = |id: u64| SimOptions {
            name: format!("machine {number} device {id}"),
            seed: seed.wrapping_add(id),
            capacity_bytes: Some(capacity),
            ..SimOptions::default()
        };
        let devices = (1..=u64::from(shape.devices)).map(|id| SimDisk::new(&env, device(id))).collect();
        let log_bytes = LOG_SEGMENT_BYTES * LOG_SEGMENTS as u64;
        let log = SimOptions {
            name: format!("machine {number} log"),
            seed,
            size_bytes: log_bytes,
            capacity_bytes: Some(log_bytes),
            ..SimOptions::default()
        };
        let log = SimDisk::new(&env, log);
        let power = Power::on(Vec::new(), trace.clone());
        let mut machine = Machine { number, shape, seed, env, devices, log, kv: Arc::default(), power, trace, lives: 0 };
        machine.set_up().await?;
        machine.devices.iter().for_each(|disk| disk.set_odds(odds));
        machine.log.set_odds(FaultOdds { delay: odds.delay, delay_at_most: odds.delay_at_most, ..FaultOdds::default() });
        Ok(machine)
    }

    /// Formats the devices and makes the bucket, in a life without faults.
    async fn set_up(&mut self) -> Result<(), String> {
        self.plug_in();
        let manager = self.open_manager(&self.env.clone()).await?;
        let cluster = manager.ensure_cluster(FORMAT_VERSION).await.map_err(text)?.id;
        for number in 1..=self.devices.len() {
            let id = manager.snapshot().next_device();
            let options = FormatOptions {
                cluster,
                device: id,
                cell: CELL,
                zone_bytes: Some(self.shape.zone_bytes),
                capacity_bytes: self.devices[number - 1].capacity_bytes(),
                overwrite: false,
            };
            Device::format(&self.plugged(number), &self.env, &options).await.map_err(text)?;
            let device = Device::open(Arc::new(self.plugged(number)), &self.env, config()).await.map_err(text)?;
            let record =
                manager.add_device(device.uuid(), &format!("/dev/simulated-{number}"), device.usage().capacity_bytes).await;
            if record.map_err(text)?.id != id {
                return Err(format!("device {id} was formatted under another number than the manager gave it"));
            }
        }
        let (name, owner) = (BUCKET.to_owned(), ROOT_USER.to_owned());
        manager.create_bucket(NewBucket { name, owner, engine: BucketEngine::Log, etag: EtagMode::Md5 }).await.map_err(text)?;
        drop(manager);
        self.restart(0);
        Ok(())
    }

    /// Starts a process, as the program does it.
    pub async fn start(&mut self, conditions: Conditions) -> Result<Process, String> {
        self.lives += 1;
        let env = Env::simulated_after(self.seed ^ self.lives.rotate_left(32), self.elapsed());
        env.simulation().expect("simulated").set_wall_skew_ms(conditions.wall_skew_ms);
        let manager = Arc::new(self.open_manager(&env).await?);
        let cluster = manager.ensure_cluster(FORMAT_VERSION).await.map_err(text)?.id;
        let mut devices = Vec::new();
        for number in 1..=self.devices.len() {
            if conditions.missing != Some(number - 1) {
                let config = DeviceConfig { cluster: Some(cluster), ..config() };
                let device = Device::open(Arc::new(self.plugged(number)), &env, config).await;
                devices.push(Arc::new(device.map_err(|error| format!("device {number}: {error}"))?));
            }
        }
        let is_open = |id: DeviceId| devices.iter().any(|device| device.id() == id);
        let missing: Vec<DeviceId> = manager.snapshot().devices().map(|record| record.id).filter(|id| !is_open(*id)).collect();
        let config = LogStoreConfig {
            cell: CELL,
            checkpoint_entries: self.shape.checkpoint_entries,
            checkpoint_interval: CHECKPOINT_INTERVAL,
            collect_below_free_percent: self.shape.collect_below_free_percent,
            scrub_period: Duration::ZERO,
            ..LogStoreConfig::default()
        };
        let manifests = Arc::new(ManagerManifests::new(manager.clone(), CELL));
        let store = LogStore::open(config, env.clone(), manifests, devices.clone(), &missing).await.map_err(text)?;
        let service = Arc::new(ObjectService::new(manager, Engines::log(Arc::new(store.clone())), env.clone()));
        service.finish_removals().await.map_err(text)?;
        Ok(Process { env, service, store, devices })
    }

    /// Takes over what the last process left. `kept_batches` of what its manager had not persisted are there by chance, at
    /// most all.
    pub fn restart(&mut self, kept_batches: u64) {
        let kept = self.kv.pending_batches().min(kept_batches as usize);
        self.kv = Arc::new(self.kv.crash_keeping(kept));
        self.devices = self.devices.iter().map(SimDisk::restart).collect();
        self.log = self.log.restart();
        self.plug_in();
    }

    /// How old the simulation is.
    pub fn elapsed(&self) -> Duration {
        self.env.simulation().expect("a machine's environment is simulated").elapsed()
    }

    /// How many batches of the manager's state are not persisted.
    pub fn pending_batches(&self) -> u64 {
        self.kv.pending_batches() as u64
    }

    /// Damages so many ranges of a device's zones, as ageing media do.
    pub fn rot(&self, device: usize, ranges: u64, draw: &mut Draw) {
        for _ in 0..ranges {
            let zones = self.shape.zones * self.shape.zone_bytes;
            let block = draw.below(zones / types::limits::BLOCK_BYTES as u64) * types::limits::BLOCK_BYTES as u64;
            self.devices[device].corrupt_at_rest(format::superblock::FIRST_REGION_BYTE + block, 64);
        }
    }

    /// The power is on for a new life.
    fn plug_in(&mut self) {
        let order = match self.shape.disk_latency {
            Duration::ZERO => CompletionOrder::Inline,
            latency => CompletionOrder::Timed(latency),
        };
        let disks: Vec<SimDisk> = self.devices.iter().chain([&self.log]).cloned().collect();
        disks.iter().for_each(|disk| disk.set_order(order));
        self.power = Power::on(disks, self.trace.clone());
    }

    /// The device of this number, from 1.
    fn plugged(&self, number: usize) -> Plugged {
        let place = (self.number as u64) << 32 | number as u64;
        Plugged { disk: self.devices[number - 1].clone(), power: self.power.clone(), number: place }
    }

    async fn open_manager(&self, env: &Env) -> Result<Manager, String> {
        let place = (self.number as u64) << 32;
        let log = Plugged { disk: self.log.clone(), power: self.power.clone(), number: place };
        let log = RegionStore::new(Arc::new(log), 0, LOG_SEGMENT_BYTES, LOG_SEGMENTS);
        let kv = Arc::clone(&self.kv) as Arc<dyn Kv>;
        Manager::open_on(env, Arc::new(log), kv).await.map_err(text)
    }
}

impl Process {
    /// Ends in order: a last checkpoint, sealed devices.
    pub async fn stop(&self) -> Result<(), String> {
        self.store.close().await;
        for device in &self.devices {
            device.seal().await.map_err(|error| format!("sealing device {}: {error}", device.id()))?;
        }
        Ok(())
    }
}

fn config() -> DeviceConfig {
    DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() }
}

/// An error with its causes, as the program would log it.
pub fn text(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text.push_str(&format!(": {deeper}"));
        cause = deeper.source();
    }
    text
}
