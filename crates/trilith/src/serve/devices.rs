//! Opening the devices of this machine: formatting new ones, and finding out which are missing.

use crate::prepared::Prepared;
use crate::settings::Settings;
use ::device::{Device, DeviceConfig, FormatOptions, OpenError};
use anyhow::{Context, bail};
use disk::{Disk, FileDisk, OpenOptions};
use env::Env;
use manager::{DeviceRecord, DeviceState, Manager};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use types::{CellId, ClusterId, DeviceId, NodeId};

/// The file that stands in for a disk when no device is named.
const DEFAULT_DEVICE: &str = "device-0.trilith";
/// How much of the free space a file may take unless told otherwise, in percent.
const FREE_SPACE_PERCENT: u64 = 80;

/// The devices that can be used, and those of the cell that can't.
pub struct Opened {
    pub devices: Vec<Arc<Device>>,
    pub missing: Vec<DeviceId>,
}

/// A locked disk.
pub struct NamedDisk {
    path: PathBuf,
    disk: Arc<FileDisk>,
}

/// Where a server's disks are.
pub fn paths(settings: &Settings) -> Vec<PathBuf> {
    if settings.devices.is_empty() { vec![settings.data.join(DEFAULT_DEVICE)] } else { settings.devices.clone() }
}

/// That a node without the role of a target has no disks, and had none.
pub fn none(settings: &Settings) -> anyhow::Result<()> {
    let roles = "`roles` in cluster.toml says that this node serves no disks";
    if !settings.devices.is_empty() || settings.chunk_space > 0 {
        bail!("devices, chunk_space: {roles}. Leave these settings out, or let it be a target");
    }
    match settings.data.join(DEFAULT_DEVICE) {
        path if path.exists() => bail!("{} is there, and objects may have copies on it; but {roles}", path.display()),
        _ => Ok(()),
    }
}

/// Opens and locks all disks. A disk that is in use is tried again for the given time.
pub async fn open_disks(env: &Env, settings: &Settings, patience: Duration) -> anyhow::Result<Vec<NamedDisk>> {
    let mut disks = Vec::new();
    for path in paths(settings) {
        let is_new = !path.exists();
        let capacity_bytes = match (settings.device_size, is_new) {
            (Some(size), _) => Some(size),
            (None, true) => Some(free_share(&path)?),
            // A formatted device knows its own size.
            (None, false) => None,
        };
        let options = OpenOptions { create: true, capacity_bytes, direct: true };
        let disk = FileDisk::open_waiting(env, &path, &options, patience).await?;
        super::notes::hide_from_others(&path).with_context(|| format!("setting the permissions of {}", path.display()))?;
        disks.push(NamedDisk { path, disk: Arc::new(disk) });
    }
    Ok(disks)
}

/// Opens the devices of a cluster's node, and formats the empty ones: the person who put these there has given up what was in their places.
/// Other nodes have devices of their own.
pub async fn open_of_node(
    env: &Env,
    settings: &Settings,
    manager: &Manager,
    (cluster, node): (ClusterId, NodeId),
    disks: Vec<NamedDisk>,
) -> anyhow::Result<Vec<Arc<Device>>> {
    let mut devices = Vec::new();
    for NamedDisk { path, disk } in disks {
        let mut is_new = false;
        // As it was found: what is formatted once more keeps its sizes.
        let prepared = crate::prepared::prepared(&*disk).await.with_context(|| format!("reading {}", path.display()))?;
        let device = loop {
            let config = DeviceConfig { sync: settings.sync, cluster: Some(cluster), ..DeviceConfig::default() };
            if disk.size_bytes() == 0 || prepared.is_some() || is_new {
                note_replaced(manager, node, &path).await?;
                format_as(env, settings, manager, (cluster, is_new), &path, &disk, prepared).await?;
                is_new = true;
            }
            let device = open_device(env, &path, &disk, config).await?;
            match taken_in(manager, &device, &path).await? {
                true => break device,
                // Another node was given that number meanwhile. Nothing is on the device yet: it gets another one.
                false if is_new => drop(device),
                false => bail!(
                    "{} has the number of another device of the cluster; give it up: trilith device format",
                    path.display()
                ),
            }
        };
        devices.push(Arc::new(device));
    }
    Ok(devices)
}

