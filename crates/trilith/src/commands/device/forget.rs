//! A person's word that a device will not come back: nothing waits for it any more, and what had copies on it gets others
//! (docs/rfd/0004). A running node is asked; of a lone node that is stopped, the folder is changed.

use super::ForgetArgs;
use crate::commands::cluster::remove;
use crate::commands::fsck::kept::Kept;
use crate::place::{CONSENSUS_FOLDER, Place};
use crate::serve::devices::paths;
use anyhow::{Context, bail};
use bench::tell;
use device::{Device, OpenError};
use disk::{FileDisk, OpenOptions};
use env::Env;
use manager::{DeviceRecord, DeviceState};
use net::RemoteCaller;
use node::Removed;
use std::path::{Path, PathBuf};
use types::DeviceId;

pub async fn run(args: &ForgetArgs) -> anyhow::Result<()> {
    let settings = args.place.settle()?;
    let env = Env::real_with_cores(1);
    let Some(place) = Place::read(&settings.data)? else {
        bail!("there is no server in {}: is --data right?", settings.data.display());
    };
    if !place.is_lone() || is_running(&env, &settings.data, &place).await? {
        remove::ask(&settings.data, &place, &Removed::Device(DeviceId(args.id)), args.yes).await?;
        tell!(
            "Device {} is forgotten, and what had copies on it gets others. Its disk is taken again only after `trilith device format`.",
            args.id
        )?;
        return Ok(());
    }
    let folder = settings.data.join(CONSENSUS_FOLDER);
    if !folder.is_dir() {
        bail!("there is no {}: trilith fsck --rebuild makes it anew from the devices", folder.display());
    }
    let kept = Kept::open(&env, &folder, &place).await?;
    let manager = &kept.manager;
    let state = manager.snapshot();
    let id = DeviceId(args.id);
    let known: Vec<String> = state.devices().map(|record| record.id.to_string()).collect();
    let Some(record) = state.device(id) else {
        bail!("there is no device {id}; the devices are {}", known.join(", "));
    };
    if known.len() == 1 {
        bail!("device {id} is the only one: without it there is nothing");
    }
    for path in paths(&settings).into_iter().chain([PathBuf::from(&record.path)]) {
        refuse_if_here(record, &path).await?;
    }
    if !args.yes {
        bail!(
            "device {id} ({}) would be forgotten for good: objects whose newest version it alone holds are lost, or go back to an older \
             version. If it may come back, wait for it. If not, say --yes",
            record.path
        );
    }
    manager.set_device_state(id, DeviceState::Failed).await?;
    manager.remove_device(id).await?;
    kept.close().await;
    tell!(
        "Device {id} is forgotten. The next start waits for it no longer, and what had copies on it gets others; the disk is taken again only \
         after `trilith device format`."
    )?;
    Ok(())
}

/// Whether the server of a lone node answers.
async fn is_running(env: &Env, data: &Path, place: &Place) -> anyhow::Result<bool> {
    let caller = RemoteCaller::new(env, place.network(env, data)?, &place.address, place.identity()?);
    Ok(node::answers_as(env, &caller, place.node_identity()?).await)
}

async fn refuse_if_here(record: &DeviceRecord, path: &Path) -> anyhow::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let disk = FileDisk::open(path, &OpenOptions { create: false, capacity_bytes: None, direct: true })?;
    match Device::identify(&disk).await {
        Ok(found) if found.device_uuid == record.uuid => bail!("device {} is here: {}", record.id, path.display()),
        Ok(_) | Err(OpenError::Superblock { .. }) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}
