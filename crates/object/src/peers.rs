//! The other nodes of a cluster, as far as they hold what the manager keeps.
//!
//! A node answers by the buckets and policies that its part of the manager shows, which may be a moment behind. So a change of them
//! returns only when every gateway that may answer has applied it; one that does not say so has left the cell's view by then, and its
//! lease is over.

use manager::CommandIndex;
use std::future::Future;
use std::pin::Pin;
use types::BucketId;

/// What [`Peers::settle`] returns.
pub type Settling<'a> = Pin<Box<dyn Future<Output = Result<(), Unsettled>> + Send + 'a>>;

/// Some gateway has not said that it has applied a change, and may still answer. The change stands all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unsettled {
    pub reason: String,
}

/// The gateways of the other nodes.
pub trait Peers: Send + Sync + 'static {
    /// Returns when every other gateway that may answer has applied the manager's commands up to this one; with `drained`, also when no
    /// write of that bucket is under way there that began before.
    fn settle(&self, applied: CommandIndex, drained: Option<BucketId>) -> Settling<'_>;
}

/// A server of its own has no peers.
pub(crate) struct NoPeers;

impl Peers for NoPeers {
    fn settle(&self, _: CommandIndex, _: Option<BucketId>) -> Settling<'_> {
        Box::pin(async { Ok(()) })
    }
}
