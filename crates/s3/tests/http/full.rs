//! A device without room: writes are refused with one clear error, everything else goes on.
//!
//! What fills up here is an engine in memory that holds no more than it is told; how real devices fill up is tested with the
//! engine of logs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use engine::memory::MemoryEngine;
use engine::{
    Committed, CompletePart, Condition, Content, ContentReader, EngineError, EngineFuture, Found, ListPage, ListQuery,
    ObjectEngine, ObjectInfo, ObjectKey, PartContent, PartInfo, Payload, StagedChunks, UploadPage, UploadQuery, UploadRef,
};
use format::attributes::Attributes;
use format::part_table::PartTable;
use parking_lot::Mutex;
use types::{BucketId, UploadId};

use crate::client::{Answer, Client, request};
use crate::server::{PUBLIC, Server};
use crate::signing::Request;

/// Holds at most so many bytes of objects.
pub struct SmallEngine {
    pub memory: MemoryEngine,
    /// Answers the next question about an object whose key this is, and does so just before the object is overwritten with this.
    pub overtaken: Mutex<Option<(&'static str, Attributes, Payload)>>,
    /// Answers no question about objects.
    pub is_broken: AtomicBool,
    /// Opens objects whose content can't be read.
    pub is_away: AtomicBool,
    /// Finds no part of an upload that is looked up next: another request has completed it just before, with this.
    pub completed: Mutex<Option<Attributes>>,
    capacity: u64,
    lengths: Mutex<BTreeMap<ObjectKey, u64>>,
}

impl SmallEngine {
    pub fn new(capacity: u64) -> SmallEngine {
        let (overtaken, is_broken, is_away) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
        let (memory, completed, lengths) = (MemoryEngine::new(), Mutex::default(), Mutex::default());
        SmallEngine { memory, overtaken, is_broken, is_away, completed, capacity, lengths }
    }

    /// Refuses what does not fit beside the objects that are there.
    fn check_room(&self, bytes: u64) -> Result<(), EngineError> {
        let used: u64 = self.lengths.lock().values().sum();
        if used + bytes > self.capacity { Err(EngineError::Full) } else { Ok(()) }
    }
}

/// Content of which no copy can be read now.
struct Away;

impl ContentReader for Away {
    fn read(&self, _range: Range<u64>) -> EngineFuture<'_, Bytes> {
        Box::pin(async { Err(EngineError::Unavailable { reason: String::from("told to be away") }) })
    }

    fn parts(&self) -> Option<&PartTable> {
        None
    }
}

impl ObjectEngine for SmallEngine {
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>> {
        self.memory.open_cached(key).filter(|_| !self.is_away.load(Ordering::Relaxed))
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        Box::pin(async move {
            let mut found = self.memory.open(key).await?;
            if self.is_away.load(Ordering::Relaxed) {
                found.content = Content::Chunked(Box::new(Away));
            }
            Ok(found)
        })
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        Box::pin(async move {
            if self.is_broken.load(Ordering::Relaxed) {
                return Err(EngineError::Internal { detail: String::from("told to be broken") });
            }
            let info = self.memory.info(key).await;
            let overtaking = self.overtaken.lock().take_if(|(of, ..)| *of == key.as_str());
            if let Some((_, attributes, payload)) = overtaking {
                self.memory.put(key, attributes, payload, Condition::None).await?;
            }
            info
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
            let bytes = payload.iter().map(|piece| piece.len() as u64).sum();
            self.check_room(bytes)?;
            let committed = self.memory.put(key, attributes, payload, condition).await?;
            self.lengths.lock().insert(key.clone(), bytes);
            Ok(committed)
        })
    }

    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks {
        self.memory.stage(key, part)
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let bytes: u64 = chunk.iter().map(|piece| piece.len() as u64).sum();
            self.check_room(staged.length + bytes)?;
            self.memory.stage_pieces(staged, chunk).await
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
            let bytes = staged.length;
            let committed = self.memory.commit(key, staged, attributes, condition).await?;
            self.lengths.lock().insert(key.clone(), bytes);
            Ok(committed)
        })
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        self.memory.set_tags(key, tags)
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            self.memory.delete(key, condition).await?;
            self.lengths.lock().remove(key);
            Ok(())
        })
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        self.memory.list(query)
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        self.memory.is_empty(bucket)
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        self.memory.create_upload(key, attributes)
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        self.memory.upload(upload)
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        Box::pin(async move {
            let bytes = match &content {
                PartContent::Whole(payload) => payload.iter().map(|piece| piece.len() as u64).sum(),
                PartContent::Staged(staged) => staged.length,
            };
            self.check_room(bytes)?;
            self.memory.put_part(upload, number, attributes, content).await
        })
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        Box::pin(async move {
            let parts = self.memory.parts(upload, after, max_parts).await?;
            let Some(attributes) = self.completed.lock().take() else { return Ok(parts) };
            let chosen = parts.iter().map(|part| CompletePart { number: part.number, order: part.order }).collect();
            self.memory.complete(upload, chosen, attributes, Condition::None).await?;
            Ok(Vec::new())
        })
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        self.memory.complete(upload, parts, attributes, condition)
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        self.memory.abort(upload)
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        self.memory.uploads(query)
    }
}

