use bytes::Bytes;
use engine::{Condition, ETagMatch};
use format::attributes::{Attributes, Checksum, ChecksumAlgorithm, ChecksumScheme, ChecksumType, ETag};
use manager::EtagMode;
use md5::{Digest as _, Md5};
use types::UploadId;
use types::limits::{MAX_PARTS, MIN_PART_BYTES};

use super::{World, bytes_of, content, put_request, user};
use crate::{
    ByteRange, ChecksumDigest, ChecksumWish, CompleteRequest, CopyPartRequest, CopySource, DEFAULT_CHECKSUM,
    ListUploadsRequest, NamedPart, ObjectError, PartsQuery, ReadRequest, Select, Upload, UploadMark, UploadName, WrittenPart,
};

const MIN: usize = MIN_PART_BYTES as usize;

fn name(upload: UploadId) -> UploadName<'static> {
    UploadName { bucket: "box", key: "key", upload: Some(upload) }
}

fn named(number: u32, part: &WrittenPart) -> NamedPart {
    NamedPart { number, etag: Some(part.etag), checksum: None }
}

impl World {
    async fn open_upload(&self, checksum: Option<ChecksumScheme>) -> UploadName<'static> {
        let attributes = Attributes { content_type: Some(Bytes::from_static(b"video/x")), ..Attributes::default() };
        name(self.service.create_upload(&user("alice"), "box", "key", attributes, checksum).await.expect("opened"))
    }

    async fn part(&self, upload: UploadName<'_>, number: u32, bytes: Vec<u8>) -> Result<WrittenPart, ObjectError> {
        self.service.put_part(&user("alice"), upload, number, Upload::whole(bytes.into())).await
    }

    async fn complete(&self, upload: UploadName<'_>, parts: Vec<NamedPart>) -> Result<crate::Completed, ObjectError> {
        let request = CompleteRequest { parts, ..CompleteRequest::default() };
        self.service.complete_upload(&user("alice"), upload, request).await
    }
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

#[tokio::test]
async fn parts_become_an_object() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    let upload = world.open_upload(None).await;
    let contents = [content(1, MIN), content(2, MIN + 3), content(3, 10)];
    let mut parts = Vec::new();
    for (bytes, number) in contents.iter().zip([1, 5, 9]) {
        let part = world.part(upload, number, bytes.clone()).await.expect("written");
        assert_eq!((part.etag, part.length), (ETag::Md5(md5(bytes)), bytes.len() as u64));
        parts.push(named(number, &part));
    }
    let page = world.service.list_parts(&alice, upload, 1, 1).await.expect("parts");
    assert_eq!((page.parts[0].number, page.truncated), (5, true));
    let page = world.service.list_parts(&alice, upload, 5, 1).await.expect("parts");
    assert_eq!((page.parts[0].number, page.truncated), (9, false));
    let completed = world.complete(upload, parts.clone()).await.expect("completed");
    let digests: Vec<u8> = contents.iter().flat_map(|bytes| md5(bytes)).collect();
    assert_eq!(completed.etag, ETag::Multipart { digest: md5(&digests), parts: 3 });
    assert!(completed.etag.to_string().ends_with("-3"));
    assert!(world.get("key").await.expect("read") == contents.concat());

    let second = ReadRequest { select: Select::Part(2), ..ReadRequest::default() };
    let read = world.service.get(&alice, "box", "key", &second).await.expect("read");
    assert_eq!((read.range.clone(), read.parts), (MIN as u64..2 * MIN as u64 + 3, Some(3)));
    assert_eq!(read.info.attributes.content_type.as_deref(), Some(&b"video/x"[..]));
    assert!(bytes_of(read).await.expect("read") == contents[1]);
    let head = world.service.head(&alice, "box", "key", &second).await.expect("head");
    assert_eq!((head.range.end - head.range.start, head.parts), (MIN as u64 + 3, Some(3)));
    let fourth = ReadRequest { select: Select::Part(4), ..ReadRequest::default() };
    let outcome = world.service.get(&alice, "box", "key", &fourth).await.map(|_| ());
    assert!(matches!(outcome, Err(ObjectError::NoSuchPart { number: 4 })), "{outcome:?}");

    let again = world.complete(upload, parts).await.expect("a retry answers the first outcome");
    assert_eq!(again, completed);
}

