//! The engine as a whole, on simulated disks.

mod conformance;
mod crash;
mod faults;
mod collection;
mod history;
mod mains;
mod power;
mod script;
mod support;
mod workload;
