use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use engine::{ContentReader, EngineError, EngineFuture};
use format::part_table::PartTable;
use futures_util::StreamExt;
use types::limits::CHUNK_BYTES;

use super::{ChunkStream, PIECE_BYTES, READ_AHEAD_CHUNKS};
use crate::error::ObjectError;
use crate::read_ahead::ReadAhead;

/// Content whose byte at `n` is `n / 7`, read in pieces of at most `most` bytes; fails from `broken_from` on.
struct Reader {
    most: u64,
    broken_from: u64,
    reading: AtomicUsize,
    most_reading: AtomicUsize,
    /// Bytes that were read.
    read: AtomicU64,
}

fn byte_at(at: u64) -> u8 {
    (at / 7) as u8
}

impl Reader {
    fn new(most: u64) -> Self {
        Reader {
            most,
            broken_from: u64::MAX,
            reading: AtomicUsize::new(0),
            most_reading: AtomicUsize::new(0),
            read: AtomicU64::new(0),
        }
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
            self.read.fetch_add(end - range.start, Ordering::AcqRel);
            Ok((range.start..end).map(byte_at).collect())
        })
    }

    fn parts(&self) -> Option<&PartTable> {
        None
    }
}

#[tokio::test]
async fn every_range_comes_in_order_and_whole() {
    let chunk = CHUNK_BYTES as u64;
    for (most, room) in [(chunk, usize::MAX), (300_000, usize::MAX), (chunk, 0), (20_000, 0), (chunk, 1), (300_000, 2)] {
        let ahead = ReadAhead::of_chunks(room.min(READ_AHEAD_CHUNKS));
        for range in [0..1, 0..chunk, 5..chunk + 1, chunk - 1..chunk + 1, chunk..3 * chunk, 17..9 * chunk + 3, 4..4] {
            let mut stream = ChunkStream::new(Arc::new(Reader::new(most)), range.clone(), &ahead);
            let mut at = range.start;
            while let Some(piece) = stream.next().await {
                for byte in piece.expect("read") {
                    assert_eq!(byte, byte_at(at), "byte {at} of {range:?}");
                    at += 1;
                }
                assert_eq!(stream.remaining(), range.end - at);
            }
            assert_eq!(at, range.end);
            drop(stream);
            assert_eq!(ahead.left(), room.min(READ_AHEAD_CHUNKS));
        }
    }
}

#[tokio::test]
async fn it_reads_ahead_but_not_more_than_it_may() {
    let reader = Arc::new(Reader::new(1 << 40));
    let mut stream = ChunkStream::new(reader.clone(), 0..20 * CHUNK_BYTES as u64, &ReadAhead::default());
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
    let mut stream = ChunkStream::new(Arc::new(reader), 0..6 * CHUNK_BYTES as u64, &ReadAhead::default());
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
        let mut stream = ChunkStream::new(reader.clone(), range, &ReadAhead::default());
        while stream.remaining() > 0 {
            stream.next().await.expect("a chunk").expect("read");
        }
        assert_eq!(Arc::strong_count(&reader), 1, "all was read");
        drop(stream);
    }
}

/// Some clients take a piece each and keep it. Caught: streams that read ahead as far as there is any room: those that began later read small pieces, however
/// fast their clients are.
#[tokio::test]
async fn slow_clients_leave_others_what_they_need_next() {
    const SLOW: usize = 5;
    let ahead = ReadAhead::of_chunks(16);
    let reader = Arc::new(Reader::new(1 << 40));
    let stream = || ChunkStream::new(reader.clone(), 0..9 * CHUNK_BYTES as u64, &ahead);
    let mut slow: Vec<ChunkStream> = (0..SLOW).map(|_| stream()).collect();
    let mut taken = Vec::new();
    for stream in &mut slow {
        taken.push(stream.next().await.expect("a piece").expect("read"));
    }
    let mut next = stream();
    assert_eq!(next.next().await.expect("a piece").expect("read").len(), CHUNK_BYTES);
}

/// Thousands of clients open an object and take nothing, or one piece that they keep. Caught: streams that have a bound each and none together; and room that
/// comes back while a client still keeps what was read in it.
#[tokio::test]
async fn what_slow_clients_hold_together_is_bounded() {
    const STREAMS: u64 = 1000;
    const CHUNKS: usize = 16;
    let ahead = ReadAhead::of_chunks(CHUNKS);
    let reader = Arc::new(Reader::new(1 << 40));
    let mut streams: Vec<ChunkStream> =
        (0..STREAMS).map(|_| ChunkStream::new(reader.clone(), 0..9 * CHUNK_BYTES as u64, &ahead)).collect();
    let mut taken = Vec::new();
    for stream in &mut streams {
        taken.push(stream.next().await.expect("a piece").expect("read"));
    }
    assert_eq!(ahead.left(), 0, "streams read ahead while there is room");
    let most = (CHUNKS * CHUNK_BYTES) as u64 + STREAMS * PIECE_BYTES;
    // Of what was read nothing is gone yet.
    assert!(reader.read.load(Ordering::Acquire) <= most);
    drop(streams);
    assert_eq!(ahead.left(), CHUNKS - taken.iter().filter(|piece| piece.len() > PIECE_BYTES as usize).count());
    drop(taken);
    assert_eq!(ahead.left(), CHUNKS);
}
