//! The table of limits.

use std::fmt;

use serde::Serialize;

use super::case::Case;
use super::load::Measured;
use crate::latency::Latency;

/// All cases of one disk.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The disk, as it calls itself.
    pub disk: String,
    /// Bytes used of it.
    pub size: u64,
    /// Whether writes went around the page cache.
    pub direct: bool,
    /// Whether io_uring was used, or threads.
    pub ring: bool,
    /// In the order of running.
    pub cases: Vec<CaseReport>,
}

/// One row.
#[derive(Debug, Clone, Serialize)]
pub struct CaseReport {
    /// Such as `write-4k-durable-qd16`.
    pub name: String,
    /// Requests that completed.
    pub requests: u64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Bytes per second, in units of 1,000,000.
    pub mb_per_s: f64,
    /// In milliseconds, from submission to completion.
    pub latency_ms: Latency,
}

impl Report {
    pub(super) fn new(disk: &str, size: u64, direct: bool, ring: bool) -> Self {
        Report { disk: disk.to_owned(), size, direct, ring, cases: Vec::new() }
    }

    pub(super) fn add(&mut self, case: &Case, measured: Measured) {
        let seconds = measured.elapsed.as_secs_f64();
        let requests_per_s = if seconds > 0.0 { measured.requests as f64 / seconds } else { 0.0 };
        self.cases.push(CaseReport {
            name: case.name(),
            requests: measured.requests,
            requests_per_s,
            mb_per_s: requests_per_s * case.request_bytes as f64 / 1e6,
            latency_ms: Latency::of_ns(&measured.latency_ns),
        });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.direct { "O_DIRECT" } else { "page cache" };
        let engine = if self.ring { "io_uring" } else { "threads" };
        writeln!(f, "{}  {} bytes  {way}, {engine}", self.disk, self.size)?;
        write!(f, "{:<24}{:>10}{:>11}{:>10}", "case", "requests", "req/s", "MB/s")?;
        writeln!(f, "{}", Latency::HEADINGS)?;
        for case in &self.cases {
            let (name, requests) = (&case.name, case.requests);
            write!(f, "{name:<24}{requests:>10}{:>11.0}{:>10.1}", case.requests_per_s, case.mb_per_s)?;
            writeln!(f, "{}", case.latency_ms)?;
        }
        Ok(())
    }
}
