//! A store on a small device on a simulated disk.

use std::sync::Arc;
use std::time::Duration;

use device::{Device, DeviceConfig, FormatOptions, VolumeOwner};
use disk::{SimDisk, SimOptions};
use env::Env;
use format::chunk_block::{BLOCK_STRIDE_BYTES, BlockEntry};
use format::chunk_fences::FENCES_AREA_BYTES;
use format::chunk_id::ChunkId;
use format::zone_header::ZONE_DATA_START;
use types::{CellId, ClusterId, DeviceId};

use crate::blocks::layout::{data_start, slot_start};
use crate::blocks::{BlockStore, BlocksError};
use crate::message::{LiveCopy, NodeAnswer, NodeRequest};

pub const BLOCKS: u32 = 3;
/// A zone holds the fences and [`BLOCKS`] blocks.
pub const ZONE_BYTES: u64 = ZONE_DATA_START + FENCES_AREA_BYTES + BLOCKS as u64 * BLOCK_STRIDE_BYTES;
/// As few as a device can have: two of them may be lent.
pub const ZONES: u64 = 8;
/// Where the first unit of the volume stands, which gets the last zone.
pub const VOLUME_START: u64 = format::superblock::FIRST_REGION_BYTE + (ZONES - 1) * ZONE_BYTES + ZONE_DATA_START;
/// Longer than any answer takes, where the disk answers at all.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Rig {
    pub env: Env,
    pub disk: SimDisk,
    pub device: Device,
    pub store: Arc<BlockStore>,
}

pub fn options() -> FormatOptions {
    FormatOptions {
        cluster: ClusterId([9; 16]),
        device: DeviceId(7),
        cell: CellId(2),
        zone_bytes: Some(ZONE_BYTES),
        capacity_bytes: Some(format::superblock::FIRST_REGION_BYTE + ZONES * ZONE_BYTES),
        overwrite: false,
    }
}

/// A formatted disk.
pub async fn formatted(env: &Env, seed: u64) -> SimDisk {
    let disk = SimDisk::new(env, SimOptions { seed, ..SimOptions::default() });
    Device::format(&disk, env, &options()).await.expect("formats");
    disk
}

pub async fn open_device(env: &Env, disk: &SimDisk) -> Device {
    let config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
    Device::open(Arc::new(disk.clone()), env, config).await.expect("the device opens")
}

pub async fn try_open(env: &Env, disk: &SimDisk) -> Result<Rig, BlocksError> {
    let device = open_device(env, disk).await;
    let store = BlockStore::open(env, device.volume(VolumeOwner::Chunks)).await?;
    Ok(Rig { env: env.clone(), disk: disk.clone(), device, store: Arc::new(store) })
}

impl Rig {
    /// The fences, and the first [`BLOCKS`] blocks, have their space.
    pub async fn new(seed: u64) -> Rig {
        let env = Env::simulated(seed);
        let disk = formatted(&env, seed).await;
        let rig = Rig::open(&env, &disk).await;
        rig.store.inner.fences.begin().await.expect("there is space");
        rig
    }

    pub async fn open(env: &Env, disk: &SimDisk) -> Rig {
        try_open(env, disk).await.expect("the store opens")
    }

    /// The power goes, if it has not; what the next process finds.
    pub async fn crash(&self) -> Rig {
        Rig::open(&self.env, &self.disk.crash()).await
    }

    /// The answer; none where the power was cut first.
    pub async fn try_ask(&self, block: u32, id: ChunkId, request: NodeRequest) -> Option<NodeAnswer> {
        tokio::time::timeout(PATIENCE, self.store.handle(block, id, request)).await.ok()
    }

    pub async fn ask(&self, block: u32, id: ChunkId, request: NodeRequest) -> NodeAnswer {
        self.try_ask(block, id, request).await.expect("the disk answers")
    }

    /// The content of a live copy.
    pub async fn content(&self, block: u32, id: ChunkId) -> Result<Vec<u8>, NodeAnswer> {
        match self.ask(block, id, NodeRequest::Read).await {
            NodeAnswer::Live(LiveCopy { content: Some(content), .. }) => Ok(content.to_vec()),
            other => Err(other),
        }
    }

    pub fn entry(&self, id: ChunkId) -> BlockEntry {
        let work = self.store.inner.work.lock();
        *work.machine.entries().find(|(_, entry)| entry.id == id).expect("it is there").1
    }

    /// Where a chunk's content stands on the disk.
    pub fn content_place(&self, block: u32, id: ChunkId) -> u64 {
        VOLUME_START + data_start(block, self.entry(id).offset)
    }
}

/// Where a slot of a block's header stands on the disk.
pub fn slot_place(block: u32, slot: u64) -> u64 {
    VOLUME_START + slot_start(block, slot)
}

/// Bytes that follow from a number.
pub fn bytes(seed: u64, len: usize) -> bytes::Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect::<Vec<u8>>().into()
}
