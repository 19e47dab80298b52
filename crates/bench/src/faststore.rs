//! `bench faststore`: the experiments of the FastStore paper that one device can show, with its baseline beside the path of block images.
//!
//! ```text
//!   map ──────── units, places, which strategy a part of a write gets      record ── what a commit of the baseline logs
//!   bluestore ── NEW, COW and RMW through a log                            in_place ── the image and its store, as served
//!        └───────── path: both write objects of 4 MiB, on a disk of crate `disk`, whose counters say what it cost ─────┘
//!   schemes ──── five repeated writes, counted                             (table I)
//!   strategies ─ what each write does, by size, alignment and MAS          (table II)
//!   repeats ──── five repeated writes, timed                               (figures 5 and 15, table IV)
//!        └──► report: CSV, Markdown, plots
//! ```
//!
//! What is counted is the same on every disk and in every run. What is timed says little on flash: the paper's gains are those of a hard disk.

mod args;
mod bluestore;
mod ground;
mod in_place;
mod map;
mod path;
mod record;
mod repeats;
mod schemes;
mod strategies;

pub use args::{Experiment, FaststoreArgs};

use crate::report::{Machine, Report};
use crate::tell;
use anyhow::Context;
use ground::Ground;

/// A report and what its files are called.
type Named = (&'static str, Report);

/// Runs the experiments that were asked for, and writes what came of them.
pub fn run(args: &FaststoreArgs) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let ground = Ground::new(&args.work)?;
    for experiment in args.experiments() {
        tell!("{}: {}", experiment.name(), experiment.purpose())?;
        let remark = if experiment.is_timed() { "one write at a time" } else { "counted, nothing is timed" };
        let machine = Machine::look(remark, args.quick)?;
        let reports = match experiment {
            Experiment::Schemes => schemes::run(args, &ground),
            Experiment::Strategies => strategies::run(args, &ground),
            Experiment::Repeats => repeats::run(args, &ground),
        };
        for (name, report) in reports.with_context(|| format!("experiment {}", experiment.name()))? {
            report.write(&args.out, name, &machine)?;
            tell!("{}", report.text())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