#[tokio::test]
async fn a_retry_never_brings_back_what_was_overwritten() {
    let world = World::with_bucket().await;
    let upload = world.open_upload(None).await;
    let part = world.part(upload, 1, content(1, 10)).await.expect("written");
    let first = world.complete(upload, vec![named(1, &part)]).await.expect("completed");
    world.put("key", "newer").await;
    let again = world.complete(upload, vec![named(1, &part)]).await.expect("answered");
    assert_eq!((again.etag, again.modified_ms), (first.etag, first.modified_ms));
    assert_eq!(world.get("key").await.expect("read"), b"newer");
}

#[tokio::test]
async fn wrong_lists_of_parts_are_refused() {
    let world = World::with_bucket().await;
    let upload = world.open_upload(None).await;
    let small = world.part(upload, 1, content(1, MIN - 1)).await.expect("written");
    let big = world.part(upload, 2, content(2, MIN)).await.expect("written");
    let last = world.part(upload, 3, content(3, 1)).await.expect("written");
    let (one, two, three) = (named(1, &small), named(2, &big), named(3, &last));
    let refused = async |parts: Vec<NamedPart>| world.complete(upload, parts).await.expect_err("refused");

    let error = refused(vec![one, two]).await;
    assert!(matches!(error, ObjectError::EntityTooSmall { number: 1, bytes } if bytes == MIN_PART_BYTES - 1), "{error}");
    for parts in [vec![three, two], vec![two, two]] {
        let error = refused(parts).await;
        assert!(matches!(error, ObjectError::InvalidPartOrder), "{error}");
    }
    let no_tag = NamedPart { etag: None, ..two };
    let other_tag = NamedPart { etag: Some(last.etag), ..two };
    let other_number = NamedPart { number: 4, ..two };
    let checksum = Checksum::new(ChecksumAlgorithm::Crc32, ChecksumType::FullObject, &[0; 4]);
    let error = refused(vec![NamedPart { checksum, ..two }]).await;
    assert!(matches!(error, ObjectError::BadPartDigest { number: 2, what: "CRC32" }), "{error}");
    let checksum = Checksum::new(DEFAULT_CHECKSUM, ChecksumType::FullObject, &[0; 8]);
    let other_checksum = NamedPart { checksum, ..two };
    for part in [no_tag, other_tag, other_number, other_checksum] {
        let error = refused(vec![part]).await;
        assert!(matches!(error, ObjectError::InvalidPart { number } if u32::from(number) == part.number), "{error}");
    }
    for number in [0, u32::from(MAX_PARTS) + 1] {
        let error = refused(vec![NamedPart { number, ..two }]).await;
        assert!(matches!(error, ObjectError::InvalidPartNumber { number: shown } if shown == number), "{error}");
        let error = world.part(upload, number, vec![1]).await.expect_err("refused");
        assert!(matches!(error, ObjectError::InvalidPartNumber { number: shown } if shown == number), "{error}");
    }
    for parts in [vec![], vec![two; usize::from(MAX_PARTS) + 1]] {
        let error = refused(parts).await;
        assert!(matches!(error, ObjectError::InvalidRequest { .. }), "{error}");
    }
    let request = CompleteRequest { parts: vec![two, three], length: Some(7), ..CompleteRequest::default() };
    let outcome = world.service.complete_upload(&user("alice"), upload, request).await;
    assert!(matches!(outcome, Err(ObjectError::InvalidRequest { .. })), "{outcome:?}");
    assert!(matches!(world.get("key").await, Err(ObjectError::NoSuchKey)));
    world.complete(upload, vec![two, three]).await.expect("the upload is as it was");
}

