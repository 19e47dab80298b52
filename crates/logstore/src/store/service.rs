//! What the object service asks for: reads, writes, lists and uploads of one gateway.

use super::{Inner, LogStore, draft, name_of};
use crate::large::LogStaged;
use crate::read::info_of;
use crate::write::Draft;
use bytes::Bytes;
use engine::{
    Committed, CompletePart, Condition, EngineError, EngineFuture, Found, ListPage, ListQuery, ObjectEngine, ObjectInfo,
    ObjectKey, PartContent, PartInfo, Payload, StagedChunks, UploadPage, UploadQuery, UploadRef,
};
use format::attributes::Attributes;
use format::record::{EntryName, RecordKind};
use std::sync::Arc;
use types::limits::MAX_SMALL_BYTES;
use types::{BucketId, UploadId};

impl ObjectEngine for LogStore {
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>> {
        let name = EntryName::object(key.bucket(), key.key().clone());
        let hash = name.hash();
        let (located, frame) = match self.inner.read_cached(&name, &hash)? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let pin = match self.inner.pin_content(&hash, &located, &frame)? {
            Ok(pin) => pin,
            Err(error) => return Some(Err(error)),
        };
        self.inner.stats.cached_reads.add(1);
        Some(self.inner.found(key, located.order, frame, pin))
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        Box::pin(async move {
            let name = EntryName::object(key.bucket(), key.key().clone());
            let (located, frame, pin) = self.inner.read_pinned(&name, &name.hash()).await?;
            self.inner.stats.device_reads.add(1);
            self.inner.found(key, located.order, frame, pin)
        })
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        Box::pin(async move {
            let name = EntryName::object(key.bucket(), key.key().clone());
            let (located, frame) = self.inner.read_newest(&name, &name.hash()).await?;
            info_of(&frame.record, located.order)
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let length = payload.iter().map(Bytes::len).sum::<usize>();
            if length > MAX_SMALL_BYTES {
                return Err(EngineError::Invalid {
                    reason: format!("{length} bytes in one record, at most {MAX_SMALL_BYTES}"),
                });
            }
            let draft = Draft { length: length as u64, payload, ..LogStore::object_draft(key, &attributes) };
            self.inner.write(draft, condition).await
        })
    }

    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks {
        let owner = LogStore::object_hash(key);
        StagedChunks { length: 0, inner: Box::new(LogStaged::new(&self.inner, owner, part)) }
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let length = chunk.iter().map(|piece| piece.len() as u64).sum::<u64>();
            let own = staged.inner.as_any_mut().downcast_mut::<LogStaged>().ok_or_else(foreign)?;
            own.check_engine(&self.inner)?;
            own.push(chunk).await?;
            staged.length += length;
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
            let content = own_staged(staged, &self.inner)?.into_content().await?;
            let draft = Draft {
                kind: RecordKind::Descriptor,
                length: content.length,
                tree_height: content.tree_height,
                payload: content.payload,
                kept: Some(content.kept),
                ..LogStore::object_draft(key, &attributes)
            };
            self.inner.write(draft, condition).await
        })
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        Box::pin(self.inner.in_touch(self.inner.set_tags(key, tags)))
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let attributes = Attributes { modified_ms: self.inner.env.wall_clock_ms(), ..Attributes::default() };
            let tombstone = draft(RecordKind::Tombstone, name_of(key), &attributes);
            self.inner.write(tombstone, condition).await.map(|_| ())
        })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.list(query).await
        })
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.is_bucket_empty(bucket).await
        })
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        Box::pin(self.inner.create_upload(key, attributes))
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        Box::pin(self.inner.upload_attributes(upload))
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        Box::pin(self.inner.put_part(upload, number, attributes, content))
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.parts(upload, after, max_parts).await
        })
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            // As a whole: what it has made it also ends, whether or not its answer may leave.
            self.inner.in_touch(self.inner.complete(upload, parts, attributes, condition)).await
        })
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        Box::pin(self.inner.in_touch(self.inner.abort(upload)))
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        Box::pin(async move {
            self.inner.settle_names().await?;
            self.inner.uploads(query).await
        })
    }
}

/// The engine's own record of staged chunks.
pub(crate) fn own_staged(staged: StagedChunks, inner: &Arc<Inner>) -> Result<LogStaged, EngineError> {
    let any: Box<dyn std::any::Any> = staged.inner;
    let own = any.downcast::<LogStaged>().map(|own| *own).map_err(|_| foreign())?;
    own.check_engine(inner)?;
    Ok(own)
}

fn foreign() -> EngineError {
    EngineError::Internal { detail: "chunks staged by another engine".to_owned() }
}
