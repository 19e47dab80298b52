use bytes::Bytes;
use engine::{Condition, ETagMatch};
use format::attributes::{Attributes, Checksum, ChecksumAlgorithm, ChecksumType, ETag};
use futures_util::stream;
use manager::EtagMode;
use types::limits::{CHUNK_BYTES, MAX_KEY_BYTES, MAX_SMALL_BYTES, MAX_USER_METADATA_BYTES};

use super::{World, bytes_of, content, put_request, user};
use crate::{
    Body, BodyError, ByteRange, ChecksumWish, DeleteKey, MAX_DELETE_KEYS, ObjectError, PutRequest, ReadBody, ReadConditions,
    ReadRequest, Select, TrailerFault, Upload,
};

fn select(select: Select) -> ReadRequest {
    ReadRequest { select, ..ReadRequest::default() }
}

fn range(range: ByteRange) -> ReadRequest {
    select(Select::Range(range))
}

#[tokio::test]
async fn written_and_read_back_in_every_size_and_way() {
    let world = World::with_bucket().await;
    for length in [0, 1, 4096, MAX_SMALL_BYTES, MAX_SMALL_BYTES + 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 77] {
        let bytes = content(length as u8, length);
        let written = world.put("key", bytes.clone()).await;
        assert_eq!(written.length, length as u64);
        assert!(world.get("key").await.expect("read") == bytes, "{length} bytes");
        let alice = user("alice");
        let cached = world.service.get_cached(&alice, "box", "key", &ReadRequest::default()).expect("in memory").expect("read");
        assert_eq!(cached.info.attributes.etag, written.etag);
        assert_eq!(matches!(cached.body, ReadBody::Whole(_)), length <= MAX_SMALL_BYTES);
        assert!(bytes_of(cached).await.expect("read") == bytes, "{length} bytes, cached");
        let head = world.service.head(&alice, "box", "key", &ReadRequest::default()).await.expect("head");
        assert_eq!((head.info.length, head.range), (length as u64, 0..length as u64));
        assert_eq!((head.info.attributes.etag, head.info.attributes.modified_ms), (written.etag, written.modified_ms));
    }
    let outcome = world.get("absent").await;
    assert!(matches!(outcome, Err(ObjectError::NoSuchKey)), "{outcome:?}");
}

#[tokio::test]
async fn tags_are_md5_unless_the_bucket_is_fast() {
    let world = World::with_bucket().await;
    let written = world.put("key", "abc").await;
    assert_eq!(written.etag.to_string(), "900150983cd24fb0d6963f7d28e17f72");
    world.bucket("fast", EtagMode::Fast).await;
    let written = world.service.put(&user("alice"), "fast", "key", put_request("abc")).await.expect("written");
    assert!(matches!(written.etag, ETag::Fast(_)) && written.etag.to_string().ends_with("-1"), "{}", written.etag);
}

#[tokio::test]
async fn attributes_and_checksums_come_back() {
    let world = World::with_bucket().await;
    let attributes = Attributes {
        content_type: Some(Bytes::from_static(b"text/plain")),
        metadata: vec![(Bytes::from_static(b"a"), Bytes::from_static(b"1"))],
        ..Attributes::default()
    };
    let content = Upload { checksum: ChecksumWish::Compute(ChecksumAlgorithm::Crc32), ..Upload::whole("123456789".into()) };
    let request = PutRequest { attributes: attributes.clone(), condition: Condition::None, content };
    let written = world.service.put(&user("alice"), "box", "key", request).await.expect("written");
    let checksum = Checksum::new(ChecksumAlgorithm::Crc32, ChecksumType::FullObject, &0xcbf4_3926u32.to_be_bytes());
    assert_eq!(Some(written.checksum), checksum);
    let head = world.service.head(&user("alice"), "box", "key", &ReadRequest::default()).await.expect("head");
    let expected =
        Attributes { etag: written.etag, modified_ms: written.modified_ms, checksum: Some(written.checksum), ..attributes };
    assert_eq!(head.info.attributes, expected);
}

