//! Bodies of answers.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use engine::{ContentReader, EngineError};
use http_body::{Body, Frame, SizeHint};

/// The body of an answer.
pub enum ResponseBody {
    Empty,
    /// All of it.
    Whole(Bytes),
    /// A range of a large object, read while it is sent.
    Object(Box<ObjectBody>),
    /// Made by the S3 library.
    Library(s3s::Body),
}

/// Why an answer broke off after its headers had gone out; the connection then ends before the announced length.
#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    #[error("reading the object failed while it was being sent")]
    Object(#[source] EngineError),
    #[error("{0}")]
    Library(s3s::StdError),
}

impl ResponseBody {
    /// A body that is all there.
    pub fn whole(bytes: Bytes) -> ResponseBody {
        if bytes.is_empty() { ResponseBody::Empty } else { ResponseBody::Whole(bytes) }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        let this = self.get_mut();
        match this {
            ResponseBody::Empty => Poll::Ready(None),
            ResponseBody::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = ResponseBody::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            ResponseBody::Object(object) => {
                object.poll_next(cx).map(|next| next.map(|bytes| bytes.map(Frame::data).map_err(ResponseError::Object)))
            }
            ResponseBody::Library(body) => Pin::new(body).poll_frame(cx).map_err(ResponseError::Library),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Empty => true,
            ResponseBody::Whole(_) => false,
            ResponseBody::Object(object) => object.remaining() == 0,
            ResponseBody::Library(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Empty => SizeHint::with_exact(0),
            ResponseBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::Object(object) => SizeHint::with_exact(object.remaining()),
            ResponseBody::Library(body) => body.size_hint(),
        }
    }
}

type Reading = Pin<Box<dyn Future<Output = (Box<dyn ContentReader>, Result<Bytes, EngineError>)> + Send>>;

/// A range of a large object. The next piece is being read while one is being sent.
pub struct ObjectBody {
    /// Bytes not yet handed out.
    unsent: Range<u64>,
    state: State,
}

enum State {
    Idle(Box<dyn ContentReader>),
    Reading(Reading),
    /// Read ahead.
    Ready(Box<dyn ContentReader>, Result<Bytes, EngineError>),
    Ended,
}

impl ObjectBody {
    pub fn new(reader: Box<dyn ContentReader>, range: Range<u64>) -> ObjectBody {
        ObjectBody { unsent: range, state: State::Idle(reader) }
    }

    /// Bytes still to come.
    pub fn remaining(&self) -> u64 {
        self.unsent.end - self.unsent.start
    }

    /// The next piece.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, EngineError>>> {
        if self.unsent.is_empty() {
            self.state = State::Ended;
            return Poll::Ready(None);
        }
        let (reader, piece) = match self.poll_reading(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(read)) => read,
        };
        let bytes = match piece {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(%error, "an object broke off while it was being sent");
                return Poll::Ready(Some(Err(error)));
            }
        };
        assert!(!bytes.is_empty() && bytes.len() as u64 <= self.remaining(), "a reader answers within the range asked");
        self.unsent.start += bytes.len() as u64;
        if self.unsent.is_empty() {
            return Poll::Ready(Some(Ok(bytes)));
        }
        self.state = State::Reading(read(reader, self.unsent.clone()));
        // Starts the read; what it finds at once waits for the next call.
        if let Poll::Ready(Some((reader, piece))) = self.poll_reading(cx) {
            self.state = State::Ready(reader, piece);
        }
        Poll::Ready(Some(Ok(bytes)))
    }

    fn poll_reading(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Box<dyn ContentReader>, Result<Bytes, EngineError>)>> {
        let mut reading = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => return Poll::Ready(None),
            State::Ready(reader, piece) => return Poll::Ready(Some((reader, piece))),
            State::Idle(reader) => read(reader, self.unsent.clone()),
            State::Reading(reading) => reading,
        };
        match reading.as_mut().poll(cx) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => {
                self.state = State::Reading(reading);
                Poll::Pending
            }
        }
    }
}

fn read(reader: Box<dyn ContentReader>, range: Range<u64>) -> Reading {
    Box::pin(async move {
        let piece = reader.read(range).await;
        (reader, piece)
    })
}
