//! A person's word that a device will not come back: nothing waits for it any more, and what had copies on it gets others
//! (docs/rfd/0004). A single server must be stopped; of a cluster, a node's server is asked.

use super::ForgetArgs;
use crate::commands::cluster::remove;
use crate::place::Place;
use crate::serve::devices::paths;
use anyhow::{Context, bail};
use device::{Device, OpenError};
use disk::{FileDisk, OpenOptions};
use env::Env;
use manager::{DeviceRecord, DeviceState, Manager};
use node::Removed;
use std::path::{Path, PathBuf};
use types::DeviceId;

pub async fn run(args: &ForgetArgs) -> anyhow::Result<()> {
    let settings = args.place.settle()?;
    if let Some(place) = Place::read(&settings.data)? {
        remove::ask(&settings.data, &place, &Removed::Device(DeviceId(args.id)), args.yes).await?;
        println!(
            "Device {} is forgotten, and what had copies on it gets others. Its disk is taken again only after `trilith device format`.",
            args.id
        );
        return Ok(());
    }
    let folder = settings.data.join("manager");
    if !folder.is_dir() {
        bail!("there is no {}: is --data right?", folder.display());
    }
    let manager = Manager::open(&Env::real_with_cores(1), &folder).await.context("the server must be stopped")?;
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
    manager.persist().await?;
    println!(
        "Device {id} is forgotten. The next start waits for it no longer, and what had copies on it gets others; the disk is taken again only \
         after `trilith device format`."
    );
    Ok(())
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
