//! Requests that the HTTP library cannot read. It answers them itself, with a bare status, and ends the connection; there is no
//! way to give it other words. But while no answer of ours is on its way, whatever it sends is that status, so the socket sends
//! S3's error in its place. A request is read once, and one that can be read pays nothing for this but a look at a flag.
//!
//! A bad request right behind another whose answer the client has not taken yet gets the bare status: the two are one write then.

use bytes::Bytes;
use http::StatusCode;

use crate::app::App;
use crate::config::MAX_HEAD_BYTES;
use crate::failure::{BAD_REQUEST, Failure, REQUEST_HEADER_SECTION_TOO_LARGE};

/// The answer to such a request, and how much of it is still to be sent.
pub struct Unparsed {
    rest: Bytes,
}

impl Unparsed {
    /// What to send instead of the HTTP library's `bytes`; `None` if they are not what is expected here.
    pub fn instead_of(bytes: &[u8], app: &App) -> Option<Unparsed> {
        let failure = failure_of(bytes)?;
        tracing::debug!(code = failure.code.name, "refusing what is not a request");
        Some(Unparsed { rest: app.refuse_unparsed(&failure) })
    }

    pub fn rest(&self) -> &[u8] {
        &self.rest
    }

    pub fn sent(&mut self, bytes: usize) {
        self.rest = self.rest.slice(bytes..);
    }
}

fn failure_of(bytes: &[u8]) -> Option<Failure> {
    let status = StatusCode::from_bytes(bytes.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).ok()?;
    match status {
        StatusCode::BAD_REQUEST => Some(Failure::new(BAD_REQUEST)),
        StatusCode::URI_TOO_LONG | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            Some(Failure::new(REQUEST_HEADER_SECTION_TOO_LARGE).detail("MaxSizeAllowed", MAX_HEAD_BYTES.to_string()))
        }
        _ => None,
    }
}
