//! Preparing a disk: erased on a person's word, belonging to nobody until a server takes it (see [`crate::prepared`]).

use super::FormatArgs;
use crate::commands::size::human;
use crate::prepared::{NO_CLUSTER, NO_DEVICE};
use crate::settings::{chunk_space, size};
use anyhow::bail;
use device::{Device, FormatOptions, OpenError};
use disk::{Disk, DiskExt, FileDisk, OpenOptions, ReadMode};
use env::Env;
use types::CellId;

/// How far from its start a disk is looked at for something that is not ours: file systems and partition tables begin there.
const FOREIGN_BYTES: usize = 1 << 20;

pub async fn run(args: &FormatArgs) -> anyhow::Result<()> {
    let env = Env::real_with_cores(1);
    let capacity_bytes = args.size.as_deref().map(|text| size("size", text)).transpose()?;
    let zone_bytes = args.zone_size.as_deref().map(|text| size("zone-size", text)).transpose()?;
    let disk = FileDisk::open(&args.path, &OpenOptions { create: true, capacity_bytes, direct: true })?;
    if !disk.is_block_device() && capacity_bytes.is_none() {
        bail!("{} is a file: say with --size how far it may grow", args.path.display());
    }
    if !args.overwrite {
        refuse_if_used(&disk).await?;
    }
    let options = FormatOptions {
        cluster: NO_CLUSTER,
        device: NO_DEVICE,
        cell: CellId(0),
        zone_bytes,
        capacity_bytes,
        volume_bytes: chunk_space(args.chunk_space.as_deref())?,
        overwrite: true,
    };
    let uuid = Device::format(&disk, &env, &options).await?;
    let capacity = capacity_bytes.or(disk.capacity_bytes()).map_or_else(String::new, |bytes| format!(", {}", human(bytes)));
    println!("{} is ready{capacity}. It belongs to nobody yet (its mark is {uuid}).", args.path.display());
    println!("Let a server take it: trilith serve --devices ...,{}", args.path.display());
    Ok(())
}

async fn refuse_if_used(disk: &FileDisk) -> anyhow::Result<()> {
    let name = disk.describe();
    match Device::identify(disk).await {
        Ok(found) if found.cluster == NO_CLUSTER => return Ok(()),
        Ok(found) => bail!(
            "{name} is device {} of cluster {} and may hold objects. --overwrite erases them",
            found.device,
            found.cluster
        ),
        Err(OpenError::Superblock { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let len = usize::try_from(disk.size_bytes()).unwrap_or(FOREIGN_BYTES).min(FOREIGN_BYTES);
    if len > 0 && disk.read(0, len, ReadMode::Cached).await?.iter().any(|byte| *byte != 0) {
        bail!("{name} holds something that is not Trilith's: a file system, a partition table? --overwrite erases it");
    }
    Ok(())
}