#[tokio::test]
async fn a_part_written_again_counts_alone() {
    let world = World::with_bucket().await;
    let upload = world.open_upload(None).await;
    let old = world.part(upload, 1, content(1, 20)).await.expect("written");
    let new = world.part(upload, 1, content(2, 30)).await.expect("written");
    let outcome = world.complete(upload, vec![named(1, &old)]).await;
    assert!(matches!(outcome, Err(ObjectError::InvalidPart { number: 1 })), "{outcome:?}");
    world.complete(upload, vec![named(1, &new)]).await.expect("completed");
    assert_eq!(world.get("key").await.expect("read"), content(2, 30));
}

#[tokio::test]
async fn conditions_of_completes() {
    let world = World::with_bucket().await;
    let written = world.put("key", "there").await;
    let upload = world.open_upload(None).await;
    let part = world.part(upload, 1, content(1, 20)).await.expect("written");
    let complete = async |condition| {
        let request = CompleteRequest { parts: vec![named(1, &part)], condition, ..CompleteRequest::default() };
        world.service.complete_upload(&user("alice"), upload, request).await
    };
    let outcome = complete(Condition::Absent).await;
    assert!(matches!(outcome, Err(ObjectError::PreconditionFailed { .. })), "{outcome:?}");
    complete(Condition::Match(ETagMatch::OneOf(vec![written.etag]))).await.expect("it matches");
}

#[tokio::test]
async fn checksums_of_the_whole_and_of_the_parts() {
    let world = World::with_bucket().await;
    let contents = [content(1, MIN), content(2, 999)];
    let algorithms = [
        (ChecksumAlgorithm::Crc32, true),
        (ChecksumAlgorithm::Crc32, false),
        (ChecksumAlgorithm::Crc32c, true),
        (ChecksumAlgorithm::Crc64Nvme, true),
        (ChecksumAlgorithm::Sha1, false),
        (ChecksumAlgorithm::Sha256, false),
    ];
    let alice = user("alice");
    for (algorithm, full_object) in algorithms {
        let wish = ChecksumWish::Compute(algorithm);
        let whole = Upload { checksum: wish, ..Upload::whole(contents.concat().into()) };
        let request = crate::PutRequest { content: whole, ..put_request("") };
        let whole = world.service.put(&alice, "box", "whole", request).await.expect("written").checksum;

        let upload = world.open_upload(Some(ChecksumScheme { algorithm, full_object })).await;
        let mut parts = Vec::new();
        for (bytes, number) in contents.iter().zip(1..) {
            let bare = world.part(upload, number, bytes.clone()).await;
            assert_eq!(bare.is_ok(), full_object, "made for a client that sends none, unless the object's is made of them");
            let sent = Upload { checksum: ChecksumWish::Compute(algorithm), ..Upload::whole(bytes.clone().into()) };
            let part = world.service.put_part(&alice, upload, number, sent).await.expect("written");
            assert_eq!(bare.map_or(algorithm, |bare| bare.checksum.algorithm()), part.checksum.algorithm());
            parts.push(NamedPart { checksum: Some(part.checksum), ..named(number, &part) });
        }
        let unnamed = parts.iter().map(|part| NamedPart { checksum: None, ..*part }).collect();
        if !full_object {
            let outcome = world.complete(upload, unnamed).await;
            assert!(matches!(outcome, Err(ObjectError::InvalidRequest { .. })), "parts without checksums: {outcome:?}");
        }
        let wrong = Checksum::new(algorithm, whole.kind(), &vec![9; algorithm.value_bytes()]);
        let request = CompleteRequest { parts: parts.clone(), checksum: wrong, ..CompleteRequest::default() };
        let outcome = world.service.complete_upload(&alice, upload, request).await;
        assert!(matches!(outcome, Err(ObjectError::BadDigest { .. })), "{outcome:?}");
        let request =
            CompleteRequest { parts: parts.clone(), is_full_object: Some(!full_object), ..CompleteRequest::default() };
        let outcome = world.service.complete_upload(&alice, upload, request).await;
        assert!(matches!(outcome, Err(ObjectError::InvalidRequest { .. })), "another type: {outcome:?}");
        let given = full_object.then_some(whole);
        let request = CompleteRequest { parts, checksum: given, ..CompleteRequest::default() };
        let completed = world.service.complete_upload(&alice, upload, request).await.expect("completed");
        let checksum = completed.checksum.expect("the upload was opened for one");
        match full_object {
            true => assert_eq!(checksum, whole, "{algorithm:?}"),
            false => assert_eq!(checksum.kind(), ChecksumType::Composite { parts: 2 }, "{algorithm:?}"),
        }
        let head = world.service.head(&alice, "box", "key", &ReadRequest::default()).await.expect("head");
        assert_eq!(head.info.attributes.checksum, Some(checksum));
        assert_eq!((head.info.attributes.part_count, head.info.attributes.upload_checksum), (Some(2), None));
    }
}

