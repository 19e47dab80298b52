//! A group of one member: a node with small devices on simulated disks, and a manager that never fails.

use std::sync::Arc;
use std::time::Duration;

use ::engine::{Condition, Content, EngineError, ObjectEngine, ObjectKey};
use allack::limits::LogLimits;
use bytes::Bytes;
use device::{Device, DeviceConfig, FormatOptions, SyncMode, VolumeOwner};
use disk::{CompletionOrder, Disk, SimDisk, SimOptions};
use env::Env;
use format::attributes::{Attributes, ETag};
use format::superblock::FIRST_REGION_BYTE;
use format::zone_header::ZONE_DATA_START;
use manager::{Manager, NamePlacement};
use smallvec::smallvec;
use types::limits::{CHUNK_BYTES, MAX_SMALL_BYTES};
use types::{BucketId, CellId, ClusterId, DeviceId, NodeId};

use crate::interface::VolumeEngine;
use crate::limits::{JournalShape, Shape};
use crate::members::Members;
use crate::part::test_node;
use crate::store::Store;

/// 256 blocks.
pub const UNIT_BYTES: u64 = 1 << 20;
/// Longer than any answer takes, where the disk answers at all.
const PATIENCE: Duration = Duration::from_secs(30);
pub const OWNER: VolumeOwner = VolumeOwner::Objects;
/// A log of four units.
pub const SMALL: Shape = Shape {
    log: LogLimits { entries: 512, bytes: 768 * 1024 },
    segments: 4,
    segment_bytes: 1024 * 1024 - 8192,
    journal: JournalShape { least_device_bytes: u64::MAX, ..JOURNAL },
};
/// The same, with a journal for what is written beside others.
pub const SMALL_WITH_JOURNAL: Shape = Shape { journal: JOURNAL, ..SMALL };
const JOURNAL: JournalShape = JournalShape { segments: 5, segment_bytes: 128 * 1024, least_device_bytes: 0, from_writes: 2 };
const GROUP: u32 = 0;

pub struct Rig {
    pub env: Env,
    pub manager: Arc<Manager>,
    pub disks: Vec<SimDisk>,
    pub devices: Vec<Device>,
    pub store: Store,
    pub sync: SyncMode,
    seed: u64,
    wrap: Wrap,
    shape: Shape,
}

/// What stands between a device and its disk.
pub type Wrap = Arc<dyn Fn(&SimDisk) -> Arc<dyn Disk> + Send + Sync>;

fn bare() -> Wrap {
    Arc::new(|disk| Arc::new(disk.clone()))
}

/// What runs beside a store ends with it.
impl Drop for Rig {
    fn drop(&mut self) {
        end(&self.env);
    }
}

impl Rig {
    pub async fn new(seed: u64) -> Rig {
        Rig::with(seed, &[48], SyncMode::Always).await
    }

    /// On a device for each number, with so many zones.
    pub async fn with(seed: u64, zones: &[u64], sync: SyncMode) -> Rig {
        Rig::wrapped(seed, zones, sync, bare()).await
    }

    /// On one device, with logs of these sizes.
    pub async fn of_shape(seed: u64, zones: u64, shape: Shape) -> Rig {
        Rig::made(seed, &[zones], SyncMode::Always, bare(), shape).await
    }

    /// The same, with something between its devices and their disks.
    pub async fn wrapped(seed: u64, zones: &[u64], sync: SyncMode, wrap: Wrap) -> Rig {
        Rig::made(seed, zones, sync, wrap, SMALL).await
    }

    async fn made(seed: u64, zones: &[u64], sync: SyncMode, wrap: Wrap, shape: Shape) -> Rig {
        let env = Env::simulated(seed);
        let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager in memory"));
        let node = manager.register_node(test_node(1)).await.expect("registers").id;
        let first = NamePlacement { group: GROUP, after: None, primary: node, voters: vec![node], learners: Vec::new() };
        manager.name_placement(first).await.expect("the group is named");
        let mut disks = Vec::new();
        for (number, zones) in zones.iter().enumerate() {
            let disk = SimDisk::new(&env, SimOptions { seed: seed + number as u64, ..SimOptions::default() });
            Device::format(&disk, &env, &format_options(number as u32, *zones)).await.expect("formats");
            disks.push(disk);
        }
        Rig::open(seed, &manager, disks, sync, wrap, shape).await.expect("the group opens")
    }

    async fn open(
        seed: u64,
        manager: &Arc<Manager>,
        disks: Vec<SimDisk>,
        sync: SyncMode,
        wrap: Wrap,
        shape: Shape,
    ) -> Result<Rig, EngineError> {
        let env = Env::simulated(seed);
        let mut devices = Vec::new();
        for disk in &disks {
            let config = DeviceConfig { prewrite_zones: 0, sync, ..DeviceConfig::default() };
            devices.push(Device::open(wrap(disk), &env, config).await.expect("the device opens"));
        }
        let volumes = devices.iter().map(|device| device.volume(OWNER)).collect();
        let members = Members::open(&env, NodeId(1), manager.clone(), Arc::new(|_, _| None), volumes, shape).await;
        drop(env.spawn(members.clone().run()));
        let opened = loop {
            if let Some(office) = members.group(GROUP).and_then(|group| group.office()) {
                break Ok(office.store.clone());
            }
            if let Some(obstacle) = members.obstacle(GROUP) {
                break Err(obstacle);
            }
            env.sleep(Duration::from_millis(1)).await;
        };
        let store = opened.inspect_err(|_| end(&env))?;
        Ok(Rig { env, manager: manager.clone(), disks, devices, store, sync, seed: seed + 1000, wrap, shape })
    }