fn assert_full(case: &str, answer: &Answer) {
    assert_eq!((answer.status, answer.element("Code").as_deref()), (507, Some("XTrilithStorageFull")), "{case}");
    assert_eq!(answer.header("content-type"), Some("application/xml"), "{case}");
    assert!(answer.element("Message").is_some_and(|message| message.contains("No space is left")), "{case}: {}", answer.text());
    assert_eq!(answer.element("RequestId").as_deref(), answer.header("x-amz-request-id"), "{case}");
}

#[test]
fn a_full_device_refuses_writes_until_something_is_deleted() {
    const CAPACITY: u64 = 6_000_000;
    let server = Server::start_over(Arc::new(SmallEngine::new(CAPACITY)));
    let address = server.address();
    let (kept, other) = (format!("/{PUBLIC}/kept"), format!("/{PUBLIC}/other"));
    let put = |address, path: &str, body: &[u8]| request(address, &Request::new("PUT", path).body(body).anonymous(), body);
    let ask = |address, method, path: &str| request(address, &Request::new(method, path).anonymous(), b"");
    let large = vec![3; 5_999_990];

    assert_eq!(put(address, &kept, &large).status, 200);
    assert_full("a small object", &put(address, &other, b"eleven bytes"));
    let mut client = Client::connect(address);
    let head = Request::new("PUT", &other).body(large.clone()).anonymous();
    client.send(format!("{head}\r\n\r\n").as_bytes());
    client.try_send(&large);
    assert_full("a large object", &client.answer());
    let signed = |method: &str, query: &str, body: &[u8]| {
        let asked = Request::new(method, &other).query(query).body(body);
        request(address, &asked.signed().0, body)
    };
    let upload = signed("POST", "uploads", b"").element("UploadId").expect("an upload");
    assert_full("a part", &signed("PUT", &format!("partNumber=1&uploadId={upload}"), b"eleven bytes"));
    assert_eq!(signed("DELETE", &format!("uploadId={upload}"), b"").status, 204);

    assert_eq!(ask(address, "GET", &kept).body, large, "reads go on");
    assert_eq!(ask(address, "HEAD", &other).status, 404, "nothing of what was refused is there");
    assert_eq!(ask(address, "GET", &format!("/{PUBLIC}")).elements("Key"), ["kept"]);
    assert_eq!(ask(address, "DELETE", &kept).status, 204);
    assert_eq!(put(address, &other, b"eleven bytes").status, 200, "there is room again");
    assert_eq!(ask(address, "GET", &other).text(), "eleven bytes");
    assert_eq!(ask(address, "DELETE", &other).status, 204);
    server.stop();
}
