//! `trilith keep-mounts`: the mount keeper, which the server starts with its listening socket as standard input.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;

/// Hold mounts while no server runs; the server starts this by itself
#[derive(Args, Clone, Debug)]
pub struct KeepMountsArgs {
    /// The server's data folder, for those who look at the list of processes
    #[arg(long)]
    data: PathBuf,
    /// Be the keeper, and not what starts it
    #[arg(long)]
    detached: bool,
}

/// Runs it.
pub fn run(args: &KeepMountsArgs) -> anyhow::Result<()> {
    if args.detached {
        let listener = std::io::stdin().as_fd().try_clone_to_owned()?;
        // No folder is in use because the keeper began in it.
        std::env::set_current_dir("/")?;
        return mount::keeper::run(listener).context("keeping mounts; they are lost with their server");
    }
    // A session of its own: what ends the server's ends none of its keepers.
    rustix::process::setsid().context("beginning a session")?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("trilith").arg("keep-mounts").arg("--data").arg(&args.data).arg("--detached");
    command.stdout(Stdio::null()).spawn().context("starting the mount keeper")?;
    Ok(())
}
