//! Primary-backup replication with all acknowledgements under views, for the metadata of the volume engine (`docs/rfd/0027-allack.md`).
//!
//! ```text
//!   manager ── views, records, leases ──►┐                     ┌──► state machine above: committed entries, rollbacks, dumps
//!   other members ── messages ──────────►├── Machine (no I/O) ─┤
//!   Store ── so many are durable ───────►┘                     └──► Store: records of all groups in one wal
//! ```
//!
//! A [`Machine`] is one member of one group. Its user is the state machine above, with a shell that carries out what the machine asks for:
//!
//! | the user | with |
//! |---|---|
//! | begins | [`Machine::new`], with what [`Store`] holds and how far its own durable state reaches |
//! | appends at the primary | [`Machine::append`], then one [`Input::Tick`] for all that was appended; the position is known at once, the outcome later |
//! | applies what is committed | at [`Output::Committed`], entries in their order from [`Machine::entry`], those that its state does not hold yet |
//! | says what its durable state holds | [`Input::Released`]: the log is trimmed by that, and full without it |
//! | undoes what it built in memory on entries that are gone | at [`Output::RolledBack`] |
//! | answers reads | from the committed state, while [`Machine::may_read`] |
//! | gives and loads dumps | [`Output::TakeDump`] and what follows it |
//! | remembers outcomes of requests | in its own state, judged before an append (RFD 27, decision 23) |
//!
//! A group of one voter works the same: an entry is committed when it is durable here.
//!
//! Invariants
//! - An entry that was reported as committed is durable at all voters of the last active view, and stays in the log of every later view.
//! - At most one primary commits at a time, and none while another may answer reads.
//! - Nothing queues or grows without a named limit ([`limits`]); a full log refuses appends and loses nothing.
#![forbid(unsafe_code)]

mod appointment;
mod id;
pub mod limits;
mod log;
mod machine;
mod message;
mod record;
mod saved;
#[cfg(test)]
mod simulation;
mod store;

pub use appointment::{Appointment, AppointmentError};
pub use id::{DumpId, GroupId, OpSeq, Position, ReportId};
pub use log::{Entry, Log, Views};
pub use machine::{AppendError, Input, Machine, Obstacle, Output, Start};
pub use message::{Body, Keep, MESSAGE_VERSION, Message, Reported};
pub use record::{Change, RECORD_VERSION, Record};
pub use saved::{Replay, ReplayError, Saved};
pub use store::{Durable, MemoryStore, StoreError, WalStore};
