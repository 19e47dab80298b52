//! Consensus: many Raft groups in one process, on one shared log.
//!
//! ```text
//!   Group<S> ── propose, read, members ──┐                        ┌── StateMachine (in memory) ── rows, of long states: one kv for all groups
//!   Group<S> ────────────────────────────┼── raft (openraft) ─────┼── log: one wal for all groups, and its base
//!   other nodes ── Node::service ────────┘                        └── links: heartbeats together ── Transport
//! ```
//!
//! A [`Node`] is a process. It runs groups; each is one [`StateMachine`] that all members carry out alike. State machines live in memory:
//! a start rebuilds them from the newest snapshot and the entries after it. The snapshot is in the shared log as a whole, or in the row store
//! ([`Keeping`]).
//!
//! Invariants
//! - A proposal that is answered stands in the logs of a quorum, durably, and every later read of either [`ReadMode`] sees it.
//! - An error says whether the command may still be carried out: [`ProposeError::is_definite`].
//! - At most one node leads in a term; a vote is durable before it is given.
//! - A node that comes back votes for nobody, and does not stand for election, while a leader that it has forgotten may count on it.
//! - Heartbeats of all groups that a node leads are one message for each peer and tick.
//! - Nothing queues or grows without a named limit ([`limits`]). The log is never filled: what may be long claims room first.
//! - A failed write ends all groups of the node, because they share what has failed. A restart finds out what is on the medium.
//!
//! Records and the base: `docs/format.md`. Why openraft, what it lacks and what is done about it: `docs/rfd/0006-consensus.md`.
//!
//! Time and chance come from `env`, also within openraft (`raft::runtime`), and its tasks tell each other of progress through `env::watch`
//! (`raft::watch`), because tokio's own channel wakes those who wait in an order that nobody can seed: a seeded run replays. openraft dates its
//! diagnostics with the operating system's clock, which decides nothing. Timers are tokio's, so they ring late after a suspend.
#![forbid(unsafe_code)]

mod error;
#[doc(hidden)]
pub mod fuzz;
mod group;
mod id;
mod inbox;
pub mod limits;
mod links;
mod log;
mod machine;
mod message;
mod node;
mod raft;
mod record;
mod rows;
mod transport;

#[cfg(test)]
mod tests;

pub use error::{MemberError, NotLeader, OpenError, ProposeError, ReadError, RemoveError, StartError};
pub use group::{Group, GroupStatus, ReadMode};
pub use id::{GroupId, LogIndex, LogPosition, NodeId, Term};
pub use log::{BASE_BYTES, BaseError, LogError, LogPlace, PlaceError, ReplayError, SlotError};
pub use machine::{FrozenState, Keeping, MachineError, RowChange, Rows, StateMachine, Whole};
pub use node::{Counters, Node};
pub use record::RecordError;
pub use transport::{FramedTransport, LinkWeather, MAX_PEERS, Peer, SimulatedTransport, TaggedTransport, Transport};
