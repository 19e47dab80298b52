//! An engine in memory: the meaning of [`ObjectEngine`] in the simplest code, and the oracle that other engines are compared
//! with.
//!
//! One lock makes every operation atomic, so linearizability is by construction. Nothing is evicted, not even the outcomes of
//! completed uploads: an oracle that forgets cannot judge.

mod content;
mod listing;

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use format::attributes::Attributes;
use format::part_table::PartTable;
use parking_lot::Mutex;
use types::limits::{MAX_PARTS, MAX_SMALL_BYTES};
use types::{Activation, BucketId, Generation, Order, UploadId, ZoneOffset};

use self::content::{MemoryContent, MemoryStaged};
use crate::condition::{Condition, Unmet};
use crate::error::EngineError;
use crate::key::ObjectKey;
use crate::list::{ListPage, ListQuery};
use crate::object::{Committed, Content, Found, ObjectInfo, Payload};
use crate::staging::StagedChunks;
use crate::traits::{EngineFuture, ObjectEngine};
use crate::upload::{CompletePart, PartContent, PartInfo, UploadPage, UploadQuery, UploadRef};

/// Objects in memory, gone with the value.
#[derive(Default)]
pub struct MemoryEngine {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Writes so far; each write's order is its count.
    writes: u64,
    /// Uploads so far; each upload's id is its count.
    uploads_made: u64,
    objects: BTreeMap<ObjectKey, StoredObject>,
    uploads: BTreeMap<(ObjectKey, UploadId), StoredUpload>,
    /// What each completed upload was answered.
    completed: BTreeMap<(ObjectKey, UploadId), Committed>,
}

struct StoredObject {
    info: ObjectInfo,
    body: StoredBody,
}

enum StoredBody {
    Whole(Bytes),
    Chunked(MemoryContent),
}

struct StoredUpload {
    attributes: Attributes,
    parts: BTreeMap<u16, StoredPart>,
}

struct StoredPart {
    info: PartInfo,
    pieces: Vec<Bytes>,
}

impl MemoryEngine {
    pub fn new() -> Self {
        MemoryEngine::default()
    }
}

impl State {
    fn next_order(&mut self) -> Order {
        self.writes += 1;
        Order { generation: Generation(1), activation: Activation(self.writes), offset: ZoneOffset(0) }
    }

    fn check(&self, key: &ObjectKey, condition: &Condition) -> Result<(), EngineError> {
        let newest = self.objects.get(key).map(|object| &object.info.attributes.etag);
        condition.check(newest).map_err(|unmet| match unmet {
            Unmet::Absent => EngineError::NotFound,
            Unmet::Differs => EngineError::PreconditionFailed,
        })
    }

    fn write(&mut self, key: &ObjectKey, body: StoredBody, length: u64, attributes: Attributes) -> Committed {
        let order = self.next_order();
        let committed = Committed { etag: attributes.etag, order, modified_ms: attributes.modified_ms };
        let info = ObjectInfo { length, attributes, order };
        self.objects.insert(key.clone(), StoredObject { info, body });
        committed
    }

    fn upload(&mut self, upload: &UploadRef) -> Result<&mut StoredUpload, EngineError> {
        self.uploads.get_mut(&upload_key(upload)).ok_or(EngineError::NoSuchUpload)
    }

    fn complete(
        &mut self,
        upload: &UploadRef,
        parts: &[CompletePart],
        attributes: Attributes,
        condition: &Condition,
    ) -> Result<Committed, EngineError> {
        let name = upload_key(upload);
        if let Some(first_outcome) = self.completed.get(&name) {
            return Ok(first_outcome.clone());
        }
        let stored = self.uploads.get(&name).ok_or(EngineError::NoSuchUpload)?;
        let content = join_parts(stored, parts)?;
        self.check(&upload.key, condition)?;
        let length = content.length();
        let committed = self.write(&upload.key, StoredBody::Chunked(content), length, attributes);
        self.uploads.remove(&name);
        self.completed.insert(name, committed.clone());
        Ok(committed)
    }
}

