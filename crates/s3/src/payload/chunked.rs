//! `aws-chunked`: content in chunks of its own within the body, each perhaps signed, followed perhaps by trailing headers.
//!
//! ```text
//! 10000;chunk-signature=ad80…\r\n <65,536 bytes> \r\n
//! 0;chunk-signature=b6c6…\r\n
//! x-amz-checksum-crc32c:sOO8/Q==\r\n
//! x-amz-trailer-signature:d81f…\r\n
//! \r\n
//! ```
//!
//! Clients of MinIO end trailing headers with a line feed alone and an empty line, `x-amz-checksum-crc32c:sOO8/Q==\n\r\n`: that empty line
//! belongs to the header, and the trailing headers go on behind it.
//!
//! Without signatures the head of a chunk is only its length. Each signature covers the one before it, the first the one of
//! the request, so chunks can be neither exchanged nor left out.
//!
//! Sources: Amazon S3 API reference, "Signature Calculations for the Authorization Header: Transferring Payload in Multiple
//! Chunks" and "… Including trailing headers".

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use futures_core::Stream;
use http::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::trailer::Announced;
use super::{PayloadError, Pieces, Trailers, hex_of};
use crate::sigv4::{EMPTY_SHA256, SigningKey};

/// Most bytes of a chunk's head, or of one trailing header.
const MAX_LINE_BYTES: usize = 1024;

/// Most bytes of all trailing headers.
const MAX_TRAILER_BYTES: usize = 8 * 1024;

/// Fewest bytes of a chunk that is not the last (S3). With smaller ones the framing could be many times the content.
pub(super) const MIN_CHUNK_BYTES: u64 = 8 * 1024;

const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// What is wrong with chunked content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    #[error("the aws-chunked framing is broken: {0}")]
    Framing(&'static str),
    #[error("the trailing headers are wrong: {0}")]
    Trailer(&'static str),
    #[error("chunk {number} has {bytes} bytes; all chunks but the last have at least {MIN_CHUNK_BYTES}")]
    Small { number: u64, bytes: u64 },
    #[error("the signature of a chunk or of the trailing headers does not match")]
    Signature,
    #[error("the body ended within a chunk")]
    Incomplete,
    #[error("the content has {found} bytes, x-amz-decoded-content-length says {declared}")]
    Length { declared: u64, found: u64 },
}

/// What is needed to check the signatures of chunks.
pub struct ChunkSigning {
    pub key: SigningKey,
    /// `YYYYMMDDThhmmssZ`.
    pub time: String,
    pub day: String,
    pub region: String,
    /// The signature of the request; then of the chunk before.
    pub previous: [u8; 64],
}

/// Content out of chunks.
pub struct Chunked<S> {
    pieces: S,
    decoder: Decoder,
    /// Bytes received and not yet looked at.
    input: Bytes,
    is_over: bool,
}

struct Decoder {
    state: State,
    /// A line that has not ended yet.
    line: BytesMut,
    signing: Option<ChunkSigning>,
    chunk_hash: Sha256,
    chunk_signature: [u8; 64],
    /// Number and bytes of the newest chunk; the first is number 1.
    chunk: (u64, u64),
    /// Trailing headers as they are signed.
    signed_trailers: Vec<u8>,
    trailers: Trailers,
    announced: Announced,
    /// The last trailing header ended with a line feed alone: an empty line may belong to it.
    is_loose_end: bool,
    declared: u64,
    found: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Data { remaining: u64 },
    DataEnd,
    Trailer,
    Done,
}

impl<S: Pieces> Chunked<S> {
    /// Reads `pieces`, which hold `declared` bytes of content, and the trailing headers that are `announced`.
    pub fn new(pieces: S, signing: Option<ChunkSigning>, declared: u64, announced: Announced) -> (Chunked<S>, Trailers) {
        let decoder = Decoder::new(signing, declared, announced);
        let trailers = decoder.trailers.clone();
        (Chunked { pieces, decoder, input: Bytes::new(), is_over: false }, trailers)
    }
}

impl<S: Pieces> Stream for Chunked<S> {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        loop {
            match this.decoder.step(&mut this.input) {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(None) => {}
                Err(error) => {
                    this.is_over = true;
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
            match Pin::new(&mut this.pieces).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(bytes))) => this.input = bytes,
                Poll::Ready(Some(Err(error))) => {
                    this.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    this.is_over = true;
                    return Poll::Ready(this.decoder.finish().err().map(|error| Err(error.into())));
                }
            }
        }
    }
}

