//! A gateway over simulated disks that can crash and start again.

use crate::{LogStore, LogStoreConfig, Manifests};
use device::{Device, DeviceConfig, FormatOptions};
use disk::{Disk, SimDisk, SimOptions};
use engine::{EngineError, EngineFuture, ObjectKey};
use env::Env;
use format::attributes::{Attributes, ETag};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use types::{BucketId, CellId, ClusterId, DeviceId, Epoch};

pub const BUCKET: BucketId = BucketId(7);

/// The manager's part, in memory: it survives crashes of the gateway.
#[derive(Default)]
pub struct MemoryManifests(Mutex<(Epoch, Option<Vec<u8>>, u64)>);

impl Manifests for MemoryManifests {
    fn load(&self) -> Option<Vec<u8>> {
        self.0.lock().1.clone()
    }

    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let mut state = self.0.lock();
            if state.0 != expected {
                return Err(EngineError::Conflict { reason: format!("epoch {} is installed, not {expected}", state.0) });
            }
            state.0 = epoch;
            state.1 = Some(manifest);
            Ok(())
        })
    }

    fn incarnation(&self) -> EngineFuture<'_, u64> {
        Box::pin(async move {
            let mut state = self.0.lock();
            state.2 += 1;
            Ok(state.2)
        })
    }
}

/// What survives a crash.
pub struct Rig {
    pub env: Env,
    pub disks: Vec<SimDisk>,
    pub manifests: Arc<MemoryManifests>,
    pub config: LogStoreConfig,
}

impl Rig {
    /// Freshly formatted devices with zones of this many bytes.
    pub async fn new(seed: u64, devices: u32, zones: u64, zone_bytes: u64) -> Rig {
        let env = Env::simulated(seed);
        let mut disks = Vec::new();
        for id in 1..=devices {
            let capacity_bytes = Some(zones * zone_bytes + 8 * 1024 * 1024);
            let disk = SimDisk::new(&env, SimOptions { seed: seed + id as u64, capacity_bytes, ..SimOptions::default() });
            let options = FormatOptions {
                cluster: ClusterId([1; 16]),
                device: DeviceId(id),
                cell: CellId(1),
                zone_bytes: Some(zone_bytes),
                capacity_bytes,
                overwrite: false,
            };
            Device::format(&disk, &env, &options).await.unwrap();
            disks.push(disk);
        }
        let config = LogStoreConfig { checkpoint_interval: Duration::from_secs(3600), ..LogStoreConfig::default() };
        Rig { env, disks, manifests: Arc::default(), config }
    }

    pub async fn devices(&self) -> Vec<Arc<Device>> {
        let mut devices = Vec::new();
        for disk in &self.disks {
            let disk: Arc<dyn Disk> = Arc::new(disk.clone());
            let config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
            devices.push(Arc::new(Device::open(disk, &self.env, config).await.unwrap()));
        }
        devices
    }

    pub async fn open(&self) -> LogStore {
        let devices = self.devices().await;
        LogStore::open(self.config.clone(), self.env.clone(), self.manifests.clone(), devices, &[]).await.unwrap()
    }

    /// Power cut: what the disks had not made durable is lost in part.
    pub fn crash(&mut self) {
        self.disks = self.disks.iter().map(|disk| disk.crash()).collect();
    }
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::new(BUCKET, bytes::Bytes::copy_from_slice(name.as_bytes())).unwrap()
}

/// Attributes whose tag tells the content.
pub fn attributes(content: &[u8]) -> Attributes {
    let digest = blake3::hash(content);
    let etag = ETag::Md5(digest.as_bytes()[..16].try_into().unwrap());
    Attributes { etag, modified_ms: 1_700_000_000_000, ..Attributes::default() }
}
