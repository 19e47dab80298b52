//! `trilith volume`: file volumes.

mod ask;

pub use ask::Files;

use super::cluster::DataArgs;
use super::size::{duration, human};
use super::table;
use crate::place::Place;
use crate::settings::size;
use crate::volume_key::VolumeKey;
use anyhow::{Context, bail};
use bench::output::Printed;
use bench::tell;
use clap::{Args, Subcommand, ValueEnum};
use env::Env;
use filesystem::protocol::{Ask, CopyInfo, CopyState, PartitionInfo, Told, TreeInfo, VolumeInfo};
use manager::{FileClass, FileQuota};
use std::path::Path;

/// `trilith volume ...`
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "A volume is a tree of files that is mounted on folders. It takes space for what its files have. The commands run beside a node,\n\
                  with its data folder.\n\nA first try, as root:\n  trilith volume create home\n  mkdir -p /mnt/home && trilith mount home /mnt/home --detach\n  \
                  cp -a /etc /mnt/home/ && df -h /mnt/home\n  trilith umount /mnt/home"
)]
pub struct VolumeArgs {
    #[command(subcommand)]
    command: VolumeCommand,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(Subcommand, Clone, Debug)]
enum VolumeCommand {
    /// Make an empty volume
    Create {
        name: String,
        #[command(flatten)]
        quota: QuotaArgs,
        /// Over how many trees its directories are spread from the beginning. A volume gets another tree by itself when the newest has many files
        #[arg(long, value_name = "N", default_value_t = 1)]
        trees: u32,
        /// When a change of names or attributes is answered: `synchronous`, when it is on the medium; `ordered`, when it outlives the server's process. It is on the
        /// medium within some milliseconds or at fsync then, and a power cut takes the last changes, never one without all after it. For a server of its own
        #[arg(long, value_enum, default_value_t = Class::Synchronous)]
        class: Class,
    },
    /// List volumes
    Ls,
    /// Show a volume: what it has, what it may have, and where its contents are
    Info { name: String },
    /// Print the volume's key, with which machines that are no nodes mount it. The key is good for as long as the volume is there
    Key { name: String },
    /// Give a volume another quota; one that is not named is lifted. What the volume has already stays
    Resize {
        name: String,
        #[command(flatten)]
        quota: QuotaArgs,
    },
    /// Remove a volume and all of its files for good. It must not be mounted on this node
    Rm {
        name: String,
        /// Say that its files are not needed any more
        #[arg(long, required = true)]
        force: bool,
    },
}

/// When a change of names or attributes is answered.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Synchronous,
    Ordered,
}

impl Class {
    fn of_volume(self) -> FileClass {
        match self {
            Class::Synchronous => FileClass::Synchronous,
            Class::Ordered => FileClass::Ordered,
        }
    }
}

/// What a volume may have.
#[derive(Args, Clone, Debug)]
struct QuotaArgs {
    /// How much its files may take, e.g. 20GiB
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// How many files, directories and links it may have
    #[arg(long)]
    inodes: Option<u64>,
}

impl QuotaArgs {
    fn quota(&self) -> FileQuota {
        FileQuota { bytes: self.size, inodes: self.inodes }
    }
}

/// Runs the command.
pub fn run(args: &VolumeArgs) -> anyhow::Result<()> {
    super::run(async {
        let server = Files::of_folder(&args.data.data)?;
        match &args.command {
            VolumeCommand::Create { name, quota, trees, class } => {
                let (quota, class) = (quota.quota(), class.of_volume());
                server.done(Ask::Create { name: name.clone(), quota, trees: *trees, class }).await?;
                tell!("{name} is made: mount it with `trilith mount {name} FOLDER`")?;
            }
            VolumeCommand::Ls => list(&volumes(&server, Ask::List).await?)?,
            VolumeCommand::Info { name } => {
                for volume in volumes(&server, Ask::Info { name: name.clone() }).await? {
                    info(&volume)?;
                }
            }
            VolumeCommand::Key { name } => {
                for volume in volumes(&server, Ask::Info { name: name.clone() }).await? {
                    tell!("{}", key(&args.data.data, volume.id)?)?;
                }
            }
            VolumeCommand::Resize { name, quota } => {
                server.done(Ask::Resize { name: name.clone(), quota: quota.quota() }).await?;
            }
            VolumeCommand::Rm { name, force: _ } => {
                server.done(Ask::Remove { name: name.clone() }).await?;
                tell!("{name} is removed; its space is freed from now on")?;
            }
        }
        Ok(())
    })
}

/// The key of a volume of the cluster that a node's folder is of.
fn key(data: &Path, volume: u32) -> anyhow::Result<VolumeKey> {
    let place = Place::read(data)?.context("the folder of a server says which cluster it is of")?;
    if place.is_lone() {
        bail!("no other machine reaches this server: `trilith cluster open` gives it an address");
    }
    Ok(VolumeKey::of(&place.token()?, volume))
}

fn bytes(text: &str) -> Result<u64, String> {
    size("--size", text).map_err(|error| format!("{error:#}"))
}

