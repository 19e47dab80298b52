//! A few words per step for the tests.

use bytes::Bytes;
use format::attributes::{Attributes, Checksum, ChecksumAlgorithm, ChecksumType, ETag};
use smallvec::smallvec;
use types::limits::{CHUNK_BYTES, MAX_SMALL_BYTES};
use types::{BucketId, UploadId};

use super::Engine;
use super::random::content;
use crate::condition::Condition;
use crate::error::EngineError;
use crate::key::ObjectKey;
use crate::list::{ListItem, ListPage, ListQuery};
use crate::object::{Committed, Content, Found};
use crate::staging::StagedChunks;
use crate::traits::ContentReader;
use crate::upload::{CompletePart, PartContent, PartInfo, UploadRef};

pub(super) const BUCKET: BucketId = BucketId(7);

pub(super) fn key(name: &str) -> ObjectKey {
    key_in(BUCKET, name)
}

pub(super) fn key_in(bucket: BucketId, name: &str) -> ObjectKey {
    ObjectKey::new(bucket, Bytes::copy_from_slice(name.as_bytes())).expect("a test's key is valid")
}

/// A tag that differs for every number.
pub(super) fn tag(number: u64) -> ETag {
    ETag::Md5(u128::from(number).to_be_bytes())
}

/// Attributes whose tag and time come from one number.
pub(super) fn attributes(number: u64) -> Attributes {
    Attributes { etag: tag(number), modified_ms: 1_700_000_000_000 + number, ..Attributes::default() }
}

/// Writes `content(number, length)` in the way its length asks for.
pub(super) async fn put_as(
    engine: &Engine,
    key: &ObjectKey,
    number: u64,
    length: usize,
    condition: Condition,
) -> Result<Committed, EngineError> {
    let bytes = Bytes::from(content(number, length));
    if length <= MAX_SMALL_BYTES {
        return engine.put(key, attributes(number), smallvec![bytes], condition).await;
    }
    let staged = stage(engine, key, None, bytes).await?;
    engine.commit(key, staged, attributes(number), condition).await
}

/// A blind write that must succeed.
pub(super) async fn put(engine: &Engine, name: &str, number: u64, length: usize) -> Committed {
    put_as(engine, &key(name), number, length, Condition::None).await.expect("a blind put succeeds")
}

/// Stages bytes in whole chunks.
pub(super) async fn stage(
    engine: &Engine,
    key: &ObjectKey,
    part: Option<(UploadId, u16)>,
    bytes: Bytes,
) -> Result<StagedChunks, EngineError> {
    let mut staged = engine.stage(key, part);
    let mut rest = bytes;
    while !rest.is_empty() {
        let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
        engine.stage_chunk(&mut staged, chunk).await?;
    }
    Ok(staged)
}

/// Writes `content(number, length)` as a part.
pub(super) async fn put_part(
    engine: &Engine,
    upload: &UploadRef,
    part: u16,
    number: u64,
    length: usize,
) -> Result<PartInfo, EngineError> {
    let bytes = Bytes::from(content(number, length));
    let part_content = if length <= MAX_SMALL_BYTES {
        PartContent::Whole(smallvec![bytes])
    } else {
        PartContent::Staged(stage(engine, &upload.key, Some((upload.upload, part)), bytes).await?)
    };
    let checksum = Checksum::new(ChecksumAlgorithm::Crc32, ChecksumType::FullObject, &(number as u32).to_be_bytes());
    engine.put_part(upload, part, Attributes { checksum, ..attributes(number) }, part_content).await
}

pub(super) async fn open_upload(engine: &Engine, key: &ObjectKey, number: u64) -> UploadRef {
    let upload = engine.create_upload(key, attributes(number)).await.expect("an upload opens");
    UploadRef { key: key.clone(), upload }
}

pub(super) fn named(part: &PartInfo) -> CompletePart {
    CompletePart { number: part.number, order: part.order }
}

/// An object as a value: what a reader sees of it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) etag: ETag,
    pub(super) modified_ms: u64,
    pub(super) bytes: Bytes,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digest = self.bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        write!(f, "{} at {}, {} bytes ({digest:x})", self.etag, self.modified_ms, self.bytes.len())
    }
}

/// Reads a whole object, by every way that finds it; they must agree.
pub(super) async fn get(engine: &Engine, key: &ObjectKey) -> Result<Seen, EngineError> {
    let found = engine.open(key).await?;
    let order = found.info.order;
    let seen = collect(found).await?;
    // Under a concurrent writer the second answer may be newer, so only the same version is compared.
    if let Some(Ok(cached)) = engine.open_cached(key)
        && cached.info.order == order
    {
        assert_eq!(collect(cached).await?, seen, "open_cached and open disagree on one version");
    }
    Ok(seen)
}

