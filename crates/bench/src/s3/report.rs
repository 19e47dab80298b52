//! What a run reports: a table for people, JSON for scripts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::args::S3Args;
use super::mix::Op;
use super::tally::{OpTally, Tally};
use crate::latency::Latency;

/// The whole report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was run.
    pub setup: Setup,
    /// Length of the measured window, in seconds.
    pub measured_s: f64,
    /// All operations together.
    pub total: OpReport,
    /// Each operation that occurred.
    pub ops: BTreeMap<&'static str, OpReport>,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// Examples of wrong data.
    pub wrong_data: Vec<String>,
    /// Requests of an open loop that came due but were never sent.
    pub unsent: u64,
    /// Connections opened again.
    pub reconnects: u64,
    /// Processor time of the generator per second of the run, in cores.
    pub client_cores: f64,
}

/// The options that shape the figures.
#[derive(Debug, Clone, Serialize)]
pub struct Setup {
    /// The server.
    pub endpoint: String,
    /// Operations with weights.
    pub mix: String,
    /// Object sizes with weights.
    pub size: String,
    /// Prepared keys.
    pub keys: u64,
    /// Choice of keys.
    pub distribution: String,
    /// Connections in all.
    pub connections: u32,
    /// Threads of the generator.
    pub threads: u32,
    /// Requests per second of the open loop.
    pub rate: Option<f64>,
    /// How requests were signed.
    pub auth: String,
    /// Whether bodies were checked.
    pub verify: bool,
}

/// One row.
#[derive(Debug, Clone, Serialize)]
pub struct OpReport {
    /// Successes.
    pub requests: u64,
    /// Failures.
    pub errors: u64,
    /// Successes per second.
    pub requests_per_s: f64,
    /// Body bytes per second, in units of 1,000,000.
    pub mb_per_s: f64,
    /// Names listed per second.
    pub names_per_s: f64,
    /// Latency of successes, in milliseconds.
    pub latency_ms: Latency,
}

impl Report {
    /// The report of a run that measured for `elapsed`.
    pub fn new(args: &S3Args, tally: &Tally, elapsed: Duration) -> Self {
        let mut total = OpTally::sum(&tally.ops);
        total.errors = tally.errors();
        let occurred = |op: &Op| tally.ops[op.index()].requests + tally.ops[op.index()].errors > 0;
        let row = |op: Op| (op.name(), OpReport::new(&tally.ops[op.index()], elapsed));
        let run_s = (elapsed + args.warm_up).as_secs_f64();
        Report {
            setup: Setup::new(args),
            measured_s: elapsed.as_secs_f64(),
            total: OpReport::new(&total, elapsed),
            ops: Op::ALL.into_iter().filter(occurred).map(row).collect(),
            errors: tally.failures.clone(),
            wrong_data: tally.wrong_data.clone(),
            unsent: tally.unsent,
            reconnects: tally.reconnects,
            client_cores: per_second(tally.cpu.as_secs_f64(), run_s),
        }
    }
}

impl Setup {
    fn new(args: &S3Args) -> Self {
        Setup {
            endpoint: args.endpoint.clone(),
            mix: args.mix.to_string(),
            size: args.size.to_string(),
            keys: args.keys,
            distribution: format!("{:?}", args.distribution).to_lowercase(),
            connections: args.connections,
            threads: args.threads,
            rate: args.rate,
            auth: args.auth.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default(),
            verify: args.verify,
        }
    }
}

impl OpReport {
    fn new(tally: &OpTally, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64();
        OpReport {
            requests: tally.requests,
            errors: tally.errors,
            requests_per_s: per_second(tally.requests as f64, seconds),
            mb_per_s: per_second(tally.bytes as f64 / 1e6, seconds),
            names_per_s: per_second(tally.names as f64, seconds),
            latency_ms: Latency::of_ns(&tally.latency_ns),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setup = &self.setup;
        let pace = setup.rate.map_or_else(|| "closed loop".to_owned(), |rate| format!("open loop at {rate}/s"));
        writeln!(
            f,
            "{}  {}  {} bytes  {} keys {}  {} connections, {} threads  {}  {}  {:.1} s",
            setup.endpoint,
            setup.mix,
            setup.size,
            setup.keys,
            setup.distribution,
            setup.connections,
            setup.threads,
            pace,
            setup.auth,
            self.measured_s
        )?;
        write!(f, "{:<7}{:>11}{:>8}{:>11}{:>10}{:>12}", "op", "requests", "errors", "req/s", "MB/s", "names/s")?;
        writeln!(f, "{}", Latency::HEADINGS)?;
        for (name, row) in &self.ops {
            write_row(f, name, row)?;
        }
        if self.ops.len() != 1 {
            write_row(f, "total", &self.total)?;
        }
        for (kind, count) in &self.errors {
            writeln!(f, "error: {kind}: {count} times")?;
        }
        for example in &self.wrong_data {
            writeln!(f, "wrong data: {example}")?;
        }
        if self.unsent > 0 {
            writeln!(f, "{} requests came due but were never sent: the server does not keep up with the rate", self.unsent)?;
        }
        writeln!(f, "generator: {:.2} cores, {} reconnects", self.client_cores, self.reconnects)
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, name: &str, row: &OpReport) -> fmt::Result {
    write!(f, "{name:<7}{:>11}{:>8}{:>11.0}{:>10.1}", row.requests, row.errors, row.requests_per_s, row.mb_per_s)?;
    writeln!(f, "{:>12.0}{}", row.names_per_s, row.latency_ms)
}

fn per_second(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}
