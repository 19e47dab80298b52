//! Frames on a byte stream.

use crate::frame::{FRAME_HEADER_BYTES, FrameError, FrameHeader, FrameKind, MAX_PAYLOAD_BYTES};
use crate::hello::Identity;
use crate::network::ByteStream;
use bytes::{Bytes, BytesMut};
use env::Env;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use types::NodeIdentity;

/// How long a peer may take to accept the bytes of one frame.
pub(crate) const WRITE_STALL_LIMIT: Duration = Duration::from_secs(10);
/// Longest payload of a peer that has not shown who it is: hellos and proofs are shorter.
const MAX_STRANGER_BYTES: u32 = 256;
/// Bytes read from a connection at a time.
const READ_BYTES: usize = 64 * 1024;
/// What TLS answers to bytes that are no TLS begins so: an alert, of any version 3.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("byte {offset} of the connection: {source}")]
    Frame { offset: u64, source: FrameError },
    #[error("the connection ends at byte {offset} within a frame: {found} of {expected} bytes")]
    Torn { offset: u64, expected: usize, found: usize },
    #[error("the peer closed the connection")]
    Closed,
    #[error("the peer accepts no bytes since {WRITE_STALL_LIMIT:?}")]
    Stalled,
    #[error("the peer is silent since {0:?}")]
    Silent(Duration),
    #[error("the peer sends a {0:?} here")]
    Unexpected(FrameKind),
    #[error("the peer speaks version {found}, expected {expected}")]
    Version { expected: u32, found: u32 },
    #[error(
        "the peer is not of this node's cluster: is the token of one of them wrong, or does a tunnel on loopback lead there?"
    )]
    Cluster,
    #[error("node {found} is there, expected node {expected}")]
    Node { expected: NodeIdentity, found: NodeIdentity },
    #[error("the peer calls itself node {} of cluster {}, its certificate names node {} of cluster {}",
        said.node, said.cluster, certified.node, certified.cluster)]
    Certificate { certified: Identity, said: Identity },
    #[error("the peer has a key of number {0}, of which nothing is served here")]
    Guest(u32),
    #[error("the peer speaks TLS, and this end does not")]
    SpeaksTls,
}

/// Reads frames. What it has read of a frame survives when `next` is dropped.
pub(crate) struct FrameReader {
    stream: ReadHalf<Box<dyn ByteStream>>,
    buffer: BytesMut,
    /// The header of the frame whose payload is being read.
    header: Option<FrameHeader>,
    /// Nobody knows yet who the peer is: it says little.
    is_stranger: bool,
    /// Bytes of the connection before the buffer.
    offset: u64,
}

impl FrameReader {
    pub fn new(stream: ReadHalf<Box<dyn ByteStream>>) -> Self {
        FrameReader { stream, buffer: BytesMut::new(), header: None, is_stranger: true, offset: 0 }
    }

    /// From here on frames may be as long as any.
    pub fn know_peer(&mut self) {
        self.is_stranger = false;
    }

    /// The next frame. An end between two frames is [`ConnectionError::Closed`].
    pub async fn next(&mut self) -> Result<(FrameHeader, Bytes), ConnectionError> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(frame);
            }
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(self.ended());
            }
        }
    }

    fn take_frame(&mut self) -> Result<Option<(FrameHeader, Bytes)>, ConnectionError> {
        let header = match self.header {
            Some(header) => header,
            None => {
                let Some(bytes) = self.buffer.first_chunk::<FRAME_HEADER_BYTES>() else { return Ok(None) };
                let offset = self.offset;
                let header = FrameHeader::decode(bytes).map_err(|source| ConnectionError::Frame { offset, source })?;
                if self.is_stranger && header.payload_bytes > MAX_STRANGER_BYTES {
                    let source = FrameError::Length { found: header.payload_bytes, most: MAX_STRANGER_BYTES };
                    return Err(ConnectionError::Frame { offset, source });
                }
                self.consume(FRAME_HEADER_BYTES);
                *self.header.insert(header)
            }
        };
        if self.buffer.len() < header.payload_bytes as usize {
            return Ok(None);
        }
        let offset = self.offset;
        let payload = self.consume(header.payload_bytes as usize);
        header.check(&payload).map_err(|source| ConnectionError::Frame { offset, source })?;
        self.header = None;
        Ok(Some((header, payload)))
    }

    fn consume(&mut self, bytes: usize) -> Bytes {
        self.offset += bytes as u64;
        self.buffer.split_to(bytes).freeze()
    }

    fn ended(&self) -> ConnectionError {
        let expected = self.header.map_or(FRAME_HEADER_BYTES, |header| header.payload_bytes as usize);
        if self.header.is_none() && self.buffer.is_empty() {
            return ConnectionError::Closed;
        }
        if self.offset == 0 && self.buffer.starts_with(&TLS_ALERT) {
            return ConnectionError::SpeaksTls;
        }
        ConnectionError::Torn { offset: self.offset, expected, found: self.buffer.len() }
    }
}

/// Writes frames: what is ready at one moment goes out together.
pub(crate) struct FrameWriter {
    env: Env,
    stream: WriteHalf<Box<dyn ByteStream>>,
    gathered: BytesMut,
}

/// Frames are gathered up to this many bytes. A longer payload is written from where it is.
const GATHER_BYTES: usize = 64 * 1024;

impl FrameWriter {
    pub fn new(env: &Env, stream: WriteHalf<Box<dyn ByteStream>>) -> Self {
        FrameWriter { env: env.clone(), stream, gathered: BytesMut::new() }
    }

    /// Writes one frame, and what was gathered before it.
    pub async fn write(&mut self, kind: FrameKind, id: u64, budget_ms: u32, payload: &[u8]) -> Result<(), ConnectionError> {
        self.gather(kind, id, budget_ms, payload).await?;
        self.flush().await
    }

    /// Takes a frame, to be written with others.
    pub async fn gather(&mut self, kind: FrameKind, id: u64, budget_ms: u32, payload: &[u8]) -> Result<(), ConnectionError> {
        self.gather_marked(kind, id, budget_ms, None, payload).await
    }

    /// The same with a byte before the payload.
    pub async fn gather_marked(
        &mut self,
        kind: FrameKind,
        id: u64,
        budget_ms: u32,
        mark: Option<u8>,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        assert!(mark.iter().len() + payload.len() <= MAX_PAYLOAD_BYTES, "lengths are checked where they come from");
        self.gathered.extend_from_slice(&FrameHeader::marked(kind, id, budget_ms, mark, payload).encode());
        self.gathered.extend(mark);
        if payload.len() < GATHER_BYTES {
            self.gathered.extend_from_slice(payload);
            return Ok(());
        }
        self.write_out(payload).await
    }

    /// Whether so much is gathered that more should wait for the next write.
    pub fn is_full(&self) -> bool {
        self.gathered.len() >= GATHER_BYTES
    }

    /// Writes what was gathered.
    pub async fn flush(&mut self) -> Result<(), ConnectionError> {
        self.write_out(&[]).await
    }

    async fn write_out(&mut self, rest: &[u8]) -> Result<(), ConnectionError> {
        let write = async {
            let mut bytes = bytes::Buf::chain(&self.gathered[..], rest);
            self.stream.write_all_buf(&mut bytes).await?;
            self.stream.flush().await
        };
        tokio::select! {
            // A write that does not wait sets no timer.
            biased;
            written = write => written?,
            () = self.env.sleep(WRITE_STALL_LIMIT) => return Err(ConnectionError::Stalled),
        }
        self.gathered.clear();
        Ok(())
    }
}
