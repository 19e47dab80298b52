//! A gateway over simulated disks that can crash and start again.

use super::mains::{Mains, Plugged};
use crate::index::Located;
use crate::store::SHARDS;
use crate::{IndexForm, LogStore, LogStoreConfig, LudoForm, Manifests, OpenError};
use device::{Device, DeviceConfig, FormatOptions};
use disk::{CompletionOrder, Disk, SimDisk, SimOptions};
use engine::{ContentReader, EngineError, EngineFuture, ObjectKey};
use env::Env;
use format::attributes::{Attributes, ETag};
use format::manifest::Manifest;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use types::{BucketId, CellId, ClusterId, DeviceId, Epoch, KeyHash};

pub const BUCKET: BucketId = BucketId(7);

/// The manager's part, in memory: it survives crashes of the gateway.
#[derive(Default)]
pub struct MemoryManifests(Mutex<Installed>);

#[derive(Default)]
struct Installed {
    epoch: Epoch,
    manifest: Option<Vec<u8>>,
    incarnation: u64,
    is_refusing: bool,
    loses_answers: bool,
}

impl MemoryManifests {
    fn replace(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> Result<(), EngineError> {
        let mut installed = self.0.lock();
        if installed.is_refusing {
            return Err(EngineError::Unavailable { reason: "the manager takes nothing now".to_owned() });
        }
        if installed.epoch != expected {
            return Err(EngineError::Conflict { reason: format!("epoch {} is installed, not {expected}", installed.epoch) });
        }
        installed.epoch = epoch;
        installed.manifest = Some(manifest);
        match installed.loses_answers {
            true => Err(EngineError::Unavailable { reason: "the manager's answer was lost".to_owned() }),
            false => Ok(()),
        }
    }

    fn next_incarnation(&self) -> u64 {
        let mut installed = self.0.lock();
        installed.incarnation += 1;
        installed.incarnation
    }
}

impl MemoryManifests {
    /// What a start would find.
    pub fn installed(&self) -> Manifest {
        self.load().map_or_else(Manifest::default, |bytes| Manifest::decode(&bytes).unwrap())
    }

    /// From here on manifests are refused, or taken again.
    pub fn set_refusing(&self, is_refusing: bool) {
        self.0.lock().is_refusing = is_refusing;
    }

    /// From here on manifests are taken, and nobody hears of it; or answers come again.
    pub fn set_losing_answers(&self, loses_answers: bool) {
        self.0.lock().loses_answers = loses_answers;
    }
}

impl Manifests for MemoryManifests {
    fn load(&self) -> Option<Vec<u8>> {
        self.0.lock().manifest.clone()
    }

    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.replace(expected, epoch, manifest) })
    }

    fn incarnation(&self) -> EngineFuture<'_, u64> {
        Box::pin(async move { Ok(self.next_incarnation()) })
    }
}

/// The manager as one start of the gateway sees it: it is on the same mains.
struct PluggedManifests {
    memory: Arc<MemoryManifests>,
    mains: Arc<Mains>,
}

impl PluggedManifests {
    /// Counts a change; never ends if the power is off. True if the power goes after it.
    async fn change(&self, what: u64) -> bool {
        if self.mains.is_off() {
            std::future::pending::<()>().await;
        }
        self.mains.change([u64::MAX, what, 0, 0])
    }

    async fn cut(&self) {
        self.mains.cut();
        std::future::pending::<()>().await;
    }
}

impl Manifests for PluggedManifests {
    fn load(&self) -> Option<Vec<u8>> {
        self.memory.load()
    }

    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            let goes = self.change(epoch.0).await;
            // At a cut it is installed or not; each happens.
            if goes && self.mains.record().1.is_multiple_of(2) {
                self.cut().await;
            }
            let outcome = self.memory.replace(expected, epoch, manifest);
            if goes {
                self.cut().await;
            }
            outcome
        })
    }

    fn incarnation(&self) -> EngineFuture<'_, u64> {
        Box::pin(async move {
            let goes = self.change(0).await;
            let incarnation = self.memory.next_incarnation();
            if goes {
                self.cut().await;
            }
            Ok(incarnation)
        })
    }
}

/// What survives a crash.
pub struct Rig {
    pub env: Env,
    pub disks: Vec<SimDisk>,
    pub mains: Arc<Mains>,
    pub manifests: Arc<MemoryManifests>,
    pub config: LogStoreConfig,
}

impl Rig {
    /// Freshly formatted devices with zones of this many bytes.
    pub async fn new(seed: u64, devices: u32, zones: u64, zone_bytes: u64) -> Rig {
        Rig::with_zones(seed, &vec![zones; devices as usize], zone_bytes).await
    }

