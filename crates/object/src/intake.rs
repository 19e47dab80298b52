//! Receives a body: small content is gathered in the pieces in which it came, larger content is cut into chunks and staged
//! while it still arrives.

use bytes::{Bytes, BytesMut};
use engine::{ObjectEngine, ObjectKey, PartContent, Payload, StagedChunks};
use futures_util::StreamExt;
use smallvec::smallvec;
use types::UploadId;
use types::limits::{CHUNK_BYTES, MAX_PUT_BYTES, MAX_SMALL_BYTES};

use crate::body::{Body, BodyStream, ChecksumWish, Upload};
use crate::digest::{Digested, Digests, TagSource};
use crate::error::ObjectError;

/// What was received, complete and verified, but part of nothing yet.
pub(crate) struct Received {
    pub(crate) content: PartContent,
    pub(crate) length: u64,
    pub(crate) digested: Digested,
}

/// Where content goes while it arrives.
#[derive(Clone, Copy)]
pub(crate) struct Intake<'a> {
    pub(crate) engine: &'a dyn ObjectEngine,
    pub(crate) key: &'a ObjectKey,
    pub(crate) part: Option<(UploadId, u16)>,
    pub(crate) tag: TagSource,
}

impl Intake<'_> {
    /// Receives all of it and compares it with what the client declared. On an error, what was staged is dropped.
    pub(crate) async fn receive(self, upload: Upload) -> Result<Received, ObjectError> {
        let Upload { body, length: declared, md5, checksum } = upload;
        if declared.is_some_and(|declared| declared > MAX_PUT_BYTES) {
            return Err(ObjectError::EntityTooLarge { limit: MAX_PUT_BYTES });
        }
        let mut digests = Digests::new(self.tag, md5.is_some(), checksum.algorithm());
        let (content, length) = match body {
            Body::Whole(bytes) => self.take_whole(bytes, declared, &mut digests).await?,
            Body::Stream(stream) => self.take_stream(stream, declared, &mut digests).await?,
        };
        self.conclude(content, length, digests, md5, checksum).await
    }

    async fn conclude(
        self,
        content: PartContent,
        length: u64,
        digests: Digests,
        md5: Option<[u8; 16]>,
        checksum: ChecksumWish,
    ) -> Result<Received, ObjectError> {
        let digested = digests.finish(md5, checksum).await?;
        Ok(Received { content, length, digested })
    }

    async fn take_whole(
        self,
        bytes: Bytes,
        declared: Option<u64>,
        digests: &mut Digests,
    ) -> Result<(PartContent, u64), ObjectError> {
        let length = bytes.len() as u64;
        check_length(declared, length)?;
        if length > MAX_PUT_BYTES {
            return Err(ObjectError::EntityTooLarge { limit: MAX_PUT_BYTES });
        }
        if bytes.len() <= MAX_SMALL_BYTES {
            digests.update(bytes.clone()).await;
            return Ok((PartContent::Whole(smallvec![bytes]), length));
        }
        let mut cutter = Cutter::new(self, Some(length));
        let mut rest = bytes;
        while !rest.is_empty() {
            let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
            digests.update(chunk.clone()).await;
            cutter.push(chunk).await?;
        }
        Ok((PartContent::Staged(cutter.finish().await?), length))
    }

    async fn take_stream(
        self,
        mut stream: BodyStream,
        declared: Option<u64>,
        digests: &mut Digests,
    ) -> Result<(PartContent, u64), ObjectError> {
        let is_large = declared.is_some_and(|declared| declared > MAX_SMALL_BYTES as u64);
        let mut gathered = Gathered::default();
        let mut cutter = is_large.then(|| Cutter::new(self, declared));
        let limit = declared.unwrap_or(MAX_PUT_BYTES);
        let mut length = 0;
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            length += piece.len() as u64;
            if length > limit {
                check_length(declared, length)?;
                return Err(ObjectError::EntityTooLarge { limit });
            }
            digests.update(piece.clone()).await;
            match &mut cutter {
                Some(cutter) => cutter.push(piece).await?,
                None => gathered.push(piece),
            }
            if cutter.is_none() && length > MAX_SMALL_BYTES as u64 {
                let mut begun = Cutter::new(self, declared);
                for piece in std::mem::take(&mut gathered).into_payload() {
                    begun.push(piece).await?;
                }
                cutter = Some(begun);
            }
        }
        check_length(declared, length)?;
        let content = match cutter {
            Some(cutter) => PartContent::Staged(cutter.finish().await?),
            None => PartContent::Whole(gathered.into_payload()),
        };
        Ok((content, length))
    }
}

