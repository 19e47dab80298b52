//! What clients ask the groups of a volume, and by which way: a node searches for the leader, a guest asks a node.
//!
//! ```text
//!   Client ─┬─► VolumeTrees ─► TreePartition, … ────────┬─► part: the leader, here or on another node
//!           └─► VolumeContents ─► ContentPartition, … ──┴─► guest: any node, which takes the first way
//! ```

pub mod content;
pub mod contents;
pub mod guest;
pub mod tree;
pub mod trees;

use std::time::Duration;

use env::{Env, Instant};

/// How long a question takes.
#[derive(Clone, Copy, Debug)]
pub struct AskLimits {
    /// At one node.
    pub each: Duration,
    /// In all.
    pub all: Duration,
}

/// A way to the replica of one group that answers questions `A` by `T`.
pub trait Way<A, T>: Send + Sync + 'static {
    /// Asks until `until`, and no longer than such a question may take. What may have been done is asked again. The error says why there is no answer.
    fn ask(&self, asked: A, until: Option<Instant>) -> impl Future<Output = Result<T, String>> + Send;

    /// The number of the group.
    fn number(&self) -> u32;

    fn env(&self) -> &Env;
}