async fn volumes(server: &Files, ask: Ask) -> anyhow::Result<Vec<VolumeInfo>> {
    match server.ask(ask).await? {
        Told::Volumes(volumes) => Ok(volumes),
        other => bail!("the server answered something else: {other:?}"),
    }
}

fn list(volumes: &[VolumeInfo]) -> Printed {
    let row = |volume: &VolumeInfo| {
        let name = if volume.is_removing { format!("{} (being removed)", volume.name) } else { volume.name.clone() };
        let used = |of: fn(&VolumeInfo) -> Option<u64>| of(volume).map_or_else(|| "?".to_owned(), human);
        let count = volume.usage.map_or_else(|| "?".to_owned(), |usage| usage.inodes.to_string());
        let limit = volume.quota.bytes.map_or_else(|| "-".to_owned(), human);
        [name, used(|volume| volume.usage.map(|usage| usage.bytes)), count, limit, contents(volume)]
    };
    let rows: Vec<[String; 5]> = volumes.iter().map(row).collect();
    table::print(["NAME", "USED", "FILES", "QUOTA", "CONTENTS"], &rows)
}

fn info(volume: &VolumeInfo) -> Printed {
    tell!("{}", volume.name)?;
    tell!("  id         {}", volume.id)?;
    let limit = |limit: Option<u64>| limit.map_or_else(|| "no quota".to_owned(), |limit| limit.to_string());
    match volume.usage {
        Some(usage) => {
            tell!("  used       {} ({} bytes; {})", human(usage.bytes), usage.bytes, limit(volume.quota.bytes))?;
            tell!("  files      {} ({})", usage.inodes, limit(volume.quota.inodes))?;
        }
        None => tell!("  used       a tree does not answer now: trilith cluster status shows why")?,
    }
    tell!("  class      {}", class(volume))?;
    tell!("  trees      {}", volume.trees.len())?;
    for found in &volume.trees {
        tree(found)?;
    }
    tell!("  contents   {}", contents(volume))?;
    for found in &volume.partitions {
        partition(found)?;
    }
    let now_ms = Env::real_with_cores(1).wall_clock_ms();
    tell!("  made       {} ago", duration(now_ms.saturating_sub(volume.created_ms)))
}

/// The class, and whether it is in force.
fn class(volume: &VolumeInfo) -> &'static str {
    let is_ordered = |tree: &TreeInfo| tree.state.as_ref().is_some_and(|state| state.is_ordered);
    match (volume.class, volume.trees.iter().all(is_ordered)) {
        (FileClass::Synchronous, _) => "synchronous",
        (FileClass::Ordered, true) => "ordered",
        (FileClass::Ordered, false) => "ordered, not in force: changes are answered when they are on the medium",
    }
}

fn tree(found: &TreeInfo) -> Printed {
    let Some(of) = &found.state else {
        return tell!("    tree {}: does not answer now: trilith cluster status shows why", found.id);
    };
    tell!("    tree {}: {} files, led by {}", found.id, of.inodes, of.leader.as_deref().unwrap_or("a node that is gone"))
}

fn partition(found: &PartitionInfo) -> Printed {
    let Some(of) = &found.state else {
        return tell!("    partition {}: no copy answers now: trilith cluster status shows why", found.id);
    };
    match of.has {
        Some(has) => {
            let closed = if has.is_open { "" } else { "; takes no new extents as long as others do" };
            tell!("    partition {}: {} in {} extents{closed}", found.id, human(has.bytes), has.extents)?;
        }
        None => tell!("    partition {}: no copy serves it now", found.id)?,
    }
    for copy in &of.copies {
        let node = copy.node.as_deref().unwrap_or("a node that is gone");
        tell!("      device {} of {node}: {}", copy.device, state(copy))?;
    }
    Ok(())
}

/// How many data partitions it has, and how many copies these.
fn contents(volume: &VolumeInfo) -> String {
    let count = volume.partitions.len();
    let told: Vec<_> = volume.partitions.iter().filter_map(|partition| partition.state.as_ref()).collect();
    let copies = || told.iter().flat_map(|partition| &partition.copies);
    let (all, in_sync) = (copies().count(), copies().filter(|copy| copy.state != CopyState::Out).count());
    let of_each = match (count - told.len(), count) {
        (_, 0) => "no place yet".to_owned(),
        (0, _) if all == count => "one copy".to_owned(),
        (0, _) if all == in_sync => format!("{all} copies in sync"),
        (0, _) => format!("{in_sync} of {all} copies in sync"),
        (silent, _) => format!("{silent} do not answer now"),
    };
    if count > 1 { format!("{count} data partitions: {of_each}") } else { of_each }
}

fn state(copy: &CopyInfo) -> &'static str {
    match copy.state {
        CopyState::Primary => "in sync, serves",
        CopyState::TakesOver => "in sync, takes over",
        CopyState::InSync => "in sync",
        CopyState::Out => "not in sync: it is made again",
    }
}
