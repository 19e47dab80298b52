//! The experiments as a program of their own, which builds without the rest of the system.

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: bench::BenchCommand,
}

fn main() -> anyhow::Result<()> {
    let enter = |_| -> bench::Entering { Box::pin(async { anyhow::bail!("experiments with clusters are `trilith bench`'s") }) };
    bench::run(Arguments::parse().command, enter)
}
