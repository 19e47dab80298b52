//! Devices for the subjects, and the runtime that they are on.

use super::baseline::Layout;
use super::baseline::directory::Directory;
use super::baseline::haystack::Haystack;
use super::baseline::tectonic::Tectonic;
use super::subject::Subject;
use super::tap::{LeaveOut, Tap};
use super::volume_engine::{Settings, VolumeStore, Writes};
use crate::runtime::on_core;
use anyhow::Context;
use disk::{AlignedBuf, Disk, DiskExt, Durability, FileDisk, OpenOptions};
use env::Env;
use kv::{FjallKv, Kv};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of a baseline's device. A segment of the log is as long as one of the engine's log may be.
pub const LAYOUT: Layout =
    Layout { log_segment_bytes: 8 << 20, slot_bytes: 32 << 20, slots: 64, open_volumes: 4, garbage_share: 0.3 };
/// Of the engine's.
pub const DEVICE_BYTES: u64 = LAYOUT.slot_bytes * LAYOUT.slots as u64;
/// Bytes of one write while a file is written for the first time.
const FILL_BYTES: u64 = 1 << 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Volumes,
    VolumesOrdered,
    /// Its device is written through the page cache.
    VolumesBuffered,
    /// Its log goes to memory: a RAM disk for METAX.
    VolumesMemory,
    Haystack,
    Tectonic,
    /// Names alone.
    Directory,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Volumes => "volume engine",
            Kind::VolumesOrdered => "volume engine OW",
            Kind::VolumesBuffered => "volume engine FS",
            Kind::VolumesMemory => "METAX in memory",
            Kind::Haystack => "Haystack",
            Kind::Tectonic => "Tectonic",
            Kind::Directory => "thin directory",
        }
    }

    fn is_baseline(self) -> bool {
        matches!(self, Kind::Haystack | Kind::Tectonic | Kind::Directory)
    }
}

/// Where devices are made.
pub struct Ground {
    folder: PathBuf,
    env: Env,
    /// Devices are written whole before.
    fills: bool,
}

impl Ground {
    pub fn new(work: &Path, fills: bool) -> anyhow::Result<Ground> {
        let folder = work.join("cheetah");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Ground { folder, env: Env::real_with_cores(1), fills })
    }

    /// Measures an empty store of a kind.
    pub fn with<T>(&self, kind: Kind, work: impl AsyncFnOnce(Arc<dyn Subject>) -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.with_tap(kind, async |subject, _| work(subject).await)
    }

    /// The same with a look at what its device is asked for.
    pub fn with_tap<T>(
        &self,
        kind: Kind,
        work: impl AsyncFnOnce(Arc<dyn Subject>, Arc<Tap>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        on_core(0, async || {
            let tap = self.device(kind).await?;
            let subject = self.subject(kind, tap.clone()).await.with_context(|| format!("beginning {}", kind.name()))?;
            work(subject, tap).await.with_context(|| format!("measuring {}", kind.name()))
        })
    }

    /// Measures an empty engine with its settings.
    pub fn with_engine<T>(
        &self,
        settings: Settings,
        work: impl AsyncFnOnce(Arc<VolumeStore>, Arc<Tap>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        on_core(0, async || {
            let tap = self.device(Kind::Volumes).await?;
            let store =
                VolumeStore::new(&self.env, tap.clone(), DEVICE_BYTES, settings).await.context("beginning an engine")?;
            work(Arc::new(store), tap).await
        })
    }

    async fn subject(&self, kind: Kind, disk: Arc<Tap>) -> anyhow::Result<Arc<dyn Subject>> {
        let env = &self.env;
        if kind.is_baseline() {
            LAYOUT.clear(&*disk).await?;
        }
        Ok(match kind {
            Kind::Volumes | Kind::VolumesBuffered | Kind::VolumesMemory => {
                Arc::new(VolumeStore::new(env, disk, DEVICE_BYTES, Settings::USUAL).await?)
            }
            Kind::VolumesOrdered => {
                let settings = Settings { writes: Writes::Ordered, ..Settings::USUAL };
                Arc::new(VolumeStore::new(env, disk, DEVICE_BYTES, settings).await?)
            }
            Kind::Directory => Arc::new(Directory::open(env, disk, LAYOUT, self.kv("directory")?).await?),
            Kind::Haystack => Arc::new(Haystack::open(env, disk, LAYOUT, self.kv("directory")?).await?),
            Kind::Tectonic => {
                let kvs = [self.kv("names")?, self.kv("files")?, self.kv("blocks")?];
                Arc::new(Tectonic::open(env, disk, LAYOUT, kvs).await?)
            }
        })
    }

    /// A file that has room for so many bytes, none of them written.
    pub async fn file(&self, name: &str, bytes: u64) -> anyhow::Result<Arc<dyn Disk>> {
        let path = self.folder.join(name);
        if path.exists() {
            std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        let options = OpenOptions { create: true, capacity_bytes: Some(bytes), direct: true };
        Ok(Arc::new(FileDisk::open_waiting(&self.env, &path, &options, disk::LOCK_PATIENCE).await?))
    }

    /// The device of all subjects of a kind, which was written whole before the first of them where that is wanted.
    async fn device(&self, kind: Kind) -> anyhow::Result<Arc<Tap>> {
        let (file, bytes) = match kind.is_baseline() {
            true => ("baseline", LAYOUT.device_bytes()),
            false => ("engine", DEVICE_BYTES),
        };
        let path = self.folder.join(file);
        let is_new = !path.exists();
        let direct = kind != Kind::VolumesBuffered;
        let options = OpenOptions { create: is_new, capacity_bytes: Some(bytes), direct };
        let disk = FileDisk::open_waiting(&self.env, &path, &options, disk::LOCK_PATIENCE).await?;
        if is_new {
            disk.allocate(0, bytes).await?;
        }
        if is_new && self.fills {
            for at in (0..bytes).step_by(FILL_BYTES as usize) {
                disk.write(at, AlignedBuf::zeroed(FILL_BYTES as usize), Durability::Volatile).await?;
            }
            disk.flush().await?;
        }
        let leave_out = if kind == Kind::VolumesMemory { LeaveOut::Frames } else { LeaveOut::Nothing };
        Ok(Tap::over(Arc::new(disk), leave_out))
    }

    /// An empty store.
    pub fn kv(&self, name: &str) -> anyhow::Result<Arc<dyn Kv>> {
        let folder = self.folder.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        Ok(Arc::new(FjallKv::open(&folder)?))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What can't be removed stays, and the next run removes it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
