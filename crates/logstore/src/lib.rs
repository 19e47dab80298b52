//! The log engine (ZStore): mutable, linearizable objects on the shared logs of independent devices.
//!
//! ```text
//!   store ── write ──► machine (who may write, when it is acknowledged) ──► targets ──► device
//!     │       └──────► names, index (published together, under the shard's lock)
//!     ├──── read ────► index ──► targets
//!     ├──── list ────► names: memtables and runs
//!     └──── background: checkpoint, merge, collect, heal    recovery: at start
//! ```
//!
//! Reading order: `machine`, `index`, `names`, `write`, `read`, `proof`, `large`, `upload`, `list`, `epochs`, `checkpoint`,
//! `sealing`, `visit`, `recovery`, `remembered`, `collect`, `heal`, `check`.
#![forbid(unsafe_code)]

mod append;
mod background;
mod check;
mod checkpoint;
mod collect;
mod config;
mod epochs;
mod gateway;
mod gather;
mod heal;
pub mod index;
mod large;
mod list;
mod live_hints;
mod loss;
pub mod machine;
mod manifests;
mod names;
mod peers;
mod pins;
mod proof;
mod read;
mod recovery;
mod relocate;
mod remembered;
mod room;
mod sealing;
mod stats;
mod store;
mod synthetic;
mod tags;
mod targets;
mod upload;
mod visit;
mod watched;
mod write;

pub use check::{CheckFinding, CheckReport};
pub use config::LogStoreConfig;
pub use gateway::{CellView, MemberSetup, MemberStatus};
pub use heal::ordered::{NotHere, ScrubProgress, ScrubState};
pub use index::{IndexForm, LudoForm};
pub use loss::Loss;
pub use machine::Consistency;
pub use manifests::Manifests;
pub use peers::{Batch, Directory, WireError};
pub use recovery::OpenError;
pub use recovery::undecidable::devices_to_wait_for;
pub use stats::{Counter, LogStoreStats};
pub use store::{LogStore, LogStoreSize};

#[cfg(test)]
mod tests;