#[tokio::test]
async fn wrong_content_leaves_nothing_behind() {
    let world = World::with_bucket().await;
    let wrong = Checksum::new(ChecksumAlgorithm::Sha1, ChecksumType::FullObject, &[1; 20]).expect("20 bytes");
    world.put("there", "before").await;
    for length in [100, CHUNK_BYTES + 1] {
        for key in ["there", "absent"] {
            let bytes = Bytes::from(content(1, length));
            let halves = vec![Ok(bytes.slice(..50)), Err(BodyError::new(std::io::Error::other("gone")))];
            let uploads = [
                Upload { md5: Some([0; 16]), ..Upload::whole(bytes.clone()) },
                Upload { checksum: ChecksumWish::Given(wrong), ..Upload::whole(bytes.clone()) },
                Upload {
                    checksum: ChecksumWish::Trailing(ChecksumAlgorithm::Sha1, Box::new(move || Ok(wrong))),
                    ..Upload::whole(bytes.clone())
                },
                Upload {
                    checksum: ChecksumWish::Trailing(ChecksumAlgorithm::Sha1, Box::new(|| Err(TrailerFault::Missing))),
                    ..Upload::whole(bytes.clone())
                },
                Upload { length: Some(length as u64 + 1), ..Upload::whole(bytes.clone()) },
                Upload { body: Body::Stream(Box::pin(stream::iter(halves))), ..Upload::whole(Bytes::new()) },
            ];
            for (index, content) in uploads.into_iter().enumerate() {
                let request = PutRequest { content, ..put_request("") };
                let outcome = world.service.put(&user("alice"), "box", key, request).await;
                let is_right = match index {
                    0..3 => matches!(outcome, Err(ObjectError::BadDigest { .. })),
                    3 => matches!(outcome, Err(ObjectError::MissingTrailer { .. })),
                    4 => matches!(outcome, Err(ObjectError::IncompleteBody { .. })),
                    _ => matches!(outcome, Err(ObjectError::Body(_))),
                };
                assert!(is_right, "case {index}: {outcome:?}");
            }
        }
        assert_eq!(world.get("there").await.expect("untouched"), b"before");
        assert!(matches!(world.get("absent").await, Err(ObjectError::NoSuchKey)));
    }
}

