//! HTTP/1.1 responses, read incrementally (RFC 9112).
//!
//! ```text
//! head ──► length(n) ───────────────► done
//!   │  └─► chunk size ─► chunk data ─► chunk end ─► chunk size …
//!   │           └─ size 0 ─► trailer ─► done
//!   ├────► until close ─(end of stream)─► done
//!   └────► done                       (HEAD, 204, 304)
//! ```
//! The parser does no I/O and copies no body: the caller feeds what it read and gets back slices of it. Only a head or a
//! chunk line that a read has split is kept here.

use memchr::memmem;

/// Longest head that is accepted.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Longest chunk-size line, with its extensions, and longest trailer line.
pub const MAX_LINE_BYTES: usize = 8 * 1024;

/// What the head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The body's length, if it is known beforehand.
    pub content_length: Option<u64>,
    /// Whether the server will close the connection after this response.
    pub close: bool,
}

/// What feeding has produced.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The head is complete.
    Head(Head),
    /// The next bytes of the body.
    Body(&'a [u8]),
    /// The response is complete; bytes that are left belong to nobody, since requests are not pipelined.
    End,
    /// All input is used up.
    NeedMore,
}

/// Bytes that are not an HTTP/1.1 response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// No status line.
    #[error("malformed status line")]
    StatusLine,
    /// A header without a colon, or a value that contradicts itself.
    #[error("malformed header")]
    Header,
    /// The length is not a number, or two lengths differ.
    #[error("malformed content length")]
    ContentLength,
    /// A chunk whose size or end is wrong.
    #[error("malformed chunk")]
    Chunk,
    /// The head or a line is longer than its limit.
    #[error("head or line too long")]
    TooLong,
    /// The stream ended within a response.
    #[error("connection closed within a response")]
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    UntilClose,
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
    Done,
}

/// Reads one response after another from one connection.
#[derive(Debug)]
pub struct ResponseParser {
    state: State,
    to_head_request: bool,
    carry: Vec<u8>,
}

impl Default for ResponseParser {
    fn default() -> Self {
        ResponseParser::new()
    }
}

impl ResponseParser {
    /// A parser at rest.
    pub fn new() -> Self {
        ResponseParser { state: State::Done, to_head_request: false, carry: Vec::new() }
    }

    /// Expects a response; one to a HEAD request has no body whatever its length says.
    pub fn begin(&mut self, to_head_request: bool) {
        self.state = State::Head;
        self.to_head_request = to_head_request;
        self.carry.clear();
    }

    /// Takes bytes from the front of `input` until something can be said. Call again until [`Event::NeedMore`] or
    /// [`Event::End`].
    pub fn feed<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, ResponseError> {
        loop {
            match self.state {
                State::Done => return Ok(Event::End),
                _ if input.is_empty() => return Ok(Event::NeedMore),
                State::Head => {
                    if let Some(head) = self.take_head(input)? {
                        return Ok(Event::Head(head));
                    }
                }
                State::Length(left) => {
                    let body = take(input, left);
                    self.state = after(left - body.len() as u64, State::Length, State::Done);
                    return Ok(Event::Body(body));
                }
                State::UntilClose => return Ok(Event::Body(take(input, u64::MAX))),
                State::ChunkData(left) => {
                    let body = take(input, left);
                    self.state = after(left - body.len() as u64, State::ChunkData, State::ChunkEnd);
                    return Ok(Event::Body(body));
                }
                State::ChunkSize | State::ChunkEnd | State::Trailer => self.take_line(input)?,
            }
        }
    }

    /// The stream has ended: fine only where the end is what delimits the body.
    pub fn end_of_stream(&mut self) -> Result<(), ResponseError> {
        match self.state {
            State::UntilClose | State::Done => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(ResponseError::Closed),
        }
    }

    fn take_head(&mut self, input: &mut &[u8]) -> Result<Option<Head>, ResponseError> {
        let head = if self.carry.is_empty() {
            match memmem::find(input, b"\r\n\r\n") {
                Some(end) => {
                    let (head, rest) = input.split_at(end + 4);
                    *input = rest;
                    Some(parse_head(head, self.to_head_request)?)
                }
                None => None,
            }
        } else {
            None
        };
        let parsed = match head {
            Some(parsed) => parsed,
            None => match self.complete_carry(input, b"\r\n\r\n", MAX_HEAD_BYTES)? {
                Some(()) => {
                    let parsed = parse_head(&self.carry, self.to_head_request)?;
                    self.carry.clear();
                    parsed
                }
                None => return Ok(None),
            },
        };
        let (head, next) = parsed;
        // 1xx is a notice before the response (RFC 9110, section 15.2); 101 was never asked for.
        if (100..200).contains(&head.status) {
            return Ok(None);
        }
        self.state = next;
        Ok(Some(head))
    }

