//! Bodies of answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Body, Frame, SizeHint};
use object::{ChunkStream, ObjectError};

/// The body of an answer.
pub enum ResponseBody {
    Empty,
    /// All of it.
    Whole(Bytes),
    /// A range of a large object, read while it is sent.
    Object(Box<ChunkStream>),
    /// Made by the S3 library.
    Library(s3s::Body),
}

/// Why an answer broke off after its headers had gone out; the connection then ends before the announced length.
#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    #[error("reading the object failed while it was being sent")]
    Object(#[source] ObjectError),
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
                Pin::new(object.as_mut()).poll_next(cx).map(|next| next.map(|piece| piece.map(Frame::data).map_err(broke_off)))
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
            ResponseBody::Library(body) => Body::size_hint(body),
        }
    }
}

fn broke_off(error: ObjectError) -> ResponseError {
    tracing::error!(%error, "an object broke off while it was being sent");
    ResponseError::Object(error)
}
