//! The engine that the node's services use: whichever incarnation of its gateway serves.

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use engine::{
    Committed, CompletePart, Condition, EngineError, EngineFuture, Found, ListPage, ListQuery, ObjectEngine, ObjectInfo,
    ObjectKey, PartContent, PartInfo, Payload, Staged, StagedChunks, UploadPage, UploadQuery, UploadRef,
};
use format::attributes::Attributes;
use logstore::LogStore;
use std::any::Any;
use std::sync::Arc;
use types::{BucketId, UploadId};

/// Hands every operation to the present incarnation, or says that there is none.
#[derive(Default)]
pub(crate) struct CellEngine {
    serving: ArcSwapOption<LogStore>,
}

impl CellEngine {
    /// This incarnation serves from now on.
    pub fn set(&self, store: LogStore) {
        self.serving.store(Some(Arc::new(store)));
    }

    /// Nobody serves.
    pub fn clear(&self) {
        self.serving.store(None);
    }

    /// Whether somebody serves.
    pub fn serving(&self) -> Option<Arc<LogStore>> {
        self.serving.load_full()
    }

    fn store(&self) -> Result<Arc<LogStore>, EngineError> {
        self.serving().ok_or_else(|| EngineError::Unavailable {
            reason: "this node's gateway is not in its cell's view: it starts, joins, or is cut off; try another node"
                .to_owned(),
        })
    }
}

/// Chunks staged while nobody serves: nothing is kept of them.
struct Nowhere;

impl Staged for Nowhere {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl ObjectEngine for CellEngine {
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>> {
        self.serving.load().as_ref()?.open_cached(key)
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        Box::pin(async move { self.store()?.open(key).await })
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        Box::pin(async move { self.store()?.info(key).await })
    }

    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move { self.store()?.put(key, attributes, payload, condition).await })
    }

    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks {
        match self.serving() {
            Some(store) => store.stage(key, part),
            None => StagedChunks { length: 0, inner: Box::new(Nowhere) },
        }
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        Box::pin(async move { self.store()?.stage_pieces(staged, chunk).await })
    }

    fn commit<'a>(
        &'a self,
        key: &'a ObjectKey,
        staged: StagedChunks,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move { self.store()?.commit(key, staged, attributes, condition).await })
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        Box::pin(async move { self.store()?.set_tags(key, tags).await })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(async move { self.store()?.delete(key, condition).await })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        Box::pin(async move { self.store()?.list(query).await })
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        Box::pin(async move { self.store()?.is_empty(bucket).await })
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        Box::pin(async move { self.store()?.create_upload(key, attributes).await })
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        Box::pin(async move { self.store()?.upload(upload).await })
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        Box::pin(async move { self.store()?.put_part(upload, number, attributes, content).await })
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        Box::pin(async move { self.store()?.parts(upload, after, max_parts).await })
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move { self.store()?.complete(upload, parts, attributes, condition).await })
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        Box::pin(async move { self.store()?.abort(upload).await })
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        Box::pin(async move { self.store()?.uploads(query).await })
    }
}
