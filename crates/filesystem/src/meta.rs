//! Meta partitions: inodes and dentries of a volume, as one replicated machine without I/O (docs/rfd/0025).
//!
//! ```text
//!   client ─► Envelope(session, sequence, command) ─► machine ─► Reply, remembered for the session
//!          ─► Query ────────────────────────────────► machine ─► Answer
//! ```

mod attributes;
mod command;
pub mod limits;
pub mod local;
mod lock;
mod machine;
mod query;
mod reply;
mod transaction;

use net::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::ids::TreeIndex;
pub use attributes::{Attributes, GROUP_EXECUTES, Kind, MODE_BITS, SET_GID, SET_UID, Time};
pub use command::{
    AttributeChange, Command, Envelope, Expected, FileTimes, MetaSession, NewInode, RenameHow, TimeChange, XattrHow,
};
pub use lock::{Lock, LockFamily, LockOwner, LockRange};
pub use machine::Machine;
pub use query::{Answer, DirectoryEntry, Found, Freed, FreedPiece, Query, Usage};
pub use reply::{Done, MetaError, Reply};
pub use transaction::{Move, Part, PartAnswer, Prepared, TransactionId, TransactionNumber};

/// A meta partition, as a client sees it.
pub trait MetaPartition: Send + Sync {
    /// Has a command carried out. The same envelope can be sent again: it is carried out once.
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>>;

    /// Asks; the answer is as of now or later.
    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>>;
}

/// The meta partitions of a volume: its trees.
pub trait MetaTrees: Send + Sync {
    /// How many there are, as far as is known here: at least one, and never fewer than before. There may be more.
    fn count(&self) -> u16;

    /// As [`MetaPartition::command`], of one of them.
    fn command_at(&self, tree: TreeIndex, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>>;

    /// As [`MetaPartition::query`], of one of them.
    fn query_at(&self, tree: TreeIndex, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>>;

    /// Waits until all commands that were answered are durable. Those of a volume of class `ordered` may not be.
    fn settle(&self) -> BoxFuture<'_, Result<(), MetaCallError>> {
        Box::pin(async { Ok(()) })
    }
}

/// The only tree of its volume.
impl<P: MetaPartition> MetaTrees for P {
    fn count(&self) -> u16 {
        1
    }

    fn command_at(&self, _: TreeIndex, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        self.command(envelope)
    }

    fn query_at(&self, _: TreeIndex, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        self.query(query)
    }
}

/// A meta partition did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum MetaCallError {
    /// Whether a command was carried out is unknown: the same envelope tells.
    #[error("{0}")]
    Unavailable(String),
}
