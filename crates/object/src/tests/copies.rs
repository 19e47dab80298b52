use bytes::Bytes;
use engine::{Condition, ETagMatch};
use format::attributes::{Attributes, ChecksumAlgorithm, ETag, StorageClass};
use manager::EtagMode;
use types::limits::CHUNK_BYTES;

use super::{World, bytes_of, content, put_request, user};
use crate::{
    ChecksumWish, CopyRequest, CopySource, MetadataDirective, ObjectError, OwnAttributes, PutRequest, ReadConditions,
    ReadRequest, Upload,
};

fn request(bucket: &str, key: &str) -> CopyRequest {
    CopyRequest {
        source: CopySource { bucket: bucket.to_owned(), key: key.to_owned(), ..CopySource::default() },
        metadata: MetadataDirective::Copy,
        condition: Condition::None,
        checksum: None,
        own: OwnAttributes::default(),
    }
}

fn described(text: &'static str) -> Attributes {
    Attributes {
        content_type: Some(Bytes::from_static(text.as_bytes())),
        metadata: vec![(Bytes::from_static(b"from"), Bytes::from_static(text.as_bytes()))],
        ..Attributes::default()
    }
}

#[tokio::test]
async fn content_and_attributes_go_along_across_buckets() {
    let world = World::with_bucket().await;
    world.bucket("other", EtagMode::Md5).await;
    world.bucket("fast", EtagMode::Fast).await;
    let alice = user("alice");
    for length in [0, 100, CHUNK_BYTES + 9] {
        let bytes = content(4, length);
        let upload =
            Upload { checksum: ChecksumWish::Compute(ChecksumAlgorithm::Sha256), ..Upload::whole(bytes.clone().into()) };
        let source = PutRequest { attributes: described("source"), condition: Condition::None, content: upload };
        let written = world.service.put(&alice, "box", "key", source).await.expect("written");
        for target in ["box", "other", "fast"] {
            let copied = world.service.copy(&alice, target, "copy", request("box", "key")).await.expect("copied");
            assert_eq!((copied.length, copied.checksum), (length as u64, written.checksum));
            let read = world.service.get(&alice, target, "copy", &ReadRequest::default()).await.expect("read");
            let attributes = &read.info.attributes;
            let given = described("source");
            assert_eq!((&attributes.content_type, &attributes.metadata), (&given.content_type, &given.metadata));
            assert_eq!(attributes.checksum, Some(written.checksum));
            assert_eq!(matches!(attributes.etag, ETag::Fast(_)), target == "fast");
            assert!(target == "fast" || attributes.etag == written.etag);
            assert!(bytes_of(read).await.expect("read") == bytes);
        }
        // Out of the fast bucket the tag must be MD5 again.
        let copied = world.service.copy(&alice, "box", "back", request("fast", "copy")).await.expect("copied");
        assert_eq!(copied.etag, written.etag);
    }
}

#[tokio::test]
async fn metadata_is_replaced_on_demand_also_in_place() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    let source = PutRequest { attributes: described("old"), ..put_request("x") };
    world.service.put(&alice, "box", "key", source).await.expect("written");
    let outcome = world.service.copy(&alice, "box", "key", request("box", "key")).await;
    assert!(matches!(outcome, Err(ObjectError::InvalidRequest { .. })), "{outcome:?}");
    let replace = MetadataDirective::Replace(Box::new(described("new")));
    let replaced = CopyRequest { metadata: replace, ..request("box", "key") };
    world.service.copy(&alice, "box", "key", replaced).await.expect("copied");
    let head = world.service.head(&alice, "box", "key", &ReadRequest::default()).await.expect("head");
    assert_eq!(head.info.attributes.metadata, described("new").metadata);
    assert_eq!(world.get("key").await.expect("read"), b"x");
    let tags = |text: &'static str| vec![(Bytes::from_static(b"tag"), Bytes::from_static(text.as_bytes()))];
    let with_tags = MetadataDirective::ReplaceTags(tags("first"));
    let tagged = CopyRequest { metadata: with_tags, ..request("box", "key") };
    world.service.copy(&alice, "box", "key", tagged).await.expect("copied");
    let keeping = MetadataDirective::KeepTags(Box::new(Attributes { tags: tags("not taken"), ..described("newest") }));
    let head = world.service.head(&alice, "box", "key", &ReadRequest::default()).await.expect("head");
    assert_eq!((&head.info.attributes.metadata, &head.info.attributes.tags), (&described("new").metadata, &tags("first")));
    let described_again = CopyRequest { metadata: keeping, ..request("box", "key") };
    world.service.copy(&alice, "box", "key", described_again).await.expect("copied");
    let head = world.service.head(&alice, "box", "key", &ReadRequest::default()).await.expect("head");
    assert_eq!((&head.info.attributes.metadata, &head.info.attributes.tags), (&described("newest").metadata, &tags("first")));
    let recomputed = CopyRequest { checksum: Some(ChecksumAlgorithm::Crc32c), ..request("box", "key") };
    let written = world.service.copy(&alice, "box", "key", recomputed).await.expect("a new checksum is a change");
    assert_eq!(written.checksum.algorithm(), ChecksumAlgorithm::Crc32c);
}

