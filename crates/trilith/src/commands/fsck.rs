//! `trilith fsck`: reading everything that a stopped server would serve, and rebuilding what it has lost.

mod check;
mod folder_copy;
mod look;
mod rebuild;

use super::stopped_server::StoppedServer;
use super::verdict;
use crate::place::Place;
use crate::serve::devices::paths;
use crate::settings::Settings;
use anyhow::bail;
use clap::Args;
use env::Env;
use std::process::ExitCode;

/// The manager's folder within the data folder.
const MANAGER: &str = "manager";

/// Check everything that is kept, or rebuild a lost manager folder
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The server must be stopped, and be no node of a cluster: `trilith device scrub` reads what those hold.\n\
                  Without --rebuild nothing is changed: what a start would repair is repaired in memory, and then every copy\n\
                  of every object is read and compared with its checksums. It takes as long as reading all that is stored.\n\
                  \n\
                  Exit code: 0 if all is well, 1 if something is wrong (a line that begins with WRONG says what) or could not be looked at.\n\
                  \n\
                  --rebuild is for a data folder whose `manager` folder is lost or unusable. Every device holds a copy of it, which is at\n\
                  most a second old and never older than the last checkpoint; what was written later is found in the logs. All\n\
                  devices are needed, because the one that is not there may hold the newest copy.\n\
                  \n\
                  Examples:\n  \
                  trilith fsck --data /srv/trilith\n  \
                  trilith fsck --data /srv/trilith --devices /dev/sda,/dev/sdb\n  \
                  mv /srv/trilith/manager /srv/trilith/manager.broken && trilith fsck --rebuild --data /srv/trilith\n  \
                  trilith fsck --rebuild --data /srv/trilith --devices /dev/sda --without 1   # device 1 is gone for good"
)]
pub struct FsckArgs {
    #[command(flatten)]
    place: StoppedServer,
    /// Make the manager's folder anew from the copies that the devices hold, then check everything
    #[arg(long)]
    rebuild: bool,
    /// With --rebuild: the device of this number is gone for good; what it alone held is lost
    #[arg(long, value_name = "ID", requires = "rebuild")]
    without: Vec<u32>,
}

/// Runs the command.
pub fn run(args: &FsckArgs) -> anyhow::Result<ExitCode> {
    let settings = args.place.settle()?;
    super::run(async {
        let is_well = fsck(&settings, args).await?;
        println!("\n{}", if is_well { "All is well." } else { "Something is wrong: see the lines that begin with WRONG." });
        Ok(verdict(is_well))
    })
}

async fn fsck(settings: &Settings, args: &FsckArgs) -> anyhow::Result<bool> {
    if let Some(place) = Place::read(&settings.data)? {
        bail!(
            "{0} is the node {1} of a cluster, and fsck is for servers of their own. While the node runs, `trilith device scrub \
             --data {0} --wait` reads its disks, and makes damaged copies again; its part of the manager is not on them, and is \
             not made anew",
            settings.data.display(),
            place.name
        );
    }
    let env = Env::real_with_cores(1);
    let disks = look::open_all(&paths(settings)).await?;
    let folder = settings.data.join(MANAGER);
    if args.rebuild {
        rebuild::run(&env, &folder, &disks, &args.without).await?;
    }
    check::run(&env, &folder, &disks).await
}