    fn take_line(&mut self, input: &mut &[u8]) -> Result<(), ResponseError> {
        if self.complete_carry(input, b"\r\n", MAX_LINE_BYTES)?.is_none() {
            return Ok(());
        }
        let line = &self.carry[..self.carry.len() - 2];
        self.state = match self.state {
            State::ChunkSize => match parse_chunk_size(line)? {
                0 => State::Trailer,
                size => State::ChunkData(size),
            },
            State::ChunkEnd if line.is_empty() => State::ChunkSize,
            State::ChunkEnd => return Err(ResponseError::Chunk),
            State::Trailer if line.is_empty() => State::Done,
            other => other,
        };
        self.carry.clear();
        Ok(())
    }

    /// Moves input to the carry up to and with `end`; `None` when the end has not come yet.
    fn complete_carry(&mut self, input: &mut &[u8], end: &[u8], limit: usize) -> Result<Option<()>, ResponseError> {
        let before = self.carry.len();
        // The end itself may be split, so the search starts within the bytes carried so far.
        let from = before.saturating_sub(end.len() - 1);
        let room = (limit + end.len()).saturating_sub(before);
        let offered = &input[..input.len().min(room)];
        self.carry.extend_from_slice(offered);
        match memmem::find(&self.carry[from..], end) {
            Some(place) => {
                let length = from + place + end.len();
                self.carry.truncate(length);
                *input = &input[length - before..];
                Ok(Some(()))
            }
            None if self.carry.len() >= limit => Err(ResponseError::TooLong),
            None => {
                *input = &[];
                Ok(None)
            }
        }
    }
}

fn take<'a>(input: &mut &'a [u8], most: u64) -> &'a [u8] {
    let length = usize::try_from(most).map_or(input.len(), |most| most.min(input.len()));
    let (taken, rest) = input.split_at(length);
    *input = rest;
    taken
}

fn after(left: u64, more: fn(u64) -> State, done: State) -> State {
    if left == 0 { done } else { more(left) }
}

fn parse_head(head: &[u8], to_head_request: bool) -> Result<(Head, State), ResponseError> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let (status, mut close) = parse_status_line(lines.next().unwrap_or_default())?;
    let mut content_length = None;
    let mut chunked = false;
    for line in lines.take_while(|line| !line.is_empty()) {
        let colon = memchr::memchr(b':', line).ok_or(ResponseError::Header)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = parse_decimal(value).ok_or(ResponseError::ContentLength)?;
            if content_length.is_some_and(|before| before != length) {
                return Err(ResponseError::ContentLength);
            }
            content_length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = value.to_ascii_lowercase().ends_with(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            close = match value.to_ascii_lowercase().as_slice() {
                b"close" => true,
                b"keep-alive" => false,
                _ => close,
            };
        }
    }
    let bodiless = to_head_request || status == 204 || status == 304;
    let state = match (bodiless, chunked, content_length) {
        (true, ..) => State::Done,
        (_, true, _) => State::ChunkSize,
        (_, _, Some(length)) => after(length, State::Length, State::Done),
        _ => State::UntilClose,
    };
    let head = Head { status, content_length: if chunked { None } else { content_length }, close };
    Ok((Head { close: head.close || state == State::UntilClose, ..head }, state))
}

/// The status, and whether this version closes the connection unless told otherwise.
fn parse_status_line(line: &[u8]) -> Result<(u16, bool), ResponseError> {
    let http10 = match line.get(..9) {
        Some(b"HTTP/1.1 ") => false,
        Some(b"HTTP/1.0 ") => true,
        _ => return Err(ResponseError::StatusLine),
    };
    let digits = line.get(9..12).ok_or(ResponseError::StatusLine)?;
    if line.get(12).is_some_and(|byte| *byte != b' ') {
        return Err(ResponseError::StatusLine);
    }
    let status = parse_decimal(digits).filter(|status| *status >= 100).ok_or(ResponseError::StatusLine)?;
    Ok((status as u16, http10))
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn parse_chunk_size(line: &[u8]) -> Result<u64, ResponseError> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(ResponseError::Chunk);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| ResponseError::Chunk)?;
    u64::from_str_radix(digits, 16).map_err(|_| ResponseError::Chunk)
}
