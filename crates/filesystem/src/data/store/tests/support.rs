//! A store on a small device on a simulated disk.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use device::{Device, DeviceConfig, FormatOptions, SyncMode, VolumeOwner};
use disk::{CompletionOrder, SimDisk, SimOptions};
use env::Env;
use format::superblock::FIRST_REGION_BYTE;
use format::zone_header::ZONE_DATA_START;
use futures_util::FutureExt;
use types::{CellId, ClusterId, DeviceId};

use crate::data::store::{ExtentStore, OpenStoreError};
use crate::data::{DataError, DataPartition, Extents};
use crate::ids::ExtentId;

pub const BLOCK: usize = 4096;
/// 256 blocks; the journal is in the first two units.
pub const UNIT_BYTES: u64 = 1 << 20;
const ZONES: u64 = 24;
/// Longer than any answer takes, where the disk answers at all.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    pub env: Env,
    pub disk: SimDisk,
    pub device: Device,
    pub store: Arc<ExtentStore>,
    pub sync: SyncMode,
}

impl Rig {
    pub async fn new(seed: u64) -> Rig {
        Rig::with(seed, SyncMode::Always).await
    }

    pub async fn with(seed: u64, sync: SyncMode) -> Rig {
        let env = Env::simulated(seed);
        let disk = SimDisk::new(&env, SimOptions { seed, ..SimOptions::default() });
        Device::format(&disk, &env, &format_options()).await.expect("formats");
        Rig::open(&env, &disk, sync).await.expect("the store opens")
    }

    pub async fn open(env: &Env, disk: &SimDisk, sync: SyncMode) -> Result<Rig, OpenStoreError> {
        let config = DeviceConfig { prewrite_zones: 0, sync, ..DeviceConfig::default() };
        let device = Device::open(Arc::new(disk.clone()), env, config).await.expect("the device opens");
        let store = ExtentStore::open(env, device.volume(VolumeOwner::Files)).await?;
        Ok(Rig { env: env.clone(), disk: disk.clone(), device, store: Arc::new(store), sync })
    }

    /// The power goes, if it has not; what the next process finds.
    pub async fn crash(&self) -> Rig {
        self.on(&self.disk.crash()).await
    }

    /// Only the process ends.
    pub async fn restart(&self) -> Rig {
        self.on(&self.disk.restart()).await
    }

    pub async fn on(&self, disk: &SimDisk) -> Rig {
        disk.set_order(CompletionOrder::Inline);
        disk.set_ignores_flush(false);
        Rig::open(&self.env, disk, self.sync).await.expect("the store opens")
    }

    pub async fn create(&self) -> ExtentId {
        self.store.create(Bytes::new()).await.expect("creates")
    }

    pub async fn append(&self, extent: ExtentId, offset: usize, data: &[u8]) {
        self.store.append(extent, offset as u64, Bytes::copy_from_slice(data)).await.expect("appends");
    }

    pub async fn overwrite(&self, extent: ExtentId, offset: usize, data: &[u8]) {
        self.store.overwrite(extent, offset as u64, Bytes::copy_from_slice(data)).await.expect("overwrites");
    }

    pub async fn read(&self, extent: ExtentId, offset: usize, len: usize) -> Result<Bytes, DataError> {
        self.store.read(extent, offset as u64, len).await
    }

    pub async fn punch(&self, extent: ExtentId, offset: usize, len: usize) {
        self.store.punch(extent, offset as u64, len as u64).await.expect("punches");
    }

    pub async fn expect(&self, extent: ExtentId, offset: usize, data: &[u8]) {
        let found = self.read(extent, offset, data.len()).await.expect("reads");
        assert!(found == data, "{} bytes at {offset} of {extent:?}", data.len());
    }

    pub async fn maintain(&self) {
        self.store.inner.clone().maintain_once().await.expect("maintains");
    }

    pub async fn checkpoint(&self) {
        self.store.inner.checkpoint().await.expect("a checkpoint is made");
    }

    pub fn lent_units(&self) -> usize {
        self.device.volume(VolumeOwner::Files).units().len()
    }

    /// Where a block of the volume stands on the disk.
    pub fn disk_offset(&self, place: u32) -> u64 {
        let (unit, block) = (u64::from(place) / (UNIT_BYTES / 4096), u64::from(place) % (UNIT_BYTES / 4096));
        let zone_bytes = ZONE_DATA_START + UNIT_BYTES;
        // Zones are lent from the last one on, and units ascend in these tests.
        FIRST_REGION_BYTE + (ZONES - 1 - unit) * zone_bytes + ZONE_DATA_START + block * 4096
    }

    /// The place of a block of an extent.
    pub fn place(&self, extent: ExtentId, block: u64) -> u32 {
        let state = self.store.inner.state.lock();
        state.table.get(extent).and_then(|found| found.get(block)).expect("it has a place").place
    }
}

pub fn format_options() -> FormatOptions {
    let zone_bytes = ZONE_DATA_START + UNIT_BYTES;
    FormatOptions {
        cluster: ClusterId([9; 16]),
        device: DeviceId(7),
        cell: CellId(2),
        zone_bytes: Some(zone_bytes),
        capacity_bytes: Some(FIRST_REGION_BYTE + ZONES * zone_bytes),
        overwrite: false,
    }
}

/// The answer; none where the power was cut first.
pub async fn patient<T>(asked: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, asked).await.ok()
}

/// Polls once.
pub fn poll<T>(asked: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    tokio::task::unconstrained(asked).now_or_never()
}

/// Lets tasks run as far as they come.
pub async fn idle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Bytes that tell a version, and where they stand.
pub fn bytes(version: u64, offset: usize, len: usize) -> Vec<u8> {
    let word = |at: usize| (version << 32 ^ (at as u64 / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[at % 8];
    (offset..offset + len).map(word).collect()
}
