//! `trilith device`: looking at disks that no server uses, preparing them, giving them up; and reading those of a server for damage.

mod forget;
mod format;
mod inspect;
mod scrub;

use super::stopped_server::StoppedServer;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand, Clone, Debug)]
pub enum DeviceCommand {
    /// Make a disk ready to be taken by a server. What it held is lost
    #[command(
        after_help = "The disk then belongs to no cluster. `trilith serve --devices ...,PATH` takes it: it becomes a device of that \
                            server's cluster.\nA file that does not exist yet needs no formatting: `serve` makes it, unless a device was \
                            there that is missed now.\n\nExamples:\n  \
                            trilith device format /dev/sdb\n  trilith device format disk2.trilith --size 100GiB\n  trilith device format \
                            /dev/sdb --overwrite     # although something is on it"
    )]
    Format(FormatArgs),
    /// Show who a disk is and how it is used. Reads only
    #[command(
        after_help = "The server that uses the disk must be stopped; `trilith status` asks a running one.\n\nExample:\n  trilith \
                            device inspect trilith-data/device-0.trilith --zones"
    )]
    Inspect(InspectArgs),
    /// Declare that a missing device is gone for good: what had copies on it gets others
    #[command(
        after_help = "While a device is missing, its copies are not made again: it may come back. What it alone may know of can't be answered,\n\
                      and the logs of the others are kept for it. Bring it back if you can. If it is broken for good, this ends the\n\
                      waiting: its objects are served from their other copies, which get new ones beside them as far as there are\n\
                      devices. Where it held the only copy of the newest version, an older one is served again, or none: --yes.\n\nA \
                      lone node may run or be stopped. Of a larger cluster, a node must run: the device's own or another.\n\
                      `trilith status`, `trilith cluster status` and the log tell the device's number.\n\nExample:\n  trilith device \
                      forget 1 --data /srv/trilith"
    )]
    Forget(ForgetArgs),
    /// Read a device of a running server now, or all of them, for damage, and make damaged copies again
    #[command(
        after_help = "Each server does this in the background, once in `scrub_period`; this is for a disk that is in doubt. A device is read at\n\
                      up to 64 MiB a second, beside what clients want. Damaged copies are made again of good ones, on another device if\n\
                      need be. What is being written to at the moment is not read.\n\n\
                      The command returns when the scrub has begun; with --wait it shows how far it is, and what it found. Said again\n\
                      with --wait it goes on with one that runs. Of a cluster each node is asked for its own devices.\n\n\
                      The exit code is 1 if damage is left, or nothing can be said.\n\n\
                      Examples:\n  trilith device scrub --data /srv/trilith --wait\n  trilith device scrub --device 2 --admin 127.0.0.2:9001"
    )]
    Scrub(ScrubArgs),
}

#[derive(Args, Clone, Debug)]
pub struct ScrubArgs {
    /// The device's number [default: all devices of the server]
    #[arg(long)]
    device: Option<u32>,
    /// The server's data folder, whose settings say where its admin port is [default: ./trilith-data]
    #[arg(long, env = "TRILITH_DATA")]
    data: Option<PathBuf>,
    /// Where the admin port listens [default: as the settings say, else 127.0.0.1:9001]
    #[arg(long, env = "TRILITH_ADMIN_ADDR")]
    admin: Option<String>,
    /// Show how far it is, and in the end what was found
    #[arg(long)]
    wait: bool,
}

#[derive(Args, Clone, Debug)]
pub struct ForgetArgs {
    /// The device's number
    id: u32,
    #[command(flatten)]
    place: StoppedServer,
    /// Also if something is lost that it alone held. A stopped lone node does not look, so it must always be said
    #[arg(long)]
    yes: bool,
}

#[derive(Args, Clone, Debug)]
pub struct FormatArgs {
    /// Disk, partition, or file
    path: PathBuf,
    /// How far a file may grow, such as 100GiB; a disk has its size
    #[arg(long)]
    size: Option<String>,
    /// Zones of this size [default: 64MiB, more on very large disks]
    #[arg(long)]
    zone_size: Option<String>,
    /// Erase what the disk holds
    #[arg(long)]
    overwrite: bool,
}

#[derive(Args, Clone, Debug)]
pub struct InspectArgs {
    /// Disk, partition, or file
    path: PathBuf,
    /// Print every zone that was ever used
    #[arg(long)]
    zones: bool,
}

/// Runs the command.
pub fn run(command: &DeviceCommand) -> anyhow::Result<()> {
    match command {
        DeviceCommand::Format(args) => super::run(format::run(args)),
        DeviceCommand::Inspect(args) => super::run(inspect::run(args)),
        DeviceCommand::Forget(args) => super::run(forget::run(args)),
        DeviceCommand::Scrub(args) => super::run(scrub::run(args)),
    }
}
