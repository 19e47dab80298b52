//! What a holder asks of the stores: the blobs of devices, here or on other nodes (docs/rfd/0024, rules 2 to 5).

use bytes::Bytes;
use format::blob_header::BlobState;
use net::BoxFuture;
use types::{BlobId, DeviceId, ImageEpoch, ImageId, LayerOf, Pieces, Token};

/// By what right a holder asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub image: ImageId,
    pub token: Token,
    /// Of the token. A greater one ends what was asked in others.
    pub session: u32,
    /// Of the image. A blob's header has it before the blob is changed.
    pub epoch: ImageEpoch,
}

/// One blob of a device, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobRow {
    pub at: BlobAt,
    pub state: BlobState,
    pub token: Token,
    pub epoch: ImageEpoch,
    pub owned: Pieces,
    pub data: Pieces,
    pub parent: Option<LayerOf>,
}

/// A blob and where it stands on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobAt {
    pub block: u32,
    pub id: BlobId,
}

/// What tells two contents of 4 KiB apart: the first half of their BLAKE3.
pub type BlockSum = [u8; 16];

/// A copy of a blob, for comparing it with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobSums {
    pub row: BlobRow,
    /// Of each 4 KiB of the pieces with content, ascending.
    pub sums: Vec<BlockSum>,
}

/// A blob to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewBlob {
    pub id: BlobId,
    /// [`BlobState::Whole`] or [`BlobState::Partial`].
    pub state: BlobState,
    pub parent: Option<LayerOf>,
}

/// A change of a blob. Content is durable before the header that says that pieces have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// From this byte of the blob on; it and the length of `content` are multiples of 4 KiB.
    pub offset: u32,
    /// May be empty.
    pub content: Bytes,
    /// Pieces that have content from now on. Those that had none before are covered by `content` as a whole.
    pub filled: Pieces,
    /// Pieces that are zeros from now on.
    pub zeroed: Pieces,
    /// Pieces that are as the layer below says from now on.
    pub dropped: Pieces,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another token, or another session, was entered since: this holder is over, or must enter again.
    #[error("another holder, or a later session, has the image")]
    Superseded,
    /// The store has not entered this token, or the manager's state at its node does not name it yet.
    #[error("the token is not known there")]
    Unknown,
    #[error("device {0} has no space left")]
    NoSpace(DeviceId),
    /// The block holds something else, or nothing.
    #[error("the blob does not stand there")]
    Absent,
    /// A bug of the asker.
    #[error("{0}")]
    Invalid(String),
    /// The device failed. Whether a change took effect is unknown.
    #[error("{0}")]
    Failed(String),
    /// No answer in time. Whether a change took effect, or will, is unknown.
    #[error("{0}")]
    Silent(String),
}

/// An answer to come.
pub type Asked<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The stores of all devices. What was begun goes on if the future is dropped after its first poll.
pub trait Stores: Send + Sync {
    /// Refuses all other tokens and sessions of the image from now on, waits until what they had under way has ended, and tells what the device has
    /// of the image. The epoch of the admission does not matter here.
    fn enter(&self, device: DeviceId, admission: Admission) -> Asked<'_, Vec<BlobRow>>;

    /// Makes a blob, with a first change of it, in a free block. If the blob is there already, as it is after an answer was lost, the change is made to that one.
    fn create(&self, device: DeviceId, admission: Admission, blob: NewBlob, change: Change) -> Asked<'_, u32>;

    /// Changes a blob. Overlapping changes are not ordered: the holder makes one after the other.
    fn change(&self, device: DeviceId, admission: Admission, at: BlobAt, change: Change) -> Asked<'_, ()>;

    /// A copy that was being made is whole.
    fn complete(&self, device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()>;

    /// Reads a range of a blob of which all pieces have content; both numbers are multiples of 4 KiB. A blob of an ended layer may be read without an
    /// admission.
    fn read(&self, device: DeviceId, admission: Option<Admission>, at: BlobAt, offset: u32, length: u32) -> Asked<'_, Bytes>;

    /// What a copy of a blob has, whole or not. The holder has no change of it under way.
    fn sums(&self, device: DeviceId, admission: Admission, id: BlobId) -> Asked<'_, BlobSums>;

    /// Frees the block of a blob.
    fn free(&self, device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()>;

    /// Makes durable what was answered, in the sync modes where it is not already.
    fn flush(&self, device: DeviceId) -> Asked<'_, ()>;
}
