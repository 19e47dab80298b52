//! `bench smash`: the experiments of the Smash paper's evaluation that need no servers.
//!
//! ```text
//!   migration ── CRUSH, MapX and the chunk store's placer when a node comes          (table 2)
//!   dram ─────── formulas of the units, beside real ones                            (figure 6, section 4.7)
//!   traffic ──── flows by distance, near placement beside CRUSH                     (figure 13)
//!   heat ─────── sums of hot values, relocations beside CRUSH                       (figure 14)
//!        └──► report: CSV, Markdown, plots
//! ```
//!
//! Everything is computed from a seed: the same seed gives the same tables.

mod args;
mod dram;
mod formula;
mod heat;
mod index;
mod layout;
mod migration;
mod traffic;

pub use args::{Experiment, SmashArgs};

use crate::report::{Machine, Report};
use anyhow::Context;

/// A report and what its files are called.
type Named = (&'static str, Report);

/// Runs the experiments that were asked for, and writes what came of them.
pub fn run(args: &SmashArgs) -> anyhow::Result<()> {
    let machine = Machine::look("computed, nothing is timed", args.quick)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    for experiment in args.experiments() {
        println!("{}: {}", experiment.name(), experiment.purpose());
        let reports = match experiment {
            Experiment::Migration => migration::run(args),
            Experiment::Dram => dram::run(args),
            Experiment::Traffic => traffic::run(args),
            Experiment::Heat => heat::run(args),
        };
        for (name, report) in reports.with_context(|| format!("experiment {}", experiment.name()))? {
            report.write(&args.out, name, &machine)?;
            println!("{}", report.text());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