impl Decoder {
    fn new(signing: Option<ChunkSigning>, declared: u64, announced: Announced) -> Decoder {
        Decoder {
            state: State::Head,
            line: BytesMut::new(),
            signing,
            chunk_hash: Sha256::new(),
            chunk_signature: [0; 64],
            chunk: (0, MIN_CHUNK_BYTES),
            signed_trailers: Vec::new(),
            trailers: Trailers::default(),
            announced,
            is_loose_end: false,
            declared,
            found: 0,
        }
    }

    /// Content out of the input, or `None` when more input is needed.
    fn step(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, ChunkError> {
        while !input.is_empty() {
            match self.state {
                State::Data { remaining } => {
                    let data = input.split_to(input.len().min(usize::try_from(remaining).unwrap_or(usize::MAX)));
                    self.take_data(&data, remaining)?;
                    return Ok(Some(data));
                }
                State::Done => return Err(ChunkError::Framing("bytes follow the last chunk")),
                State::Head | State::DataEnd | State::Trailer => {
                    let Some(line) = self.take_line(input)? else { return Ok(None) };
                    self.take_whole_line(&line)?;
                }
            }
        }
        Ok(None)
    }

    fn take_data(&mut self, data: &[u8], remaining: u64) -> Result<(), ChunkError> {
        if self.signing.is_some() {
            self.chunk_hash.update(data);
        }
        let remaining = remaining - data.len() as u64;
        if remaining > 0 {
            self.state = State::Data { remaining };
            return Ok(());
        }
        self.state = State::DataEnd;
        self.check_chunk()
    }

    /// The next line without its end, if all of it is there.
    fn take_line(&mut self, input: &mut Bytes) -> Result<Option<BytesMut>, ChunkError> {
        let end = memchr::memchr(b'\n', input);
        let taken = end.map_or(input.len(), |at| at + 1);
        if self.line.len() + taken > MAX_LINE_BYTES {
            return Err(ChunkError::Framing("a line is too long"));
        }
        self.line.extend_from_slice(&input[..taken]);
        input.advance(taken);
        if end.is_none() {
            return Ok(None);
        }
        let mut line = self.line.split();
        let is_whole_end = line.ends_with(b"\r\n");
        // A line feed alone ends a trailing header, and no other line.
        self.is_loose_end &= is_whole_end && line.len() == 2;
        if !is_whole_end && (self.state != State::Trailer || line.len() == 1) {
            return Err(ChunkError::Framing("a line does not end with CR and LF"));
        }
        line.truncate(line.len() - if is_whole_end { 2 } else { 1 });
        self.is_loose_end |= !is_whole_end;
        Ok(Some(line))
    }

    fn take_whole_line(&mut self, line: &[u8]) -> Result<(), ChunkError> {
        match self.state {
            State::Head => self.take_head(line),
            State::DataEnd if line.is_empty() => {
                self.state = State::Head;
                Ok(())
            }
            State::DataEnd => Err(ChunkError::Framing("a chunk is longer than its length says")),
            _ if line.is_empty() && self.is_loose_end => {
                self.is_loose_end = false;
                Ok(())
            }
            _ if line.is_empty() => self.end_trailers(),
            _ => self.take_trailer(line),
        }
    }

    fn take_head(&mut self, line: &[u8]) -> Result<(), ChunkError> {
        let text = std::str::from_utf8(line).map_err(|_| ChunkError::Framing("a chunk's head is not text"))?;
        let (length, extension) = text.split_once(';').unwrap_or((text, ""));
        if length.is_empty() || length.len() > 16 || !length.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ChunkError::Framing("a chunk's length is not a hexadecimal number"));
        }
        let length = u64::from_str_radix(length, 16).map_err(|_| ChunkError::Framing("a chunk's length is too large"))?;
        if self.signing.is_some() {
            let signature = extension.strip_prefix("chunk-signature=").map(str::as_bytes).and_then(|text| text.try_into().ok());
            self.chunk_signature = signature.ok_or(ChunkError::Framing("a chunk has no signature"))?;
        }
        self.found = self.found.saturating_add(length);
        if self.found > self.declared {
            return Err(ChunkError::Length { declared: self.declared, found: self.found });
        }
        if length > 0 {
            let (number, bytes) = self.chunk;
            if bytes < MIN_CHUNK_BYTES {
                return Err(ChunkError::Small { number, bytes });
            }
            self.chunk = (number + 1, length);
            self.state = State::Data { remaining: length };
            return Ok(());
        }
        self.state = State::Trailer;
        self.check_chunk()
    }

    fn check_chunk(&mut self) -> Result<(), ChunkError> {
        let Some(signing) = &mut self.signing else { return Ok(()) };
        let content = hex_of(&std::mem::take(&mut self.chunk_hash).finalize().into());
        let signature = signing.sign(b"AWS4-HMAC-SHA256-PAYLOAD\n", &[EMPTY_SHA256.as_bytes(), b"\n", &content]);
        if !is_equal(&signature, &self.chunk_signature) {
            return Err(ChunkError::Signature);
        }
        signing.previous = signature;
        Ok(())
    }

    fn take_trailer(&mut self, line: &[u8]) -> Result<(), ChunkError> {
        const BAD: ChunkError = ChunkError::Trailer("one is malformed");
        let at = memchr::memchr(b':', line).ok_or(BAD)?;
        let (name, value) = (&line[..at], line[at + 1..].trim_ascii());
        let name = HeaderName::from_bytes(name).map_err(|_| BAD)?;
        let is_signature = name == TRAILER_SIGNATURE && self.announced.are_allowed();
        if !is_signature && self.announced.name() != Some(&name) {
            return Err(ChunkError::Trailer("one was not announced"));
        }
        if !is_signature {
            self.signed_trailers.extend_from_slice(name.as_str().as_bytes());
            self.signed_trailers.push(b':');
            self.signed_trailers.extend_from_slice(value);
            self.signed_trailers.push(b'\n');
        }
        if self.signed_trailers.len() > MAX_TRAILER_BYTES {
            return Err(ChunkError::Trailer("they are too long"));
        }
        let value = HeaderValue::from_bytes(value).map_err(|_| BAD)?;
        if !self.trailers.insert(name, value) {
            return Err(ChunkError::Trailer("one is repeated, or there are too many"));
        }
        Ok(())
    }

    fn end_trailers(&mut self) -> Result<(), ChunkError> {
        if self.found != self.declared {
            return Err(ChunkError::Length { declared: self.declared, found: self.found });
        }
        // Said before the signature is looked at: clients that send no trailing headers sign none.
        if self.announced.name().is_some_and(|name| self.trailers.get(name.as_str()).is_none()) {
            return Err(ChunkError::Trailer("the announced one is missing"));
        }
        if let Some(signing) = &self.signing
            && self.announced.are_allowed()
        {
            let content = hex_of(&Sha256::digest(&self.signed_trailers).into());
            let signature = signing.sign(b"AWS4-HMAC-SHA256-TRAILER\n", &[&content]);
            let given = self.trailers.get(TRAILER_SIGNATURE).ok_or(ChunkError::Signature)?;
            if !is_equal(&signature, given.as_bytes()) {
                return Err(ChunkError::Signature);
            }
        }
        self.state = State::Done;
        Ok(())
    }

    /// The body has ended.
    fn finish(&mut self) -> Result<(), ChunkError> {
        match self.state {
            State::Done => Ok(()),
            // Some clients leave out the last empty line.
            State::Trailer if self.line.is_empty() => self.end_trailers(),
            _ => Err(ChunkError::Incomplete),
        }
    }
}

impl ChunkSigning {
    fn sign(&self, algorithm: &[u8], tail: &[&[u8]]) -> [u8; 64] {
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(12);
        pieces.extend([algorithm, self.time.as_bytes(), b"\n", self.day.as_bytes(), b"/", self.region.as_bytes()]);
        pieces.extend([b"/s3/aws4_request\n".as_slice(), &self.previous, b"\n"]);
        pieces.extend(tail);
        hex_of(&self.key.sign(&pieces))
    }
}

/// In a time that does not depend on where they differ.
fn is_equal(computed: &[u8; 64], given: &[u8]) -> bool {
    given.len() == computed.len() && computed.iter().zip(given).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}
