//! The gateway's protocol, without I/O: who may write a key when, when a write is acknowledged and published, and which reads
//! can be answered here (paper section 3.2; RFD 2, decisions 4, 5, 9, 18).
//!
//! A gateway's keys are cut into shards, each a state machine of its own behind a short lock, so that a read never queues behind a
//! task. Inputs are method calls; what is to be done comes back as [`Output`]s, in order. Nothing here waits, allocates ids
//! from a clock or draws random numbers, so the same machine runs under the server, the simulator and the model.
//!
//! # The life of a write
//!
//! ```text
//!             turn free, key not frozen            all copies durable              every member holds the notice
//!  request ──► Queued ──────────► Writing ─────────────────► Durable ──────────────────────► published, acknowledged
//!                 │                  │ failed, nothing on the primary                           phase 2 to the members
//!                 │ exclusive        ▼
//!                 └────► Freezing ─► withdrawn: phase 2 without an entry
//!                        every member has stopped writing the key and told its newest entry
//! ```
//!
//! A gateway in read-after-write mode announces nothing: a write is `Writing` until its copies are durable, then published here and
//! `Spreading` until every member has published it too; only then is it acknowledged ([`Consistency`]).
//!
//! # Invariants
//!
//! 1. A gateway has at most one outstanding write of a key; the others queue (decision 9).
//! 2. An entry enters the index only at the acknowledge point (decision 5), and only if its order is newer. In read-after-write mode it
//!    enters when it is durable: at the writer first.
//! 3. A write is acknowledged only when its copies are durable and every member of the view holds its notice (decision 4), or, in
//!    read-after-write mode, its entry.
//! 4. A read is answered from the index alone only if no member has announced a write of the key that is still in flight.
//! 5. Between the grant of a freeze and its release, no member dispatches a write of the key but the holder (decision 18).
//! 6. What a view that left a gateway out has not decided about it is in flight: not served, and no write starts beside it (RFD 5).

mod cell;
mod freeze;
mod message;
mod read;
mod recovered;
mod shard;
mod spread;
mod view;
mod write;

pub use cell::{Cell, Consistency, SequenceSource};
pub use message::{CellMessage, FreezeId, Message, ReadId};
pub use read::Stable;
pub use shard::{Output, Outputs, Shard};
pub use write::QueueFull;

#[cfg(test)]
mod tests;