#[tokio::test]
async fn an_upload_that_was_opened_for_no_checksum_carries_what_its_parts_have() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    let contents = [content(1, MIN), content(2, 999)];
    let crc = Some(ChecksumAlgorithm::Crc32);
    let sha = Some(ChecksumAlgorithm::Sha256);
    let xxh = Some(ChecksumAlgorithm::XxHash128);
    let cases = [
        ([None, None], Some((DEFAULT_CHECKSUM, true))),
        ([crc, crc], Some((ChecksumAlgorithm::Crc32, true))),
        ([sha, sha], Some((ChecksumAlgorithm::Sha256, false))),
        ([xxh, xxh], Some((ChecksumAlgorithm::XxHash128, false))),
        ([crc, None], None),
    ];
    for (sent, expected) in cases {
        let upload = world.open_upload(None).await;
        let mut parts = Vec::new();
        for ((bytes, number), algorithm) in contents.iter().zip(1..).zip(sent) {
            let checksum = algorithm.map_or(ChecksumWish::None, ChecksumWish::Compute);
            let part = Upload { checksum, ..Upload::whole(bytes.clone().into()) };
            parts.push(named(number, &world.service.put_part(&alice, upload, number, part).await.expect("written")));
        }
        let found = world.complete(upload, parts).await.expect("completed").checksum;
        let scheme = found.as_ref().map(ChecksumScheme::of).map(|scheme| (scheme.algorithm, scheme.full_object));
        assert_eq!(scheme, expected);
        if let Some((algorithm, true)) = expected {
            let mut whole = ChecksumDigest::new(algorithm);
            whole.update(&contents.concat());
            assert_eq!(found, Some(whole.finish()));
        }
        let query = Some(PartsQuery { after: 0, max_parts: 1 });
        let page = world.service.describe(&alice, "box", "key", query).await.expect("described").parts.expect("of parts");
        let first = page.parts[0].1.checksum.map(|checksum| checksum.algorithm());
        assert_eq!((page.count, page.truncated, first), (2, true, expected.map(|(algorithm, _)| algorithm)));
    }
}

#[tokio::test]
async fn checksums_that_do_not_go_together_are_refused() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    let unsupported = ChecksumScheme { algorithm: ChecksumAlgorithm::Sha256, full_object: true };
    let outcome = world.service.create_upload(&alice, "box", "key", Attributes::default(), Some(unsupported)).await;
    assert!(matches!(outcome, Err(ObjectError::InvalidRequest { .. })), "{outcome:?}");
    let upload = world.open_upload(Some(ChecksumScheme { algorithm: ChecksumAlgorithm::Crc32, full_object: true })).await;
    let other = Upload { checksum: ChecksumWish::Compute(ChecksumAlgorithm::Sha1), ..Upload::whole("x".into()) };
    let outcome = world.service.put_part(&alice, upload, 1, other).await;
    assert!(matches!(outcome, Err(ObjectError::InvalidRequest { .. })), "{outcome:?}");
    let wrong = Upload { md5: Some([3; 16]), ..Upload::whole("x".into()) };
    let outcome = world.service.put_part(&alice, upload, 1, wrong).await;
    assert!(matches!(outcome, Err(ObjectError::BadDigest { .. })), "{outcome:?}");
    assert!(world.service.list_parts(&alice, upload, 0, 10).await.expect("parts").parts.is_empty());
}