/// The class and the redirect are the copy's own, and a change like any other.
#[tokio::test]
async fn what_a_copy_never_takes_along() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    let redirect = || Some(Bytes::from_static(b"/elsewhere"));
    let attributes = Attributes { storage_class: StorageClass::Glacier, website_redirect: redirect(), ..described("source") };
    world.service.put(&alice, "box", "key", PutRequest { attributes, ..put_request("x") }).await.expect("written");
    let own = async |own: OwnAttributes, key: &str| {
        let copy = CopyRequest { own, ..request("box", "key") };
        world.service.copy(&alice, "box", key, copy).await.expect("copied");
        let info = world.service.head(&alice, "box", key, &ReadRequest::default()).await.expect("head").info;
        assert_eq!(info.attributes.metadata, described("source").metadata);
        (info.attributes.storage_class, info.attributes.website_redirect)
    };
    assert_eq!(own(OwnAttributes::default(), "copy").await, (StorageClass::Standard, None));
    let class = OwnAttributes { storage_class: Some(StorageClass::StandardIa), website_redirect: None };
    assert_eq!(own(class, "key").await, (StorageClass::StandardIa, None), "onto itself");
    let redirected = OwnAttributes { storage_class: None, website_redirect: redirect() };
    assert_eq!(own(redirected, "key").await, (StorageClass::Standard, redirect()), "onto itself");
}

#[tokio::test]
async fn conditions_of_both_sides() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    let written = world.put("key", "x").await;
    world.put("target", "y").await;
    let with = |conditions| {
        let mut request = request("box", "key");
        request.source.conditions = conditions;
        request
    };
    let same = Some(ETagMatch::OneOf(vec![written.etag]));
    let other = Some(ETagMatch::OneOf(vec![ETag::default()]));
    let seconds = written.modified_ms / 1000;
    let cases = [
        (ReadConditions { if_match: same.clone(), ..ReadConditions::default() }, true),
        (ReadConditions { if_match: other.clone(), ..ReadConditions::default() }, false),
        (ReadConditions { if_none_match: same, ..ReadConditions::default() }, false),
        (ReadConditions { if_none_match: other, ..ReadConditions::default() }, true),
        (ReadConditions { if_modified_since: Some(seconds), ..ReadConditions::default() }, false),
        (ReadConditions { if_unmodified_since: Some(seconds), ..ReadConditions::default() }, true),
    ];
    for (conditions, holds) in cases {
        let outcome = world.service.copy(&alice, "box", "copy", with(conditions.clone())).await;
        match outcome {
            Ok(_) => assert!(holds, "{conditions:?}"),
            Err(ObjectError::PreconditionFailed { .. }) => assert!(!holds, "{conditions:?}"),
            Err(error) => panic!("{error}"),
        }
    }
    let outcome = world
        .service
        .copy(&alice, "box", "target", CopyRequest { condition: Condition::Absent, ..request("box", "key") })
        .await;
    assert!(matches!(outcome, Err(ObjectError::PreconditionFailed { .. })), "{outcome:?}");
    assert_eq!(world.get("target").await.expect("untouched"), b"y");
    let outcome = world.service.copy(&alice, "box", "copy", request("box", "absent")).await;
    assert!(matches!(outcome, Err(ObjectError::NoSuchKey)), "{outcome:?}");
    let outcome = world.service.copy(&alice, "box", "copy", request("absent", "key")).await;
    assert!(matches!(outcome, Err(ObjectError::NoSuchBucket)), "{outcome:?}");
}
