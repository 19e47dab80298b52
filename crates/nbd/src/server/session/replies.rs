//! Answers of operations become replies.

use tokio::io::{AsyncRead, AsyncWrite};

use super::Session;
use crate::export::{Content, ContentPart, ExportError, Extent, Span};
use crate::reply;
use crate::request::{Command, Cookie};
use crate::server::open_requests::{Failure, OpenRequest};
use crate::server::operation::{Done, Part};

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Session<'_, S> {
    /// A part of a request is done.
    pub(super) fn finish(&mut self, part: Part, result: Result<Done, ExportError>) {
        let request = self.open.get(part.slot);
        request.parts -= 1;
        let (cookie, command) = (request.cookie, request.command);
        match result {
            Err(error) => {
                request.fail(error, part.span.offset);
                if let Command::Read { .. } | Command::Write { .. } = command {
                    self.account.end_bytes(part.span.length as usize);
                }
            }
            Ok(Done::Change) => {
                if let Command::Write { .. } = command {
                    self.account.end_bytes(part.span.length as usize);
                }
            }
            Ok(Done::Read(content)) => {
                let is_last = request.is_over() && request.failure.is_none();
                let is_one_chunk = matches!(command, Command::Read { is_whole: true, .. });
                self.reply_content(cookie, part.span, content, is_one_chunk, is_last);
            }
            Ok(Done::Map(extents)) => self.reply_map(cookie, command, part.span, &extents),
        }
        if self.open.get(part.slot).is_over() {
            let request = self.open.remove(part.slot);
            self.account.end_request();
            self.conclude(request);
        }
        if self.broken.is_some() {
            let held_bytes = self.output.clear();
            self.account.end_bytes(held_bytes);
        }
    }

    /// The last reply of a request, where its parts have not been that.
    fn conclude(&mut self, request: OpenRequest) {
        let is_structured = self.decoder.rules().is_structured;
        let cookie = request.cookie;
        let Some(Failure { error, why, offset }) = request.failure else {
            if !matches!(request.command, Command::Read { .. } | Command::BlockStatus { .. }) {
                self.output.head(|out| reply::simple(out, cookie, None));
            }
            return;
        };
        tracing::debug!(?cookie, command = ?request.command, ?error, %why, "request failed");
        // The protocol wants no offset of a flush.
        let offset = (!matches!(request.command, Command::Flush)).then_some(offset);
        self.output.head(|out| {
            if is_structured {
                reply::error(out, cookie, error, &why, offset);
            } else {
                reply::simple(out, cookie, Some(error));
            }
        });
    }

    fn reply_content(&mut self, cookie: Cookie, span: Span, content: Content, is_one_chunk: bool, is_last: bool) {
        let length: usize = content.iter().map(ContentPart::length).sum();
        assert!(length == span.length as usize, "an export reads what it was asked for: {length} bytes of {span:?}");
        let is_structured = self.decoder.rules().is_structured;
        // One head for all of it, or one for each part.
        let is_joined = is_one_chunk || content.len() == 1 && matches!(content[0], ContentPart::Data(_));
        if is_joined {
            self.output.head(|out| {
                if is_structured { reply::data_head(out, cookie, is_last, span) } else { reply::simple(out, cookie, None) }
            });
        }
        let mut offset = span.offset;
        for part in content {
            let here = Span { offset, length: part.length() as u32 };
            assert!(here.length > 0, "an export gives parts that are not empty");
            offset = here.end();
            let is_last = is_last && offset == span.end();
            match part {
                ContentPart::Data(data) => {
                    if !is_joined {
                        self.output.head(|out| reply::data_head(out, cookie, is_last, here));
                    }
                    let freed = self.output.data(data);
                    self.account.end_bytes(freed);
                }
                ContentPart::Zeros(_) => {
                    if is_joined {
                        self.output.zeros(here.length as usize);
                    } else {
                        self.output.head(|out| reply::hole(out, cookie, is_last, here));
                    }
                    self.account.end_bytes(here.length as usize);
                }
            }
        }
    }

    fn reply_map(&mut self, cookie: Cookie, command: Command, span: Span, extents: &[Extent]) {
        let is_one = matches!(command, Command::BlockStatus { is_one: true, .. });
        let descriptors = reply::descriptors(extents, span, reply::descriptor_limit(is_one));
        self.output.head(|out| reply::block_status(out, cookie, &descriptors));
    }
}
