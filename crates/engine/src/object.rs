//! What goes in and what comes out.

use crate::traits::ContentReader;
use bytes::Bytes;
use format::attributes::{Attributes, ETag};
use smallvec::SmallVec;
use types::Order;

/// The bytes of a small object, in the pieces in which they arrived: no copy before the device's own buffer.
pub type Payload = SmallVec<[Bytes; 2]>;

/// What is known of an object without its bytes.
#[derive(Clone, Debug)]
pub struct ObjectInfo {
    /// Bytes of content.
    pub length: u64,
    pub attributes: Attributes,
    /// Identifies this version among all writes of its key.
    pub order: Order,
}

/// An object that was found.
pub struct Found {
    pub info: ObjectInfo,
    pub content: Content,
}

/// An object's bytes, or the way to them.
pub enum Content {
    /// All of them, verified.
    Whole(Bytes),
    /// A large object; read the range that is wanted.
    Chunked(Box<dyn ContentReader>),
}

/// A write that is durable and visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub etag: ETag,
    pub order: Order,
    pub modified_ms: u64,
}
