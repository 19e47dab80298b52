//! Opening the devices of this machine: formatting new ones, and finding out which are missing.
//!
//! A path at which there is nothing may be that of a new file, or of a disk that is away. The manager tells which: so what is
//! there is locked before anything else, and what is not is made when the manager's records have been looked at.

mod of_node;

pub use of_node::open_of_node;

use crate::new_file;
use crate::prepared::Prepared;
use crate::settings::Settings;
use ::device::{Device, DeviceConfig, FormatOptions, OpenError};
use anyhow::{Context, bail};
use disk::{Disk, FileDisk, LOCK_PATIENCE, OpenOptions, apart};
use env::Env;
use manager::Manager;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use types::{CellId, ClusterId, DeviceUuid};

/// The file that stands in for a disk when no device is named.
const DEFAULT_DEVICE: &str = "device-0.trilith";
/// How much of the free space a file may take unless told otherwise, in percent.
const FREE_SPACE_PERCENT: u64 = 80;

/// A disk that the settings name.
pub struct NamedDisk {
    path: PathBuf,
    /// Locked. None: there is nothing at the path yet.
    disk: Option<Arc<FileDisk>>,
}

/// Where a server's disks are.
pub fn paths(settings: &Settings) -> Vec<PathBuf> {
    if settings.devices.is_empty() { vec![settings.data.join(DEFAULT_DEVICE)] } else { settings.devices.clone() }
}

/// That a node without the role of a target has no disks, and had none.
pub fn none(settings: &Settings) -> anyhow::Result<()> {
    let roles = "`roles` in cluster.toml says that this node serves no disks";
    if !settings.devices.is_empty() {
        bail!("devices: {roles}. Leave this setting out, or let it be a target");
    }
    match settings.data.join(DEFAULT_DEVICE) {
        path if path.exists() => bail!("{} is there, and objects may have copies on it; but {roles}", path.display()),
        _ => Ok(()),
    }
}

/// Opens and locks all disks that are there. One that is in use is tried again for [`LOCK_PATIENCE`].
pub async fn open_disks(env: &Env, settings: &Settings) -> anyhow::Result<Vec<NamedDisk>> {
    let mut disks = Vec::new();
    for path in paths(settings) {
        let disk = match is_there(&path).await? {
            true => Some(lock(env, settings, &path, LOCK_PATIENCE).await?),
            false => None,
        };
        disks.push(NamedDisk { path, disk });
    }
    Ok(disks)
}

/// Whether there is something at a path; refused if nothing is to be made there.
async fn is_there(path: &Path) -> anyhow::Result<bool> {
    let path = path.to_owned();
    apart(move || if path.exists() { Ok(true) } else { new_file::check(&path).map(|()| false) }).await?
}

impl NamedDisk {
    /// Nothing is on it, or it is not there at all.
    fn is_empty(&self) -> bool {
        self.disk.as_ref().is_none_or(|disk| disk.size_bytes() == 0)
    }

    /// The disk, made if it is not there.
    async fn made(&self, env: &Env, settings: &Settings) -> anyhow::Result<Arc<FileDisk>> {
        match &self.disk {
            Some(disk) => Ok(disk.clone()),
            None => lock(env, settings, &self.path, Duration::ZERO).await,
        }
    }
}

async fn lock(env: &Env, settings: &Settings, path: &Path, patience: Duration) -> anyhow::Result<Arc<FileDisk>> {
    let (here, device_size) = (path.to_owned(), settings.device_size);
    let options = move || -> anyhow::Result<OpenOptions> {
        let is_new = !here.exists();
        let capacity_bytes = match (device_size, is_new) {
            (Some(size), _) => Some(size),
            (None, true) => Some(free_share(&here)?),
            // A formatted device knows its own size.
            (None, false) => None,
        };
        Ok(OpenOptions { create: is_new, capacity_bytes, direct: true })
    };
    let options = apart(options).await??;
    let disk = FileDisk::open_waiting(env, path, &options, patience).await?;
    let here = path.to_owned();
    let hidden = apart(move || super::secrets::hide_from_others(&here)).await?;
    hidden.with_context(|| format!("setting the permissions of {}", path.display()))?;
    Ok(Arc::new(disk))
}

