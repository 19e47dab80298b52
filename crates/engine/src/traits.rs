//! The interface.

use crate::condition::Condition;
use crate::error::EngineError;
use crate::key::ObjectKey;
use crate::list::{ListPage, ListQuery};
use crate::object::{Committed, Found, ObjectInfo, Payload};
use crate::staging::StagedChunks;
use crate::upload::{CompletePart, PartContent, PartInfo, UploadPage, UploadQuery, UploadRef};
use bytes::Bytes;
use format::attributes::Attributes;
use format::part_table::PartTable;
use smallvec::smallvec;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use types::{BucketId, UploadId};

/// A boxed future: engines are chosen per bucket, at run time.
pub type EngineFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// Objects, linearizable per key.
///
/// Once a write's future is ready with `Ok`, the write is durable and every later read and list sees it or something newer.
pub trait ObjectEngine: Send + Sync + 'static {
    /// Finds an object without waiting, on the caller's thread: `None` means "not possible now, use [`ObjectEngine::open`]".
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>>;

    /// Finds an object. Errors: `NotFound`, `Corrupt`, `Unavailable`.
    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found>;

    /// Finds an object's attributes, without its bytes.
    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo>;

    /// Writes an object of at most [`types::limits::MAX_SMALL_BYTES`]. Errors: `PreconditionFailed`, `NotFound` (a match on an
    /// absent key), `Full`, `Unavailable`, `Busy`.
    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed>;

    /// Begins a large object under this key; `upload` and `part` say that it is a part.
    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks;

    /// Appends the next bytes as one chunk, at most [`types::limits::CHUNK_BYTES`]. Short chunks are for memory that is needed, and for the end:
    /// each one costs a place in the object's tree. The engine keeps the payload no longer than until it is durable: it may be memory that is
    /// counted.
    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()>;

    /// As [`ObjectEngine::stage_pieces`], of bytes in one piece.
    fn stage_chunk<'a>(&'a self, staged: &'a mut StagedChunks, bytes: Bytes) -> EngineFuture<'a, ()> {
        self.stage_pieces(staged, smallvec![bytes])
    }

    /// Waits for the staged chunks and makes them the object. Errors as [`ObjectEngine::put`].
    fn commit<'a>(
        &'a self,
        key: &'a ObjectKey,
        staged: StagedChunks,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed>;

    /// Replaces an object's tags: content, parts, tag, time and all other attributes stay, whatever is written beside it. Errors: `NotFound`,
    /// `Full`, `Unavailable`, `Busy`.
    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed>;

    /// Deletes an object; an absent one is no error. Errors: `PreconditionFailed`, `NotFound` (a match on an absent key).
    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()>;

    /// One page of names.
    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage>;

    /// Whether a bucket incarnation holds nothing: no objects, no versions, no uploads.
    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool>;

    /// Opens an upload; `attributes` are those of the object to come (its tag is not known yet). Ids of one key are in the order of the
    /// attributes' times.
    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId>;

    /// The attributes given to [`ObjectEngine::create_upload`]. Error: `NoSuchUpload`.
    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes>;

    /// Writes a part; a part under the same number is replaced. Error: `NoSuchUpload`, `Full`.
    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo>;

    /// Parts with numbers above `after`, ascending, at most `max_parts`. Error: `NoSuchUpload`.
    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>>;

    /// Joins these parts, ascending, into the object and ends the upload; other parts are dropped. A retry after success
    /// answers the first outcome for as long as it is remembered, whatever else the retry says: an upload that has ended is
    /// looked for before the parts and the condition are judged. Errors: `InvalidPart`, `NoSuchUpload`, those of `put`.
    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed>;

    /// Ends an upload and drops its parts. Error: `NoSuchUpload`.
    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()>;

    /// One page of open uploads.
    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage>;
}

/// Reads ranges of one version of a large object. The version stays readable while the reader lives, also when it is
/// overwritten or deleted meanwhile.
pub trait ContentReader: Send + Sync {
    /// Bytes that start at `range.start`, verified, at least one and at most the range's length: as much as one read of the
    /// device gives. The caller asks again for the rest.
    fn read(&self, range: Range<u64>) -> EngineFuture<'_, Bytes>;

    /// The parts of an object that was made by parts, with their checksums if they have some of one algorithm.
    fn parts(&self) -> Option<&PartTable>;
}
