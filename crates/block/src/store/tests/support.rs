//! A store on a small device on a simulated disk, and content that says which blob it is of.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use device::{Device, DeviceConfig, FormatOptions, SyncMode, VolumeOwner};
use disk::{SECTOR_BYTES, SimDisk, SimOptions};
use env::Env;
use format::blob_header::{BLOB_STRIDE_BYTES, BlobState};
use format::superblock::FIRST_REGION_BYTE;
use format::zone_header::ZONE_DATA_START;
use futures_util::FutureExt;
use types::{BlobId, CellId, ClusterId, DeviceId, ImageEpoch, ImageId, Layer, PIECE_BYTES, Pieces, Token};

use crate::store::layout::slot_start;
use crate::store::{BlobStore, OpenStoreError};
use crate::stores::{Admission, BlobAt, BlobRow, Change, NewBlob, StoreError};

/// Every third block straddles two units.
pub const UNIT_BYTES: u64 = 2 * BLOB_STRIDE_BYTES + (2 << 20);
/// Four of them may be lent.
const ZONES: u64 = 10;
/// Blocks that find space.
pub const BLOCKS: u32 = (4 * UNIT_BYTES / BLOB_STRIDE_BYTES) as u32;
/// Longer than any answer takes, where the disk answers at all.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Rig {
    pub env: Env,
    pub disk: SimDisk,
    pub device: Device,
    pub store: Arc<BlobStore>,
    unit_bytes: u64,
    sync: SyncMode,
}

impl Rig {
    pub async fn new(seed: u64) -> Rig {
        Rig::with(seed, UNIT_BYTES, SyncMode::Always).await
    }

    pub async fn with(seed: u64, unit_bytes: u64, sync: SyncMode) -> Rig {
        Rig::formatted(seed, &options_with(unit_bytes), unit_bytes, sync).await
    }

    /// One of several devices.
    pub async fn numbered(device: u32) -> Rig {
        let options = FormatOptions { device: DeviceId(device), ..format_options() };
        Rig::formatted(u64::from(device), &options, UNIT_BYTES, SyncMode::Always).await
    }

    async fn formatted(seed: u64, options: &FormatOptions, unit_bytes: u64, sync: SyncMode) -> Rig {
        let env = Env::simulated(seed);
        let disk = SimDisk::new(&env, SimOptions { seed, ..SimOptions::default() });
        Device::format(&disk, &env, options).await.expect("formats");
        Rig::open(&env, &disk, unit_bytes, sync).await.expect("the store opens")
    }

    async fn open(env: &Env, disk: &SimDisk, unit_bytes: u64, sync: SyncMode) -> Result<Rig, OpenStoreError> {
        let config = DeviceConfig { prewrite_zones: 0, sync, ..DeviceConfig::default() };
        let device = Device::open(Arc::new(disk.clone()), env, config).await.expect("the device opens");
        let store = BlobStore::open(env, device.volume(VolumeOwner::Images)).await?;
        Ok(Rig { env: env.clone(), disk: disk.clone(), device, store: Arc::new(store), unit_bytes, sync })
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
        disk.set_order(disk::CompletionOrder::Inline);
        disk.set_ignores_flush(false);
        Rig::open(&self.env, disk, self.unit_bytes, self.sync).await.expect("the store opens")
    }

    pub async fn enter(&self, holder: Admission) -> Vec<BlobRow> {
        self.store.enter(holder).await.expect("enters")
    }

    pub async fn create(&self, holder: Admission, id: BlobId, change: Change) -> BlobAt {
        let block = self.store.create(holder, new(id), change).await.expect("there is space");
        BlobAt { block, id }
    }

    pub async fn change(&self, holder: Admission, at: BlobAt, change: Change) {
        self.store.change(holder, at, change).await.expect("changes");
    }

    pub async fn free(&self, holder: Admission, at: BlobAt) {
        self.store.free(holder, at).await.expect("frees");
    }

    pub async fn read_piece(&self, at: BlobAt, piece: u32) -> Result<Bytes, StoreError> {
        self.store.read(None, at, piece * PIECE_BYTES, PIECE_BYTES).await
    }

    /// Checks that a piece has this version as a whole.
    pub async fn expect_piece(&self, at: BlobAt, piece: u32, version: u64) {
        let found = self.read_piece(at, piece).await.expect("reads");
        assert!(found == stamped(at.id, piece * PIECE_BYTES, PIECE_BYTES as usize, version), "piece {piece} of {}", at.id);
    }

    /// What the memory says of an image.
    pub fn rows(&self, image: u64) -> Vec<BlobRow> {
        self.store.inner.state.lock().table.rows_of(ImageId(image))
    }

    pub fn lent_units(&self) -> usize {
        self.device.volume(VolumeOwner::Images).units().len()
    }

    /// Where a slot of a header of the first unit stands on the disk, whose zone is the last one.
    pub fn slot_place(&self, block: u32, slot: u64) -> u64 {
        let zone_bytes = ZONE_DATA_START + self.unit_bytes;
        FIRST_REGION_BYTE + (ZONES - 1) * zone_bytes + ZONE_DATA_START + slot_start(block, slot)
    }
}

pub fn format_options() -> FormatOptions {
    options_with(UNIT_BYTES)
}

fn options_with(unit_bytes: u64) -> FormatOptions {
    let zone_bytes = ZONE_DATA_START + unit_bytes;
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

pub fn holder(image: u64, token: u64) -> Admission {
    Admission { image: ImageId(image), token: Token(token), session: 0, epoch: ImageEpoch(1) }
}

pub fn id(image: u64, index: u32) -> BlobId {
    BlobId { image: ImageId(image), index, layer: Layer(1) }
}

pub fn new(id: BlobId) -> NewBlob {
    NewBlob { id, state: BlobState::Whole, parent: None }
}

pub fn pieces(range: std::ops::Range<u32>) -> Pieces {
    Pieces::within(range.start * PIECE_BYTES..range.end * PIECE_BYTES)
}

/// Pieces get content.
pub fn fill(id: BlobId, range: std::ops::Range<u32>, version: u64) -> Change {
    let (offset, len) = (range.start * PIECE_BYTES, range.len() * PIECE_BYTES as usize);
    Change { offset, content: stamped(id, offset, len, version), filled: pieces(range), ..Change::default() }
}

/// Content for pieces that have some.
pub fn overwrite(id: BlobId, offset: u32, len: usize, version: u64) -> Change {
    Change { offset, content: stamped(id, offset, len, version), ..Change::default() }
}

/// Content of which each sector says where it belongs, and which version it is.
pub fn stamped(id: BlobId, offset: u32, len: usize, version: u64) -> Bytes {
    let sector = |number: usize| {
        let mut sector = [version as u8; SECTOR_BYTES];
        sector[..8].copy_from_slice(&id.image.0.to_le_bytes());
        sector[8..12].copy_from_slice(&id.index.to_le_bytes());
        sector[12..16].copy_from_slice(&id.layer.0.to_le_bytes());
        sector[16..24].copy_from_slice(&(number as u64).to_le_bytes());
        sector[24..32].copy_from_slice(&version.to_le_bytes());
        sector
    };
    let first = offset as usize / SECTOR_BYTES;
    (first..first + len / SECTOR_BYTES).flat_map(sector).collect::<Vec<u8>>().into()
}

/// The version of a stamped sector.
pub fn version_of(sector: &[u8]) -> u64 {
    u64::from_le_bytes(sector[24..32].try_into().expect("eight bytes"))
}
