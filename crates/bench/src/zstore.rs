//! `bench zstore`: the experiments of the ZStore paper's evaluation that need a cell, and what a cell costs beside one process.
//!
//! ```text
//!   systems ── processes of this program: a cluster of three nodes, single servers ──► processor time, counters, S3
//!   load ───── `bench s3` against all nodes at once;   client ── requests that must be close to each other
//!   engine ─── a log engine in this process, for what no port brings about
//!   pairs │ index │ modes │ checkpoint │ failure │ collection ──► report: CSV, Markdown, plots
//! ```
//!
//! Everything is measured on one machine, the load generator beside the servers: what counts is processor time per request, and ratios of
//! what ran in turn.

mod args;
mod checkpoint;
pub(crate) mod client;
mod collection;
mod engine;
mod failure;
mod index;
mod load;
mod modes;
mod pairs;

pub use args::{Experiment, ZstoreArgs};

use crate::report::Machine;
use crate::systems;
use crate::tell;
use anyhow::Context;
use args::Scale;
use std::time::Duration;

/// Nodes of a cell.
const NODES: usize = 3;
/// Of timelines.
const SLICE: Duration = Duration::from_millis(250);

/// Runs the experiments that were asked for, and writes what came of them.
pub fn run(args: &ZstoreArgs) -> anyhow::Result<()> {
    let machine = Machine::look("the load generator on the same cores", args.quick)?;
    let lab = systems::Lab::new(&args.lab)?;
    let scale = Scale::of(args);
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    for experiment in args.experiments() {
        tell!("{}: {}", experiment.name(), experiment.purpose())?;
        let report = match experiment {
            Experiment::Pairs => pairs::run(&lab, &scale),
            Experiment::Index => index::run(&lab, &scale),
            Experiment::Modes => modes::run(&lab, &scale),
            Experiment::Checkpoint => checkpoint::run(&lab, &scale),
            Experiment::Failure => failure::run(&lab, &scale),
            Experiment::Collection => collection::run(&lab, &scale),
        };
        let report = report.with_context(|| format!("experiment {}", experiment.name()))?;
        report.write(&args.out, experiment.name(), &machine)?;
        tell!("{}", report.text())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
