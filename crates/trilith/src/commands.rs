//! The commands that talk to a server or look at a disk: each reads its arguments, does one thing, and says what it did.

pub mod bucket;
pub mod chunk;
pub mod cluster;
pub mod device;
pub mod fsck;
pub mod image;
pub mod keep_mounts;
pub mod mount;
pub mod mount_helper;
pub mod nbd;
pub mod object;
pub mod status;
pub mod volume;

mod place;
mod server;
mod size;
mod stopped_server;
mod table;

use std::future::Future;
use std::process::ExitCode;

/// Runs one command to its end.
fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// What a command ends with that can find something wrong without failing.
fn verdict(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
