//! Repository automation: `cargo xtask tidy`, `check`, `soak` and `fuzz`.
//!
//! Everything that a change must pass is started from here, in the same words locally and in CI (`./test` prepares the
//! machine and then runs `cargo xtask check --end-to-end`). A check that needs more than the text of the repository
//! belongs into a test of the crate that it checks.
#![forbid(unsafe_code)]

mod check;
mod fuzz;
mod soak;
mod step;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Repository automation")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare the repository with its own rules: crate graph, file sizes, unsafe code, links, licences
    Tidy(tidy::Arguments),
    /// Formatting, clippy, tidy and all tests: what every change must pass
    Check(check::Arguments),
    /// The long counts: crash loops, power cuts, model checks at full size, in release mode
    Soak(soak::Arguments),
    /// Fuzz the decoders with libFuzzer (needs a nightly toolchain and cargo-fuzz)
    Fuzz(fuzz::Arguments),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Tidy(arguments) => tidy::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
