//! The whole cluster: nodes over a simulated network, each with its own clock, its own disks, and processes that are killed, paused and
//! started again.
//!
//! ```text
//!   a number ──► scenario (data): topology × workload × faults         the same number: all draws
//!                    │
//!                    ▼
//!   run ── world ── hosts: disks, clock, process {consensus, manager, overseer, targets, gateway}
//!            │         ▲                          ▲
//!            │   strikes: kill, pause, cut, …     └── clients ─► histories ─► linearizable?
//!            └── trace (run twice: the same), marks (which branches were taken)
//! ```
//!
//! What is judged
//! - The history of every key is linearizable. A LIST is a read of every key. A call without an answer has its effect at any later time
//!   or never.
//! - Every byte that a read gives is one that was put.
//! - When the faults are over every node serves again, with all devices in the table; all nodes say the same of every key, by GET and by
//!   LIST, before and after the power of all nodes is cut.
//! - No call hangs, no task panics, no node fails to start.
//!
//! A run is a function of its seed: [`table::scenario_of`] makes the scenario of it. A failure prints the seed.
//!
//! Reading order: `scenario`, `table`, `run`, `world`, `host`, `strike`, `client`, `histories`, `branches`.

pub mod branches;
pub mod scenario;
pub mod table;

pub mod chunks;
mod client;
pub mod files;
mod folder;
mod histories;
mod host;
pub mod images;
pub mod run;
mod strike;
mod world;

#[cfg(test)]
mod ranges;
#[cfg(test)]
mod tests;
