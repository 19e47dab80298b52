//! The engine as a whole, on simulated disks.

mod conformance;
mod crash;
mod collection;
mod history;
mod mains;
mod power;
mod support;
mod workload;
