//! The experiments as a program of their own, which builds without the rest of the system.

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: bench::BenchCommand,
}

fn main() -> anyhow::Result<()> {
    bench::run(Arguments::parse().command)
}
