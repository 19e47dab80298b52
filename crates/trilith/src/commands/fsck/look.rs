//! Disks that are locked and only looked at.

use anyhow::{Context, bail};
use device::{Device, DeviceConfig, NotesKind, SyncMode};
use disk::{Disk, FileDisk, OpenOptions, OverlayDisk};
use env::Env;
use format::superblock::Superblock;
use manager::Snapshot;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk with a device on it, locked against servers.
pub struct Looked {
    pub path: PathBuf,
    pub superblock: Superblock,
    disk: Arc<FileDisk>,
}

/// Locks all disks and reads who they are.
pub async fn open_all(paths: &[PathBuf]) -> anyhow::Result<Vec<Looked>> {
    let mut disks = Vec::new();
    for path in paths {
        disks.push(open(path).await?);
    }
    if let Some(other) = disks.iter().find(|disk| disk.superblock.cluster != disks[0].superblock.cluster) {
        bail!("{} and {} belong to different clusters", disks[0].path.display(), other.path.display());
    }
    Ok(disks)
}

async fn open(path: &Path) -> anyhow::Result<Looked> {
    let options = OpenOptions { create: false, capacity_bytes: None, direct: true };
    let disk = FileDisk::open(path, &options).context("a server's disks can only be checked while it is stopped")?;
    let superblock = Device::identify(&disk).await?;
    Ok(Looked { path: path.to_owned(), superblock, disk: Arc::new(disk) })
}

impl Looked {
    /// The device as a start would make it, without a change of the disk.
    pub async fn device(&self, env: &Env) -> anyhow::Result<Device> {
        let overlay: Arc<dyn Disk> = Arc::new(OverlayDisk::new(self.disk.clone()));
        let config = DeviceConfig { sync: SyncMode::Off, prewrite_zones: 0, ..DeviceConfig::default() };
        Device::open(overlay, env, config).await.with_context(|| format!("opening {}", self.path.display()))
    }
}

/// The copy of the manager's state on a device; none if there never was one.
pub async fn manager_copy(device: &Device) -> anyhow::Result<Option<Snapshot>> {
    let Some(bytes) = device.notes(NotesKind::Manager).await? else { return Ok(None) };
    Snapshot::from_export(&bytes).map(Some).with_context(|| format!("the copy on device {}", device.id()))
}