/// Notes of a node's devices that were last found under a path that another one takes their place. Before it is made, so that nothing else has to
/// remember it.
async fn note_replaced(manager: &Manager, node: NodeId, path: &Path) -> anyhow::Result<()> {
    let (state, path) = (manager.snapshot(), path.display().to_string());
    let is_there = |device: &&Arc<DeviceRecord>| device.node == Some(node) && device.path == path;
    for device in state.devices().filter(is_there) {
        tracing::warn!(
            device = device.id.0,
            path,
            "another device takes its place: it is forgotten as soon as nothing is lost with it"
        );
        manager.set_device_state(device.id, DeviceState::Replaced).await?;
    }
    Ok(())
}

/// Makes the manager know a device under its own number; false if that is another device's.
async fn taken_in(manager: &Manager, device: &Device, path: &Path) -> anyhow::Result<bool> {
    let path = path.display().to_string();
    let capacity_bytes = device.usage().capacity_bytes;
    if let Some(record) = manager.snapshot().devices().find(|record| record.uuid == device.uuid()) {
        if record.path != path || record.capacity_bytes != capacity_bytes {
            manager.update_device(record.id, &path, capacity_bytes).await?;
        }
        if record.state == DeviceState::Replaced {
            tracing::info!(device = record.id.0, path, "a device that had been replaced is back");
            manager.set_device_state(record.id, DeviceState::Active).await?;
        }
        return Ok(true);
    }
    let record = manager.add_device(device.uuid(), &path, capacity_bytes).await?;
    if record.id == device.id() {
        return Ok(true);
    }
    manager.set_device_state(record.id, DeviceState::Failed).await?;
    manager.remove_device(record.id).await?;
    Ok(false)
}

/// Opens every device, formats the empty ones, and lists the cell's devices that no disk holds.
pub async fn open(
    env: &Env,
    settings: &Settings,
    manager: &Manager,
    cluster: ClusterId,
    disks: Vec<NamedDisk>,
) -> anyhow::Result<Opened> {
    let mut devices = Vec::new();
    for NamedDisk { path, disk } in disks {
        let config = DeviceConfig { sync: settings.sync, cluster: Some(cluster), ..DeviceConfig::default() };
        let prepared = crate::prepared::prepared(&*disk).await.with_context(|| format!("reading {}", path.display()))?;
        if disk.size_bytes() == 0 || prepared.is_some() {
            format_as(env, settings, manager, (cluster, false), &path, &disk, prepared).await?;
        }
        let device = open_device(env, &path, &disk, config).await?;
        register(manager, &device, &path).await?;
        devices.push(Arc::new(device));
    }
    let is_open = |id: DeviceId| devices.iter().any(|device| device.id() == id);
    let missing: Vec<DeviceId> = manager.snapshot().devices().map(|record| record.id).filter(|id| !is_open(*id)).collect();
    for id in &missing {
        tracing::error!(
            device = id.0,
            "a device of this cluster is missing: name it with --devices, or objects may be unavailable"
        );
    }
    Ok(Opened { devices, missing })
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
        volume_bytes: prepared.map_or(settings.chunk_space, |prepared| prepared.volume_bytes),
        // A prepared disk was given up by a person; an empty one holds nothing.
        overwrite: prepared.is_some() || again,
    };
    Device::format(&**disk, env, &options).await.with_context(|| format!("formatting {}", path.display()))?;
    tracing::info!(path = %path.display(), "formatted a new device");
    Ok(())
}

/// Makes the manager know the device, under the number that it was formatted with.
async fn register(manager: &Manager, device: &Device, path: &Path) -> anyhow::Result<()> {
    let snapshot = manager.snapshot();
    let capacity_bytes = device.usage().capacity_bytes;
    let path_text = path.display().to_string();
    match snapshot.devices().find(|record| record.uuid == device.uuid()) {
        Some(record) => {
            if record.path != path_text || record.capacity_bytes != capacity_bytes {
                manager.update_device(record.id, &path_text, capacity_bytes).await?;
            }
            if record.state == DeviceState::Failed {
                tracing::warn!(device = record.id.0, "a device that had failed is back");
            }
            Ok(())
        }
        None => {
            let record = manager.add_device(device.uuid(), &path_text, capacity_bytes).await?;
            if record.id != device.id() {
                bail!(
                    "{} was formatted as device {} but the manager numbers it {}: format it again with `trilith device format`",
                    path.display(),
                    device.id(),
                    record.id
                );
            }
            Ok(())
        }
    }
}

/// How far a new file may grow.
fn free_share(path: &Path) -> anyhow::Result<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let status = rustix::fs::statvfs(folder).with_context(|| format!("asking for the free space of {}", folder.display()))?;
    Ok(status.f_bavail * status.f_frsize / 100 * FREE_SPACE_PERCENT)
}