    /// Freshly formatted devices, each with this many zones.
    pub async fn with_zones(seed: u64, zones: &[u64], zone_bytes: u64) -> Rig {
        let env = Env::simulated(seed);
        let mut disks = Vec::new();
        for (id, zones) in (1u32..).zip(zones) {
            let capacity_bytes = Some(zones * zone_bytes + 8 * 1024 * 1024);
            let name = format!("disk {id}");
            let disk = SimDisk::new(&env, SimOptions { name, seed: seed + id as u64, capacity_bytes, ..SimOptions::default() });
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
        let config = LogStoreConfig {
            checkpoint_interval: Duration::from_secs(3600),
            scrub_period: Duration::ZERO,
            index: index_under_test(),
            ..LogStoreConfig::default()
        };
        let mains = Mains::on(disks.clone());
        Rig { env, disks, mains, manifests: Arc::default(), config }
    }

    pub async fn device(&self, id: DeviceId) -> Result<Arc<Device>, device::OpenError> {
        open_device(self.disks[id.0 as usize - 1].clone(), self.mains.clone(), id, &self.env).await
    }

    /// Opens all devices but `missing`, and the engine over them.
    pub async fn try_open(&self, missing: &[DeviceId]) -> Result<LogStore, OpenError> {
        self.open_among(missing, missing).await
    }

    /// Opens the engine after a person has said that these devices are gone for good.
    pub async fn open_forgetting(&self, gone: &[DeviceId]) -> LogStore {
        self.try_open_forgetting(gone).await.unwrap()
    }

    pub async fn try_open_forgetting(&self, gone: &[DeviceId]) -> Result<LogStore, OpenError> {
        self.open_among(gone, &[]).await
    }

    async fn open_among(&self, without: &[DeviceId], missing: &[DeviceId]) -> Result<LogStore, OpenError> {
        let mut devices = Vec::new();
        for id in (1..=self.disks.len() as u32).map(DeviceId).filter(|id| !without.contains(id)) {
            devices.push(self.device(id).await.unwrap());
        }
        let manifests = Arc::new(PluggedManifests { memory: self.manifests.clone(), mains: self.mains.clone() });
        LogStore::open(self.config.clone(), self.env.clone(), manifests, devices, missing).await
    }

    pub async fn open_without(&self, missing: &[DeviceId]) -> LogStore {
        self.try_open(missing).await.unwrap()
    }

    pub async fn open(&self) -> LogStore {
        self.open_without(&[]).await
    }

    pub fn set_order(&self, order: CompletionOrder) {
        self.disks.iter().for_each(|disk| disk.set_order(order));
    }

    pub fn set_ignores_flush(&self, ignores_flush: bool) {
        self.disks.iter().for_each(|disk| disk.set_ignores_flush(ignores_flush));
    }

    /// Power cut: what the disks had not made durable is lost in part.
    pub fn crash(&mut self) {
        self.mains.cut();
        self.restart();
    }

    /// Only the process ended, unless the power was cut before: all that it wrote is there.
    pub fn restart(&mut self) {
        self.mains.end();
        self.disks = self.disks.iter().map(|disk| disk.restart()).collect();
        self.set_order(CompletionOrder::Inline);
        self.mains = Mains::on(self.disks.clone());
    }
}

/// Opens a device on a disk that hangs on these mains.
pub async fn open_device(disk: SimDisk, mains: Arc<Mains>, id: DeviceId, env: &Env) -> Result<Arc<Device>, device::OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(Plugged { disk, mains, number: id.0 as u64 });
    let config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
    Ok(Arc::new(Device::open(disk, env, config).await?))
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

/// Seeded draws (SplitMix64): the same on every machine.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// How many times longer tests run than by default.
pub fn soak() -> u64 {
    std::env::var("TRILITH_SOAK").map_or(1, |text| text.parse().expect("TRILITH_SOAK is a number"))
}

/// Saved records without their keys, sealed all the time, with fingerprints that let every fourth absent key pass for another.
pub const KEYLESS: IndexForm = IndexForm::Ludo(LudoForm { fingerprint_bits: 2, seal_entries: 3 });

/// The form of the index in tests that ask for none: all of them can be run with the other one.
fn index_under_test() -> IndexForm {
    match std::env::var("TRILITH_TEST_INDEX").as_deref() {
        Err(_) | Ok("full") => IndexForm::Full,
        Ok("ludo") => KEYLESS,
        Ok(other) => panic!("TRILITH_TEST_INDEX is full or ludo, not {other}"),
    }
}

/// All newest records of a store.
pub async fn records(store: &LogStore) -> Vec<(KeyHash, Located)> {
    let mut records = Vec::new();
    store.inner.visit_records(0..SHARDS, &mut |hash, located| records.push((hash, located))).await.unwrap();
    records
}

/// Lets whatever can go on now do so.
pub async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// All of an object of so many bytes.
pub async fn read_all(reader: &dyn ContentReader, bytes: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < bytes {
        read.extend_from_slice(&reader.read(read.len() as u64..bytes as u64).await.unwrap());
    }
    read
}

/// Runs a test's future on a runtime of its own, whose clock jumps to the next timer when nothing else is to be done.
pub fn simulate<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}
