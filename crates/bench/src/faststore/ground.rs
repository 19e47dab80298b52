//! Files to write to, and the runtime that does it.

use super::bluestore::{BlueStore, Layout};
use super::in_place::{self, InPlace};
use crate::runtime::on_core;
use anyhow::Context;
use disk::{AlignedBuf, Disk, DiskExt, Durability, FileDisk, OpenOptions, ReadMode};
use env::Env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::Token;

/// The paper's `min_alloc_size` in table II.
pub const PAPER_UNIT_BYTES: u32 = 64 << 10;
/// Deferred writes that BlueStore brings to their places together on a hard disk (`bluestore_deferred_batch_ops_hdd`).
pub const BATCH: usize = 64;
/// The log of a device is two of these.
const SEGMENT_BYTES: u64 = 32 << 20;
/// Bytes of one request while a file is written over.
const REWRITE_BYTES: u64 = 1 << 20;

/// Where files are made.
pub struct Ground {
    folder: PathBuf,
    pub env: Env,
}

impl Ground {
    pub fn new(work: &Path) -> anyhow::Result<Ground> {
        let folder = work.join("faststore");
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Ground { folder, env: Env::real_with_cores(1) })
    }

    /// Runs what needs a runtime.
    pub fn run<T>(&self, work: impl AsyncFnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        on_core(0, work)
    }

    /// An empty device of the baseline, with room for so many bytes.
    pub async fn bluestore(&self, room_bytes: u32, unit_bytes: u32, batch: usize) -> anyhow::Result<BlueStore> {
        let units = room_bytes / unit_bytes;
        let layout = Layout { unit_bytes, units, segment_bytes: SEGMENT_BYTES, batch };
        let disk = self.file(layout.device_bytes())?;
        rewrite(&*disk, layout.device_bytes()).await.context("writing the file for the first time")?;
        BlueStore::open(disk, &self.env, layout).await
    }

    /// An image without content.
    pub async fn in_place(&self, objects: u32) -> anyhow::Result<InPlace> {
        let bytes = in_place::device_bytes(objects);
        let disk = self.file(bytes)?;
        in_place::prepare(&disk, &self.env, objects).await?;
        rewrite(&*disk, bytes).await.context("writing the file over")?;
        InPlace::open(disk, &self.env, objects, Token(2)).await
    }

    /// A new file. The one before it is gone as soon as it is closed.
    fn file(&self, bytes: u64) -> anyhow::Result<Arc<dyn Disk>> {
        let path = self.folder.join("device");
        if path.exists() {
            std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        let options = OpenOptions { create: true, capacity_bytes: Some(bytes), direct: true };
        Ok(Arc::new(FileDisk::open(&path, &options)?))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What can't be removed stays, and the next run removes it.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Writes a file over with what it holds: a first write to blocks that were never written also commits the file system's metadata.
async fn rewrite(disk: &dyn Disk, bytes: u64) -> anyhow::Result<()> {
    if disk.size_bytes() < bytes {
        disk.allocate(0, bytes).await?;
    }
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(REWRITE_BYTES);
        let buf: AlignedBuf = disk.read(at, length as usize, ReadMode::Direct).await?;
        disk.write(at, buf, Durability::Volatile).await?;
        at += length;
    }
    Ok(disk.flush().await?)
}