#[tokio::test]
async fn limits_are_kept() {
    let world = World::with_bucket().await;
    let longest = "k".repeat(MAX_KEY_BYTES);
    world.put(&longest, "x").await;
    let alice = user("alice");
    let outcome = world.service.put(&alice, "box", &format!("{longest}k"), put_request("x")).await;
    assert!(matches!(outcome, Err(ObjectError::KeyTooLong { bytes: 1025 })), "{outcome:?}");
    let outcome = world.service.put(&alice, "box", "", put_request("x")).await;
    assert!(matches!(outcome, Err(ObjectError::InvalidArgument { .. })), "{outcome:?}");
    for (extra, is_allowed) in [(0, true), (1, false)] {
        let value = Bytes::from(vec![b'v'; MAX_USER_METADATA_BYTES - 4 + extra]);
        let attributes = Attributes { metadata: vec![(Bytes::from_static(b"name"), value)], ..Attributes::default() };
        let outcome = world.service.put(&alice, "box", "key", PutRequest { attributes, ..put_request("x") }).await;
        match outcome {
            Ok(_) => assert!(is_allowed),
            Err(ObjectError::MetadataTooLarge { bytes }) => assert!(!is_allowed && bytes == MAX_USER_METADATA_BYTES + 1),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn ranges_of_small_and_large_objects() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    for length in [100, 2 * CHUNK_BYTES + 100] {
        let bytes = content(3, length);
        world.put("key", bytes.clone()).await;
        let last = length as u64 - 1;
        let cases = [
            (ByteRange::Between(0, 0), 0..1),
            (ByteRange::Between(10, 20), 10..21),
            (ByteRange::Between(last, last + 100), length - 1..length),
            (ByteRange::From(50), 50..length),
            (ByteRange::Last(30), length - 30..length),
            (ByteRange::Last(u64::MAX), 0..length),
        ];
        for (asked, expected) in cases {
            let read = world.service.get(&alice, "box", "key", &range(asked)).await.expect("read");
            assert_eq!(read.range, expected.start as u64..expected.end as u64);
            assert_eq!(read.info.length, length as u64);
            assert!(bytes_of(read).await.expect("read") == bytes[expected], "{asked:?} of {length}");
            let head = world.service.head(&alice, "box", "key", &range(asked)).await.expect("head");
            assert!(head.range.end <= length as u64);
        }
        let beyond = range(ByteRange::From(length as u64));
        for outcome in [
            world.service.get(&alice, "box", "key", &beyond).await.map(|_| ()),
            world.service.head(&alice, "box", "key", &beyond).await.map(|_| ()),
        ] {
            let is_right = matches!(outcome, Err(ObjectError::InvalidRange { length: shown }) if shown == length as u64);
            assert!(is_right, "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn an_object_without_parts_is_its_own_first_part() {
    let world = World::with_bucket().await;
    for length in [10, CHUNK_BYTES + 1] {
        world.put("key", content(1, length)).await;
        let alice = user("alice");
        let read = world.service.get(&alice, "box", "key", &select(Select::Part(1))).await.expect("read");
        assert_eq!((read.range.clone(), read.parts), (0..length as u64, None));
        assert!(bytes_of(read).await.expect("read") == content(1, length));
        let outcome = world.service.get(&alice, "box", "key", &select(Select::Part(2))).await.map(|_| ());
        assert!(matches!(outcome, Err(ObjectError::NoSuchPart { number: 2 })), "{outcome:?}");
        assert!(world.service.get_cached(&alice, "box", "key", &select(Select::Part(1))).is_none());
    }
}

#[tokio::test]
async fn reads_heed_conditions() {
    let world = World::with_bucket().await;
    let written = world.put("key", "x").await;
    let alice = user("alice");
    let same = Some(ETagMatch::OneOf(vec![written.etag]));
    let other = Some(ETagMatch::OneOf(vec![ETag::default()]));
    let request = |conditions| ReadRequest { conditions, ..ReadRequest::default() };
    let not_modified = request(ReadConditions { if_none_match: same.clone(), ..ReadConditions::default() });
    let failed = request(ReadConditions { if_match: other, ..ReadConditions::default() });
    let fine = request(ReadConditions { if_match: same, ..ReadConditions::default() });
    for (request, expected) in [(not_modified, "not modified"), (failed, "failed"), (fine, "ok")] {
        let outcomes = [
            world.service.get(&alice, "box", "key", &request).await.map(|_| ()),
            world.service.head(&alice, "box", "key", &request).await.map(|_| ()),
            world.service.get_cached(&alice, "box", "key", &request).expect("in memory").map(|_| ()),
        ];
        for outcome in outcomes {
            let found = match outcome {
                Ok(()) => "ok",
                Err(ObjectError::NotModified(info)) => {
                    assert_eq!(info.attributes.etag, written.etag, "the answer tells the tag");
                    "not modified"
                }
                Err(ObjectError::PreconditionFailed { .. }) => "failed",
                Err(error) => panic!("{error}"),
            };
            assert_eq!(found, expected, "{request:?}");
        }
    }
}

#[tokio::test]
async fn writes_and_deletes_heed_conditions() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    for length in [10, CHUNK_BYTES + 1] {
        let put = async |seed: u8, condition: Condition| {
            let mut request = PutRequest { condition, ..put_request(content(seed, length)) };
            request.content.length = Some(length as u64);
            world.service.put(&alice, "box", "key", request).await
        };
        let matching = |etag| Condition::Match(ETagMatch::OneOf(vec![etag]));
        let outcome = put(1, Condition::Match(ETagMatch::Any)).await;
        assert!(matches!(outcome, Err(ObjectError::NoSuchKey)), "{outcome:?}");
        let first = put(1, Condition::Absent).await.expect("absent");
        let outcome = put(2, Condition::Absent).await;
        assert!(matches!(outcome, Err(ObjectError::PreconditionFailed { .. })), "{outcome:?}");
        let second = put(2, matching(first.etag)).await.expect("it matches");
        let outcome = put(3, matching(first.etag)).await;
        assert!(matches!(outcome, Err(ObjectError::PreconditionFailed { .. })), "{outcome:?}");
        let outcome = world.service.delete(&alice, "box", "key", matching(first.etag)).await;
        assert!(matches!(outcome, Err(ObjectError::PreconditionFailed { .. })), "{outcome:?}");
        assert!(world.get("key").await.expect("read") == content(2, length));
        world.service.delete(&alice, "box", "key", matching(second.etag)).await.expect("it matches");
        world.service.delete(&alice, "box", "key", Condition::None).await.expect("no error");
    }
}

#[tokio::test]
async fn a_false_condition_is_answered_before_a_large_body_is_read() {
    let world = World::with_bucket().await;
    world.put("key", "x").await;
    let unread = stream::poll_fn(|_| panic!("the body must not be read"));
    let content = Upload {
        body: Body::Stream(Box::pin(unread)),
        length: Some(10 * CHUNK_BYTES as u64),
        md5: None,
        checksum: ChecksumWish::None,
    };
    let request = PutRequest { condition: Condition::Absent, content, attributes: Attributes::default() };
    let outcome = world.service.put(&user("alice"), "box", "key", request).await;
    assert!(matches!(outcome, Err(ObjectError::PreconditionFailed { .. })), "{outcome:?}");
}

#[tokio::test]
async fn many_are_deleted_each_for_itself() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    for number in 0..100 {
        world.put(&format!("key/{number}"), "x").await;
    }
    let mut keys: Vec<DeleteKey> =
        (0..100).map(|number| DeleteKey { key: format!("key/{number}"), condition: Condition::None }).collect();
    keys[7].condition = Condition::Match(ETagMatch::OneOf(vec![ETag::default()]));
    keys[8].key = "k".repeat(MAX_KEY_BYTES + 1);
    let outcomes = world.service.delete_many(&alice, "box", keys).await.expect("outcomes");
    for (index, outcome) in outcomes.iter().enumerate() {
        match (index, outcome) {
            (7, Err(ObjectError::PreconditionFailed { .. })) | (8, Err(ObjectError::KeyTooLong { .. })) => {}
            (_, Ok(())) if index != 7 && index != 8 => {}
            (_, outcome) => panic!("key {index}: {outcome:?}"),
        }
    }
    let left = world.service.list(&alice, "box", &crate::ListRequest { max_items: 10, ..Default::default() }).await;
    assert_eq!(left.expect("a list").items.len(), 2);
    let too_many = vec![DeleteKey { key: "k".to_owned(), condition: Condition::None }; MAX_DELETE_KEYS + 1];
    let outcome = world.service.delete_many(&alice, "box", too_many).await.map(|_| ());
    assert!(matches!(outcome, Err(ObjectError::InvalidArgument { .. })), "{outcome:?}");
}
