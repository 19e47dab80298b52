//! Placed groups: consensus groups of any state machine, hundreds of them in a cluster. The manager's records say which nodes are the
//! members of a group ([`manager::GroupRecord`]); this crate has the groups follow them (docs/rfd/0022).
//!
//! ```text
//!   where the manager leads     Assigner ──► found, set members, end ──► the manager's records
//!                                                                          │
//!   on every node               Host ◄─────────────────────────────────────┘
//!                                 ├── starts and founds what this node is a member of, ends the rest
//!                                 └── where it leads a group: exchanges members until they are those of the record
//! ```
//!
//! | a node | what becomes of its groups |
//! |---|---|
//! | is away | stays a member; others decide without it |
//! | is removed | others take its places; what it leads itself, it hands to the members that another node names |
//! | stops | members that are there lead instead |
//!
//! Reading order: `placed`, `host`, `membership`, `leaving`, `map`, `choice`, `assigner`.
#![forbid(unsafe_code)]

mod assigner;
pub mod choice;
mod host;
mod leaving;
pub mod limits;
mod map;
mod membership;
mod placed;

pub use assigner::Assigner;
pub use host::{Host, Kind, Member};
pub use map::{MapService, Named, named_by_others};
pub use placed::{Addresses, Placed, group_id, member_ids};
