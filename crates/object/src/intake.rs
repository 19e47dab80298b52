//! Receives a body: cut into chunks and staged while it still arrives; what ends as small content stays whole.
//!
//! What is buffered is taken from the memory of all uploads ([`crate::upload_memory`]). The upload waits at three places, and at
//! each it can be asked to hand over its unfinished chunk:
//!
//! | waits for | asked there |
//! |---|---|
//! | the client | stages the chunk as it is |
//! | memory | stages the chunk as it is, and goes on to wait |
//! | the engine | has handed over already |
//!
//! While it waits for its client, an upload holds no more than its unfinished chunk: what was handed over has been hashed too.

mod segment;

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use engine::{ObjectEngine, ObjectKey, PartContent, StagedChunks};
use futures_util::stream;
use smallvec::smallvec;
use types::UploadId;
use types::limits::{CHUNK_BYTES, MAX_PUT_BYTES, MAX_SMALL_BYTES};

use self::segment::{MOST_SEGMENT_BYTES, Segment, Unfinished, keep};
use crate::body::{Body, BodyError, BodyStream, Upload};
use crate::digest::{Digested, Digests, TagSource};
use crate::error::ObjectError;
use crate::upload_memory::{Holder, Lent, Taken, UploadMemory};

/// Chunks that an upload may stage before they are full, however small they are.
const FREE_EARLY_CHUNKS: u64 = 16;
/// Further ones must have this many bytes on average; otherwise the upload is refused. It bounds what a client that sends crumbs
/// makes of its object: 81,936 chunks of the largest.
const EARLY_CHUNK_BYTES: u64 = 64 * 1024;

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
    pub(crate) memory: &'a UploadMemory,
}

impl Intake<'_> {
    /// Receives all of it and compares it with what the client declared. On an error, what was staged is dropped.
    pub(crate) async fn receive(self, upload: Upload) -> Result<Received, ObjectError> {
        let Upload { body, length: declared, md5, checksum } = upload;
        if declared.is_some_and(|declared| declared > MAX_PUT_BYTES) {
            return Err(ObjectError::EntityTooLarge { limit: MAX_PUT_BYTES });
        }
        let mut digests = Digests::new(self.tag, md5.is_some(), &checksum);
        let (content, length) = match body {
            Body::Whole(bytes) if bytes.len() <= MAX_SMALL_BYTES => {
                let length = bytes.len() as u64;
                check_length(declared, length)?;
                digests.update(bytes.clone()).await;
                (PartContent::Whole(smallvec![bytes]), length)
            }
            Body::Whole(bytes) => self.take_stream(Box::pin(stream::iter([Ok(bytes)])), declared, &mut digests).await?,
            Body::Stream(stream) => self.take_stream(stream, declared, &mut digests).await?,
        };
        let digested = digests.finish(md5, checksum).await?;
        Ok(Received { content, length, digested })
    }

    async fn take_stream(
        self,
        mut stream: BodyStream,
        declared: Option<u64>,
        digests: &mut Digests,
    ) -> Result<(PartContent, u64), ObjectError> {
        let limit = declared.unwrap_or(MAX_PUT_BYTES);
        let mut cutter = Cutter::new(self, declared, digests);
        let mut length = 0;
        loop {
            let piece = match poll_fn(|cx| cutter.poll_arrival(&mut stream, cx)).await {
                Arrival::Piece(piece) => piece?,
                Arrival::Asked => {
                    cutter.stage_early().await?;
                    continue;
                }
                Arrival::End => break,
            };
            length += piece.len() as u64;
            if length > limit {
                check_length(declared, length)?;
                return Err(ObjectError::EntityTooLarge { limit });
            }
            cutter.push(piece).await?;
        }
        check_length(declared, length)?;
        Ok((cutter.finish().await?, length))
    }
}

fn check_length(declared: Option<u64>, found: u64) -> Result<(), ObjectError> {
    match declared {
        Some(declared) if declared != found => Err(ObjectError::IncompleteBody { declared, found }),
        _ => Ok(()),
    }
}

/// What an upload that waits for its client comes to know.
enum Arrival {
    Piece(Result<Bytes, BodyError>),
    End,
    /// Memory is short: the unfinished chunk must be handed over.
    Asked,
}

/// Joins pieces to chunks and stages each as soon as it is full. The engine says how many chunks are under way at once: it
/// takes the next one only when it has room.
struct Cutter<'a, 'd> {
    intake: Intake<'a>,
    digests: &'d mut Digests,
    holder: Holder,
    /// From the first chunk on.
    staged: Option<StagedChunks>,
    unfinished: Unfinished,
    segment: Option<Segment>,
    /// Bytes that are still to come, where that is known.
    expected: Option<u64>,
    early_chunks: u64,
    early_bytes: u64,
}

