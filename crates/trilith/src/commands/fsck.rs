//! `trilith fsck`: reading everything that a stopped server would serve, and rebuilding what it has lost.

mod check;
mod folder_copy;
mod images;
pub mod kept;
mod look;
mod manifests;
mod rebuild;
mod volumes;

use super::stopped_server::StoppedServer;
use super::verdict;
use crate::place::{CONSENSUS_FOLDER, Place};
use crate::serve::devices::paths;
use crate::settings::Settings;
use anyhow::bail;
use bench::tell;
use clap::Args;
use env::Env;
use std::process::ExitCode;

/// Check everything that is kept, or rebuild a lost consensus log
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The server must be stopped, and be a lone one: `trilith device scrub` reads what the nodes of a larger cluster hold.\n\
                  Without --rebuild nothing is changed: what a start would repair is repaired in memory, and then every copy\n\
                  of every object, of both engines, is read and compared with its checksums. It takes as long as reading all that is stored.\n\
                  Of block images it reads what says which part of which image is where, and compares copies with each other;\n\
                  the content of an image with one copy has no checksum and is not read.\n\
                  \n\
                  Exit code: 0 if all is well, 1 if something is wrong (a line that begins with WRONG says what) or could not be looked at.\n\
                  \n\
                  --rebuild is for a data folder whose `consensus` folder is lost or unusable. Every device holds a copy of it, which is at\n\
                  most a second old and never older than the last checkpoint; what was written later is found in the logs. All\n\
                  devices are needed, because the one that is not there may hold the newest copy. An image that was made in that second\n\
                  comes back as `recovered-ID`, as large as what was written to it.\n\
                  \n\
                  Examples:\n  \
                  trilith fsck --data /srv/trilith\n  \
                  trilith fsck --data /srv/trilith --devices /dev/sda,/dev/sdb\n  \
                  mv /srv/trilith/consensus /srv/trilith/consensus.broken && trilith fsck --rebuild --data /srv/trilith\n  \
                  trilith fsck --rebuild --data /srv/trilith --devices /dev/sda --without 1   # device 1 is gone for good"
)]
pub struct FsckArgs {
    #[command(flatten)]
    place: StoppedServer,
    /// Make the consensus log anew from the copies that the devices hold, then check everything
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
        tell!("\n{}", if is_well { "All is well." } else { "Something is wrong: see the lines that begin with WRONG." })?;
        Ok(verdict(is_well))
    })
}

async fn fsck(settings: &Settings, args: &FsckArgs) -> anyhow::Result<bool> {
    let place = Place::read(&settings.data)?;
    if let Some(place) = place.as_ref().filter(|place| !place.is_lone()) {
        bail!(
            "{0} is the node {1} of a cluster that others join, and fsck is for lone servers. While the node runs, `trilith device scrub \
             --data {0} --wait` reads its disks, and makes damaged copies again; its part of the manager is not on them, and is \
             not made anew",
            settings.data.display(),
            place.name
        );
    }
    let env = Env::real_with_cores(1);
    let disks = look::open_all(&paths(settings)).await?;
    let folder = settings.data.join(CONSENSUS_FOLDER);
    let place = match (args.rebuild, place) {
        (true, place) => rebuild::run(&env, &settings.data, place, &disks, &args.without).await?,
        (false, Some(place)) => place,
        (false, None) => {
            bail!("there is no server in {}: trilith fsck --rebuild makes it anew from the devices", settings.data.display())
        }
    };
    check::run(&env, &folder, &place, &disks).await
}
