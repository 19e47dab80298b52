//! A log engine in this process, for what can't be brought about at a server's ports: millions of entries that nobody wrote, collection at
//! a given moment. Three devices, files in one folder; its background work on one thread, the foreground load on another, as a server
//! has them.

use crate::runtime::on_core;
use crate::timeline::Timeline;
use anyhow::{Context, anyhow};
use bytes::Bytes;
use device::{Device, DeviceConfig, FormatOptions};
use disk::{Disk, FileDisk, OpenOptions};
use engine::{Condition, EngineError, EngineFuture, ObjectEngine, ObjectKey};
use env::Env;
use format::attributes::Attributes;
use logstore::{LogStore, LogStoreConfig, Manifests};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use types::{BucketId, CellId, ClusterId, DeviceId, Epoch};

const BUCKET: BucketId = BucketId(1);
const BODY_BYTES: usize = 4096;
/// Copies, each on a device of its own.
const DEVICES: u32 = 3;
/// Operations of the foreground at a time.
const TASKS: u64 = 16;
/// How long the lock of a device may be held by what is just ending.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// New objects get numbers at random of so many: hardly ever one twice.
const NEW_NUMBERS: u64 = 1 << 33;
/// Threads with a share in the disks' rings: the foreground's and this one.
const THREADS: usize = 2;

/// The files of an engine. They go when this is dropped.
pub struct Ground {
    folder: PathBuf,
    env: Env,
    manifests: Arc<Memory>,
    devices: Vec<Arc<Device>>,
    capacity_bytes: u64,
}

/// The manager's part, in memory: nothing of it outlives the experiment.
#[derive(Default)]
struct Memory(Mutex<(u64, Option<Vec<u8>>)>);

impl Manifests for Memory {
    fn load(&self) -> Option<Vec<u8>> {
        self.0.lock().1.clone()
    }

    fn install(&self, _expected: Epoch, _epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            self.0.lock().1 = Some(manifest);
            Ok(())
        })
    }

    fn incarnation(&self) -> EngineFuture<'_, u64> {
        Box::pin(async move {
            let mut kept = self.0.lock();
            kept.0 += 1;
            Ok(kept.0)
        })
    }
}

/// What the foreground does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Replaces objects of 4 KiB.
    Put,
    /// Writes new ones: nothing becomes garbage.
    New,
    /// Reads them.
    Get,
}

impl Work {
    pub fn name(self) -> &'static str {
        match self {
            Work::Put | Work::New => "PUT",
            Work::Get => "GET",
        }
    }
}

/// Runs an experiment on the thread that the engine's background work has.
pub fn run<T>(work: impl AsyncFnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    on_core(THREADS - 1, work)
}

