//! A store on small devices on simulated disks.

use std::sync::Arc;
use std::time::Duration;

use ::engine::{Condition, Content, EngineError, ObjectEngine, ObjectKey};
use bytes::Bytes;
use device::{Device, DeviceConfig, FormatOptions, SyncMode, VolumeOwner};
use disk::{CompletionOrder, SimDisk, SimOptions};
use env::Env;
use format::attributes::{Attributes, ETag};
use format::superblock::FIRST_REGION_BYTE;
use format::zone_header::ZONE_DATA_START;
use smallvec::smallvec;
use types::limits::{CHUNK_BYTES, MAX_SMALL_BYTES};
use types::{BucketId, CellId, ClusterId, DeviceId};

use crate::interface::VolumeEngine;
use crate::store::{Founding, Store};

/// 256 blocks.
pub const UNIT_BYTES: u64 = 1 << 20;
/// Longer than any answer takes, where the disk answers at all.
const PATIENCE: Duration = Duration::from_secs(600);
pub const OWNER: VolumeOwner = VolumeOwner::Objects;

pub struct Rig {
    pub env: Env,
    pub disks: Vec<SimDisk>,
    pub devices: Vec<Device>,
    pub store: Store,
    pub sync: SyncMode,
}

impl Rig {
    pub async fn new(seed: u64) -> Rig {
        Rig::with(seed, &[48], SyncMode::Always).await
    }

    /// On a device for each number, with so many zones.
    pub async fn with(seed: u64, zones: &[u64], sync: SyncMode) -> Rig {
        let env = Env::simulated(seed);
        let mut disks = Vec::new();
        for (number, zones) in zones.iter().enumerate() {
            let disk = SimDisk::new(&env, SimOptions { seed: seed + number as u64, ..SimOptions::default() });
            Device::format(&disk, &env, &format_options(number as u32, *zones)).await.expect("formats");
            disks.push(disk);
        }
        Rig::open(&env, disks, sync).await
    }

    pub async fn open(env: &Env, disks: Vec<SimDisk>, sync: SyncMode) -> Rig {
        let mut devices = Vec::new();
        for disk in &disks {
            let config = DeviceConfig { prewrite_zones: 0, sync, ..DeviceConfig::default() };
            devices.push(Device::open(Arc::new(disk.clone()), env, config).await.expect("the device opens"));
        }
        let volumes = devices.iter().map(|device| device.volume(OWNER)).collect();
        let store = Store::open(env, volumes, Founding::free()).await;
        Rig { env: env.clone(), disks, devices, store, sync }
    }

    /// The power goes, if it has not; what the next process finds.
    pub async fn crash(&self) -> Rig {
        self.on(self.disks.iter().map(SimDisk::crash).collect()).await
    }

    /// Only the process ends.
    pub async fn restart(&self) -> Rig {
        self.on(self.disks.iter().map(SimDisk::restart).collect()).await
    }

    async fn on(&self, disks: Vec<SimDisk>) -> Rig {
        for disk in &disks {
            disk.set_order(CompletionOrder::Inline);
            disk.set_ignores_flush(false);
        }
        Rig::open(&self.env, disks, self.sync).await
    }

    pub fn engine(&self) -> VolumeEngine {
        VolumeEngine::overwriting(self.store.clone())
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
        self.devices.iter().map(|device| device.volume(OWNER).units().len()).sum()
    }

    pub fn used_blocks(&self) -> u64 {
        self.store.inner.state.lock().pg.used_blocks()
    }
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

/// The answer; none where the power was cut first.
pub async fn patient<T>(asked: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, asked).await.ok()
}

/// Bytes that tell a version, and where they stand.
pub fn bytes(version: u64, len: usize) -> Vec<u8> {
    let word = |at: usize| (version << 32 ^ (at as u64 / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[at % 8];
    (0..len).map(word).collect()
}
