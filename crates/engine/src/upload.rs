//! Multipart uploads (RFD 2, decision 15).

use crate::key::ObjectKey;
use crate::object::Payload;
use crate::staging::StagedChunks;
use bytes::Bytes;
use format::attributes::{Attributes, ChecksumScheme, StorageClass};
use types::{BucketId, Order, UploadId};

/// An upload is named by its key and its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadRef {
    pub key: ObjectKey,
    pub upload: UploadId,
}

/// A part's bytes: small ones as they came, larger ones staged.
pub enum PartContent {
    Whole(Payload),
    Staged(StagedChunks),
}

/// A part that is durable.
#[derive(Clone, Debug)]
pub struct PartInfo {
    /// 1 to 10,000.
    pub number: u16,
    pub length: u64,
    /// The part's own tag, checksum and modification time.
    pub attributes: Attributes,
    /// Identifies this write of the part: a part uploaded again under its number has another order.
    pub order: Order,
}

/// A part that a Complete names, as it was when the caller looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletePart {
    pub number: u16,
    pub order: Order,
}

/// One page's question about the open uploads of a bucket, in order of (key, upload id).
#[derive(Clone, Debug)]
pub struct UploadQuery {
    pub bucket: BucketId,
    pub prefix: Bytes,
    /// Only uploads after this (key, id); an absent id means after all uploads of that key.
    pub after: Option<(Bytes, Option<UploadId>)>,
    pub delimiter: Bytes,
    pub max_items: usize,
}

/// One page of open uploads.
#[derive(Clone, Debug, Default)]
pub struct UploadPage {
    pub uploads: Vec<ListedUpload>,
    pub prefixes: Vec<Bytes>,
    pub truncated: bool,
}

/// An open upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUpload {
    pub key: Bytes,
    pub upload: UploadId,
    pub initiated_ms: u64,
    /// Of the object to come, as the checksum.
    pub storage_class: StorageClass,
    pub checksum: Option<ChecksumScheme>,
}
