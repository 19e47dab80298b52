//! Trailing headers: written when a body has ended, read after that.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::checksum_headers::announced;

/// Most trailing headers.
const MAX_TRAILERS: usize = 16;

/// The trailing headers of one body; empty until it has ended.
#[derive(Debug, Clone, Default)]
pub struct Trailers(Arc<Mutex<HeaderMap>>);

/// The trailing headers that a request may send: those that it announces, of which S3 takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announced {
    /// The body's kind has none.
    Never,
    /// This one, or none.
    Header(Option<HeaderName>),
}

impl Announced {
    /// Of a body whose kind has trailing headers or not. A name that is none announces nothing; the operation refuses it.
    pub fn of(headers: &HeaderMap, has_trailers: bool) -> Announced {
        match has_trailers {
            false => Announced::Never,
            true => Announced::Header(announced(headers).and_then(|name| HeaderName::try_from(name).ok())),
        }
    }

    pub(super) fn are_allowed(&self) -> bool {
        matches!(self, Announced::Header(_))
    }

    pub(super) fn name(&self) -> Option<&HeaderName> {
        match self {
            Announced::Never => None,
            Announced::Header(name) => name.as_ref(),
        }
    }
}

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