impl<'a, 'd> Cutter<'a, 'd> {
    fn new(intake: Intake<'a>, expected: Option<u64>, digests: &'d mut Digests) -> Self {
        Cutter {
            intake,
            digests,
            holder: intake.memory.holder(),
            staged: None,
            unfinished: Unfinished::default(),
            segment: None,
            expected,
            early_chunks: 0,
            early_bytes: 0,
        }
    }

    fn poll_arrival(&mut self, stream: &mut BodyStream, cx: &mut Context<'_>) -> Poll<Arrival> {
        match stream.as_mut().poll_next(cx) {
            Poll::Ready(Some(piece)) => Poll::Ready(Arrival::Piece(piece)),
            Poll::Ready(None) => Poll::Ready(Arrival::End),
            Poll::Pending => self.holder.poll_asked(cx).map(|()| Arrival::Asked),
        }
    }

    async fn push(&mut self, mut piece: Bytes) -> Result<(), ObjectError> {
        while !piece.is_empty() {
            if self.is_chunk(piece.len()) {
                let chunk = piece.split_to(piece.len().min(CHUNK_BYTES));
                let lent = self.take(chunk.len()).await?;
                self.add(keep(chunk, lent)).await;
                self.stage().await?;
                continue;
            }
            let mut segment = match self.segment.take() {
                Some(segment) => segment,
                None => Segment::new(self.take_segment(piece.len()).await?),
            };
            segment.fill(&mut piece);
            match segment.is_full() {
                true => self.add(segment.seal()).await,
                false => self.segment = Some(segment),
            }
            if self.unfinished.bytes() == CHUNK_BYTES {
                self.stage().await?;
            }
        }
        Ok(())
    }

    /// Whether a piece of this length, or its beginning, is the next chunk as it is: no copy then. Copies of objects come so.
    fn is_chunk(&self, bytes: usize) -> bool {
        let is_last = bytes > MOST_SEGMENT_BYTES && self.expected == Some(bytes as u64);
        self.segment.is_none() && self.unfinished.bytes() == 0 && (bytes >= CHUNK_BYTES || is_last)
    }

    /// Memory for the next segment of the unfinished chunk, of which so many bytes have arrived.
    async fn take_segment(&mut self, arrived: usize) -> Result<Lent, ObjectError> {
        let room = CHUNK_BYTES - self.unfinished.bytes();
        let room = self.expected.map_or(room, |expected| room.min(usize::try_from(expected).unwrap_or(room)));
        self.take(self.unfinished.next_segment_bytes(arrived, room)).await
    }

    async fn take(&mut self, bytes: usize) -> Result<Lent, ObjectError> {
        loop {
            match self.holder.take(bytes).await? {
                Taken::Lent(lent) => return Ok(lent),
                Taken::Asked => self.stage_early().await?,
            }
        }
    }

    async fn add(&mut self, sealed: Bytes) {
        self.expected = self.expected.map(|expected| expected.saturating_sub(sealed.len() as u64));
        self.digests.update(sealed.clone()).await;
        self.unfinished.push(sealed);
    }

    async fn seal(&mut self) {
        if let Some(segment) = self.segment.take() {
            self.add(segment.seal()).await;
        }
    }

    /// Stages the unfinished chunk.
    async fn stage(&mut self) -> Result<(), ObjectError> {
        let Intake { engine, key, part, .. } = self.intake;
        let staged = self.staged.get_or_insert_with(|| engine.stage(key, part));
        self.holder.hand_over();
        engine.stage_pieces(staged, self.unfinished.take()).await?;
        // Handles of what waits to be hashed keep its memory. The engine writes meanwhile.
        self.digests.catch_up().await;
        Ok(())
    }

    /// Stages the unfinished chunk before it is full, unless that would make crumbs of the object.
    async fn stage_early(&mut self) -> Result<(), ObjectError> {
        self.seal().await;
        self.early_chunks += 1;
        self.early_bytes += self.unfinished.bytes() as u64;
        if self.early_chunks > FREE_EARLY_CHUNKS + self.early_bytes / EARLY_CHUNK_BYTES {
            return Err(self.holder.refused());
        }
        self.holder.note_early_chunk();
        self.stage().await
    }

    /// All has arrived: small content is whole, of larger content the rest is staged.
    async fn finish(mut self) -> Result<PartContent, ObjectError> {
        self.seal().await;
        if self.staged.is_none() && self.unfinished.bytes() <= MAX_SMALL_BYTES {
            self.holder.hand_over();
            return Ok(PartContent::Whole(self.unfinished.take()));
        }
        if self.unfinished.bytes() > 0 {
            self.stage().await?;
        }
        Ok(PartContent::Staged(self.staged.expect("what is not small was staged")))
    }
}

#[cfg(test)]
mod tests;
