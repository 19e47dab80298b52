//! Latencies as every report shows them.

use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;

/// A distribution in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half were faster.
    pub p50: f64,
    /// 90% were faster.
    pub p90: f64,
    /// 99% were faster.
    pub p99: f64,
    /// 99.9% were faster.
    pub p99_9: f64,
    /// The slowest.
    pub max: f64,
}

impl Latency {
    /// Column headings over what `Display` writes.
    pub const HEADINGS: &str = "  mean ms      p50      p90      p99    p99.9      max";

    /// Sums up a histogram of nanoseconds.
    pub fn of_ns(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
        Latency {
            mean: histogram.mean() / 1e6,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: histogram.max() as f64 / 1e6,
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for value in [self.mean, self.p50, self.p90, self.p99, self.p99_9, self.max] {
            write!(f, "{value:>9.3}")?;
        }
        Ok(())
    }
}