impl ObjectEngine for MemoryEngine {
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>> {
        let state = self.state.lock();
        Some(state.objects.get(key).map(StoredObject::found).ok_or(EngineError::NotFound))
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        Box::pin(async move { self.state.lock().objects.get(key).map(StoredObject::found).ok_or(EngineError::NotFound) })
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        Box::pin(
            async move { self.state.lock().objects.get(key).map(|object| object.info.clone()).ok_or(EngineError::NotFound) },
        )
    }

    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let bytes = copied(&payload);
            if bytes.len() > MAX_SMALL_BYTES {
                return Err(too_long_to_put(bytes.len()));
            }
            let mut state = self.state.lock();
            state.check(key, &condition)?;
            let length = bytes.len() as u64;
            Ok(state.write(key, StoredBody::Whole(bytes), length, attributes))
        })
    }

    fn stage(&self, _key: &ObjectKey, _part: Option<(UploadId, u16)>) -> StagedChunks {
        StagedChunks { length: 0, inner: Box::new(MemoryStaged::default()) }
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let bytes = copied(&chunk);
            staged.length += bytes.len() as u64;
            MemoryStaged::of_mut(staged)?.push(bytes)
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
            let pieces = MemoryStaged::take_pieces(staged)?;
            let content = MemoryContent::without_parts(pieces);
            let mut state = self.state.lock();
            state.check(key, &condition)?;
            let length = content.length();
            Ok(state.write(key, StoredBody::Chunked(content), length, attributes))
        })
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        Box::pin(async move {
            let mut state = self.state.lock();
            let order = state.next_order();
            let info = &mut state.objects.get_mut(key).ok_or(EngineError::NotFound)?.info;
            info.attributes.tags = tags;
            info.order = order;
            Ok(Committed { etag: info.attributes.etag, order, modified_ms: info.attributes.modified_ms })
        })
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let mut state = self.state.lock();
            state.check(key, &condition)?;
            state.objects.remove(key);
            Ok(())
        })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        Box::pin(async move { Ok(listing::list_objects(&self.state.lock(), query)) })
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            let state = self.state.lock();
            let no_objects = !state.objects.keys().any(|key| key.bucket() == bucket);
            let no_uploads = !state.uploads.keys().any(|(key, _)| key.bucket() == bucket);
            Ok(no_objects && no_uploads)
        })
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        Box::pin(async move {
            let mut state = self.state.lock();
            state.uploads_made += 1;
            let upload = UploadId(u128::from(state.uploads_made).to_be_bytes());
            state.uploads.insert((key.clone(), upload), StoredUpload { attributes, parts: BTreeMap::new() });
            Ok(upload)
        })
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        Box::pin(async move { Ok(self.state.lock().upload(upload)?.attributes.clone()) })
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        Box::pin(async move {
            if number == 0 || number > MAX_PARTS {
                return Err(EngineError::Invalid { reason: format!("part number {number} is not within 1 to {MAX_PARTS}") });
            }
            let pieces = part_pieces(content)?;
            let length = pieces.iter().map(|piece| piece.len() as u64).sum();
            let mut state = self.state.lock();
            state.upload(upload)?;
            let order = state.next_order();
            let info = PartInfo { number, length, attributes, order };
            state.upload(upload)?.parts.insert(number, StoredPart { info: info.clone(), pieces });
            Ok(info)
        })
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        Box::pin(async move {
            let mut state = self.state.lock();
            let parts = &state.upload(upload)?.parts;
            let above = parts.range((Bound::Excluded(after), Bound::Unbounded));
            Ok(above.take(max_parts).map(|(_, part)| part.info.clone()).collect())
        })
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        Box::pin(async move { self.state.lock().complete(upload, &parts, attributes, &condition) })
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        Box::pin(
            async move { self.state.lock().uploads.remove(&upload_key(upload)).map(|_| ()).ok_or(EngineError::NoSuchUpload) },
        )
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        Box::pin(async move { Ok(listing::list_uploads(&self.state.lock(), query)) })
    }
}

impl StoredObject {
    fn found(&self) -> Found {
        let content = match &self.body {
            StoredBody::Whole(bytes) => Content::Whole(bytes.clone()),
            StoredBody::Chunked(content) => Content::Chunked(Box::new(content.clone())),
        };
        Found { info: self.info.clone(), content }
    }
}

fn upload_key(upload: &UploadRef) -> (ObjectKey, UploadId) {
    (upload.key.clone(), upload.upload)
}

fn part_pieces(content: PartContent) -> Result<Vec<Bytes>, EngineError> {
    match content {
        PartContent::Whole(payload) => {
            let bytes = copied(&payload);
            if bytes.len() > MAX_SMALL_BYTES {
                return Err(too_long_to_put(bytes.len()));
            }
            Ok(vec![bytes])
        }
        PartContent::Staged(staged) => MemoryStaged::take_pieces(staged),
    }
}

/// The content of the named parts, each of which must be the one that the caller looked at, ascending.
fn join_parts(upload: &StoredUpload, parts: &[CompletePart]) -> Result<MemoryContent, EngineError> {
    if parts.is_empty() || !parts.is_sorted_by(|left, right| left.number < right.number) {
        return Err(EngineError::Invalid { reason: "an upload is completed with one or more parts, ascending".to_owned() });
    }
    let (mut joined, mut table) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
    for named in parts {
        let stored = upload.parts.get(&named.number).filter(|stored| stored.info.order == named.order);
        let stored = stored.ok_or(EngineError::InvalidPart { number: named.number })?;
        joined.push(stored.pieces.clone());
        table.push((stored.info.length, stored.info.attributes.checksum));
    }
    Ok(MemoryContent::of_parts(joined, PartTable::of(&table)))
}

/// The bytes in memory of their own: the payload's may be counted.
fn copied(payload: &Payload) -> Bytes {
    payload.concat().into()
}

fn too_long_to_put(bytes: usize) -> EngineError {
    EngineError::Invalid { reason: format!("{bytes} bytes are more than the {MAX_SMALL_BYTES} of a small object") }
}

#[cfg(test)]
mod tests;