#[tokio::test]
async fn parts_from_objects_and_ranges_of_them() {
    let world = World::with_bucket().await;
    world.bucket("other", EtagMode::Md5).await;
    let alice = user("alice");
    let source = content(5, 2 * MIN + 11);
    world.service.put(&alice, "other", "source", put_request(source.clone())).await.expect("written");
    world.put("tiny", "0123456789").await;
    let upload = world.open_upload(None).await;
    let copy = async |number: u32, bucket: &str, key: &str, range: Option<ByteRange>| {
        let source = CopySource { bucket: bucket.to_owned(), key: key.to_owned(), ..CopySource::default() };
        world.service.copy_part(&alice, upload, number, CopyPartRequest { source, range }).await
    };
    let first = copy(1, "other", "source", None).await.expect("copied");
    assert_eq!(first.etag, ETag::Md5(md5(&source)));
    let second = copy(2, "other", "source", Some(ByteRange::Between(7, MIN as u64 + 6))).await.expect("copied");
    let third = copy(3, "box", "tiny", Some(ByteRange::Between(2, 4))).await.expect("copied");
    let outcome = copy(4, "box", "tiny", Some(ByteRange::Between(2, 10))).await;
    assert!(matches!(outcome, Err(ObjectError::InvalidRange { length: 10 })), "{outcome:?}");
    let parts = vec![named(1, &first), named(2, &second), named(3, &third)];
    world.complete(upload, parts).await.expect("completed");
    let expected = [&source[..], &source[7..MIN + 7], b"234"].concat();
    assert!(world.get("key").await.expect("read") == expected);
}

#[tokio::test]
async fn aborted_and_unknown_uploads() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    let upload = world.open_upload(None).await;
    let part = world.part(upload, 1, content(1, 20)).await.expect("written");
    world.service.abort_upload(&alice, upload).await.expect("aborted");
    let unknown = name(UploadId([9; 16]));
    for upload in [upload, unknown] {
        let outcomes = [
            world.part(upload, 1, vec![1]).await.map(|_| ()),
            world.complete(upload, vec![named(1, &part)]).await.map(|_| ()),
            world.service.list_parts(&alice, upload, 0, 10).await.map(|_| ()),
            world.service.abort_upload(&alice, upload).await,
        ];
        for (index, outcome) in outcomes.into_iter().enumerate() {
            assert!(matches!(outcome, Err(ObjectError::NoSuchUpload)), "{index}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn open_uploads_are_listed_in_pages() {
    let world = World::with_bucket().await;
    let alice = user("alice");
    for key in ["a", "a", "dir/1", "dir/2", "z"] {
        world.service.create_upload(&alice, "box", key, Attributes::default(), None).await.expect("opened");
    }
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut request = ListUploadsRequest { delimiter: "/".to_owned(), max_items: 1, ..ListUploadsRequest::default() };
    let mut seen = Vec::new();
    loop {
        let page = world.service.list_uploads(&alice, "box", &request).await.expect("a page");
        seen.extend(page.uploads.iter().map(|upload| text(&upload.key)));
        seen.extend(page.prefixes.iter().map(|prefix| text(prefix) + "*"));
        let Some(next) = page.next else { break };
        request.after = Some(next);
    }
    assert_eq!(seen, ["a", "a", "dir/*", "z"]);
    request.after = Some(UploadMark { key: "a".to_owned(), upload: None });
    request.max_items = 10;
    let page = world.service.list_uploads(&alice, "box", &request).await.expect("a page");
    assert_eq!((page.uploads.len(), page.prefixes.len(), page.next), (1, 1, None));
}
