//! Trailing headers: written when a body has ended, read after that.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

/// Most trailing headers.
const MAX_TRAILERS: usize = 16;

/// The trailing headers of one body; empty until it has ended.
#[derive(Debug, Clone, Default)]
pub struct Trailers(Arc<Mutex<HeaderMap>>);

impl Trailers {
    /// A header's value, once the body has ended.
    pub fn get(&self, name: &str) -> Option<HeaderValue> {
        self.0.lock().get(name).cloned()
    }

    /// Notes a header; `false` when there are too many, or it is repeated.
    pub(super) fn insert(&self, name: HeaderName, value: HeaderValue) -> bool {
        let mut headers = self.0.lock();
        headers.len() < MAX_TRAILERS && headers.insert(name, value).is_none()
    }
}
