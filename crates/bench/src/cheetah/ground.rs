//! Devices for the subjects, and the runtime that they are on.

use super::baseline::Layout;
use super::baseline::directory::Directory;
use super::baseline::haystack::Haystack;
use super::baseline::tectonic::Tectonic;
use super::subject::Subject;
use super::volume_engine::{VolumeStore, Writes};
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
}

impl Ground {
    pub fn new(work: &Path) -> anyhow::Result<Ground> {
        let folder = work.join("cheetah");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Ground { folder, env: Env::real_with_cores(1) })
    }

    /// Measures an empty store of a kind.
    pub fn with<T>(&self, kind: Kind, work: impl AsyncFnOnce(Arc<dyn Subject>) -> anyhow::Result<T>) -> anyhow::Result<T> {
        on_core(0, async || {
            let subject = self.subject(kind).await.with_context(|| format!("beginning {}", kind.name()))?;
            work(subject).await.with_context(|| format!("measuring {}", kind.name()))
        })
    }

    async fn subject(&self, kind: Kind) -> anyhow::Result<Arc<dyn Subject>> {
        let env = &self.env;
        let disk = self.device(kind).await?;
        if kind.is_baseline() {
            LAYOUT.clear(&*disk).await?;
        }
        Ok(match kind {
            Kind::Volumes | Kind::VolumesBuffered => {
                Arc::new(VolumeStore::new(env, disk, DEVICE_BYTES, Writes::Parallel).await?)
            }
            Kind::VolumesOrdered => Arc::new(VolumeStore::new(env, disk, DEVICE_BYTES, Writes::Ordered).await?),
            Kind::Directory => Arc::new(Directory::open(env, disk, LAYOUT, self.kv("directory")?).await?),
            Kind::Haystack => Arc::new(Haystack::open(env, disk, LAYOUT, self.kv("directory")?).await?),
            Kind::Tectonic => {
                let kvs = [self.kv("names")?, self.kv("files")?, self.kv("blocks")?];
                Arc::new(Tectonic::open(env, disk, LAYOUT, kvs).await?)
            }
        })
    }

    /// The device of all subjects of a kind, which was written whole before the first of them.
    async fn device(&self, kind: Kind) -> anyhow::Result<Arc<dyn Disk>> {
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
            for at in (0..bytes).step_by(FILL_BYTES as usize) {
                disk.write(at, AlignedBuf::zeroed(FILL_BYTES as usize), Durability::Volatile).await?;
            }
            disk.flush().await?;
        }
        Ok(Arc::new(disk))
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
