//! `cargo xtask soak`: the same suites as `cargo test`, with long counts and in release mode.
//!
//! A suite that multiplies its counts reads `TRILITH_SOAK`: that it is set means "long", its number is the factor where a
//! suite takes one. A suite that is only worth running long is an ignored test whose name contains `soak`. Either stands in
//! [`SUITES`]; a failure prints the seed that replays it.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::check::{Report, cargo_step};
use crate::step::Step;
use crate::workspace::root;

/// Seconds a suite may take when no `--minutes` are given.
const SUITE_LIMIT_DEFAULT_S: u64 = 60 * 60;
const FACTOR_DEFAULT: u64 = 20;

#[derive(clap::Args)]
pub struct Arguments {
    /// Time limit of each suite in minutes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: Option<u32>,
    /// How many times the counts of `cargo test`, where a suite takes a factor
    #[arg(long, default_value_t = FACTOR_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    factor: u64,
    /// Only this suite (see --list)
    #[arg(long)]
    suite: Option<String>,
    /// List the suites and what each proves
    #[arg(long)]
    list: bool,
}

/// One long run: the tests of a crate, and what they show.
struct Suite {
    name: &'static str,
    package: &'static str,
    proves: &'static str,
}

const SUITES: &[Suite] = &[
    Suite { name: "disk", package: "disk", proves: "the simulated disk against a model; direct writes seen by cached reads" },
    Suite {
        name: "wal",
        package: "wal",
        proves: "no acknowledged record is lost by a power cut at any operation; a torn tail is told from corruption",
    },
    Suite { name: "kv", package: "kv", proves: "state materialised from a log, killed and cut" },
    Suite {
        name: "manager",
        package: "manager",
        proves: "the manager's state is the fold of its commands, after power cuts at every operation",
    },
    Suite { name: "device", package: "device", proves: "appends, zones and headers under power cuts and disk faults" },
    Suite { name: "engine", package: "engine", proves: "random histories of the engine's interface against its oracle" },
    Suite {
        name: "logstore",
        package: "logstore",
        proves: "the log engine: cells of one to three gateways, power cuts after every change, histories judged",
    },
    Suite { name: "object", package: "object", proves: "buckets, uploads, conditions and policies" },
    Suite {
        name: "model",
        package: "model",
        proves: "the protocols' models, explored to their full size, and the wrong twins that must fail",
    },
    Suite {
        name: "sim",
        package: "sim",
        proves: "the whole of one machine under power cuts, kills and disk faults: histories are linearizable, LIST and GET agree",
    },
    Suite {
        name: "program",
        package: "trilith",
        proves: "kill -9 under mixed load, 500 times: nothing acknowledged is lost, LIST and GET agree; histories across kills \
                 are linearizable",
    },
];

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for suite in SUITES {
            println!("{:12} {}", suite.name, suite.proves);
        }
        return Ok(());
    }
    let suites = chosen(arguments)?;
    let root = root()?;
    let mut report = Report::default();
    for suite in suites {
        for step in steps(suite, arguments) {
            report.add(step.run(&root)?);
        }
    }
    report.finish()
}

fn chosen(arguments: &Arguments) -> Result<Vec<&'static Suite>> {
    let wanted = |suite: &&Suite| arguments.suite.as_deref().is_none_or(|name| name == suite.name);
    let suites: Vec<&Suite> = SUITES.iter().filter(wanted).collect();
    if suites.is_empty() {
        bail!("no such suite; `cargo xtask soak --list` names them");
    }
    Ok(suites)
}

/// The suite's tests with long counts, then those that run only here.
fn steps(suite: &Suite, arguments: &Arguments) -> [Step; 2] {
    const LONG: [&str; 4] = ["test", "--locked", "--release", "--no-fail-fast"];
    let limit = Duration::from_secs(arguments.minutes.map_or(SUITE_LIMIT_DEFAULT_S, |minutes| u64::from(minutes) * 60));
    let multiplied = [&LONG[..], &["--package", suite.package]].concat();
    let ignored = [&multiplied[..], &["--", "--ignored", "soak"]].concat();
    [multiplied, ignored].map(|words| {
        let mut step = cargo_step(suite.name, &words, limit);
        step.environment.push(("TRILITH_SOAK", arguments.factor.to_string()));
        step
    })
}

#[cfg(test)]
mod tests;
