//! Load generators and experiments: what `trilith bench` runs.
//!
//! - [`s3`] loads any S3 endpoint and reports rates and latencies.
//! - [`ceiling`] is the server to compare with: bare HTTP, constant bodies.
//! - [`zstore`] starts cells and single servers and measures what they cost, in turn.
//! - [`smash`] computes and simulates what the chunk store's placement and lookup cost, and measures the store with nodes as processes.
//! - [`faststore`] counts and times what block images ask of a device, beside BlueStore's ways to write.
//! - [`cfs`] loads any mounted folder with operations on files and directories.
//! - [`cheetah`] measures the volume engine beside stores that order their writes.
//! - [`disk`](mod@disk) measures a device through the system's own disk code.
//!
//! Nothing of the system depends on this crate but the program that offers its commands. The generator uses nothing of the system: it runs
//! the same against every peer.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use chunkstore::chunk_client::ChunkClient;
use std::path::PathBuf;
use std::pin::Pin;

pub mod ceiling;
pub mod cfs;
pub mod cheetah;
pub mod clock;
pub mod disk;
pub mod faststore;
pub mod latency;
pub mod output;
pub mod random;
mod report;
mod runtime;
pub mod s3;
pub mod smash;
mod systems;
mod timeline;
mod usage;
pub mod zstore;

/// An experiment and its options.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum BenchCommand {
    /// Load an S3 endpoint.
    S3(Box<s3::S3Args>),
    /// Serve constant bodies over bare HTTP, to learn the limit.
    Ceiling(ceiling::CeilingArgs),
    /// Measure a file or block device.
    Disk(disk::DiskArgs),
    /// Measure a cell of three nodes beside one process, and what costs it time: modes, checkpoints, recovery, collection.
    Zstore(zstore::ZstoreArgs),
    /// Compute, simulate and measure placement and lookup in the chunk store: migration, memory, traffic, heat, latency, failure, addition.
    Smash(smash::SmashArgs),
    /// Count and time writes in place beside BlueStore's: new, copy-on-write, deferred through a log.
    Faststore(faststore::FaststoreArgs),
    /// Measure file systems through their mounts: metadata operations, small files, large files.
    Cfs(cfs::CfsArgs),
    /// Measure the volume engine beside stores that order their writes: Haystack, Tectonic.
    Cheetah(cheetah::CheetahArgs),
}

/// Makes a client of the chunk store that speaks with the cluster of a node's folder, on the present runtime.
pub type EnterCluster = fn(PathBuf) -> Entering;

/// Its outcome.
pub type Entering = Pin<Box<dyn Future<Output = anyhow::Result<ChunkClient>>>>;

/// Runs an experiment; the report goes to standard output. The program knows how clusters are entered.
pub fn run(command: BenchCommand, enter: EnterCluster) -> anyhow::Result<()> {
    match command {
        BenchCommand::S3(args) => s3::run(&args),
        BenchCommand::Ceiling(args) => ceiling::run(&args),
        BenchCommand::Disk(args) => disk::run(&args),
        BenchCommand::Zstore(args) => zstore::run(&args),
        BenchCommand::Smash(args) => smash::run(&args, enter),
        BenchCommand::Faststore(args) => faststore::run(&args),
        BenchCommand::Cfs(args) => cfs::run(&args),
        BenchCommand::Cheetah(args) => cheetah::run(&args),
    }
}
