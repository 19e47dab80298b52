use bytes::Bytes;
use engine::memory::MemoryEngine;
use engine::{Condition, Content, ObjectEngine, ObjectKey, PartContent};
use format::attributes::Attributes;
use futures_util::stream;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use types::BucketId;
use types::limits::{CHUNK_BYTES, MAX_PUT_BYTES, MAX_SMALL_BYTES};

use super::{Intake, MAX_PAYLOAD_PIECES, Received};
use crate::body::{Body, BodyError, ChecksumWish, Upload};
use crate::digest::TagSource;
use crate::error::ObjectError;

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

async fn receive(engine: &MemoryEngine, upload: Upload) -> Result<Received, ObjectError> {
    let key = object();
    Intake { engine, key: &key, part: None, tag: TagSource::Md5 }.receive(upload).await
}

/// Stores what was received and reads it back.
async fn stored(engine: &MemoryEngine, received: Received) -> Vec<u8> {
    let key = object();
    let outcome = match received.content {
        PartContent::Whole(payload) => engine.put(&key, Attributes::default(), payload, Condition::None).await,
        PartContent::Staged(staged) => engine.commit(&key, staged, Attributes::default(), Condition::None).await,
    };
    outcome.expect("stored");
    let found = engine.open(&key).await.expect("there");
    let mut bytes = Vec::new();
    match found.content {
        Content::Whole(whole) => bytes.extend_from_slice(&whole),
        Content::Chunked(reader) => {
            while (bytes.len() as u64) < found.info.length {
                let piece = reader.read(bytes.len() as u64..found.info.length).await.expect("read");
                // The engine's rule: whole chunks, and a last one. The oracle gives back what it was staged in.
                assert!(piece.len() == CHUNK_BYTES || (bytes.len() + piece.len()) as u64 == found.info.length);
                bytes.extend_from_slice(&piece);
            }
        }
    }
    bytes
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
    assert_eq!(payload.len(), MAX_PAYLOAD_PIECES + 1);
    assert!(stored(&engine, received).await == bytes);
    let bytes = content(MAX_SMALL_BYTES + 10);
    let received = receive(&engine, upload(pieces_of(&bytes, &[1]), None)).await.expect("received");
    assert!(stored(&engine, received).await == bytes, "also when it turns out to be large");
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
