//! Data partitions: extents.

pub mod copies;
mod latches;
pub mod memory;
mod room;
pub mod store;

use bytes::Bytes;
use net::BoxFuture;
use serde::{Deserialize, Serialize};

pub use room::{DataRoom, MAX_OPEN_EXTENTS, PartitionRoom, PartitionUse, low_bytes, together};

use crate::ids::ExtentId;

/// Contents of extents.
pub trait Extents: Send + Sync {
    /// Adds to the end of an extent: `offset` is its length. What lies below it already must be the same bytes, or the answer is [`DataError::NotAtEnd`].
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>>;

    /// Changes bytes below the extent's length. A crash leaves each block of 4 KiB as it was or as it was to be.
    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>>;

    /// Bytes below the extent's length, checked. Never zeros for what was punched: that is [`DataError::Punched`].
    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>>;

    /// Gives the space of a range back: of the whole blocks in it. Bytes of a block that is only in part within it can no longer be relied on by its owner, and stay.
    fn punch(&self, extent: ExtentId, offset: u64, len: u64) -> BoxFuture<'_, Result<(), DataError>>;

    /// Gives all of an extent back. One that does not exist is no error.
    fn remove(&self, extent: ExtentId) -> BoxFuture<'_, Result<(), DataError>>;

    /// Bytes that new contents find room for, and bytes in all.
    fn room(&self) -> DataRoom;
}

/// A data partition, or all partitions of a volume, as a client sees it.
///
/// A request is answered when its effect is as durable as the node's mode of synchronisation says. Each may be sent again: the second has no further effect.
pub trait DataPartition: Extents {
    /// Makes an extent that begins with these bytes. If it is sent again there are two.
    fn create(&self, data: Bytes) -> BoxFuture<'_, Result<ExtentId, DataError>>;

    /// The same in a partition beside these, which have refused content. None: there is no other one.
    fn create_beside(&self, refused: &[u32], data: Bytes) -> BoxFuture<'_, Option<Result<ExtentId, DataError>>> {
        let is_first = refused.is_empty();
        Box::pin(async move { if is_first { Some(self.create(data).await) } else { None } })
    }
}

/// What a data partition could not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DataError {
    #[error("no space is left on the device: remove files, objects or images, or add a device")]
    Full,
    #[error("extent {0:?} does not exist")]
    NoExtent(ExtentId),
    #[error("an append to {extent:?} at {offset}, which is {len} bytes long")]
    NotAtEnd { extent: ExtentId, offset: u64, len: u64 },
    #[error("{extent:?} is {len} bytes long: there is nothing at {end}")]
    Beyond { extent: ExtentId, end: u64, len: u64 },
    #[error("bytes {offset} and on of {extent:?} were given back")]
    Punched { extent: ExtentId, offset: u64 },
    #[error("the content of {extent:?} at {offset} is damaged: restore the file from a copy")]
    Damaged { extent: ExtentId, offset: u64 },
    #[error("the data partition can't be used: {0}")]
    Unavailable(String),
}
