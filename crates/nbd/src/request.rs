//! Requests of the transmission phase, decoded and checked without I/O.
//!
//! ```text
//!            a request without payload, or a refused one           ┌──────────────┐
//!   Header ─────────────────────────────────────────────▶ Header   ▼              │ pieces but the last
//!     │  write                                                   Payload ─────────┘
//!     ├──────────────────────────────────────────────────────────▶ │ last piece
//!     │  refused write                                             └────────────▶ Header
//!     └────────────────▶ Skip ──────────────────────────────────────────────────▶ Header
//! ```
//!
//! The payload of a write comes out in pieces that end at multiples of [`PIECE_BYTES`](crate::PIECE_BYTES), so that a write of
//! any length needs the memory of one piece. Small payloads are cut out of the read buffer without a copy. Large ones get an
//! aligned buffer of their own, into which the socket is read directly.

mod rules;

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::Violation;
use crate::errno::Errno;
use crate::export::{Span, WriteZerosFlags};
use crate::limits::{INLINE_PAYLOAD_BYTES, MAX_SKIPPED_BYTES, PAYLOAD_ALIGNMENT_BYTES, READ_BUFFER_BYTES};
use crate::protocol::{REQUEST_MAGIC, command};
pub use rules::RequestRules;

/// Bytes of a request before its payload.
pub const REQUEST_BYTES: usize = 28;

/// What a client calls a request; its reply carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie(pub u64);

/// A request that keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read { span: Span, is_whole: bool },
    Write { span: Span, force_unit_access: bool },
    Flush,
    Trim { span: Span, force_unit_access: bool },
    Cache { span: Span },
    WriteZeros { span: Span, flags: WriteZerosFlags },
    BlockStatus { span: Span, is_one: bool },
}

/// What comes out of the decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestEvent {
    /// A request. If it is a write, its payload follows in pieces.
    Request { cookie: Cookie, command: Command },
    /// The next piece of the payload of the last request.
    Payload { offset: u64, data: Bytes, is_last: bool },
    /// A request that breaks a rule. Its payload, if it has one, is skipped.
    Refused { cookie: Cookie, error: Errno, why: &'static str },
    /// The client leaves.
    Disconnect,
}

/// One connection's requests.
#[derive(Debug)]
pub struct RequestDecoder {
    rules: RequestRules,
    buffer: BytesMut,
    /// Bytes of the connection before those that have not come out yet.
    offset: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Header,
    Payload(Payload),
    Skip { rest: u32 },
}

#[derive(Debug)]
struct Payload {
    piece: Span,
    rest: Span,
    /// Where a large piece is gathered.
    own: Option<OwnBuffer>,
}

/// Buffer of one piece. Its data begins at an aligned address, after `padding` bytes.
#[derive(Debug)]
struct OwnBuffer {
    bytes: BytesMut,
    padding: usize,
}

/// The fixed fields of a request.
#[derive(Clone, Copy, Debug)]
struct Header {
    flags: u16,
    kind: u16,
    cookie: Cookie,
    span: Span,
}

impl RequestDecoder {
    /// `input` has come already; `offset` bytes of the connection came before it.
    pub fn new(rules: RequestRules, mut input: BytesMut, offset: u64) -> RequestDecoder {
        input.reserve(READ_BUFFER_BYTES);
        RequestDecoder { rules, buffer: input, offset, state: State::Header }
    }

    pub fn rules(&self) -> &RequestRules {
        &self.rules
    }

    /// Where the next bytes of the socket belong. Call it when [`RequestDecoder::next_event`] has nothing.
    pub fn space(&mut self) -> Limit<&mut BytesMut> {
        if let State::Payload(Payload { piece, own: Some(own), .. }) = &mut self.state {
            let missing = own.padding + piece.length as usize - own.bytes.len();
            return (&mut own.bytes).limit(missing);
        }
        // Less is asked for than a whole buffer, so that the present one is used again if no payload in it is still in use.
        if self.buffer.capacity() - self.buffer.len() < READ_BUFFER_BYTES / 4 {
            self.buffer.reserve(READ_BUFFER_BYTES / 2);
        }
        let free = self.buffer.capacity() - self.buffer.len();
        (&mut self.buffer).limit(free)
    }

    /// Bytes of the payload piece that comes next: the memory that it needs.
    pub fn next_piece_bytes(&self) -> Option<u32> {
        match &self.state {
            State::Payload(payload) => Some(payload.piece.length),
            State::Header | State::Skip { .. } => None,
        }
    }

    /// Whether a request has come in part.
    pub fn is_within_request(&self) -> bool {
        !matches!(self.state, State::Header) || !self.buffer.is_empty()
    }

