//! The list of parts that ends an upload. The library's reader refuses elements for some checksums, so the list is kept for a reader here,
//! and the library is given an empty one in its place.

use std::mem;
use std::sync::Arc;

use http::Method;
use http::request::Parts;
use parking_lot::Mutex;

use crate::query::Query;

/// What the library is given.
pub const STAND_IN: &[u8] = b"<CompleteMultipartUpload/>";

/// The list of one request, as far as it has come; clones share it. It is bounded as every document is.
#[derive(Clone, Default)]
pub struct PartList(Arc<Mutex<Vec<u8>>>);

impl PartList {
    /// Of a request with this head; none if it has no such list.
    pub fn of(head: &Parts, query: &Query<'_>) -> Option<PartList> {
        (head.method == Method::POST && query.has("uploadId")).then(PartList::default)
    }

    pub fn push(&self, bytes: &[u8]) {
        self.0.lock().extend_from_slice(bytes);
    }

    /// All of it, once the library has come to its end.
    pub fn take(&self) -> Vec<u8> {
        mem::take(&mut self.0.lock())
    }
}
