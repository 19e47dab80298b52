//! A request's body as handlers see it, and what becomes of a body that no handler read to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::pulse::Registration;

/// The body of one request. Dropped before its end, it leaves what is left with the connection, which then decides whether
/// the connection can go on.
#[derive(Debug)]
pub struct RequestBody {
    /// Absent once the end was seen or the body failed.
    incoming: Option<Incoming>,
    registration: Arc<Registration>,
}

/// Why a body's next bytes did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyFailure {
    #[error("the client sent no byte of its request body for too long, or sent it too slowly")]
    Stalled,
    #[error("the request body ended before its announced length, or its framing is broken")]
    Broken,
}

impl RequestBody {
    pub fn new(incoming: Incoming, registration: Arc<Registration>) -> RequestBody {
        let incoming = if incoming.is_end_stream() { None } else { Some(incoming) };
        RequestBody { incoming, registration }
    }

    /// Announced length, if there is one.
    pub fn announced(&self) -> Option<u64> {
        match &self.incoming {
            None => Some(0),
            Some(incoming) => incoming.size_hint().exact(),
        }
    }

    fn fail(&mut self, failure: BodyFailure) -> BodyFailure {
        self.incoming = None;
        self.registration.connection.fail_body(failure);
        failure
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyFailure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        let this = &mut *self;
        let Some(incoming) = &mut this.incoming else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(incoming).poll_frame(cx);
        let connection = &this.registration.connection;
        match frame {
            Poll::Pending if connection.body_awaited(this.registration.now(), cx.waker()) => {
                Poll::Ready(Some(Err(this.fail(BodyFailure::Stalled))))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                connection.body_received(0);
                this.incoming = None;
                Poll::Ready(None)
            }
            Poll::Ready(Some(Ok(frame))) => {
                connection.body_received(frame.data_ref().map_or(0, Bytes::len));
                if this.incoming.as_ref().is_some_and(Incoming::is_end_stream) {
                    this.incoming = None;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(cause))) => {
                tracing::debug!(%cause, "a request body broke off");
                Poll::Ready(Some(Err(this.fail(BodyFailure::Broken))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take() {
            self.registration.connection.leave_body(incoming);
        }
    }
}