    /// The power goes, if it has not; what the next process finds.
    pub async fn crash(&self) -> Rig {
        end(&self.env);
        self.on(self.disks.iter().map(SimDisk::crash).collect()).await
    }

    /// Only the process ends.
    pub async fn restart(&self) -> Rig {
        end(&self.env);
        self.on(self.disks.iter().map(SimDisk::restart).collect()).await
    }

    async fn on(&self, disks: Vec<SimDisk>) -> Rig {
        for disk in &disks {
            disk.set_order(CompletionOrder::Inline);
            disk.set_ignores_flush(false);
        }
        Rig::open(self.seed, &self.manager, disks, self.sync, self.wrap.clone(), self.shape).await.expect("the group opens")
    }

    /// Only the process ends; why the group can't be opened again, and the disks behind that.
    pub async fn restart_blocked(&self) -> (EngineError, Vec<SimDisk>) {
        end(&self.env);
        let disks: Vec<SimDisk> = self.disks.iter().map(SimDisk::restart).collect();
        let opened = Rig::open(self.seed, &self.manager, disks.clone(), self.sync, self.wrap.clone(), self.shape).await;
        (opened.err().expect("the group does not open"), disks)
    }

    pub fn engine(&self) -> VolumeEngine {
        VolumeEngine::new(self.store.clone(), false)
    }

    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), EngineError> {
        put(&self.engine(), name, bytes).await
    }

    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, EngineError> {
        get(&self.engine(), name).await
    }

    pub async fn delete(&self, name: &str) -> Result<(), EngineError> {
        self.engine().delete(&key(name), Condition::None).await
    }

    pub async fn maintain(&self) {
        self.store.inner.clone().maintain_once().await.expect("maintains");
    }

    pub async fn dump(&self) {
        self.store.inner.dump().await.expect("a dump is made");
    }

    pub fn lent_units(&self) -> usize {
        self.devices.iter().map(|device| copy_on(device).units().len()).sum()
    }

    pub fn used_blocks(&self) -> u64 {
        self.store.inner.state.lock().pg.used_blocks()
    }
}

/// A process ends.
fn end(env: &Env) {
    env.simulation().expect("it is simulated").process().end();
}

/// The group's copy on a device, if it is there.
pub fn copy_on(device: &Device) -> device::Volume {
    device.volume(OWNER).part(GROUP as u16 + 1)
}

pub async fn put(engine: &dyn ObjectEngine, name: &str, bytes: Vec<u8>) -> Result<(), EngineError> {
    let attributes = attributes_of(&bytes);
    if bytes.len() <= MAX_SMALL_BYTES {
        return engine.put(&key(name), attributes, smallvec![bytes.into()], Condition::None).await.map(drop);
    }
    let mut staged = engine.stage(&key(name), None);
    for chunk in bytes.chunks(CHUNK_BYTES) {
        engine.stage_chunk(&mut staged, Bytes::copy_from_slice(chunk)).await?;
    }
    engine.commit(&key(name), staged, attributes, Condition::None).await.map(drop)
}

pub async fn get(engine: &dyn ObjectEngine, name: &str) -> Result<Option<Vec<u8>>, EngineError> {
    let found = match engine.open(&key(name)).await {
        Ok(found) => found,
        Err(EngineError::NotFound) => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = found.info.length;
    match found.content {
        Content::Whole(bytes) => Ok(Some(bytes.to_vec())),
        Content::Chunked(reader) => {
            let mut bytes = Vec::new();
            while (bytes.len() as u64) < length {
                bytes.extend_from_slice(&reader.read(bytes.len() as u64..length).await?);
            }
            Ok(Some(bytes))
        }
    }
}

/// Attributes whose tag is of the bytes.
pub fn attributes_of(bytes: &[u8]) -> Attributes {
    let digest = bytes.iter().fold(7u128, |sum, byte| sum.wrapping_mul(31).wrapping_add(u128::from(*byte)));
    Attributes { etag: ETag::Md5(digest.to_be_bytes()), modified_ms: 5, ..Attributes::default() }
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::new(BucketId(7), Bytes::copy_from_slice(name.as_bytes())).expect("a test's key is one")
}

pub fn format_options(number: u32, zones: u64) -> FormatOptions {
    let zone_bytes = ZONE_DATA_START + UNIT_BYTES;
    FormatOptions {
        cluster: ClusterId([9; 16]),
        device: DeviceId(7 + number),
        cell: CellId(2),
        zone_bytes: Some(zone_bytes),
        capacity_bytes: Some(FIRST_REGION_BYTE + zones * zone_bytes),
        overwrite: false,
    }
}

/// Bytes of a disk with so many zones.
pub fn disk_bytes(zones: u64) -> u64 {
    format_options(1, zones).capacity_bytes.expect("it has a size")
}

/// The answer; none where the power was cut first.
pub async fn patient<T>(asked: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, asked).await.ok()
}

/// Bytes that tell a version, and where they stand.
pub fn bytes(version: u64, len: usize) -> Vec<u8> {
    let word = |at: usize| (version << 32 ^ (at as u64 / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[at % 8];
    (0..len).map(word).collect()
}
