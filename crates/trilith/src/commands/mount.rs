//! `trilith mount` and `trilith umount`.

mod guest;
mod waiting;

use super::cluster::{DataArgs, patience};
use super::table;
use super::volume::Files;
use crate::serve::pid::is_running;
use anyhow::{Context, bail};
use bench::output::Printed;
use bench::tell;
use clap::Args;
use env::Env;
use filesystem::protocol::{Ask, MountInfo, MountOptions, Told, UnmountHow};
use guest::GuestArgs;
use mount::{Unmount, is_mounted, unmount};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a command in the foreground looks whether the mount has ended.
const LOOK: Duration = Duration::from_secs(1);

/// Mount a file volume on a folder
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The running server of this machine serves the mount. Without --detach the command stays until Ctrl-C, which unmounts, or until\n\
                  the folder is unmounted otherwise. With --detach it returns, and the server mounts the volume again whenever it starts.\n\n\
                  With --exclusive this mount is the only one of the volume, and others are refused as long as it is there. The kernel then buffers\n\
                  and merges writes: many small ones are much faster. What fsync, fdatasync or O_SYNC answered is durable, and what was closed\n\
                  outlives the server's end. A power cut takes the rest, as on a local disk.\n\n\
                  On a machine that is no node of the cluster, --cluster names some nodes, and this command serves the mount itself, with the\n\
                  volume's key. With --detach it does so in the background. Such a mount ends with its process.\n\n\
                  Examples:\n  trilith mount home /mnt/home\n  trilith mount home /mnt/home --detach\n  trilith mount home /mnt/home --exclusive\n  trilith mount --ls\n  trilith umount /mnt/home\n  \
                  trilith mount home /mnt/home --cluster 10.0.0.1:9002,10.0.0.2:9002 --key-file home.key --detach"
)]
pub struct MountArgs {
    /// The volume
    #[arg(required_unless_present = "ls")]
    volume: Option<String>,
    /// An existing folder
    #[arg(required_unless_present = "ls")]
    folder: Option<PathBuf>,
    /// Return when it is mounted. It stays, also when the server starts again
    #[arg(long)]
    detach: bool,
    /// Nothing can be changed through this mount
    #[arg(long)]
    read_only: bool,
    /// Only the user that runs the server may use it
    #[arg(long)]
    private: bool,
    /// Be the only mount of the volume: the kernel buffers writes until fsync or close, as on a local disk. Refused while it is mounted elsewhere
    #[arg(long)]
    exclusive: bool,
    /// List the mounts of this node
    #[arg(long, conflicts_with_all = ["volume", "folder"])]
    ls: bool,
    /// Wait at most so long (30s, 10m) for a server that starts. If it mounts the volume there by itself, that is the mount
    #[arg(long, value_name = "TIME", value_parser = patience, requires = "detach", conflicts_with = "cluster")]
    wait: Option<Duration>,
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    data: DataArgs,
}

/// End a mount of a file volume
#[derive(Args, Clone, Debug)]
pub struct UmountArgs {
    folder: PathBuf,
    /// Leave open files usable; the mount ends with its last use
    #[arg(long)]
    lazy: bool,
    /// Calls that are under way fail, open files can't be used any more
    #[arg(long, conflicts_with = "lazy")]
    force: bool,
    #[command(flatten)]
    data: DataArgs,
}

/// Runs `trilith mount`.
pub fn run(args: &MountArgs) -> anyhow::Result<()> {
    if let (true, Some(volume), Some(folder)) = (args.guest.is_wanted(), &args.volume, &args.folder) {
        let mounted = absolute(folder).and_then(|point| guest::run(args, volume, &point));
        return mounted.map_err(|error| guest::tell_failure(args, error));
    }
    super::run(async {
        let server = match args.wait {
            Some(patience) => waiting::for_server(&args.data.data, patience).await?,
            None => Files::of_folder(&args.data.data)?,
        };
        let (Some(volume), Some(folder)) = (&args.volume, &args.folder) else { return Ok(list(&mounts(&server).await?)?) };
        let point = absolute(folder)?;
        let options = MountOptions {
            is_read_only: args.read_only,
            is_private: args.private,
            is_kept: args.detach,
            is_exclusive: args.exclusive,
        };
        let is_there = match args.wait {
            Some(patience) => waiting::for_mount(&server, (volume, &point), options, patience).await?,
            None => false,
        };
        if !is_there {
            server.done(Ask::Mount { name: volume.clone(), point: point.clone(), options }).await?;
        }
        tell!("{volume} is mounted on {}", point.display())?;
        if args.detach { Ok(()) } else { stay(&server, &point).await }
    })
}

