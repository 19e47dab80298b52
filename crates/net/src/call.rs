//! Calls: what is asked, what is answered, and what an error means.

use bytes::Bytes;
use env::Instant;
use std::future::Future;
use std::pin::Pin;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes calls to one service.
pub trait Caller: Send + Sync {
    /// Sends a request and waits for its answer, until `deadline` on this machine's clock.
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>>;
}

/// Answers calls.
pub trait Service: Send + Sync + 'static {
    /// Carries a request out. The future is dropped at the request's deadline, and if the connection breaks: work that must go on regardless is spawned.
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>>;

    /// Whether the answer to this request may wait a moment for one that others wait for, to travel with it.
    fn answer_may_wait(&self, _request: &Request) -> bool {
        false
    }
}

/// A request, as a service sees it.
#[derive(Clone, Debug)]
pub struct Request {
    pub payload: Bytes,
    /// When the caller stops waiting, on this machine's clock. Work that has not begun then is not begun.
    pub deadline: Instant,
}

/// The service did not carry the request out and says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    pub reason: String,
    /// The service is not there yet, and will be: who asks may ask again soon.
    pub is_early: bool,
}

impl Refusal {
    pub fn new(reason: impl ToString) -> Refusal {
        Refusal { reason: reason.to_string(), is_early: false }
    }

    /// By a service that is not there yet.
    pub fn early(reason: impl ToString) -> Refusal {
        Refusal { reason: reason.to_string(), is_early: true }
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The request has more bytes than a frame holds.
    #[error("a request of {bytes} bytes; a frame holds {most}")]
    TooLong { bytes: usize, most: usize },
    /// The request never left this process.
    #[error("{address} was not reached: {reason}")]
    NotSent { address: String, reason: String },
    /// The service refused.
    #[error("{address} refused: {refusal}")]
    Refused { address: String, refusal: Refusal },
    /// The request was sent; whether it was carried out is not known.
    #[error("{address} did not answer: {reason}")]
    Unanswered { address: String, reason: String },
}

impl CallError {
    /// Whether it is certain that the request was not and will not be carried out, so that it may be made again elsewhere.
    pub fn is_definite(&self) -> bool {
        !matches!(self, CallError::Unanswered { .. })
    }
}