/// Small content on its way in. Pieces stay as they came; only from a client that sends crumbs, what follows the first
/// [`MAX_PAYLOAD_PIECES`] is copied together, so that a piece's own cost is bounded too.
#[derive(Default)]
struct Gathered {
    pieces: Payload,
    crumbs: BytesMut,
}

/// Most pieces that are kept apart.
const MAX_PAYLOAD_PIECES: usize = 32;

impl Gathered {
    fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        if self.pieces.len() < MAX_PAYLOAD_PIECES {
            self.pieces.push(piece);
        } else {
            self.crumbs.extend_from_slice(&piece);
        }
    }

    fn into_payload(mut self) -> Payload {
        if !self.crumbs.is_empty() {
            self.pieces.push(self.crumbs.freeze());
        }
        self.pieces
    }
}

fn check_length(declared: Option<u64>, found: u64) -> Result<(), ObjectError> {
    match declared {
        Some(declared) if declared != found => Err(ObjectError::IncompleteBody { declared, found }),
        _ => Ok(()),
    }
}

/// Joins pieces to chunks and stages each as soon as it is full. The engine says how many chunks are under way at once: it
/// takes the next one only when it has room.
pub(crate) struct Cutter<'a> {
    engine: &'a dyn ObjectEngine,
    staged: StagedChunks,
    filling: BytesMut,
    /// Bytes that are still to come, where that is known: the last chunk's buffer need not be a whole chunk's.
    expected: Option<u64>,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(intake: Intake<'a>, expected: Option<u64>) -> Self {
        let staged = intake.engine.stage(intake.key, intake.part);
        Cutter { engine: intake.engine, staged, filling: BytesMut::new(), expected }
    }

    pub(crate) async fn push(&mut self, piece: Bytes) -> Result<(), ObjectError> {
        let mut rest = piece;
        while !rest.is_empty() {
            if self.filling.is_empty() && self.is_chunk(rest.len()) {
                let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
                self.stage(chunk).await?;
                continue;
            }
            if self.filling.capacity() == 0 {
                self.filling.reserve(self.next_chunk_bytes());
            }
            let taken = rest.split_to(rest.len().min(CHUNK_BYTES - self.filling.len()));
            self.filling.extend_from_slice(&taken);
            if self.filling.len() == CHUNK_BYTES {
                let chunk = std::mem::take(&mut self.filling).freeze();
                self.stage(chunk).await?;
            }
        }
        Ok(())
    }

    /// Stages what is left.
    pub(crate) async fn finish(mut self) -> Result<StagedChunks, ObjectError> {
        if !self.filling.is_empty() {
            let chunk = std::mem::take(&mut self.filling).freeze();
            self.stage(chunk).await?;
        }
        Ok(self.staged)
    }

    /// Whether a piece of this length, or its beginning, is the next chunk as it is: no copy then.
    fn is_chunk(&self, bytes: usize) -> bool {
        bytes >= CHUNK_BYTES || self.expected == Some(bytes as u64)
    }

    fn next_chunk_bytes(&self) -> usize {
        self.expected.map_or(CHUNK_BYTES, |expected| expected.min(CHUNK_BYTES as u64) as usize)
    }

    async fn stage(&mut self, chunk: Bytes) -> Result<(), ObjectError> {
        self.expected = self.expected.map(|expected| expected.saturating_sub(chunk.len() as u64));
        Ok(self.engine.stage_chunk(&mut self.staged, chunk).await?)
    }
}

#[cfg(test)]
mod tests;
