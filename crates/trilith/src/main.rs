//! The `trilith` binary: one program for every role and every tool.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod credentials;
mod settings;
mod volume_key;

mod new_file;
mod place;
mod ports;
mod prepared;
mod say;
mod serve;

mod client;
mod commands;

use bench::complain;
use bench::output::OutputError;
use clap::{Parser, Subcommand};
use commands::bucket::{self, BucketArgs};
use commands::chunk::{self, ChunkCommand};
use commands::cluster::{self, ClusterCommand};
use commands::device::{self, DeviceCommand};
use commands::fsck::{self, FsckArgs};
use commands::image::{self, ImageArgs};
use commands::keep_mounts::{self, KeepMountsArgs};
use commands::mount::{self, MountArgs, UmountArgs};
use commands::mount_helper;
use commands::nbd::{self, NbdArgs};
use commands::object::{self, ObjectArgs};
use commands::status::{self, StatusArgs};
use commands::volume::{self, VolumeArgs};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// S3 objects on a pool of disks, from one binary.
///
/// `trilith serve` starts everything on this machine, with its data under ./trilith-data, and prints the address and the root
/// credentials. The other commands talk to a running server, or look at a disk.
#[derive(Parser)]
#[command(
    version,
    propagate_version = true,
    after_help = "A first try, in two terminals:\n  trilith serve\n  trilith bucket make photos && trilith object put cat.jpg photos/\n\n\
                  Every command explains itself: trilith object put --help"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server: S3 on port 9000; metrics, health and status on port 9001
    Serve(Box<settings::ServeArgs>),
    /// Make, list and remove buckets; set their policies
    Bucket(BucketArgs),
    /// Store, fetch, list, remove and copy objects
    Object(ObjectArgs),
    /// Prepare disks, look at one that no server uses, give one up
    #[command(subcommand)]
    Device(DeviceCommand),
    /// Make a cluster of several nodes, join one, look at it, or try one on this machine
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Store and fetch chunks that the system names; see where they are, and move them
    #[command(subcommand)]
    Chunk(ChunkCommand),
    /// Make, snapshot, clone and remove block images
    Image(ImageArgs),
    Nbd(NbdArgs),
    /// Make, list and remove file volumes
    Volume(VolumeArgs),
    Mount(MountArgs),
    Umount(UmountArgs),
    #[command(hide = true)]
    KeepMounts(KeepMountsArgs),
    /// Check everything that a stopped server keeps, or rebuild what it has lost
    Fsck(FsckArgs),
    /// Print what a server says of itself, and what to do about what is wrong
    Status(StatusArgs),
    /// Measure: an S3 endpoint, the limit of bare HTTP, a disk
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

fn main() -> ExitCode {
    let is_helper = mount_helper::is_called(std::env::args_os().next().as_deref());
    let outcome = if is_helper { mount_helper::run().map(|()| ExitCode::SUCCESS) } else { run(Cli::parse().command) };
    match outcome {
        Ok(code) => code,
        // The reader of the output has seen enough (`trilith object ls ... | head`): there is nothing to complain about.
        Err(error) if matches!(error.downcast_ref::<OutputError>(), Some(OutputError::Closed)) => ExitCode::FAILURE,
        Err(error) => {
            complain!("trilith: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command.
fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Bucket(args) => bucket::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Object(args) => object::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Image(args) => image::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Nbd(args) => nbd::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Volume(args) => volume::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Mount(args) => mount::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Umount(args) => mount::end(&args).map(|()| ExitCode::SUCCESS),
        Command::KeepMounts(args) => keep_mounts::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Device(command) => device::run(&command).map(|()| ExitCode::SUCCESS),
        Command::Cluster(command) => cluster::run(&command),
        Command::Chunk(command) => chunk::run(&command).map(|()| ExitCode::SUCCESS),
        Command::Fsck(args) => fsck::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Bench(command) => bench::run(command, commands::chunk::enter).map(|()| ExitCode::SUCCESS),
    }
}
