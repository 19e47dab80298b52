//! The bytes of a large object as a stream that reads ahead.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use engine::{ContentReader, EngineError};
use futures_core::Stream;
use futures_util::stream::FuturesOrdered;
use smallvec::SmallVec;
use types::limits::CHUNK_BYTES;

use crate::error::ObjectError;
use crate::read_ahead::{ReadAhead, Room};

/// Chunks that are being read or wait for the client, per stream: enough to keep a device busy behind one client, and a bound on
/// what a slow client holds (4 MiB).
pub const READ_AHEAD_CHUNKS: usize = 4;
/// What a stream reads at a time while all streams together hold as much as they may.
const PIECE_BYTES: u64 = 64 * 1024;

/// The pieces in which a chunk was read.
type Pieces = SmallVec<[Bytes; 2]>;
type ChunkRead = Pin<Box<dyn Future<Output = Result<Pieces, EngineError>> + Send>>;

/// Bytes of one version of an object, verified, in order. After an error it ends.
pub struct ChunkStream {
    /// Given back once the last read has ended: a client may take its time over what was read, and an engine can't reuse space that somebody may
    /// still read.
    reader: Option<Arc<dyn ContentReader>>,
    /// What is not yet asked for.
    rest: Range<u64>,
    ahead: ReadAhead,
    /// What is not yet handed out.
    remaining: u64,
    reads: FuturesOrdered<ChunkRead>,
    /// Pieces of the chunk that is being handed out, last first.
    ready: Pieces,
}

impl ChunkStream {
    pub(crate) fn new(reader: Arc<dyn ContentReader>, range: Range<u64>, ahead: &ReadAhead) -> Self {
        let remaining = range.end - range.start;
        let reader = Some(reader).filter(|_| remaining > 0);
        ChunkStream { reader, rest: range, ahead: ahead.clone(), remaining, reads: FuturesOrdered::new(), ready: Pieces::new() }
    }

    /// Bytes still to come.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Asks for chunks until enough are on their way. Ranges end at multiples of a chunk, so that a read seldom needs two. Where there is no room to read
    /// ahead, nobody waits for it: the client gets what it can take next, a piece at a time.
    fn read_ahead(&mut self) {
        while !self.rest.is_empty() && self.reads.len() < READ_AHEAD_CHUNKS {
            let (chunk, piece) = (self.wanted_next(CHUNK_BYTES as u64), self.wanted_next(PIECE_BYTES));
            let is_wanted = self.reads.is_empty();
            let room = if is_wanted && piece == chunk { None } else { self.ahead.take(self.reads.len()) };
            let range = match (&room, is_wanted) {
                (Some(_), _) => chunk,
                (None, true) => piece,
                (None, false) => return,
            };
            self.rest.start = range.end;
            let reader = if self.rest.is_empty() { self.reader.take() } else { self.reader.clone() };
            let reader = reader.expect("kept until everything is asked for");
            self.reads.push_back(Box::pin(read_fully(reader, range, room)));
        }
    }

    /// What is to be asked for next, up to a multiple of `step`.
    fn wanted_next(&self, step: u64) -> Range<u64> {
        let end = (self.rest.start / step + 1) * step;
        self.rest.start..self.rest.end.min(end)
    }

    fn fail(&mut self) {
        self.reader = None;
        self.rest = 0..0;
        self.remaining = 0;
        self.reads = FuturesOrdered::new();
    }
}

impl Stream for ChunkStream {
    type Item = Result<Bytes, ObjectError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(piece) = self.ready.pop() {
                self.remaining -= piece.len() as u64;
                return Poll::Ready(Some(Ok(piece)));
            }
            self.read_ahead();
            match Pin::new(&mut self.reads).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Ok(mut pieces))) => {
                    pieces.reverse();
                    self.ready = pieces;
                }
                Poll::Ready(Some(Err(error))) => {
                    self.fail();
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.remaining > 0), None)
    }
}

impl fmt::Debug for ChunkStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkStream").field("remaining", &self.remaining).finish_non_exhaustive()
    }
}

async fn read_fully(reader: Arc<dyn ContentReader>, range: Range<u64>, room: Option<Room>) -> Result<Pieces, EngineError> {
    let mut pieces = Pieces::new();
    let mut at = range.start;
    while at < range.end {
        let piece = reader.read(at..range.end).await?;
        let is_answer = !piece.is_empty() && piece.len() as u64 <= range.end - at;
        assert!(is_answer, "an engine answered {} bytes for {at}..{}", piece.len(), range.end);
        at += piece.len() as u64;
        pieces.push(match &room {
            Some(room) => room.hold(piece),
            None => piece,
        });
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests;
