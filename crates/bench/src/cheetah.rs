//! `bench cheetah`: the experiments of the Cheetah paper that one machine can show: the volume engine beside stores that order their writes.
//!
//! ```text
//!   baseline ──────── Haystack, Tectonic, a thin directory            volume_engine ── the engine, and with ordered writes
//!        └── subject: put, get, delete of objects with numbers, durable when answered ──┘
//!   ground ── devices: files, written whole before;   tap ── what a device is asked to write;   load ── workers in a closed loop
//!   cluster ── nodes of placement groups as threads, whose calls are counted
//!   latency ────── put, get, delete by size and concurrency           (figure 5)
//!   steps ──────── the writes that a put waits for                    (figure 6)
//!   rates ──────── ordered, filesystem, throughput, replace, directory, mixes, memory      (figures 9, 10, 7, 8, 13, 20)
//!   settings ───── of the store for metadata                          (figure 11)
//!   servers ────── meta servers over targets that do nothing          (figure 12)
//!   expansion ──── a node comes, a disk is lost                       (figure 14)
//!   crash ──────── a primary is killed; the one with processes        (figure 15)
//!   trace ──────── three weeks with many deletes                      (figures 16 to 18)
//!   compaction ─── puts while Haystack compacts                       (figure 19)
//!   copies ─────── one, two and three
//!        └──► report: CSV, Markdown, plots
//! ```
//!
//! All stores run in this process, and write to the same file system through the same disk code and the same log; but for clusters on one thread. Calls between the
//! roles of a store are direct, as they are on a server of its own: what differs is which writes wait for which.

mod args;
mod baseline;
mod cluster;
mod compaction;
mod copies;
mod crash;
mod expansion;
mod ground;
mod latency;
mod load;
mod rates;
mod servers;
mod settings;
mod steps;
mod subject;
mod tap;
mod trace;
mod volume_engine;

pub use args::{CheetahArgs, Experiment};

use crate::report::{Machine, Report};
use crate::tell;
use anyhow::Context;
use ground::Ground;

/// A report and what its files are called.
type Named = (&'static str, Report);

/// Short rounds have one operation of so many.
const QUICK_SHARE: u64 = 10;

fn share(args: &CheetahArgs) -> u64 {
    if args.quick { QUICK_SHARE } else { 1 }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Runs the experiments that were asked for, and writes what came of them.
pub fn run(args: &CheetahArgs) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let ground = Ground::new(&args.lab.work, !args.quick)?;
    for experiment in args.experiments() {
        tell!("{}", experiment.name())?;
        let machine = Machine::look("the workers on the store's thread", args.quick)?;
        let reports = match experiment {
            Experiment::Latency => latency::run(args, &ground),
            Experiment::Trace => trace::run(args, &ground),
            Experiment::Compaction => compaction::run(args, &ground),
            Experiment::Steps => steps::run(args, &ground),
            Experiment::Settings => settings::run(args, &ground),
            Experiment::Servers => servers::run(args, &ground),
            Experiment::Expansion => expansion::run(args, &ground),
            Experiment::Crash => crash::run(args),
            Experiment::Copies => copies::run(args, &ground),
            _ => rates::run(experiment, args, &ground),
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
