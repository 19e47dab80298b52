use std::sync::Arc;

use bytes::Bytes;
use engine::memory::MemoryEngine;
use engine::{Condition, Content, ObjectEngine, ObjectKey, PartContent};
use env::Env;
use format::attributes::{Attributes, ETag};
use futures_util::stream;
use md5::{Digest as _, Md5};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use types::BucketId;
use types::limits::{CHUNK_BYTES, MAX_PUT_BYTES, MAX_SMALL_BYTES};

use super::segment::LEAST_SEGMENT_BYTES;
use super::{FREE_EARLY_CHUNKS, Intake, Received};
use crate::body::{Body, BodyError, ChecksumWish, Upload};
use crate::digest::TagSource;
use crate::error::ObjectError;
use crate::upload_memory::UploadMemory;

fn object() -> ObjectKey {
    ObjectKey::new(BucketId(1), Bytes::from_static(b"key")).expect("a valid key")
}

fn content(length: usize) -> Bytes {
    (0..length).map(|at| (at % 251) as u8 ^ (at / 251) as u8).collect()
}

/// Cuts bytes at these lengths, over and over, until they are used up.
fn pieces_of(bytes: &Bytes, lengths: &[usize]) -> Vec<Result<Bytes, BodyError>> {
    let mut rest = bytes.clone();
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        pieces.push(Ok(rest.split_to((*length).min(rest.len()))));
    }
    pieces
}

fn upload(pieces: Vec<Result<Bytes, BodyError>>, length: Option<u64>) -> Upload {
    Upload { body: Body::Stream(Box::pin(stream::iter(pieces))), length, md5: None, checksum: ChecksumWish::None }
}

/// Memory for two chunks.
fn memory() -> UploadMemory {
    UploadMemory::new(2 * CHUNK_BYTES, &Env::simulated(3))
}

async fn receive(engine: &dyn ObjectEngine, upload: Upload) -> Result<Received, ObjectError> {
    receive_in(engine, upload, &memory()).await
}

async fn receive_in(engine: &dyn ObjectEngine, upload: Upload, memory: &UploadMemory) -> Result<Received, ObjectError> {
    let key = object();
    Intake { engine, key: &key, part: None, tag: TagSource::Md5, memory }.receive(upload).await
}

/// Stores what was received and reads it back.
async fn stored(engine: &MemoryEngine, received: Received) -> Vec<u8> {
    let key = object();
    let outcome = match received.content {
        PartContent::Whole(payload) => engine.put(&key, Attributes::default(), payload, Condition::None).await,
        PartContent::Staged(staged) => engine.commit(&key, staged, Attributes::default(), Condition::None).await,
    };
    outcome.expect("stored");
    let (bytes, chunks) = read(engine).await;
    // The oracle gives back what it was staged in.
    let full = chunks.len().saturating_sub(1);
    assert!(chunks[..full].iter().all(|chunk| *chunk == CHUNK_BYTES), "whole chunks, and a last one: {chunks:?}");
    bytes
}

/// The object's bytes, and the lengths of its chunks.
async fn read(engine: &MemoryEngine) -> (Vec<u8>, Vec<usize>) {
    let found = engine.open(&object()).await.expect("there");
    let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
    match found.content {
        Content::Whole(whole) => bytes.extend_from_slice(&whole),
        Content::Chunked(reader) => {
            while (bytes.len() as u64) < found.info.length {
                let piece = reader.read(bytes.len() as u64..found.info.length).await.expect("read");
                chunks.push(piece.len());
                bytes.extend_from_slice(&piece);
            }
        }
    }
    (bytes, chunks)
}

fn is_small(received: &Received) -> bool {
    matches!(received.content, PartContent::Whole(_))
}

