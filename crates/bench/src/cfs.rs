//! `bench cfs`: the experiments of the CFS paper's evaluation, against any folders: mounts of file volumes, of other systems, a local folder.
//!
//! ```text
//!   folders ─── systems by name, and the mounts of each: its clients
//!   workers ─── threads that begin a phase together; its rate is that of the last one to end
//!      ├── metadata   mdtest's operations, by processes          (figure 6, table 3)
//!      ├── clients    the same by mounts, with processes on each (figure 7)
//!      ├── small      files of 1 to 128 KiB                      (figure 10)
//!      └── large      in sequence and at random, by processes    (figure 8)
//!   outcome ─── samples ──► report: CSV, Markdown, plots
//! ```
//!
//! It starts no system and knows none: the person that runs it mounts what is to be compared, and says what an answered call is worth on each. The
//! paper's processes are threads here, each with a working directory of its own.

mod args;
mod folders;
mod large;
mod metadata;
mod outcome;
mod small;
mod workers;

pub use args::{CfsArgs, Experiment};

use crate::report::Machine;
use crate::tell;
use anyhow::Context;
use folders::System;
use outcome::{Outcome, Sample};

/// Runs the experiments that were asked for, and writes what came of them.
pub fn run(args: &CfsArgs) -> anyhow::Result<()> {
    let systems = System::all_of(&args.folders)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let machine = Machine::look("the load generator beside the file systems", args.quick)?;
    for experiment in args.experiments() {
        tell!("{}: {}", experiment.name(), experiment.purpose())?;
        let mut samples = Vec::new();
        for round in 0..args.rounds() {
            for turn in 0..systems.len() {
                let system = &systems[(turn + round as usize) % systems.len()];
                let measured = measure(args, experiment, system)
                    .with_context(|| format!("experiment {} on {}", experiment.name(), system.name))?;
                samples.extend(measured.into_iter().map(|figure| Sample { round, system: system.name.clone(), figure }));
            }
            tell!("  round {} of {}", round + 1, args.rounds())?;
        }
        let names = systems.iter().map(|system| system.name.as_str()).collect();
        let report = Outcome { experiment, systems: names, samples, rounds: args.rounds() }.report(args);
        report.write(&args.out, experiment.name(), &machine)?;
        tell!("{}", report.text())?;
    }
    Ok(())
}

fn measure(args: &CfsArgs, experiment: Experiment, system: &System) -> anyhow::Result<Vec<outcome::Figure>> {
    match experiment {
        Experiment::Metadata => metadata::by_processes(args, system),
        Experiment::Clients => metadata::by_clients(args, system),
        Experiment::Small => small::run(args, system),
        Experiment::Large => large::run(args, system),
    }
}

#[cfg(test)]
mod tests;
