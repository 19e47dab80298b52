//! That the suite can fail: engines with one flaw each, which it must find.

use std::sync::Arc;

use bytes::Bytes;
use format::attributes::Attributes;
use types::{BucketId, UploadId};

use super::run_all;
use crate::memory::MemoryEngine;
use crate::{
    Committed, CompletePart, Condition, EngineFuture, Found, ListPage, ListQuery, ObjectEngine, ObjectInfo, ObjectKey,
    PartContent, PartInfo, Payload, StagedChunks, UploadPage, UploadQuery, UploadRef,
};

/// What is wrong with an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Writes whatever the condition says.
    IgnoresConditions,
    /// Evaluates the condition, then writes, and lets others in between.
    EvaluatesTooEarly,
    /// Says that it deleted, and did not.
    KeepsDeleted,
    /// Forgets that a list has more.
    NeverTruncates,
    /// Lists what starts at the mark, not what follows it.
    RepeatsTheMark,
    /// Takes parts as they are now, not as they were named.
    TakesStaleParts,
    /// Answers a retried complete as if the upload had never been.
    ForgetsOutcomes,
    /// Says that a bucket with uploads is empty.
    OverlooksUploads,
}

struct FlawedEngine {
    inner: MemoryEngine,
    flaw: Flaw,
}

impl FlawedEngine {
    /// The condition that the inner engine gets to see.
    async fn condition(&self, key: &ObjectKey, condition: Condition) -> Result<Condition, crate::EngineError> {
        match self.flaw {
            Flaw::IgnoresConditions => Ok(Condition::None),
            Flaw::EvaluatesTooEarly if !condition.is_blind() => {
                let newest = self.inner.info(key).await.ok().map(|info| info.attributes.etag);
                let outcome = condition.check(newest.as_ref());
                tokio::task::yield_now().await;
                match outcome {
                    Ok(()) => Ok(Condition::None),
                    Err(_) => Ok(condition),
                }
            }
            _ => Ok(condition),
        }
    }
}

impl ObjectEngine for FlawedEngine {
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, crate::EngineError>> {
        self.inner.open_cached(key)
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        self.inner.open(key)
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        self.inner.info(key)
    }

    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let condition = self.condition(key, condition).await?;
            self.inner.put(key, attributes, payload, condition).await
        })
    }

    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks {
        self.inner.stage(key, part)
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        self.inner.stage_pieces(staged, chunk)
    }

    fn commit<'a>(
        &'a self,
        key: &'a ObjectKey,
        staged: StagedChunks,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        self.inner.commit(key, staged, attributes, condition)
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        self.inner.set_tags(key, tags)
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            match self.flaw {
                Flaw::KeepsDeleted => Ok(()),
                _ => self.inner.delete(key, condition).await,
            }
        })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        Box::pin(async move {
            let mut query = query.clone();
            if self.flaw == Flaw::RepeatsTheMark
                && let Some((_, shorter)) = query.start_after.split_last()
            {
                query.start_after = Bytes::copy_from_slice(shorter);
            }
            let mut page = self.inner.list(&query).await?;
            page.truncated &= self.flaw != Flaw::NeverTruncates;
            Ok(page)
        })
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            if self.flaw == Flaw::OverlooksUploads {
                let everything = Bytes::new();
                let query = ListQuery {
                    bucket,
                    prefix: everything.clone(),
                    start_after: everything.clone(),
                    delimiter: everything,
                    max_items: 1,
                };
                return Ok(self.inner.list(&query).await?.items.is_empty());
            }
            self.inner.is_empty(bucket).await
        })
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        self.inner.create_upload(key, attributes)
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        self.inner.upload(upload)
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        self.inner.put_part(upload, number, attributes, content)
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        self.inner.parts(upload, after, max_parts)
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        mut parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            if self.flaw == Flaw::ForgetsOutcomes {
                self.inner.upload(upload).await?;
            }
            if self.flaw == Flaw::TakesStaleParts {
                for info in self.inner.parts(upload, 0, usize::MAX).await? {
                    for part in parts.iter_mut().filter(|part| part.number == info.number) {
                        part.order = info.order;
                    }
                }
            }
            self.inner.complete(upload, parts, attributes, condition).await
        })
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        self.inner.abort(upload)
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        self.inner.uploads(query)
    }
}

/// Whether the suite is content with an engine that has this flaw.
fn conforms(flaw: Flaw) -> bool {
    // On a thread of its own, so that a failed assertion of the suite is an answer here.
    let run = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(run_all(async || Arc::new(FlawedEngine { inner: MemoryEngine::new(), flaw })));
    });
    run.join().is_ok()
}

#[test]
fn the_suite_finds_every_flaw() {
    assert!(conforms(Flaw::None), "the wrapper itself is no flaw");
    let flaws = [
        Flaw::IgnoresConditions,
        Flaw::EvaluatesTooEarly,
        Flaw::KeepsDeleted,
        Flaw::NeverTruncates,
        Flaw::RepeatsTheMark,
        Flaw::TakesStaleParts,
        Flaw::ForgetsOutcomes,
        Flaw::OverlooksUploads,
    ];
    for flaw in flaws {
        assert!(!conforms(flaw), "the suite does not see {flaw:?}");
    }
}