async fn collect(found: Found) -> Result<Seen, EngineError> {
    let length = found.info.length;
    let bytes = match found.content {
        Content::Whole(bytes) => bytes,
        Content::Chunked(reader) => read_range(reader.as_ref(), 0, length).await?,
    };
    assert_eq!(bytes.len() as u64, length, "the content is as long as the info says");
    Ok(Seen { etag: found.info.attributes.etag, modified_ms: found.info.attributes.modified_ms, bytes })
}

/// Reads from `start` to `end`, asking again for what a read left.
pub(super) async fn read_range(reader: &dyn ContentReader, start: u64, end: u64) -> Result<Bytes, EngineError> {
    let mut bytes = Vec::with_capacity((end - start) as usize);
    let mut at = start;
    while at < end {
        let piece = reader.read(at..end).await?;
        assert!(
            !piece.is_empty() && piece.len() as u64 <= end - at,
            "a read gives 1 to {} bytes, not {}",
            end - at,
            piece.len()
        );
        at += piece.len() as u64;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.into())
}

/// The object must be there, with the tag, time and bytes of `number`.
pub(super) async fn must_be(engine: &Engine, key: &ObjectKey, number: u64, length: usize) {
    let expected =
        Seen { etag: tag(number), modified_ms: attributes(number).modified_ms, bytes: content(number, length).into() };
    let seen = get(engine, key).await.unwrap_or_else(|error| panic!("{:?} must be readable: {error}", key.as_str()));
    assert!(seen == expected, "{:?} is {seen:?}, expected {expected:?}", key.as_str());
    let info = engine.info(key).await.expect("what opens has attributes");
    assert_eq!((info.length, info.attributes.etag), (length as u64, tag(number)), "info of {:?}", key.as_str());
}

/// The object must be absent for every way to read it.
pub(super) async fn must_be_absent(engine: &Engine, key: &ObjectKey) {
    let opened = engine.open(key).await.map(|found| found.info);
    assert!(matches!(opened, Err(EngineError::NotFound)), "{:?} opens: {opened:?}", key.as_str());
    let info = engine.info(key).await;
    assert!(matches!(info, Err(EngineError::NotFound)), "{:?} has attributes: {info:?}", key.as_str());
    if let Some(cached) = engine.open_cached(key) {
        let cached = cached.map(|found| found.info);
        assert!(matches!(cached, Err(EngineError::NotFound)), "{:?} is cached: {cached:?}", key.as_str());
    }
}

/// One page of [`BUCKET`].
pub(super) async fn list(engine: &Engine, prefix: &str, start_after: &str, delimiter: &str, max_items: usize) -> ListPage {
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let query = ListQuery {
        bucket: BUCKET,
        prefix: text(prefix),
        start_after: text(start_after),
        delimiter: text(delimiter),
        max_items,
    };
    engine.list(&query).await.expect("a list succeeds")
}

/// Everything in [`BUCKET`] under a prefix: objects by name, rolled-up prefixes with `*` behind them.
pub(super) fn names(page: &ListPage) -> Vec<String> {
    let show = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let shown = page.items.iter().map(|item| match item {
        ListItem::Object(object) => show(&object.key),
        ListItem::Prefix(prefix) => show(prefix) + "*",
    });
    shown.collect()
}

/// The name of an item, by which pages continue.
pub(super) fn item_name(item: &ListItem) -> &Bytes {
    match item {
        ListItem::Object(object) => &object.key,
        ListItem::Prefix(prefix) => prefix,
    }
}

/// Attributes in which everything that a client can set is set.
pub(super) fn rich_attributes() -> Attributes {
    let text = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    Attributes {
        content_type: text("text/plain; charset=utf-8"),
        content_encoding: text("gzip"),
        content_disposition: text("attachment; filename=\"\u{e4}.txt\""),
        content_language: text("de-CH"),
        cache_control: text("no-store"),
        expires: text("Thu, 01 Dec 2033 16:00:00 GMT"),
        website_redirect: text("/elsewhere"),
        metadata: vec![
            (Bytes::from_static(b"colour"), Bytes::from_static("gr\u{fc}n".as_bytes())),
            (Bytes::from_static(b"empty"), Bytes::new()),
            (Bytes::from_static(b"long"), Bytes::from(vec![b'x'; 1900])),
        ],
        checksum: Checksum::new(ChecksumAlgorithm::Sha256, ChecksumType::FullObject, &[7; 32]),
        tags: vec![(Bytes::from_static(b"team"), Bytes::from_static(b"storage"))],
        owner: text("somebody"),
        ..attributes(77)
    }
}

/// The attributes without what the engine notes for itself.
pub(super) fn without_notes(attributes: Attributes) -> Attributes {
    Attributes {
        version_id: None,
        upload: None,
        expected: None,
        piggyback: None,
        overlapped: Vec::new(),
        part_count: None,
        unknown: Vec::new(),
        ..attributes
    }
}
