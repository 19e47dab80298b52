//! Copies of a volume's contents (docs/rfd/0028): a primary sends each change to all copies at once, and a group's record says which copies count.
//!
//! ```text
//!   client ─► Reign: the primary, for one term ─┬─► its own copy ──────────────┐
//!                │                              └─► (term, session) ─► Keeper ─┴─► CopyStore
//!                ├─► Standing: which copies take a change, where a rebuild is       (no I/O)
//!                └─► Record: which copies are in sync, what is unsettled            (replicated, no I/O)
//!                                                   Gate: whom a copy obeys         (no I/O)
//! ```
//!
//! Invariants
//! - What is acknowledged is durable on every copy in sync.
//! - An extent is changed only while the committed record has it as unsettled; copies in sync differ in unsettled extents alone.
//! - A copy obeys one session of one primary. What an `enter` finds under way has ended when it is answered.
//! - A read shows nothing that is under way.
//!
//! Reading order: `record`, `gate`, `ask`, `keeper`, `standing`, `reign`, `works`, `changing`, `members`, `elsewhere`, `aligning`, `taking`, `rebuilding`, `mending`.

mod aligning;
pub mod ask;
mod changing;
mod elsewhere;
mod gate;
pub mod keeper;
mod limits;
mod members;
mod mending;
mod rebuilding;
pub mod record;
pub mod reign;
mod standing;
mod taking;
mod works;

use bytes::Bytes;
use net::BoxFuture;
use serde::{Deserialize, Serialize};

use super::{DataError, Extents, PartitionUse};
use crate::ids::ExtentId;

/// The extents of one device, as a copy needs them. Each change may be sent again: the second has no further effect.
pub trait CopyStore: Extents {
    /// Makes an extent with this id that begins with these bytes. One that exists must begin with them, or the answer is [`DataError::NotAtEnd`].
    fn create_as(&self, extent: ExtentId, data: Bytes) -> BoxFuture<'_, Result<(), DataError>>;

    /// Makes an extent shorter. One that is not longer stays as it is.
    fn cut(&self, extent: ExtentId, len: u64) -> BoxFuture<'_, Result<(), DataError>>;

    /// What an extent has, without a look at the disk: up to `most` blocks from one on. None if there is no such extent.
    fn sums(&self, extent: ExtentId, first_block: u64, most: usize) -> Option<ExtentSums>;

    /// Up to `most` extents of a partition in the order of their ids, those behind one if it is given. None has term 0 and number 0.
    fn list(&self, partition: u32, after: Option<ExtentId>, most: usize) -> Vec<ExtentId>;

    /// What it has of a partition.
    fn used(&self, partition: u32) -> PartitionUse;

    /// Whether it takes no writes now: one has failed, or its disk hangs.
    fn is_stuck(&self) -> bool;
}

/// What a range of an extent has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentSums {
    pub len: u64,
    pub blocks: Vec<BlockSum>,
}

/// What a store knows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockSum {
    /// CRC32C of its content.
    Has(u32),
    /// It was given back.
    Absent,
    /// Its place was lost.
    Lost,
}

#[cfg(test)]
mod tests;
