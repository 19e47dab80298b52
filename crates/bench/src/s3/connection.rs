//! One keep-alive connection, non-blocking: sends one request, receives its answer.
//!
//! The socket is watched edge-triggered and registered once, so a small request costs three system calls: a vectored
//! write, a wait (shared with other connections) and a read. A read that fills less than the buffer has drained the
//! socket; reading again only to be told so is left out.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::content::{Content, Gather};
use super::list;
use super::response::{Event, Head, ResponseParser};
use super::tally::Failure;

/// How long a connection attempt may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Most bytes of an error document that are kept to find its code.
pub const ERROR_BODY_LIMIT_BYTES: usize = 4096;

/// Most bytes of a page of names: 1,000 keys of 1,024 bytes, every byte escaped, with their other elements.
pub const LIST_BODY_LIMIT_BYTES: usize = 16 << 20;

/// What to do with the body of a successful answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Count its bytes.
    Discard,
    /// Compare it with what the key implies.
    Check(Content),
    /// Keep it, to be read as a page of names.
    Keep,
}

/// An answer, complete or on its way.
#[derive(Debug)]
pub struct Answer {
    /// The head, once it has come.
    pub head: Option<Head>,
    /// Bytes of the body so far.
    pub bytes: u64,
    /// Body kept: a page of names, or the start of an error document.
    pub kept: Vec<u8>,
    /// Whether the whole answer has come.
    complete: bool,
    failure: Option<Failure>,
    body: Body,
}

impl Answer {
    fn new() -> Self {
        Answer { head: None, bytes: 0, kept: Vec::new(), complete: true, failure: None, body: Body::Discard }
    }

    fn begin(&mut self, body: Body) {
        self.head = None;
        self.bytes = 0;
        self.kept.clear();
        self.complete = false;
        self.failure = None;
        self.body = body;
    }

    fn take_body(&mut self, bytes: &[u8]) {
        let success = self.head.is_some_and(|head| (200..300).contains(&head.status));
        let limit = match (success, self.body) {
            (false, _) => ERROR_BODY_LIMIT_BYTES,
            (true, Body::Keep) => LIST_BODY_LIMIT_BYTES,
            (true, Body::Discard | Body::Check(_)) => 0,
        };
        if let (true, Body::Check(content), None) = (success, self.body, &self.failure)
            && let Err(mismatch) = content.check(self.bytes, bytes)
        {
            self.failure = Some(Failure::WrongByte(mismatch));
        }
        let room = limit.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.bytes += bytes.len() as u64;
    }

    /// The verdict on a complete answer; `expected` lists statuses outside 2xx that count as success.
    pub fn verdict(&mut self, expected: &[u16]) -> Result<Verdict, Failure> {
        let head = self.head.expect("a complete answer has a head");
        if !(200..300).contains(&head.status) {
            if expected.contains(&head.status) {
                return Ok(Verdict::Expected);
            }
            let code = list::error_code(&self.kept).unwrap_or_default().to_owned();
            return Err(Failure::Status { status: head.status, code });
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match self.body {
            Body::Check(content) if content.size() != self.bytes => {
                Err(Failure::WrongLength { expected: content.size(), found: self.bytes })
            }
            _ => Ok(Verdict::Done),
        }
    }
}

/// How a request succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// With a status of 2xx.
    Done,
    /// With another status that the run expects.
    Expected,
}

/// A connection and the request that it carries.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    parser: ResponseParser,
    head: Vec<u8>,
    body: Content,
    sent: u64,
    /// The answer to the request last sent.
    pub answer: Answer,
}

impl Connection {
    /// Connects; the connection is non-blocking and sends without delay.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            parser: ResponseParser::new(),
            head: Vec::with_capacity(1024),
            body: Content::empty(),
            sent: 0,
            answer: Answer::new(),
        })
    }

    /// The buffer for the next request's head, empty.
    pub fn head_buffer(&mut self) -> &mut Vec<u8> {
        self.head.clear();
        &mut self.head
    }

    /// Sends the head that was written and this body, as far as the socket takes it.
    pub fn start(&mut self, body: Content, to_head_request: bool, expect: Body) -> Result<(), Failure> {
        self.body = body;
        self.sent = 0;
        self.parser.begin(to_head_request);
        self.answer.begin(expect);
        self.send()
    }

    /// Whether the request has left in full.
    pub fn is_sent(&self) -> bool {
        self.sent == self.head.len() as u64 + self.body.size()
    }

    /// Goes on sending; returns when all has left or the socket is full.
    pub fn send(&mut self) -> Result<(), Failure> {
        while !self.is_sent() {
            let mut gather = Gather::default();
            let head_length = self.head.len() as u64;
            if self.sent < head_length {
                gather.push(&self.head[self.sent as usize..]);
            }
            self.body.gather(self.sent.saturating_sub(head_length), &mut gather);
            match self.stream.write_vectored(gather.slices()) {
                Ok(count) => self.sent += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Connection(error.kind())),
            }
        }
        Ok(())
    }

    /// Reads what has come; true when the answer is complete. `drain` reads on until the socket says that it is empty or
    /// closed, for the case that its closing has been announced.
    pub fn receive(&mut self, buffer: &mut [u8], drain: bool) -> Result<bool, Failure> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => {
                    self.parser.end_of_stream()?;
                    return if self.answer.complete || self.answer.head.is_some() {
                        self.answer.complete = true;
                        Ok(true)
                    } else {
                        Err(Failure::Connection(io::ErrorKind::UnexpectedEof))
                    };
                }
                Ok(count) => {
                    self.digest(&buffer[..count])?;
                    if self.answer.complete {
                        return Ok(true);
                    }
                    if count < buffer.len() && !drain {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Connection(error.kind())),
            }
        }
    }

    /// Whether another request may follow on this connection: the server keeps it open and has taken the request whole.
    pub fn is_reusable(&self) -> bool {
        self.is_sent() && self.answer.complete && self.answer.head.is_some_and(|head| !head.close)
    }

    fn digest(&mut self, mut input: &[u8]) -> Result<(), Failure> {
        loop {
            match self.parser.feed(&mut input)? {
                Event::Head(head) => self.answer.head = Some(head),
                Event::Body(bytes) => self.answer.take_body(bytes),
                Event::NeedMore => return Ok(()),
                Event::End if input.is_empty() => {
                    self.answer.complete = true;
                    return Ok(());
                }
                Event::End => return Err(Failure::Excess),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
