//! Content in `aws-chunked` framing that the library unpacks. The library takes the end of the body for the end of the content,
//! whether or not the chunk that ends it has come; so its framing is watched on the way there, by the rules of the short way.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::FailureSlot;
use crate::app::decoded_length;
use crate::auth::{PayloadClaim, payload_claim};
use crate::payload::{ChunkError, Framing, PayloadError};
use crate::server::{BodyFailure, RequestBody};
use crate::translate;

/// A body in chunks. If they are not whole, the body breaks off and the failure lies in the slot.
pub struct Framed {
    body: RequestBody,
    /// Absent once the end was seen.
    framing: Option<Framing>,
    slot: FailureSlot,
}

impl Framed {
    /// What to expect of a body with these headers; `None` if it is not in chunks, or the library refuses it unread.
    pub fn framing_of(headers: &HeaderMap) -> Option<Framing> {
        match payload_claim(headers)? {
            PayloadClaim::Chunked { has_trailers, .. } => Some(Framing::new(decoded_length(headers)?, has_trailers)),
            PayloadClaim::Unsigned | PayloadClaim::Sha256(_) => None,
        }
    }

    pub fn new(body: RequestBody, framing: Framing, slot: FailureSlot) -> Framed {
        Framed { body, framing: Some(framing), slot }
    }

    fn watch(&mut self, data: Option<&Bytes>, is_over: bool) -> Result<(), ChunkError> {
        let Some(framing) = &mut self.framing else { return Ok(()) };
        if let Some(data) = data {
            framing.take(data.clone())?;
        }
        if is_over {
            framing.finish()?;
            self.framing = None;
        }
        Ok(())
    }
}

impl Body for Framed {
    type Data = Bytes;
    type Error = BodyFailure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let data = match &frame {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref(),
            Poll::Ready(None) => None,
            Poll::Pending | Poll::Ready(Some(Err(_))) => return frame,
        };
        let is_over = self.body.is_end_stream();
        if let Err(error) = self.watch(data, is_over) {
            self.slot.leave(translate::of_payload(&PayloadError::Chunk(error)));
            return Poll::Ready(Some(Err(BodyFailure::Broken)));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        // Not before its end was looked at.
        self.body.is_end_stream() && self.framing.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
