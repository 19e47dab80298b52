//! Preparing a disk: erased on a person's word, belonging to nobody until a server takes it (see [`crate::prepared`]).

use super::FormatArgs;
use crate::commands::size::human;
use crate::new_file;
use crate::prepared::{FOREIGN_BYTES, NO_CLUSTER, NO_DEVICE, clear_gaps, is_untouched};
use crate::settings::size;
use anyhow::bail;
use bench::tell;
use device::{Device, FormatOptions, OpenError};
use disk::{Disk, DiskExt, FileDisk, OpenOptions, ReadMode};
use env::Env;
use types::{CellId, DeviceUuid};

pub async fn run(args: &FormatArgs) -> anyhow::Result<()> {
    let capacity_bytes = args.size.as_deref().map(|text| size("size", text)).transpose()?;
    let options = FormatOptions {
        cluster: NO_CLUSTER,
        device: NO_DEVICE,
        cell: CellId(0),
        zone_bytes: args.zone_size.as_deref().map(|text| size("zone-size", text)).transpose()?,
        capacity_bytes,
        overwrite: true,
    };
    let is_new = !args.path.exists();
    if is_new {
        new_file::check(&args.path)?;
        require_size(args)?;
    }
    let disk = FileDisk::open(&args.path, &OpenOptions { create: is_new, capacity_bytes, direct: true })?;
    if !disk.is_block_device() {
        require_size(args)?;
    }
    if !args.overwrite {
        refuse_if_used(&disk).await?;
    }
    let formatted = format(&disk, &options).await;
    if formatted.is_err() && is_new {
        // A server would take an empty file for one that it may use.
        drop(std::fs::remove_file(&args.path));
    }
    let uuid = formatted?;
    let capacity = capacity_bytes.or(disk.capacity_bytes()).map_or_else(String::new, |bytes| format!(", {}", human(bytes)));
    tell!("{} is ready{capacity}. It belongs to nobody yet (its mark is {uuid}).", args.path.display())?;
    tell!("Let a server take it: trilith serve --devices ...,{}", args.path.display())?;
    Ok(())
}

fn require_size(args: &FormatArgs) -> anyhow::Result<()> {
    match args.size {
        Some(_) => Ok(()),
        None => bail!("{} is a file: say with --size how far it may grow", args.path.display()),
    }
}

/// Last comes what erases: a disk that can't be formatted as it was asked for stays as it is.
async fn format(disk: &FileDisk, options: &FormatOptions) -> anyhow::Result<DeviceUuid> {
    let uuid = Device::format(disk, &Env::real_with_cores(1), options).await?;
    clear_gaps(disk).await?;
    Ok(uuid)
}

async fn refuse_if_used(disk: &FileDisk) -> anyhow::Result<()> {
    let name = disk.describe();
    let foreign =
        || bail!("{name} holds something that is not Trilith's: a file system, a partition table? --overwrite erases it");
    match Device::identify(disk).await {
        Ok(found) if found.cluster == NO_CLUSTER => {
            return if is_untouched(disk, &found).await? { Ok(()) } else { foreign() };
        }
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
        return foreign();
    }
    Ok(())
}
