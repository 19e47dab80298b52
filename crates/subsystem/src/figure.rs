//! What a subsystem shows of itself.

use crate::latency::LatencySeries;
use serde::{Deserialize, Serialize};
use types::DeviceId;

/// A metric: a number and how to read it. Reading does not block.
pub struct Figure {
    /// `trilith_<role>_<what>_<unit>`; a count ends in `_total`.
    pub name: String,
    pub help: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub read: Read,
}

/// How a metric is read.
pub enum Read {
    /// A count that only rises.
    Counter(Box<dyn Fn() -> u64 + Send + Sync>),
    /// A number that rises and falls.
    Gauge(Box<dyn Fn() -> f64 + Send + Sync>),
    /// Histograms of what exists at the moment: their series come and go.
    Latencies(Box<dyn Fn() -> Vec<LatencySeries> + Send + Sync>),
}

impl Figure {
    pub fn counter(name: impl Into<String>, help: &'static str, read: impl Fn() -> u64 + Send + Sync + 'static) -> Figure {
        Figure { name: name.into(), help, labels: Vec::new(), read: Read::Counter(Box::new(read)) }
    }

    pub fn gauge(name: impl Into<String>, help: &'static str, read: impl Fn() -> f64 + Send + Sync + 'static) -> Figure {
        Figure { name: name.into(), help, labels: Vec::new(), read: Read::Gauge(Box::new(read)) }
    }

    /// Durations in seconds. Each series says its own labels.
    pub fn latencies(
        name: impl Into<String>,
        help: &'static str,
        read: impl Fn() -> Vec<LatencySeries> + Send + Sync + 'static,
    ) -> Figure {
        Figure { name: name.into(), help, labels: Vec::new(), read: Read::Latencies(Box::new(read)) }
    }

    /// The same with one label more.
    pub fn with(mut self, label: &'static str, value: impl Into<String>) -> Figure {
        self.labels.push((label, value.into()));
        self
    }
}

/// A line of `trilith status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusLine {
    /// At most eight letters.
    pub label: String,
    pub text: String,
}

/// A scrub of a device that a person asked for, as far as one subsystem is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedScrub {
    pub device: DeviceId,
    pub step: ScrubStep,
    /// Bytes that are to be read, and those that were.
    pub bytes: u64,
    pub read_bytes: u64,
    /// Damaged copies, and those that are not made again so far.
    pub damaged: u64,
    pub left: u64,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubStep {
    Reading,
    /// All is read, and damaged copies are being made again.
    Healing,
    Done,
}
