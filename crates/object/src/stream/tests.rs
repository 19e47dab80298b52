use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use engine::{ContentReader, EngineError, EngineFuture};
use futures_util::StreamExt;
use types::limits::CHUNK_BYTES;

use super::{ChunkStream, READ_AHEAD_CHUNKS};
use crate::error::ObjectError;

/// Content whose byte at `n` is `n / 7`, read in pieces of at most `most` bytes; fails from `broken_from` on.
struct Reader {
    most: u64,
    broken_from: u64,
    reading: AtomicUsize,
    most_reading: AtomicUsize,
}

fn byte_at(at: u64) -> u8 {
    (at / 7) as u8
}

impl Reader {
    fn new(most: u64) -> Self {
        Reader { most, broken_from: u64::MAX, reading: AtomicUsize::new(0), most_reading: AtomicUsize::new(0) }
    }
}

impl ContentReader for Reader {
    fn read(&self, range: Range<u64>) -> EngineFuture<'_, Bytes> {
        Box::pin(async move {
            let reading = self.reading.fetch_add(1, Ordering::AcqRel) + 1;
            self.most_reading.fetch_max(reading, Ordering::AcqRel);
            tokio::task::yield_now().await;
            self.reading.fetch_sub(1, Ordering::AcqRel);
            if range.end > self.broken_from {
                return Err(EngineError::Corrupt { detail: "on purpose".to_owned() });
            }
            let end = range.end.min(range.start + self.most);
            Ok((range.start..end).map(byte_at).collect())
        })
    }

    fn part(&self, _number: u16) -> EngineFuture<'_, Option<(Range<u64>, u16)>> {
        Box::pin(async { Ok(None) })
    }
}

#[tokio::test]
async fn every_range_comes_in_order_and_whole() {
    let chunk = CHUNK_BYTES as u64;
    for most in [chunk, 300_000] {
        for range in [0..1, 0..chunk, 5..chunk + 1, chunk - 1..chunk + 1, chunk..3 * chunk, 17..9 * chunk + 3, 4..4] {
            let mut stream = ChunkStream::new(Arc::new(Reader::new(most)), range.clone());
            let mut at = range.start;
            while let Some(piece) = stream.next().await {
                for byte in piece.expect("read") {
                    assert_eq!(byte, byte_at(at), "byte {at} of {range:?}");
                    at += 1;
                }
                assert_eq!(stream.remaining(), range.end - at);
            }
            assert_eq!(at, range.end);
        }
    }
}

#[tokio::test]
async fn it_reads_ahead_but_not_more_than_it_may() {
    let reader = Arc::new(Reader::new(1 << 40));
    let mut stream = ChunkStream::new(reader.clone(), 0..20 * CHUNK_BYTES as u64);
    let mut pieces = 0;
    while let Some(piece) = stream.next().await {
        piece.expect("read");
        pieces += 1;
    }
    assert_eq!(pieces, 20);
    assert_eq!(reader.most_reading.load(Ordering::Acquire), READ_AHEAD_CHUNKS);
}

#[tokio::test]
async fn it_ends_after_an_error() {
    let reader = Reader { broken_from: 2 * CHUNK_BYTES as u64, ..Reader::new(1 << 40) };
    let mut stream = ChunkStream::new(Arc::new(reader), 0..6 * CHUNK_BYTES as u64);
    for _ in 0..2 {
        stream.next().await.expect("two good chunks").expect("read");
    }
    let error = stream.next().await.expect("the third is bad");
    assert!(matches!(error, Err(ObjectError::InternalError { .. })), "{error:?}");
    assert!(stream.next().await.is_none());
}

/// The client takes its time over the last chunk. Caught: a stream that keeps its reader to its own end: no space is reclaimed meanwhile.
#[tokio::test]
async fn the_reader_is_given_back_when_all_is_read() {
    for range in [0..5, 0..3 * CHUNK_BYTES as u64, 4..4] {
        let reader = Arc::new(Reader::new(1 << 40));
        let mut stream = ChunkStream::new(reader.clone(), range);
        while stream.remaining() > 0 {
            stream.next().await.expect("a chunk").expect("read");
        }
        assert_eq!(Arc::strong_count(&reader), 1, "all was read");
        drop(stream);
    }
}
