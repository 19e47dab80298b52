//! `bench s3`: load on any S3 endpoint over plain HTTP/1.1.
//!
//! The generator shares its machine with the server it measures, so it does little per request: one thread watches many
//! keep-alive connections with epoll, heads are written into reused buffers, bodies are slices of one shared pool, and a
//! request costs a write, a read and a share of a wait. It has no HTTP library and no async runtime beneath it.
//!
//! Phases: prepare (one PUT per key, on request), warm-up, measured window. A run is reproducible: `--seed` fixes every
//! choice, sizes and bodies follow from the keys.

mod args;
pub mod connection;
pub mod content;
pub mod list;
pub mod mix;
pub mod report;
pub mod request;
pub mod response;
pub mod run;
pub mod sigv4;
pub mod source;
pub mod tally;
pub mod worker;
pub mod zipf;

pub use args::S3Args;
pub(crate) use args::parse_duration;

use crate::{output, tell};
use anyhow::{Context, ensure};

/// Runs the load and prints what came of it. Fails when a phase before the measured one fails, when nothing succeeds, or
/// when the server gave wrong data.
pub fn run(args: &S3Args) -> anyhow::Result<()> {
    let report = execute(args)?;
    if args.json {
        tell!("{}", serde_json::to_string_pretty(&report).context("writing the report as JSON")?)?;
    } else {
        output::print(format_args!("{report}"))?;
    }
    ensure!(report.wrong_data.is_empty(), "the server gave wrong data");
    ensure!(args.prepare_only || report.total.requests > 0, "no request succeeded");
    Ok(())
}

/// Runs the load and returns the report.
pub fn execute(args: &S3Args) -> anyhow::Result<report::Report> {
    run::Run::new(args)?.execute()
}

#[cfg(test)]
mod tests;
