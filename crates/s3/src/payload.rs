//! The content that a request carries, out of what stands in its body: plain, hashed against `x-amz-content-sha256`, or in
//! `aws-chunked` framing with or without signatures and trailers.
//!
//! Content is handed on before it is verified, piece by piece; the error comes at the end of a chunk or of the body, and what
//! was begun with that content is then dropped. Nothing is committed before the end was reached without an error.

mod chunked;
mod trailer;

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body::Body;
use object::BodyError;
use sha2::{Digest, Sha256};

pub use chunked::{ChunkError, ChunkSigning, Chunked};
pub use trailer::{Announced, Trailers};

use crate::server::{BodyFailure, RequestBody};

/// Why content did not come to its end, or is not what was signed.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    #[error(transparent)]
    Body(#[from] BodyFailure),
    /// Both in hexadecimal digits.
    #[error("the content's SHA-256 is {computed}, x-amz-content-sha256 says {given}")]
    Sha256Mismatch { given: String, computed: String },
    #[error(transparent)]
    Chunk(#[from] ChunkError),
}

/// Pieces of a body as they come from the socket, or out of its framing.
pub trait Pieces: Stream<Item = Result<Bytes, PayloadError>> + Send + Unpin + 'static {}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Send + Unpin + 'static> Pieces for S {}

/// A request's body as pieces.
pub struct FromRequest(pub RequestBody);

impl Stream for FromRequest {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match Pin::new(&mut self.0).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(failure))) => return Poll::Ready(Some(Err(failure.into()))),
                // HTTP trailers are not what S3 calls trailers; they say nothing here.
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }
}

/// Content whose hash was given.
pub struct Hashed<S> {
    pieces: S,
    hash: Sha256,
    /// In lower-case hexadecimal digits.
    expected: String,
    is_over: bool,
}

impl<S: Pieces> Hashed<S> {
    pub fn new(pieces: S, expected: &str) -> Hashed<S> {
        Hashed { pieces, hash: Sha256::new(), expected: expected.to_owned(), is_over: false }
    }
}

impl<S: Pieces> Stream for Hashed<S> {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = Pin::new(&mut self.pieces).poll_next(cx);
        match &next {
            Poll::Ready(Some(Ok(bytes))) => self.hash.update(bytes),
            Poll::Ready(None) => {
                self.is_over = true;
                let hash = std::mem::take(&mut self.hash);
                let computed = String::from_utf8_lossy(&hex_of(&hash.finalize().into())).into_owned();
                if computed != self.expected {
                    let given = std::mem::take(&mut self.expected);
                    return Poll::Ready(Some(Err(PayloadError::Sha256Mismatch { given, computed })));
                }
            }
            Poll::Pending | Poll::Ready(Some(Err(_))) => {}
        }
        next
    }
}

pub(crate) fn hex_of(bytes: &[u8; 32]) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0u8; 64];
    for (index, byte) in bytes.iter().enumerate() {
        text[2 * index] = DIGITS[usize::from(byte >> 4)];
        text[2 * index + 1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// As the object service takes it.
pub fn into_stream(pieces: impl Pieces) -> object::BodyStream {
    Box::pin(ForService(pieces))
}

struct ForService<S>(S);

impl<S: Pieces> Stream for ForService<S> {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map_err(BodyError::new)
    }
}