/// The devices that are on these disks. A disk and a copy of it are refused: both would take writes under one number, and each would lack
/// what the other one has.
async fn identities(disks: &[NamedDisk]) -> anyhow::Result<Vec<DeviceUuid>> {
    let mut found: Vec<(DeviceUuid, &Path)> = Vec::new();
    for NamedDisk { path, disk } in disks {
        let Some(disk) = disk else { continue };
        let superblock = match Device::identify(&**disk).await {
            Ok(superblock) => superblock,
            // What is wrong with it is for its opening to say.
            Err(OpenError::Superblock { .. }) => continue,
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        if let Some((_, other)) = found.iter().find(|(uuid, _)| *uuid == superblock.device_uuid) {
            bail!(
                "{} and {} are one device, number {}: one is a copy of the other. Name one of them only, the one that was written to last",
                other.display(),
                path.display(),
                superblock.device
            );
        }
        found.push((superblock.device_uuid, path));
    }
    Ok(found.into_iter().map(|(uuid, _)| uuid).collect())
}

/// Refuses to make a device where one is missed: its disk may be away, or not mounted, and what is written to another one in
/// its place is acknowledged without it.
fn refuse_if_missed(manager: &Manager, path: &Path, here: &[DeviceUuid]) -> anyhow::Result<()> {
    let state = manager.snapshot();
    let missed =
        state.devices().find(|record| new_file::is_same(Path::new(&record.path), path) && !here.contains(&record.uuid));
    let Some(record) = missed else { return Ok(()) };
    bail!(
        "device {id} was at {path}, and nothing is there now. Attach its disk, or mount what it is in; or leave it out of \
         --devices, and the others are served without it. If it does not come back: `trilith device forget {id}`. To have a new \
         one in its place, make it: `trilith device format {path}`",
        id = record.id,
        path = path.display()
    )
}

async fn open_device(env: &Env, path: &Path, disk: &Arc<FileDisk>, config: DeviceConfig) -> anyhow::Result<Device> {
    match Device::open(disk.clone(), env, config).await {
        Ok(device) => Ok(device),
        Err(error @ OpenError::Superblock { .. }) => {
            bail!("{error}\nIf the disk may be erased, prepare it first: trilith device format {}", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("opening {}", path.display())),
    }
}

/// Formats a new device under the next number. `again`: what this start has formatted a moment ago may be formatted once more.
async fn format_as(
    env: &Env,
    settings: &Settings,
    manager: &Manager,
    (cluster, again): (ClusterId, bool),
    path: &Path,
    disk: &Arc<FileDisk>,
    prepared: Option<Prepared>,
) -> anyhow::Result<()> {
    let options = FormatOptions {
        cluster,
        device: manager.snapshot().next_device(),
        cell: CellId(1),
        zone_bytes: prepared.map(|prepared| prepared.zones.zone_bytes),
        capacity_bytes: match (prepared, settings.device_size) {
            (Some(prepared), _) => Some(prepared.capacity_bytes()),
            (None, Some(size)) => Some(size),
            (None, None) if disk.is_block_device() => None,
            (None, None) => Some(free_share(path)?),
        },
        // A prepared disk was given up by a person; an empty one holds nothing.
        overwrite: prepared.is_some() || again,
    };
    Device::format(&**disk, env, &options).await.with_context(|| format!("formatting {}", path.display()))?;
    tracing::info!(path = %path.display(), "formatted a new device");
    Ok(())
}

/// How far a new file may grow.
fn free_share(path: &Path) -> anyhow::Result<u64> {
    let folder = new_file::folder_of(path);
    let status = rustix::fs::statvfs(folder).with_context(|| format!("asking for the free space of {}", folder.display()))?;
    Ok(status.f_bavail * status.f_frsize / 100 * FREE_SPACE_PERCENT)
}

#[cfg(test)]
mod tests;