impl Ground {
    /// Formats devices of so many bytes in a new folder.
    pub async fn new(folder: &Path, capacity_bytes: u64, zone_bytes: Option<u64>) -> anyhow::Result<Ground> {
        let env = Env::real_with_cores(THREADS);
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        for number in 1..=DEVICES {
            let options = OpenOptions { create: true, capacity_bytes: Some(capacity_bytes), direct: true };
            let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&folder.join(format!("device-{number}")), &options)?);
            let format = FormatOptions {
                cluster: ClusterId([1; 16]),
                device: DeviceId(number),
                cell: CellId(1),
                zone_bytes,
                capacity_bytes: Some(capacity_bytes),
                overwrite: false,
            };
            Device::format(&*disk, &env, &format).await.context("formatting a device")?;
        }
        let mut ground =
            Ground { folder: folder.to_owned(), env, manifests: Arc::default(), devices: Vec::new(), capacity_bytes };
        ground.reopen().await?;
        Ok(ground)
    }

    /// Opens the devices anew, as after a crash: whatever an engine was doing in a runtime that has ended is cut off.
    pub async fn reopen(&mut self) -> anyhow::Result<()> {
        self.devices.clear();
        for number in 1..=DEVICES {
            let options = OpenOptions { create: false, capacity_bytes: Some(self.capacity_bytes), direct: true };
            let path = self.folder.join(format!("device-{number}"));
            let disk = FileDisk::open_waiting(&self.env, &path, &options, LOCK_PATIENCE).await?;
            let device = Device::open(Arc::new(disk), &self.env, DeviceConfig::default()).await.context("opening a device")?;
            self.devices.push(Arc::new(device));
        }
        Ok(())
    }

    /// Starts the engine. No checkpoint comes by itself.
    pub async fn open(&self, config: LogStoreConfig) -> anyhow::Result<LogStore> {
        let config = LogStoreConfig {
            checkpoint_entries: usize::MAX,
            checkpoint_bytes: u64::MAX,
            checkpoint_interval: Duration::from_secs(86_400),
            ..config
        };
        let (env, manifests) = (self.env.clone(), self.manifests.clone());
        LogStore::open(config, env, manifests, self.devices.clone(), &[]).await.context("opening the engine")
    }

    /// Foreground work until the timeline is told to stop, over so many keys, on a thread of its own.
    pub fn load(
        &self,
        store: &LogStore,
        work: Work,
        keys: u64,
        timeline: &Arc<Timeline>,
    ) -> std::thread::JoinHandle<anyhow::Result<()>> {
        let (env, store, timeline) = (self.env.clone(), store.clone(), timeline.clone());
        std::thread::spawn(move || {
            on_core(0, async || {
                let mut tasks = tokio::task::JoinSet::new();
                for task in 0..TASKS {
                    tasks.spawn(foreground(env.clone(), store.clone(), work, (task, keys), timeline.clone()));
                }
                while let Some(ended) = tasks.join_next().await {
                    ended.context("a task of the foreground")??;
                }
                Ok(())
            })
        })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What can't be removed stays, and the next run removes it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Ends a load.
pub fn end(load: std::thread::JoinHandle<anyhow::Result<()>>, timeline: &Timeline) -> anyhow::Result<()> {
    timeline.stop();
    load.join().map_err(|_| anyhow!("the foreground panicked"))?
}

/// Each task has every `TASKS`-th key.
async fn foreground(
    env: Env,
    store: LogStore,
    work: Work,
    (task, keys): (u64, u64),
    timeline: Arc<Timeline>,
) -> anyhow::Result<()> {
    // Other choices in each load: new objects are new in all of them.
    let mut random = crate::random::Random::new(env.random_u64(), task);
    while !timeline.is_over() {
        let number = random.below(keys / TASKS) * TASKS + task;
        match work {
            Work::Put => put(&env, &store, number).await?,
            Work::New => put(&env, &store, keys + random.below(NEW_NUMBERS)).await?,
            Work::Get => {
                let key = key(number);
                match store.open_cached(&key) {
                    Some(found) => found.map(|_| ())?,
                    None => store.open(&key).await.map(|_| ())?,
                }
                // A read from the page cache never waits.
                tokio::task::yield_now().await;
            }
        }
        timeline.note(1);
    }
    Ok(())
}

/// The object with this number.
pub fn key(number: u64) -> ObjectKey {
    ObjectKey::new(BUCKET, Bytes::from(format!("object-{number:010}"))).expect("a short name is a key")
}

/// Writes it.
pub async fn put(env: &Env, store: &LogStore, number: u64) -> Result<(), EngineError> {
    let attributes = Attributes { modified_ms: env.wall_clock_ms(), ..Attributes::default() };
    let payload = std::iter::once(Bytes::from(vec![number as u8; BODY_BYTES])).collect();
    store.put(&key(number), attributes, payload, Condition::None).await.map(|_| ())
}

/// Writes these objects, several at a time.
pub async fn fill(ground: &Ground, store: &LogStore, numbers: impl Iterator<Item = u64>) -> anyhow::Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in numbers {
        if tasks.len() as u64 >= 4 * TASKS {
            tasks.join_next().await.context("a task")?.context("a write")??;
        }
        let (env, store) = (ground.env.clone(), store.clone());
        tasks.spawn(async move { put(&env, &store, number).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a write")??;
    }
    Ok(())
}
