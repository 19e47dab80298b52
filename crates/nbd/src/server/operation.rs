//! An operation of an export that is under way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::open_requests::Slot;
use crate::export::{Answer, BoxFuture, Content, ExportError, Extent, Span};

/// An operation that answers later.
pub struct Operation<'a> {
    part: Part,
    work: Work<'a>,
}

/// Which part of which request an operation does.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub slot: Slot,
    pub span: Span,
}

enum Work<'a> {
    Read(BoxFuture<'a, Result<Content, ExportError>>),
    Change(BoxFuture<'a, Result<(), ExportError>>),
    Map(BoxFuture<'a, Result<Vec<Extent>, ExportError>>),
}

/// What an operation has given.
pub enum Done {
    Read(Content),
    Change,
    Map(Vec<Extent>),
}

/// An answer at once, or an operation to poll.
pub enum Started<'a> {
    Now(Result<Done, ExportError>),
    Later(Operation<'a>),
}

impl<'a> Started<'a> {
    pub fn read(part: Part, answer: Answer<'a, Content>) -> Started<'a> {
        match answer {
            Answer::Now(result) => Started::Now(result.map(Done::Read)),
            Answer::Later(future) => Started::Later(Operation { part, work: Work::Read(future) }),
        }
    }

    pub fn change(part: Part, answer: Answer<'a, ()>) -> Started<'a> {
        match answer {
            Answer::Now(result) => Started::Now(result.map(|()| Done::Change)),
            Answer::Later(future) => Started::Later(Operation { part, work: Work::Change(future) }),
        }
    }

    pub fn map(part: Part, answer: Answer<'a, Vec<Extent>>) -> Started<'a> {
        match answer {
            Answer::Now(result) => Started::Now(result.map(Done::Map)),
            Answer::Later(future) => Started::Later(Operation { part, work: Work::Map(future) }),
        }
    }
}

impl Future for Operation<'_> {
    type Output = (Part, Result<Done, ExportError>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let part = self.part;
        match &mut self.work {
            Work::Read(future) => future.as_mut().poll(cx).map(|result| (part, result.map(Done::Read))),
            Work::Change(future) => future.as_mut().poll(cx).map(|result| (part, result.map(|()| Done::Change))),
            Work::Map(future) => future.as_mut().poll(cx).map(|result| (part, result.map(Done::Map))),
        }
    }
}
