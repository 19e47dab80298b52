//! When a document may come, so that those that are in memory together are bounded:
//!
//! ```text
//!              ┌─ at most UNVERIFIED bytes ────────────────────────────────────▶ let in
//!   announced ─┼─ more, and nobody has verified who sends it ──────────────────▶ refused unread
//!              └─ more, verified ──▶ waits for its share of MAX_DOCUMENTS_BYTES ─▶ let in, for a while
//! ```
//!
//! Small ones come to less than what their connections may buffer, and wait for nobody. A large one has its share before its first
//! byte is read: shares taken piece by piece could end with all of them half there, waiting for each other. It keeps its
//! share until it is answered, and so has to be there in a while: a slow client would keep the others waiting.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use crate::config::{MAX_DOCUMENTS_BYTES, MAX_UNVERIFIED_DOCUMENT_BYTES, MAX_XML_BODY_BYTES};
use crate::failure::{Failure, MAX_MESSAGE_LENGTH_EXCEEDED, REQUEST_TIMEOUT};

/// What all documents share.
#[derive(Clone)]
pub struct Room {
    bytes: Arc<Semaphore>,
    /// How long a large document may take once it was let in.
    patience: Duration,
}

/// What one request's document may have: the document asks for it, and it is held until the answer is there.
#[derive(Clone)]
pub struct Allowance(Arc<State>);

struct State {
    room: Room,
    /// The request's signature is right.
    is_verified: bool,
    share: Mutex<Option<OwnedSemaphorePermit>>,
}

/// A document on its way in.
pub struct Admission {
    allowance: Allowance,
    stage: Stage,
}

enum Stage {
    /// Nobody has asked for a byte yet. Bytes, if they are announced.
    Announced(Option<u64>),
    Waiting(Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>),
    /// A large one with the end of its time.
    Let(Option<Pin<Box<Sleep>>>),
}

impl Room {
    pub fn new(patience: Duration) -> Room {
        Room { bytes: Arc::new(Semaphore::new(MAX_DOCUMENTS_BYTES)), patience }
    }

    /// For one request, whose asker is verified or not.
    pub fn allowance(&self, is_verified: bool) -> Allowance {
        let state = State { room: self.clone(), is_verified, share: Mutex::new(None) };
        Allowance(Arc::new(state))
    }
}

impl Admission {
    /// Of a document of so many bytes, if they are announced.
    pub fn new(allowance: Allowance, announced: Option<u64>) -> Admission {
        Admission { allowance, stage: Stage::Announced(announced) }
    }

    /// Asked before each piece: whether it may be read.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            match &mut self.stage {
                Stage::Announced(announced) => {
                    let announced = *announced;
                    self.stage = self.ask(announced)?;
                }
                Stage::Waiting(share) => {
                    let share = ready!(share.as_mut().poll(cx));
                    *self.allowance.0.share.lock() = Some(share);
                    self.stage = Stage::Let(Some(Box::pin(sleep(self.allowance.0.room.patience))));
                }
                Stage::Let(due) => {
                    let is_over = due.as_mut().is_some_and(|due| due.as_mut().poll(cx).is_ready());
                    return Poll::Ready(if is_over { Err(REQUEST_TIMEOUT.into()) } else { Ok(()) });
                }
            }
        }
    }

    /// A document of unknown length is let in and counted: it gets no further than a small one.
    fn ask(&self, announced: Option<u64>) -> Result<Stage, Failure> {
        let bytes = announced.unwrap_or_default();
        if bytes <= MAX_UNVERIFIED_DOCUMENT_BYTES as u64 {
            return Ok(Stage::Let(None));
        }
        let State { room, is_verified, .. } = &*self.allowance.0;
        let most = if *is_verified { MAX_XML_BODY_BYTES } else { MAX_UNVERIFIED_DOCUMENT_BYTES };
        if bytes > most as u64 {
            return Err(Failure::new(MAX_MESSAGE_LENGTH_EXCEEDED).detail("MaxMessageLengthBytes", most.to_string()));
        }
        let share = room.bytes.clone().acquire_many_owned(bytes as u32);
        Ok(Stage::Waiting(Box::pin(async { share.await.expect("never closed") })))
    }
}

/// The largest document fits in, and a share can be asked for.
const _: () = assert!(MAX_XML_BODY_BYTES <= MAX_DOCUMENTS_BYTES && MAX_XML_BODY_BYTES <= u32::MAX as usize);

#[cfg(test)]
mod tests;
