//! Whole-system simulation and faults.
//!
//! One process runs everything from the object service down (buckets, conditions, uploads; the log engine; devices; the manager
//! with its log and its state) on simulated disks and a simulated clock. Clients work at random, machines lose their power, are
//! killed, stopped and started again, disks fail, lie, rot, fill up and stay away. A run is a function of a
//! [`Scenario`](scenario::Scenario) and a seed: run twice, it leaves the same [trace](trace::Trace), and a failure is replayed
//! by its seed.
//!
//! ```text
//!   scenario (data): topology × workload × faults          seed
//!        │                                                   │ all draws
//!        ▼                                                   ▼
//!   run ── for each machine ── lives: start ─► look ─► serve ─► power cut / kill / stop
//!            │                          │         │       │
//!            │ machine: power, disks,   │         └───────┴── clients ─► record (histories) ─► checker
//!            │ manager, engine, service │                        │
//!            └──────────────────────────┴── trace, coverage ◄────┘
//! ```
//!
//! What is judged
//! - The history of every key, over all lives, is linearizable ([`model::linearizability`]). A LIST is a read of every key. A call
//!   whose answer was lost has its effect before the machine's next start has ended, or never.
//! - After every start LIST and GET agree, key by key: which there are, their tags, their lengths.
//! - Every byte that a read gives is one that was put: its MD5 is the tag, and the tag is known.
//! - Nothing is refused, unless the scenario has a fault that may refuse.
//! - Every start succeeds, unless a fault that hits the start explains it.
//!
//! That is one machine. [`cluster`] simulates whole clusters, with a matrix of scenarios of its own: their nodes run the same code from
//! the engine down, and consensus, views and leases beside it.
//!
//! Reading order: `scenario`, `table`, `run`, `machine`, `power`, `client`, `record`, `trace`, `coverage`, `draw`; then `cluster`.
#![forbid(unsafe_code)]
#![recursion_limit = "256"]

pub mod scenario;
pub mod table;

pub mod run;

mod machine;
mod manifests;
mod power;

mod client;
mod content;
pub mod record;

pub mod cluster;

pub mod coverage;
pub mod draw;
pub mod trace;

#[cfg(test)]
mod tests;
