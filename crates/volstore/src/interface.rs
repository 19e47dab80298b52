//! A group's store as an object engine: one for S3 buckets, one for strict buckets.

use ::engine::{
    Committed, CompletePart, Condition, Content, ContentReader, EngineError, EngineFuture, Found, ListPage, ListQuery,
    ObjectEngine, ObjectInfo, ObjectKey, PartContent, PartInfo, Payload, StagedChunks, UploadPage, UploadQuery, UploadRef,
};
use bytes::Bytes;
use format::attributes::Attributes;
use format::part_table::PartTable;
use types::limits::MAX_SMALL_BYTES;
use types::{BucketId, UploadId};

use crate::content::{Object, PartMark};
use crate::name::Name;
use crate::pg::{UploadName, attributes_of};
use crate::store::{PartBytes, Pinned, Rule, StagedContent, Store};

/// An object engine over a store.
#[derive(Clone)]
pub struct VolumeEngine {
    store: Store,
    is_strict: bool,
}

impl VolumeEngine {
    /// Strict: a put on a name that is there is a conflict. Else it replaces what is there.
    pub fn new(store: Store, is_strict: bool) -> VolumeEngine {
        VolumeEngine { store, is_strict }
    }

    fn rule(&self, condition: Condition) -> Rule {
        Rule { condition, is_strict: self.is_strict }
    }

    fn pin(&self, key: &ObjectKey) -> Result<Pinned, EngineError> {
        self.store.pin(&Name::of(key))?.ok_or(EngineError::NotFound)
    }
}

fn info_of(object: &Object) -> ObjectInfo {
    let length = object.content.length();
    ObjectInfo { length, attributes: attributes_of(&object.attributes), order: object.opseq.order() }
}

/// Whether a version's bytes are read at once.
fn is_whole(object: &Object) -> bool {
    object.content.parts.is_none() && object.content.length() <= MAX_SMALL_BYTES as u64
}

fn upload_name(upload: &UploadRef) -> UploadName {
    (Name::of(&upload.key), upload.upload)
}

/// What was staged here. Another view has other blocks.
fn staged_mut<'a>(store: &Store, staged: &'a mut StagedChunks) -> Result<&'a mut StagedContent, EngineError> {
    let elsewhere = || EngineError::Unavailable { reason: "the placement group has another primary meanwhile".to_owned() };
    let content: Option<&mut StagedContent> = staged.inner.as_any_mut().downcast_mut();
    content.filter(|content| content.store.is(store)).ok_or_else(elsewhere)
}

fn take_staged(store: &Store, mut staged: StagedChunks) -> Result<StagedContent, EngineError> {
    let content = staged_mut(store, &mut staged)?;
    Ok(std::mem::replace(content, StagedContent::new(store.clone())))
}

/// The parts of an object as readers know them.
pub fn part_table(parts: &[PartMark]) -> PartTable {
    let parts = parts.iter().map(|part| (part.length, part.checksum.as_ref().and_then(|sum| sum.checksum())));
    PartTable::of(&parts.collect::<Vec<_>>())
}

/// Reads a version by ranges.
struct Reader {
    pinned: Pinned,
    parts: Option<PartTable>,
}

impl Reader {
    fn new(pinned: Pinned) -> Reader {
        let parts = pinned.object().content.parts.as_deref().map(part_table);
        Reader { pinned, parts }
    }
}

impl ContentReader for Reader {
    fn read(&self, range: std::ops::Range<u64>) -> EngineFuture<'_, Bytes> {
        Box::pin(self.pinned.read(range))
    }

    fn parts(&self) -> Option<&PartTable> {
        self.parts.as_ref()
    }
}

fn chunked(pinned: Pinned) -> Found {
    Found { info: info_of(pinned.object()), content: Content::Chunked(Box::new(Reader::new(pinned))) }
}

impl ObjectEngine for VolumeEngine {
    /// What needs no read of a device: an absent object, and a large one.
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>> {
        match self.pin(key) {
            Ok(pinned) if is_whole(pinned.object()) => None,
            Ok(pinned) => Some(Ok(chunked(pinned))),
            Err(error) => Some(Err(error)),
        }
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        Box::pin(async move {
            let pinned = self.pin(key)?;
            if !is_whole(pinned.object()) {
                return Ok(chunked(pinned));
            }
            let info = info_of(pinned.object());
            if info.length == 0 {
                return Ok(Found { info, content: Content::Whole(Bytes::new()) });
            }
            let mut bytes = pinned.read(0..info.length).await?;
            if (bytes.len() as u64) < info.length {
                // It was staged in several pieces.
                let mut whole = bytes.to_vec();
                while (whole.len() as u64) < info.length {
                    whole.extend_from_slice(&pinned.read(whole.len() as u64..info.length).await?);
                }
                bytes = whole.into();
            }
            Ok(Found { info, content: Content::Whole(bytes) })
        })
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        Box::pin(async move { Ok(info_of(self.pin(key)?.object())) })
    }

    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(self.store.put(Name::of(key), attributes, payload, self.rule(condition)))
    }

    fn stage(&self, _key: &ObjectKey, _part: Option<(UploadId, u16)>) -> StagedChunks {
        StagedChunks { length: 0, inner: Box::new(StagedContent::new(self.store.clone())) }
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let (piece, held) = self.store.stage(chunk).await?;
            staged.length += u64::from(piece.length);
            staged_mut(&self.store, staged)?.push(piece, held);
            Ok(())
        })
    }

    fn commit<'a>(
        &'a self,
        key: &'a ObjectKey,
        staged: StagedChunks,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let staged = take_staged(&self.store, staged)?;
            self.store.commit(Name::of(key), attributes, staged, self.rule(condition)).await
        })
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        Box::pin(self.store.set_tags(Name::of(key), tags))
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(self.store.delete(Name::of(key), condition))
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        Box::pin(async move { self.store.list(query) })
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        Box::pin(async move { self.store.is_empty(bucket) })
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        Box::pin(self.store.create_upload(Name::of(key), attributes))
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        Box::pin(async move { self.store.upload(&upload_name(upload)) })
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        Box::pin(async move {
            let bytes = match content {
                PartContent::Whole(payload) => PartBytes::Whole(payload),
                PartContent::Staged(staged) => PartBytes::Staged(take_staged(&self.store, staged)?),
            };
            self.store.put_part(upload_name(upload), number, attributes, bytes).await
        })
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        Box::pin(async move { self.store.parts(&upload_name(upload), after, max_parts) })
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(self.store.complete(upload_name(upload), parts, attributes, self.rule(condition)))
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        Box::pin(self.store.abort(upload_name(upload)))
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        Box::pin(async move { self.store.list_uploads(query) })
    }
}
