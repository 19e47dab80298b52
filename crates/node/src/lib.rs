//! One node of a cluster: a member of the manager, the targets of its devices, and the gateway that it runs in the cell. Each of the three
//! may be left to other nodes ([`Roles`]).
//!
//! ```text
//!   manager ──► the cell's record ──► incarnation: found, join, install, recover ──► logstore ──► targets here and there
//!      ▲                                    │                                           ▲
//!      └── heartbeats ◄── vitals ◄──────────┘          engine: whichever incarnation serves
//! ```
//!
//! A gateway that is removed from its cell's view, or finds itself without the right to be in it, ends; the node registers a new
//! incarnation, which joins like any other (RFD 5, rule 9). Whichever node leads the manager oversees the cell.
//!
//! Reading order: `roles`, `node`, `start`, `log_engine`, `incarnation`, `found`, `join`, `recover`, `holds`, `device_way`, `hanging`, `heartbeat`, `oversee`, `settle`,
//! `engine`.
#![forbid(unsafe_code)]

mod clocks;
mod close;
mod device_way;
mod directory;
mod engine;
mod error;
mod fences;
mod hanging;
mod heartbeat;
mod holds;
mod incarnation;
mod inquiry;
mod log_engine;
mod manifests;
mod node;
mod notes;
mod oversee;
mod ping;
mod placed;
mod remove;
mod removed;
mod replaced;
mod roles;
mod settle;
mod start;
mod stopped;
mod unanswered;
mod under_way;
mod vitals;

#[cfg(test)]
mod tests;

pub use error::NodeError;
pub use inquiry::{Applicant, answers_as, inquire};
pub use node::{Node, NodeOptions, NodeStatus, Note, OpenNode};
pub use remove::{Removed, remove};
pub use roles::{Role, Roles, UnknownRole};
pub use settle::{Drain, Unsettled};

use bytes::Bytes;
use net::ServiceTag;
use types::CellId;

/// The one cell of a cluster.
pub const CELL: CellId = CellId(1);

/// A request that any node of the cluster answers with its identity: whoever asks it knows the cluster's identity.
pub fn ping() -> Bytes {
    ServiceTag::PINGS.mark(&[])
}
