//! The body of an answer, as the HTTP library has it: tells its connection when all of it was taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::pulse::Registration;
use crate::response::{ResponseBody, ResponseError};

/// A body that the HTTP library drops as soon as it has all of it.
pub struct AnswerBody {
    body: ResponseBody,
    registration: Arc<Registration>,
}

impl AnswerBody {
    pub fn new(body: ResponseBody, registration: Arc<Registration>) -> AnswerBody {
        AnswerBody { body, registration }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.registration.connection.answer_given();
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = ResponseError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
