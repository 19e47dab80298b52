//! `bench s3` against all nodes of a system at once, and what it costs them.

use crate::clock;
use crate::s3::{self, S3Args};
use crate::systems::{BUCKET, System};
use anyhow::{Context, ensure};
use clap::Parser;
use std::time::Duration;

/// A command line of the generator.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: S3Args,
}

/// What a load did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    pub requests: u64,
    pub errors: u64,
    pub wall: Duration,
    /// Processor time of the servers.
    pub cpu: Duration,
    /// Of the slowest node.
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Spent {
    pub fn cpu_us_per_request(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }

    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.wall.as_secs_f64()
    }
}

/// Runs the generator once for each node, at the same time, with its share of the connections. Objects that are written have names of their own
/// at each node.
pub fn run(system: &System, options: &[&str], connections: u32, duration: Duration) -> anyhow::Result<Spent> {
    let nodes = system.nodes.len() as u32;
    let runs: Vec<S3Args> = (0..nodes)
        .map(|node| {
            let share = (connections + nodes - 1 - node) / nodes;
            let (share, duration) = (share.max(1).to_string(), format!("{}ms", duration.as_millis()));
            let mut words = vec!["-c", &share, "-d", &duration, "--warm-up", "0s"];
            words.extend(options);
            arguments(&system.nodes[node as usize].s3, &words, node)
        })
        .collect::<anyhow::Result<_>>()?;
    let (cpu, began) = (system.cpu()?, clock::now());
    let reports = std::thread::scope(|scope| {
        let running: Vec<_> = runs.iter().map(|args| scope.spawn(|| s3::execute(args))).collect();
        running.into_iter().map(|run| run.join().expect("the generator does not panic")).collect::<anyhow::Result<Vec<_>>>()
    })?;
    let mut spent = Spent { wall: clock::now() - began, cpu: system.cpu()?.saturating_sub(cpu), ..Spent::default() };
    for report in reports {
        ensure!(report.wrong_data.is_empty(), "{} gave wrong data: {:?}", system.name, report.wrong_data);
        spent.requests += report.total.requests;
        spent.errors += report.total.errors;
        spent.p50_ms = spent.p50_ms.max(report.total.latency_ms.p50);
        spent.p99_ms = spent.p99_ms.max(report.total.latency_ms.p99);
    }
    ensure!(spent.requests > 0, "no request to {} succeeded", system.name);
    Ok(spent)
}

/// Writes keys that are read later, through the first node.
pub fn prepare(system: &System, keys: u64) -> anyhow::Result<()> {
    let words = ["--prepare-only", "--keys", &keys.to_string(), "--prefix", "read/"];
    s3::execute(&arguments(&system.nodes[0].s3, &words, 0)?).map(|_| ()).context("writing objects that are to be read")
}

fn arguments(s3: &str, words: &[&str], node: u32) -> anyhow::Result<S3Args> {
    let (endpoint, prefix) = (format!("http://{s3}"), format!("write-{node}/"));
    let mut line = vec!["bench", "--endpoint", &endpoint, "--bucket", BUCKET];
    if !words.contains(&"--prefix") {
        line.extend(["--prefix", &prefix]);
    }
    line.extend(words);
    Ok(Line::try_parse_from(line).context("a command line of the generator")?.args)
}
