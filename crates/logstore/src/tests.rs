//! The engine as a whole, on simulated disks.

mod adversarial;
mod cell;
mod cell_rig;
mod cell_sim;
mod collection;
mod conformance;
mod crash;
mod faults;
mod full;
mod gate;
mod history;
mod mains;
mod power;
mod races;
mod ranges;
mod remembering;
mod remote;
mod script;
mod space;
mod staged;
mod staged_elsewhere;
pub(crate) mod support;
mod threads;
mod trees;
mod uncovered;
mod workload;