/// Runs `trilith umount`.
pub fn end(args: &UmountArgs) -> anyhow::Result<()> {
    super::run(async {
        let how = match (args.lazy, args.force) {
            (true, _) => UnmountHow::Lazy,
            (_, true) => UnmountHow::Force,
            _ => UnmountHow::Clean,
        };
        let point = absolute(&args.folder)?;
        let ended = match Files::of_folder(&args.data.data) {
            Ok(server) => server.done(Ask::Unmount { point: point.clone(), how }).await,
            Err(error) => Err(error),
        };
        match ended {
            // The kernel ends a mount without the server.
            Err(_) if !is_running(&args.data.data) && is_mounted(&point)? => end_here(&point, how),
            ended => ended,
        }
    })
}

/// Ends a mount whose server does not run.
fn end_here(point: &Path, how: UnmountHow) -> anyhow::Result<()> {
    let how = match how {
        UnmountHow::Clean => Unmount::Clean,
        UnmountHow::Lazy => Unmount::Detach,
        UnmountHow::Force => Unmount::Abort,
    };
    unmount(point, how).context("no server of this folder runs, and the kernel refused")?;
    Ok(tell!(
        "{} is unmounted. A server that starts mounts it again, if it was mounted through the server with --detach",
        point.display()
    )?)
}

/// Waits for a signal that says that a mount is to end; false where the mount is over before.
async fn told_to_end(is_over: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<bool> {
    let env = Env::real_with_cores(1);
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    loop {
        tokio::select! {
            told = tokio::signal::ctrl_c() => return Ok(told.map(|()| true)?),
            _ = terminated.recv() => return Ok(true),
            () = env.sleep(LOOK) => {}
        }
        if is_over()? {
            return Ok(false);
        }
    }
}

/// Until the mount has ended, or a signal says that it is to end.
async fn stay(server: &Files, point: &Path) -> anyhow::Result<()> {
    // A mount outlives its server, and goes on with the next one.
    if !told_to_end(|| Ok(!is_mounted(point)?)).await? {
        return Ok(tell!("{} is not mounted any more", point.display())?);
    }
    match server.done(Ask::Unmount { point: point.to_owned(), how: UnmountHow::Lazy }).await {
        Err(_) if is_mounted(point)? => end_here(point, UnmountHow::Lazy),
        ended => ended,
    }
}

async fn mounts(server: &Files) -> anyhow::Result<Vec<MountInfo>> {
    match server.ask(Ask::Mounts).await? {
        Told::Mounts(mounts) => Ok(mounts),
        other => bail!("the server answered something else: {other:?}"),
    }
}

/// The folder as `/proc/mounts` names it. A dead mount can't be looked into, and one that has stalled must not be: its parent can.
fn absolute(folder: &Path) -> anyhow::Result<PathBuf> {
    let absolute = std::path::absolute(folder)?;
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) if std::fs::read_link(folder).is_err() => Ok(parent.join(name)),
        _ => Ok(absolute.canonicalize()?),
    }
}

fn list(mounts: &[MountInfo]) -> Printed {
    let row = |mount: &MountInfo| {
        let state = if mount.is_mounted { "mounted" } else { "not mounted yet" };
        let MountOptions { is_read_only, is_private, is_kept, is_exclusive } = mount.options;
        let names = [(is_read_only, "read-only"), (is_private, "private"), (is_exclusive, "exclusive"), (is_kept, "kept")];
        let options: Vec<&str> = names.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect();
        [mount.point.display().to_string(), mount.volume.clone(), state.to_owned(), options.join(", ")]
    };
    table::print(["FOLDER", "VOLUME", "STATE", "OPTIONS"], &mounts.iter().map(row).collect::<Vec<_>>())
}