#[tokio::test]
async fn sizes_around_the_limits_whole_and_in_pieces_declared_or_not() {
    let engine = MemoryEngine::new();
    let lengths =
        [0, 1, MAX_SMALL_BYTES - 1, MAX_SMALL_BYTES, MAX_SMALL_BYTES + 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES];
    for length in lengths {
        let bytes = content(length);
        for declared in [None, Some(length as u64)] {
            let whole = Upload { length: declared, ..Upload::whole(bytes.clone()) };
            let streams = [&[16_384][..], &[1_000, 0, 300_000], &[CHUNK_BYTES], &[2 * CHUNK_BYTES + 5]];
            let streams = streams.into_iter().map(|lengths| upload(pieces_of(&bytes, lengths), declared));
            for (way, upload) in [whole].into_iter().chain(streams).enumerate() {
                let received = receive(&engine, upload).await.expect("received");
                assert_eq!(received.length, length as u64);
                assert_eq!(is_small(&received), length <= MAX_SMALL_BYTES, "{length} bytes, way {way}");
                assert!(stored(&engine, received).await == bytes, "{length} bytes, way {way}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_pieces_give_the_same_bytes(
        length in 0..4 * CHUNK_BYTES,
        lengths in vec(1..400_000usize, 1..6),
        is_declared in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let engine = MemoryEngine::new();
            let bytes = content(length);
            let upload = upload(pieces_of(&bytes, &lengths), is_declared.then_some(length as u64));
            let received = receive(&engine, upload).await.expect("received");
            assert!(stored(&engine, received).await == bytes);
        });
    }
}

#[tokio::test]
async fn crumbs_are_gathered() {
    let engine = MemoryEngine::new();
    let bytes = content(50_000);
    let received = receive(&engine, upload(pieces_of(&bytes, &[1]), None)).await.expect("received");
    let PartContent::Whole(payload) = &received.content else { panic!("50,000 bytes are small") };
    let lengths: Vec<usize> = payload.iter().map(Bytes::len).collect();
    let least = LEAST_SEGMENT_BYTES;
    assert_eq!(lengths, [least, least, 2 * least, 4 * least, 50_000 - 8 * least]);
    assert!(stored(&engine, received).await == bytes);
    let bytes = content(MAX_SMALL_BYTES + 10);
    let received = receive(&engine, upload(pieces_of(&bytes, &[1]), None)).await.expect("received");
    assert!(stored(&engine, received).await == bytes, "also when it turns out to be large");
}

/// An upload that is fed by hand.
struct Fed {
    feed: mpsc::Sender<Result<Bytes, BodyError>>,
    receiving: JoinHandle<Result<Received, ObjectError>>,
}

impl Fed {
    fn start(engine: &Arc<MemoryEngine>, memory: &UploadMemory, length: usize) -> Fed {
        let (feed, mut fed) = mpsc::channel(1);
        let stream = Body::Stream(Box::pin(stream::poll_fn(move |cx| fed.poll_recv(cx))));
        let upload = Upload { body: stream, length: Some(length as u64), md5: None, checksum: ChecksumWish::None };
        let (engine, memory) = (engine.clone(), memory.clone());
        let receiving = tokio::spawn(async move { receive_in(&*engine, upload, &memory).await });
        Fed { feed, receiving }
    }

    async fn send(&self, bytes: Bytes) {
        self.feed.send(Ok(bytes)).await.expect("the upload goes on");
        turns().await;
    }

    async fn end(self) -> Result<Received, ObjectError> {
        drop(self.feed);
        self.receiving.await.expect("no panic")
    }
}

/// Lets all others do what they can.
async fn turns() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_grows_with_what_came() {
    let (engine, memory) = (Arc::new(MemoryEngine::new()), memory());
    let fed = Fed::start(&engine, &memory, 10 * CHUNK_BYTES);
    for (sent, most) in [(1000, 4096), (7000, 16_384), (100_000, 262_144), (600_000, CHUNK_BYTES)] {
        fed.send(content(sent)).await;
        let used = memory.stats().used_bytes as usize;
        assert!(sent <= used && used <= most, "{used} bytes are held after {sent}");
    }
    fed.send(content(9 * CHUNK_BYTES)).await;
    let used = memory.stats().used_bytes as usize;
    assert!(used <= CHUNK_BYTES, "{used} bytes are held beside what is staged");
    assert!(fed.end().await.is_err(), "it was not all");
    assert_eq!(memory.stats().used_bytes, 0);
}

/// Two silent clients have all the memory; a third one is served, and what the silent ones have sent is not lost.
#[tokio::test(start_paused = true)]
async fn silent_uploads_make_room_and_go_on() {
    let (engine, memory) = (Arc::new(MemoryEngine::new()), memory());
    let part = content(CHUNK_BYTES - 1);
    let mut silent = Vec::new();
    for _ in 0..2 {
        let fed = Fed::start(&engine, &memory, 3 * part.len());
        fed.send(part.clone()).await;
        silent.push(fed);
    }
    assert!(memory.stats().used_bytes as usize > 2 * part.len() - 1);
    let bytes = content(10 * CHUNK_BYTES);
    let beside = upload(pieces_of(&bytes, &[65_536]), Some(bytes.len() as u64));
    let received = receive_in(&*engine, beside, &memory).await.expect("there is room");
    assert!(stored(&engine, received).await == bytes);
    assert!(memory.stats().early_chunks >= 1, "room was made");
    for fed in silent {
        fed.send(part.clone()).await;
        fed.send(part.clone()).await;
        let Received { content, length, digested } = fed.end().await.expect("received");
        assert_eq!(length as usize, 3 * part.len());
        let whole = [part.clone(), part.clone(), part.clone()].concat();
        assert_eq!(digested.etag, ETag::Md5(Md5::digest(&whole).into()));
        let PartContent::Staged(staged) = content else { panic!("it is large") };
        let committed = engine.commit(&object(), staged, Attributes::default(), Condition::None).await;
        committed.expect("committed");
        assert!(read(&engine).await.0 == whole);
    }
    let stats = memory.stats();
    assert_eq!((stats.used_bytes, stats.waiting, stats.refused), (0, 0, 0));
    assert!(stats.peak_bytes <= stats.limit_bytes);
}

/// A client that sends a byte whenever its chunk was staged early would make an object of crumbs.
#[tokio::test(start_paused = true)]
async fn crumbs_under_pressure_are_refused() {
    let engine = Arc::new(MemoryEngine::new());
    let memory = UploadMemory::new(CHUNK_BYTES, &Env::simulated(4));
    let crumbs = Fed::start(&engine, &memory, CHUNK_BYTES);
    for round in 0..FREE_EARLY_CHUNKS {
        crumbs.send(content(1)).await;
        // Takes all of the memory in one piece.
        let copy = upload(vec![Ok(content(CHUNK_BYTES))], Some(CHUNK_BYTES as u64));
        receive_in(&*engine, copy, &memory).await.expect("room is made");
        assert_eq!(memory.stats().early_chunks, round + 1);
    }
    crumbs.send(content(1)).await;
    let copy = upload(vec![Ok(content(CHUNK_BYTES))], Some(CHUNK_BYTES as u64));
    receive_in(&*engine, copy, &memory).await.expect("room is made");
    let outcome = crumbs.end().await.map(|received| received.length);
    assert!(matches!(outcome, Err(ObjectError::SlowDown { .. })), "{outcome:?}");
    assert_eq!((memory.stats().used_bytes, memory.stats().refused), (0, 1));
}

#[tokio::test]
async fn a_wrong_length_is_an_error_both_ways() {
    let engine = MemoryEngine::new();
    for (found, declared) in
        [(10, 11), (11, 10), (0, 1), (1, 0), (CHUNK_BYTES, CHUNK_BYTES + 1), (CHUNK_BYTES + 1, CHUNK_BYTES)]
    {
        let bytes = content(found);
        let whole = Upload { length: Some(declared as u64), ..Upload::whole(bytes.clone()) };
        for upload in [whole, upload(pieces_of(&bytes, &[4096]), Some(declared as u64))] {
            let outcome = receive(&engine, upload).await.map(|received| received.length);
            let is_incomplete =
                matches!(outcome, Err(ObjectError::IncompleteBody { declared: shown, .. }) if shown == declared as u64);
            assert!(is_incomplete, "{found} of {declared}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn too_much_is_refused_before_it_is_read() {
    let engine = MemoryEngine::new();
    let unread = stream::poll_fn(|_| panic!("the body must not be read"));
    let upload = Upload {
        body: Body::Stream(Box::pin(unread)),
        length: Some(MAX_PUT_BYTES + 1),
        md5: None,
        checksum: ChecksumWish::None,
    };
    let outcome = receive(&engine, upload).await.map(|received| received.length);
    assert!(matches!(outcome, Err(ObjectError::EntityTooLarge { limit: MAX_PUT_BYTES })), "{outcome:?}");
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("the client hung up")]
struct HungUp;

#[tokio::test]
async fn a_broken_body_keeps_its_cause() {
    let engine = MemoryEngine::new();
    for length in [100, 2 * CHUNK_BYTES] {
        let mut pieces = pieces_of(&content(length), &[4096]);
        pieces.push(Err(BodyError::new(HungUp)));
        let outcome = receive(&engine, upload(pieces, None)).await.map(|received| received.length);
        let Err(ObjectError::Body(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.cause().downcast_ref::<HungUp>(), Some(&HungUp));
    }
}