    /// The payload that is due is not wanted: it is skipped.
    pub fn skip_payload(&mut self) {
        if let State::Payload(payload) = &self.state {
            assert!(payload.own.is_none(), "a payload is wanted until its end once it has begun");
            self.state = State::Skip { rest: payload.piece.length + payload.rest.length };
        }
    }

    /// The next event; none until more bytes have come.
    pub fn next_event(&mut self) -> Result<Option<RequestEvent>, Violation> {
        if let State::Skip { rest } = &mut self.state {
            let skipped = (*rest as usize).min(self.buffer.len());
            *rest -= skipped as u32;
            let is_done = *rest == 0;
            self.buffer.advance(skipped);
            self.offset += skipped as u64;
            if !is_done {
                return Ok(None);
            }
            self.state = State::Header;
        }
        match &self.state {
            State::Payload(_) => Ok(self.take_piece()),
            State::Header | State::Skip { .. } => self.take_header(),
        }
    }

    fn take_header(&mut self) -> Result<Option<RequestEvent>, Violation> {
        let Some(mut bytes) = self.buffer.get(..REQUEST_BYTES) else {
            // What can't become a request is told from its first bytes on.
            let begun = &self.buffer[..self.buffer.len().min(4)];
            if *begun != REQUEST_MAGIC.to_be_bytes()[..begun.len()] {
                let mut found = [0; 4];
                found[..begun.len()].copy_from_slice(begun);
                return Err(Violation::RequestMagic { offset: self.offset, found: u32::from_be_bytes(found) });
            }
            return Ok(None);
        };
        let magic = bytes.get_u32();
        if magic != REQUEST_MAGIC {
            return Err(Violation::RequestMagic { offset: self.offset, found: magic });
        }
        let header = Header {
            flags: bytes.get_u16(),
            kind: bytes.get_u16(),
            cookie: Cookie(bytes.get_u64()),
            span: Span { offset: bytes.get_u64(), length: bytes.get_u32() },
        };
        self.buffer.advance(REQUEST_BYTES);
        self.offset += REQUEST_BYTES as u64;
        if header.kind == command::DISC {
            return Ok(Some(RequestEvent::Disconnect));
        }
        let judged = self.rules.judge(&header);
        if header.kind == command::WRITE {
            self.expect_payload(header.span, judged.is_ok())?;
        }
        let cookie = header.cookie;
        Ok(Some(match judged {
            Ok(command) => RequestEvent::Request { cookie, command },
            Err((error, why)) => RequestEvent::Refused { cookie, error, why },
        }))
    }

    fn expect_payload(&mut self, span: Span, is_wanted: bool) -> Result<(), Violation> {
        if span.length > MAX_SKIPPED_BYTES {
            return Err(Violation::WriteLength { found: span.length });
        }
        self.state = if is_wanted {
            let (piece, rest) = span.split_piece();
            State::Payload(Payload { piece, rest, own: None })
        } else {
            State::Skip { rest: span.length }
        };
        Ok(())
    }

    fn take_piece(&mut self) -> Option<RequestEvent> {
        let State::Payload(payload) = &mut self.state else { return None };
        let length = payload.piece.length as usize;
        let data = if length <= INLINE_PAYLOAD_BYTES as usize {
            if self.buffer.len() < length {
                return None;
            }
            self.buffer.split_to(length).freeze()
        } else {
            let own = payload.own.get_or_insert_with(|| OwnBuffer::new(length));
            let missing = own.padding + length - own.bytes.len();
            let come = missing.min(self.buffer.len());
            own.bytes.extend_from_slice(&self.buffer[..come]);
            self.buffer.advance(come);
            if come < missing {
                return None;
            }
            payload.own.take()?.into_data()
        };
        self.offset += length as u64;
        let (offset, is_last) = (payload.piece.offset, payload.rest.length == 0);
        if is_last {
            self.state = State::Header;
        } else {
            (payload.piece, payload.rest) = payload.rest.split_piece();
        }
        Some(RequestEvent::Payload { offset, data, is_last })
    }
}

impl OwnBuffer {
    fn new(length: usize) -> OwnBuffer {
        let mut bytes = BytesMut::with_capacity(length + PAYLOAD_ALIGNMENT_BYTES);
        let padding = bytes.as_ptr().align_offset(PAYLOAD_ALIGNMENT_BYTES);
        assert!(padding < PAYLOAD_ALIGNMENT_BYTES, "bytes can be aligned");
        bytes.resize(padding, 0);
        OwnBuffer { bytes, padding }
    }

    fn into_data(mut self) -> Bytes {
        self.bytes.advance(self.padding);
        self.bytes.freeze()
    }
}

#[cfg(test)]
mod tests;
