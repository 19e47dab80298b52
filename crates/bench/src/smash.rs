//! `bench smash`: the experiments of the Smash paper's evaluation.
//!
//! ```text
//!   migration ── CRUSH, MapX and the chunk store's placer when a node comes          (table 2)
//!   dram ─────── formulas of the units, beside real ones                            (figure 6, section 4.7)
//!   traffic ──── flows by distance, near placement beside CRUSH                     (figure 13)
//!   heat ─────── sums of hot values, relocations beside CRUSH                       (figure 14)
//!
//!   systems ── six nodes as processes;   chunks ── clients of them, and what they stored
//!   latency ──── put, get, modify, delete, by other placers and by a map            (figures 7, 8, 9, 11)
//!   failure ──── a node is killed and removed                                       (figure 10)
//!   addition ─── nodes join                                                         (table 4)
//!   scale ────── get by nodes, modify by copies                                     (figure 15)
//!        └──► report: CSV, Markdown, plots
//! ```
//!
//! The first four are computed from a seed: the same seed gives the same tables. The others are measured.

mod addition;
mod args;
mod by_map;
mod chunks;
mod dram;
mod failure;
mod formula;
mod heat;
mod index;
mod latency;
mod layout;
mod load;
mod migration;
mod scale;
mod traffic;

pub use args::{Experiment, SmashArgs};

use crate::EnterCluster;
use crate::report::{Machine, Report};
use crate::systems::Lab;
use crate::tell;
use anyhow::Context;

/// A report and what its files are called.
type Named = (&'static str, Report);

/// Takes a report when it is there: what comes after it may fail.
type Write<'a> = &'a mut dyn FnMut(Named) -> anyhow::Result<()>;

/// Runs the experiments that were asked for, and writes what came of them.
pub fn run(args: &SmashArgs, enter: EnterCluster) -> anyhow::Result<()> {
    let lab = Lab::new(&args.lab)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    for experiment in args.experiments() {
        tell!("{}: {}", experiment.name(), experiment.purpose())?;
        let remark = if experiment.is_measured() { "the clients on the same cores" } else { "computed, nothing is timed" };
        let machine = Machine::look(remark, args.quick)?;
        let mut write = |(name, report): Named| {
            report.write(&args.out, name, &machine)?;
            tell!("{}", report.text())?;
            anyhow::Ok(())
        };
        let ran = match experiment {
            Experiment::Migration => migration::run(args, &mut write),
            Experiment::Dram => dram::run(args, &mut write),
            Experiment::Traffic => traffic::run(args, &mut write),
            Experiment::Heat => heat::run(args, &mut write),
            Experiment::Latency => latency::run(args, &lab, enter, &mut write),
            Experiment::Failure => failure::run(args, &lab, enter, &mut write),
            Experiment::Addition => addition::run(args, &lab, enter, &mut write),
            Experiment::Scale => scale::run(args, &lab, enter, &mut write),
        };
        ran.with_context(|| format!("experiment {}", experiment.name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
