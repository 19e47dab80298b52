//! `cargo xtask soak`: the same suites as `cargo test`, with long counts and in release mode.
//!
//! A suite that multiplies its counts reads `TRILITH_SOAK`; a suite that is only worth running long is an ignored test
//! whose name contains `soak`. Either is listed in [`SUITES`]; a failure prints the seed that replays it.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::check::{Report, cargo_step};
use crate::workspace::root;

/// Seconds a suite may take when no `--minutes` are given.
const SUITE_LIMIT_DEFAULT_S: u64 = 60 * 60;

#[derive(clap::Args)]
pub struct Arguments {
    /// Time limit of each suite in minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Only this suite (see --list)
    #[arg(long)]
    suite: Option<String>,
    /// List the suites and what each proves
    #[arg(long)]
    list: bool,
}

/// One long run: which tests, and what it shows.
struct Suite {
    name: &'static str,
    proves: &'static str,
    cargo_arguments: &'static [&'static str],
}

const SUITES: &[Suite] = &[
    Suite {
        name: "multiplied",
        proves: "every property and fault test with TRILITH_SOAK=1 counts",
        cargo_arguments: &["test", "--workspace", "--release", "--no-fail-fast"],
    },
    Suite {
        name: "ignored",
        proves: "the tests that are only worth running long: crash loops, power cuts after every operation, full model checks",
        cargo_arguments: &["test", "--workspace", "--release", "--no-fail-fast", "--", "--ignored", "soak"],
    },
];

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for suite in SUITES {
            println!("{:12} {}", suite.name, suite.proves);
        }
        return Ok(());
    }
    let wanted = |suite: &&Suite| arguments.suite.as_deref().is_none_or(|name| name == suite.name);
    let suites: Vec<&Suite> = SUITES.iter().filter(wanted).collect();
    if suites.is_empty() {
        bail!("no such suite; `cargo xtask soak --list` names them");
    }
    let root = root()?;
    let limit = Duration::from_secs(arguments.minutes.map_or(SUITE_LIMIT_DEFAULT_S, |minutes| minutes * 60));
    let mut report = Report::default();
    for suite in suites {
        let mut step = cargo_step(suite.name, suite.cargo_arguments, limit);
        step.environment.push(("TRILITH_SOAK", "1".to_owned()));
        report.add(step.run(&root)?);
    }
    report.finish()
}
