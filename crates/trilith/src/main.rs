//! The `trilith` binary: one program for every role and every tool.
#![forbid(unsafe_code)]

mod credentials;
mod serve;
mod settings;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// S3 objects on a pool of disks, from one binary.
///
/// `trilith serve` starts everything on this machine, with its data under ./trilith-data, and prints the address and the root
/// credentials. The other commands talk to a running server.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server: S3 on port 9000, metrics and health on port 9001.
    Serve(Box<settings::ServeArgs>),
    /// Measure: an S3 endpoint, the limit of bare HTTP, a disk.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Bench(command) => bench::run(command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trilith: {error:#}");
            ExitCode::FAILURE
        }
    }
}
