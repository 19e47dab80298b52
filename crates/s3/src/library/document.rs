//! Documents, which the library takes into memory and parses: let in when there is room for them, looked through, and compared with
//! the digests that their clients sent.

mod admission;
mod digest;
mod markup;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub use admission::{Allowance, Room};
use bytes::Bytes;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};

use self::admission::Admission;
use self::digest::Digests;
use self::markup::Markup;
use super::FailureSlot;
use crate::config::MAX_UNVERIFIED_DOCUMENT_BYTES;
use crate::failure::{BAD_DIGEST, Failure, MISSING_CONTENT_LENGTH};
use crate::query::Query;
use crate::server::{BodyFailure, RequestBody};

/// A document's body. If it may not come or is not what its client meant, the body breaks off and the failure lies in the slot.
pub struct Document {
    body: RequestBody,
    admission: Admission,
    /// Bytes that may still come of a document that did not say how many; `None` for one that did.
    unannounced: Option<usize>,
    /// Absent for policies, which are JSON.
    markup: Option<Markup>,
    digests: Digests,
    slot: FailureSlot,
}

impl Document {
    /// The body of a request with this head.
    pub fn new(body: RequestBody, head: &Parts, allowance: Allowance, slot: FailureSlot) -> Result<Document, Failure> {
        let query = Query::parse(head.uri.query())?;
        let announced = body.announced();
        Ok(Document {
            admission: Admission::new(allowance, announced),
            unannounced: announced.is_none().then_some(MAX_UNVERIFIED_DOCUMENT_BYTES),
            markup: (!query.has("policy")).then(Markup::default),
            digests: Digests::of(head, &query)?,
            body,
            slot,
        })
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(left) = &mut self.unannounced {
            *left = left.checked_sub(bytes.len()).ok_or(Failure::new(MISSING_CONTENT_LENGTH))?;
        }
        if let Some(markup) = &mut self.markup {
            markup.take(bytes)?;
        }
        self.digests.update(bytes);
        Ok(())
    }

    fn look_at(&mut self, data: Option<&Bytes>, is_over: bool) -> Result<(), Failure> {
        if let Some(data) = data {
            self.take(data)?;
        }
        if is_over && !self.digests.are_right() {
            return Err(BAD_DIGEST.into());
        }
        Ok(())
    }

    fn refuse(&mut self, failure: Failure) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        self.slot.leave(failure);
        Poll::Ready(Some(Err(BodyFailure::Broken)))
    }
}

impl Body for Document {
    type Data = Bytes;
    type Error = BodyFailure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        let this = &mut *self;
        if let Err(failure) = ready!(this.admission.poll_piece(cx)) {
            return this.refuse(failure);
        }
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        let data = match &frame {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref(),
            Poll::Ready(None) => None,
            Poll::Pending | Poll::Ready(Some(Err(_))) => return frame,
        };
        let is_over = this.body.is_end_stream();
        match this.look_at(data, is_over) {
            Ok(()) => frame,
            Err(failure) => this.refuse(failure),
        }
    }

    fn is_end_stream(&self) -> bool {
        // Not before the digests were compared.
        self.body.is_end_stream() && self.digests.are_compared()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
