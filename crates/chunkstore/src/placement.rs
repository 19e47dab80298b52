//! Where copies go.
//!
//! A lookup unit can hold any location, so a placer may choose any nodes: it sees the load of all of them, where they fail together and
//! where the writer is. Placers are pure functions of that and of the randomness that they are given; what they choose they do not
//! keep.
//!
//! ```text
//!   Cluster (load, domains) ─┐
//!   Request (copies, apart, ─┼─► Placer::place ──► nodes, or what is lacking
//!     writer, has, made)     │
//!   randomness ──────────────┘         hot chunks ──► heat::plan ──► moves
//! ```
//!
//! | placer | first | then |
//! |---|---|---|
//! | [`LeastLoaded`] | the least loaded of a few random nodes | |
//! | [`Locality`] | near the writer, one copy farther away | least loaded |
//! | [`Spread`] | as far apart as the cluster is wide | free space |
//! | [`Crush`] | the hash of the chunk, whatever the load | |
//! | [`MapX`] | the nodes of the time when the chunk was made | as CRUSH |
//!
//! The last two are what the paper compares with, and what a system without lookup units has to do.
//!
//! Invariant: the nodes of an answer differ, take chunks (not of [`Crush`] and [`MapX`], which can't choose), and no two of them, nor one of
//! them and one that has a copy, share a domain of the level that the request names.

mod choice;
mod cluster;
mod crush;
mod error;
pub mod heat;
mod least_loaded;
mod load;
mod locality;
mod mapx;
mod spread;
mod taken;

pub use choice::{GROUPS, LAYER_NODES, PlacerChoice, UnknownPlacer};
pub use cluster::{Cluster, ClusterError, Node};
pub use crush::Crush;
pub use error::{Lacking, PlaceError};
pub use least_loaded::LeastLoaded;
pub use load::{HIGH_LOAD, Load, Permille};
pub use locality::Locality;
pub use mapx::{ExpandError, MAX_LAYERS, MapX, RemapError};
pub use spread::Spread;

use topology::{Branch, Level};
use types::NodeId;

/// Most copies of a chunk.
pub const MAX_COPIES: usize = 8;
/// Open nodes that are compared where load decides. Two already bring the fullest node from `log n / log log n` above the mean to
/// `log log n`; each further one costs a draw and brings little.
pub const CHOICES: usize = 2;

/// Uniform bits. Given from outside, so that a simulated cluster replays.
pub type Random<'a> = dyn FnMut() -> u64 + 'a;

/// A number that grows with time, such as a shard's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Made(pub u64);

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// New copies.
    pub copies: usize,
    /// No two copies share a domain of this level; `Level::Device` stands for the node itself.
    pub apart: Level,
    /// Nodes that hold a copy already.
    pub has: &'a [NodeId],
    /// Where the client is that writes, and probably reads.
    pub writer: Option<Branch>,
    /// A hash of the chunk's id, for placers that know nothing else.
    pub chunk: u64,
    /// When the chunk was made.
    pub made: Made,
}

impl Request<'_> {
    /// Refuses more copies than there can be.
    fn check(&self) -> Result<(), PlaceError> {
        let copies = self.copies + self.has.len();
        if copies <= MAX_COPIES { Ok(()) } else { Err(PlaceError::TooManyCopies { copies }) }
    }
}

/// Chooses nodes.
pub trait Placer {
    /// As many nodes as the request has copies, in the order in which they should be read from.
    fn place(&self, cluster: &Cluster, request: &Request<'_>, random: &mut Random<'_>) -> Result<Vec<NodeId>, PlaceError>;
}

/// Uniform in `0..bound`, which is above 0. The bias of the multiplication is below `bound / 2^64`.
fn below(random: &mut Random<'_>, bound: u64) -> u64 {
    ((u128::from(random()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests;
