//! Listing: names in byte order, with prefixes rolled up at a delimiter.

use bytes::Bytes;
use format::attributes::{ChecksumScheme, ETag, StorageClass};
use types::BucketId;

/// One page's question. Names are compared as bytes.
#[derive(Clone, Debug)]
pub struct ListQuery {
    pub bucket: BucketId,
    /// Only names that start with this.
    pub prefix: Bytes,
    /// Only names, and rolled-up prefixes, greater than this; empty for the start. A continuation token holds the last item
    /// of the page before: a rolled-up prefix here skips everything below it.
    pub start_after: Bytes,
    /// Roll up what follows the first occurrence of this after the prefix; empty for none.
    pub delimiter: Bytes,
    /// Most items, objects and prefixes together.
    pub max_items: usize,
}

/// One page. Items are in byte order; objects and prefixes are mixed.
#[derive(Clone, Debug, Default)]
pub struct ListPage {
    pub items: Vec<ListItem>,
    /// Whether more follows the last item.
    pub truncated: bool,
}

/// A name or a rolled-up prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem {
    Object(ListedObject),
    Prefix(Bytes),
}

/// What a list says of an object: the same that a read of the listed version says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    pub key: Bytes,
    pub length: u64,
    pub etag: ETag,
    pub modified_ms: u64,
    pub storage_class: StorageClass,
    pub checksum: Option<ChecksumScheme>,
}
