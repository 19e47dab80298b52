//! The vocabulary that every crate shares: ids, positions, limits and error kinds.
//!
//! Nothing here does I/O or allocates behind the caller's back. Each id is a type of its own, so that a device number can
//! never be passed where a zone number is meant. One word means one thing; `docs/glossary.md` defines them.
#![forbid(unsafe_code)]

mod blob;
mod error;
mod hash;
mod id;
pub mod limits;
mod position;

pub use blob::{BLOB_BYTES, BlobId, LayerOf, PIECE_BYTES, PIECES_PER_BLOB, Pieces};
pub use error::ErrorKind;
pub use hash::{KEY_HASH_BYTES, KeyHash};
pub use id::{
    BucketId, CellId, ClusterId, DeviceId, DeviceUuid, Epoch, FileVolumeId, GatewayId, Generation, ImageEpoch, ImageId, Layer,
    NodeId, NodeIdentity, Sequence, Token, UploadId, ViewNumber,
};
pub use position::{Activation, Order, Place, Position, ZoneIndex, ZoneOffset};
