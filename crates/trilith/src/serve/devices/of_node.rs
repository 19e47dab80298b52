//! The devices of a cluster's node. Numbers come from the cluster's manager, which other nodes ask too.

use super::{NamedDisk, format_as, identities, open_device, refuse_if_missed};
use crate::prepared::{Prepared, prepared};
use crate::settings::Settings;
use ::device::{Device, DeviceConfig};
use anyhow::{Context, bail};
use disk::Disk;
use env::Env;
use manager::{DeviceRecord, DeviceState, Manager};
use node::OpenNode;
use std::path::Path;
use std::sync::Arc;
use types::{ClusterId, DeviceId, DeviceUuid, NodeId};

/// Opens the devices of a node, and formats the empty ones. In a cluster of several nodes the person who put these there has given up what
/// was in their places.
pub async fn open_of_node(
    env: &Env,
    settings: &Settings,
    node: &OpenNode,
    cluster: ClusterId,
    disks: Vec<NamedDisk>,
    is_lone: bool,
) -> anyhow::Result<Vec<Arc<Device>>> {
    // Before anything is written to one of them.
    let here = identities(&disks).await?;
    node.claim(&here).await?;
    let (manager, mut devices) = (node.manager(), Vec::new());
    // Other nodes may have copies of what was in an empty one's place. A lone node is the only one that has it.
    for named in disks.iter().filter(|named| is_lone && named.is_empty()) {
        refuse_if_missed(manager, &named.path, &here)?;
    }
    for (named, prepared) in new_ones_last(disks).await? {
        let (path, disk) = (&named.path, named.made(env, settings).await?);
        let place = Place { node: node.id(), path, here: &here };
        let mut is_new = false;
        let device = loop {
            let config = DeviceConfig { sync: settings.sync, cluster: Some(cluster), ..DeviceConfig::default() };
            if disk.size_bytes() == 0 || prepared.is_some() || is_new {
                format_as(env, settings, manager, (cluster, is_new), path, &disk, prepared).await?;
                is_new = true;
            }
            let device = open_device(env, path, &disk, config).await?;
            match place.taken_in(manager, &device).await? {
                true => break device,
                // Another node was given that number meanwhile. Nothing is on the device yet: it gets another one.
                false if is_new => drop(device),
                false => bail!(
                    "{0} has the number of another device of the cluster, or of one that it has forgotten; give it up: trilith \
                     device format --overwrite {0}",
                    path.display()
                ),
            }
        };
        devices.push(Arc::new(device));
    }
    Ok(devices)
}

/// A new device takes another one's place, which may be under another path now, or damaged: it is known whether all others can be opened before that is noted.
/// With how they were prepared, as they were found: what is formatted once more keeps its sizes.
async fn new_ones_last(disks: Vec<NamedDisk>) -> anyhow::Result<Vec<(NamedDisk, Option<Prepared>)>> {
    let (mut ordered, mut new) = (Vec::new(), Vec::new());
    for named in disks {
        let prepared = match &named.disk {
            Some(disk) => prepared(&**disk).await.with_context(|| format!("reading {}", named.path.display()))?,
            None => None,
        };
        let is_new = named.is_empty() || prepared.is_some();
        if is_new { &mut new } else { &mut ordered }.push((named, prepared));
    }
    ordered.extend(new);
    Ok(ordered)
}

/// Where a device was found.
struct Place<'a> {
    node: NodeId,
    path: &'a Path,
    /// The devices that are on this node's disks, wherever the manager has them.
    here: &'a [DeviceUuid],
}

impl Place<'_> {
    /// The path as the manager has it: whatever folder the next start runs in, it is another one's only if that stands in the same place.
    fn text(&self) -> anyhow::Result<String> {
        let path = std::path::absolute(self.path).with_context(|| format!("the path {}", self.path.display()))?;
        Ok(path.display().to_string())
    }

    /// Notes of this node's devices that were last found here that another one takes their place. Before the manager knows of it, so that nothing else has to remember.
    async fn note_replaced(&self, manager: &Manager) -> anyhow::Result<()> {
        let (state, path) = (manager.snapshot(), self.text()?);
        let was_here = |device: &&Arc<DeviceRecord>| device.node == Some(self.node) && device.path == path;
        for device in state.devices().filter(was_here).filter(|device| !self.here.contains(&device.uuid)) {
            tracing::warn!(
                device = device.id.0,
                path,
                "another device takes its place: it is forgotten as soon as nothing is lost with it"
            );
            manager.set_device_state(device.id, DeviceState::Replaced).await?;
        }
        Ok(())
    }

    /// Makes the manager know a device under its own number; false if that is another device's, or was a forgotten one's.
    async fn taken_in(&self, manager: &Manager, device: &Device) -> anyhow::Result<bool> {
        let (state, path) = (manager.snapshot(), self.text()?);
        let capacity_bytes = device.usage().capacity_bytes;
        let known = state.devices().find(|record| record.uuid == device.uuid());
        match known {
            Some(record) if record.id != device.id() => {
                // A start that was interrupted below has left it.
                take_out(manager, record.id).await?;
                Ok(false)
            }
            Some(record) => {
                if record.path != path || record.capacity_bytes != capacity_bytes {
                    manager.update_device(record.id, &path, capacity_bytes).await?;
                }
                if record.state == DeviceState::Replaced {
                    tracing::info!(device = record.id.0, path, "a device that had been replaced is back");
                    manager.set_device_state(record.id, DeviceState::Active).await?;
                }
                Ok(true)
            }
            // Asking would use up a number.
            None if device.id() != state.next_device() => Ok(false),
            None => {
                self.note_replaced(manager).await?;
                let record = manager.add_device(device.uuid(), &path, capacity_bytes).await?;
                if record.id != device.id() {
                    take_out(manager, record.id).await?;
                }
                Ok(record.id == device.id())
            }
        }
    }
}

/// Forgets a number that a device was given and does not have.
async fn take_out(manager: &Manager, id: DeviceId) -> anyhow::Result<()> {
    manager.set_device_state(id, DeviceState::Failed).await?;
    Ok(manager.remove_device(id).await?)
}

#[cfg(test)]
mod tests;
