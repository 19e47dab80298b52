//! Whole clusters in one process: nodes over a simulated network, disks and clock.
//!
//! The consensus library's tasks tell each other in an order that can't be seeded (RFD 6), so a seed gives the same faults and the
//! same work, not the same interleaving.

mod closing;
mod cluster;
mod counters;
mod faults;
mod fences;
mod hanging;
mod histories;
mod inquiry;
mod joining;
mod placed;
mod readiness;
mod remove;
mod roles;
mod sayings;
mod service;
mod settle;
mod starting;
mod tables;
mod units;
