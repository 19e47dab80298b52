//! Documents, which the library takes into memory and parses: let in when there is room for them, looked through, and compared with
//! the digests that their clients sent.

mod admission;
mod digest;
mod markup;
mod part_list;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub use admission::{Allowance, Room};
use bytes::Bytes;
use futures_core::Stream;
use http::request::Parts;
use http_body::{Body, Frame};

use self::admission::Admission;
use self::digest::Digests;
use self::markup::Markup;
pub use self::part_list::{PartList, STAND_IN};
use super::FailureSlot;
use crate::config::MAX_UNVERIFIED_DOCUMENT_BYTES;
use crate::direct::Content;
use crate::failure::{BAD_DIGEST, Failure, MISSING_CONTENT_LENGTH};
use crate::payload::Pieces;
use crate::query::Query;
use crate::server::BodyFailure;
use crate::translate;

/// A document's body. If it may not come or is not what its client meant, the body breaks off and the failure lies in the slot.
pub struct Document {
    pieces: Box<dyn Pieces>,
    /// All of it has come, and was compared.
    has_come: bool,
    /// And the library knows that.
    is_over: bool,
    /// Where it goes if it is not for the library's reader.
    list: Option<PartList>,
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
    pub fn new(
        content: Content<Box<dyn Pieces>>,
        head: &Parts,
        allowance: Allowance,
        slot: FailureSlot,
    ) -> Result<Document, Failure> {
        let query = Query::parse(head.uri.query())?;
        let announced = content.length;
        Ok(Document {
            admission: Admission::new(allowance, announced),
            unannounced: announced.is_none().then_some(MAX_UNVERIFIED_DOCUMENT_BYTES),
            markup: (!query.has("policy")).then(|| Markup::of(head, &query)),
            digests: Digests::of(head, &query)?,
            list: head.extensions.get().cloned(),
            pieces: content.pieces,
            has_come: false,
            is_over: false,
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
        while !this.has_come {
            if let Err(failure) = ready!(this.admission.poll_piece(cx)) {
                return this.refuse(failure);
            }
            let looked_at = match ready!(Pin::new(&mut this.pieces).poll_next(cx)) {
                Some(Ok(bytes)) => this.take(&bytes).map(|()| Some(bytes)),
                Some(Err(error)) => Err(translate::of_payload(&error)),
                None if this.digests.are_right() => Ok(None),
                None => Err(BAD_DIGEST.into()),
            };
            match (looked_at, &this.list) {
                (Ok(Some(bytes)), None) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                (Ok(Some(bytes)), Some(list)) => list.push(&bytes),
                (Ok(None), _) => this.has_come = true,
                (Err(failure), _) => return this.refuse(failure),
            }
        }
        match this.list.take() {
            Some(_) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(STAND_IN))))),
            None => {
                this.is_over = true;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // Not before the digests were compared.
        self.is_over
    }
}
