//! The handle by which a request is answered.

use std::marker::PhantomData;
use std::sync::Arc;

use rustix::io::Errno;

use super::core::{Core, Delivery};
use crate::ids::RequestId;
use crate::reply::{Body, Data, DataParts, Form};

/// The right and the duty to answer one request, from any thread, now or later. Dropped without an answer it answers EIO, unless the session stops.
#[derive(Debug)]
pub struct Reply<T> {
    ticket: Ticket,
    form: Form,
    kind: PhantomData<fn(T)>,
}

#[derive(Debug)]
struct Ticket {
    core: Arc<Core>,
    id: RequestId,
    answered: bool,
}

impl<T> Reply<T> {
    pub(super) fn new(core: Arc<Core>, id: RequestId, form: Form) -> Self {
        Reply { ticket: Ticket { core, id, answered: false }, form, kind: PhantomData }
    }

    pub fn id(&self) -> RequestId {
        self.ticket.id
    }

    /// Whether the calling process was interrupted. Whoever keeps a reply asks this after it stored it.
    pub fn is_interrupted(&self) -> bool {
        self.ticket.core.is_interrupted(self.ticket.id)
    }

    pub fn error(self, errno: Errno) -> Delivery {
        self.answer::<()>(Err(errno))
    }

    /// Answers ENOSYS: for most requests the kernel does not send another one of its kind.
    pub fn unsupported(self) {
        // The kernel does not ask again, whether it got the answer or not.
        let _delivery = self.error(Errno::NOSYS);
    }

    fn answer<B: Body>(mut self, answer: Result<B, Errno>) -> Delivery {
        self.ticket.answered = true;
        self.ticket.core.answer(self.ticket.id, self.form, answer)
    }
}

impl<T: Body> Reply<T> {
    pub fn ok(self, body: T) -> Delivery {
        self.answer(Ok(body))
    }

    pub fn send(self, answer: Result<T, Errno>) -> Delivery {
        self.answer(answer)
    }
}

impl Reply<Data> {
    /// Answers with data that are only lent.
    pub fn parts(self, parts: &[&[u8]]) -> Delivery {
        self.answer(Ok(DataParts(parts)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Of a session that stops, the successor is sent the request again.
        if !self.answered && !self.core.is_stopping() {
            tracing::error!(id = self.id.0, "a request was dropped without an answer");
            self.core.answer::<()>(self.id, Form::PLAIN, Err(Errno::IO));
        }
    }
}
