//! One client of a machine: asks at random and records what it hears.

use crate::content::{Value, content, tag, upload_tag};
use crate::coverage::Coverage;
use crate::draw::Draw;
use crate::machine::BUCKET;
use crate::record::{Asked, Record};
use crate::scenario::{Mix, Workload};
use crate::trace::Trace;
use bytes::Bytes;
use engine::{Condition, ETagMatch, ListItem};
use env::Env;
use format::attributes::{Attributes, ETag};
use futures_util::StreamExt;
use model::register::{Call, Outcome};
use object::{
    CompleteRequest, CopyRequest, CopySource, ListRequest, MetadataDirective, NamedPart, ObjectError, ObjectService,
    OwnAttributes, Principal, PutRequest, Read, ReadBody, ReadConditions, ReadRequest, Upload, UploadName,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Longest pause of a client between two requests.
const PAUSE: Duration = Duration::from_millis(3);

/// What all clients of a life share.
#[derive(Clone)]
pub struct Shared {
    pub machine: usize,
    pub service: Arc<ObjectService>,
    pub env: Env,
    pub record: Arc<Record>,
    pub trace: Arc<Trace>,
    pub coverage: Arc<Mutex<Coverage>>,
    pub workload: Workload,
    /// Whether an answer may be a refusal for want of a device or of space.
    pub may_refuse: bool,
}

pub struct Client {
    pub shared: Shared,
    number: u64,
    draw: Draw,
    root: Principal,
    /// What each key held when this client last knew.
    known: Vec<Option<Value>>,
}

/// What is wrong.
pub type Violation = String;

#[derive(Clone, Copy, Debug)]
enum Request {
    Put { most_bytes: u64 },
    PutIfAbsent,
    PutIfMatch,
    Delete,
    DeleteIfMatch,
    Copy,
    Upload,
    Get,
    Head,
    List,
}

impl Client {
    pub fn new(shared: Shared, number: u64, draw: Draw) -> Client {
        let known = vec![None; shared.record.keys()];
        let root = Principal::User { name: manager::ROOT_USER.into(), is_root: true };
        Client { shared, number, draw, root, known }
    }

    /// Makes its requests.
    pub async fn run(mut self) -> Result<(), Violation> {
        for _ in 0..self.shared.workload.requests {
            self.step().await?;
            match self.draw.below(3) {
                0 => self.shared.env.sleep(self.draw.duration(PAUSE)).await,
                _ => tokio::task::yield_now().await,
            }
        }
        Ok(())
    }

    /// Reads every key and every list; LIST and GET must agree, because nobody else is there.
    pub async fn look(&mut self) -> Result<(), Violation> {
        for key in 0..self.known.len() {
            self.get(key).await?;
        }
        let read = self.known.clone();
        for page in [self.known.len() + 1, 1] {
            let answered = self.list(page).await?;
            if answered && self.known != read {
                return Err(format!("LIST in pages of {page} says {:?}, reads {read:?}", self.known));
            }
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<(), Violation> {
        let key = self.draw.below(self.known.len() as u64) as usize;
        let request = self.request();
        self.note(&format_args!("{request:?} of key {key}"));
        let Workload { small_bytes, .. } = self.shared.workload;
        match (request, self.known[key]) {
            (Request::Put { most_bytes }, _) => self.put(key, most_bytes, Condition::None).await,
            (Request::PutIfAbsent, _) => self.put(key, small_bytes, Condition::Absent).await,
            (Request::PutIfMatch, Some(value)) => self.put(key, small_bytes, self.is_still(value)).await,
            (Request::Delete, _) => self.delete(key, Condition::None).await,
            (Request::DeleteIfMatch, Some(value)) => self.delete(key, self.is_still(value)).await,
            (Request::Copy, _) => self.copy(key).await,
            (Request::Upload, _) => self.upload(key).await,
            (Request::Head, _) => self.head(key).await,
            (Request::List, _) => {
                let page = if self.draw.percent(50) { 1 } else { self.known.len() + 1 };
                self.list(page).await.map(|_| ())
            }
            (Request::Get | Request::PutIfMatch | Request::DeleteIfMatch, _) => self.get(key).await,
        }
    }

    fn request(&mut self) -> Request {
        let Workload { mix, small_bytes, large_bytes, .. } = self.shared.workload;
        let Mix { put, put_large, put_if_absent, put_if_match, delete, delete_if_match, copy, upload, get, head, list } = mix;
        let weights = [
            (put, Request::Put { most_bytes: small_bytes }),
            (put_large, Request::Put { most_bytes: large_bytes }),
            (put_if_absent, Request::PutIfAbsent),
            (put_if_match, Request::PutIfMatch),
            (delete, Request::Delete),
            (delete_if_match, Request::DeleteIfMatch),
            (copy, Request::Copy),
            (upload, Request::Upload),
            (get, Request::Get),
            (head, Request::Head),
            (list, Request::List),
        ];
        let mut drawn = self.draw.below(weights.iter().map(|(weight, _)| weight).sum());
        for (weight, request) in weights {
            if drawn < weight {
                return request;
            }
            drawn -= weight;
        }
        unreachable!("a draw below the sum of the weights")
    }

    fn is_still(&self, value: Value) -> Condition {
        Condition::Match(ETagMatch::OneOf(vec![self.shared.record.tag_of(value)]))
    }

    fn new_content(&mut self, most_bytes: u64, tag_of: fn(&[u8]) -> ETag) -> (Value, Bytes) {
        let value = self.shared.record.next_value();
        let bytes = content(value, self.draw.below(most_bytes) as usize);
        self.shared.record.sends(value, &bytes, tag_of(&bytes));
        (value, bytes)
    }

    async fn put(&mut self, key: usize, most_bytes: u64, condition: Condition) -> Result<(), Violation> {
        let (value, bytes) = self.new_content(most_bytes, tag);
        let asked = self.ask(key, self.call_of(key, &condition, Some(value)));
        let request = PutRequest { attributes: Attributes::default(), condition, content: Upload::whole(bytes) };
        let outcome = self.shared.service.put(&self.root, BUCKET, &name(key), request).await;
        self.end_write(asked, key, Some(value), outcome)
    }

    async fn delete(&mut self, key: usize, condition: Condition) -> Result<(), Violation> {
        let asked = self.ask(key, self.call_of(key, &condition, None));
        let outcome = self.shared.service.delete(&self.root, BUCKET, &name(key), condition).await;
        self.end_write(asked, key, None, outcome)
    }

    /// A write as the specification knows it.
    fn call_of(&self, key: usize, condition: &Condition, new: Option<Value>) -> Call<Value> {
        match condition {
            Condition::None => Call::Write(new),
            Condition::Absent => Call::Swap { expected: None, new },
            _ => Call::Swap { expected: self.known[key], new },
        }
    }

    fn ask(&self, key: usize, call: Call<Value>) -> Asked {
        self.shared.record.ask(self.shared.machine, key, call)
    }

    fn end_write<T>(
        &mut self,
        asked: Asked,
        key: usize,
        new: Option<Value>,
        outcome: Result<T, ObjectError>,
    ) -> Result<(), Violation> {
        let record = &self.shared.record;
        let answer = match outcome {
            Ok(_) => {
                self.known[key] = new;
                record.written(asked)
            }
            Err(ObjectError::PreconditionFailed { .. }) => Outcome::Occupied,
            Err(ObjectError::NoSuchKey) => Outcome::Differs { found: None },
            // It may have happened: some copies may stand. So it stays open.
            Err(error) => return self.refused("writes refused", key, &error),
        };
        self.note(&format_args!("key {key}: {answer:?}"));
        if matches!(answer, Outcome::Occupied | Outcome::Differs { .. }) {
            self.count("writes whose condition did not hold");
        }
        record.answer(asked, answer);
        Ok(())
    }

    /// Copies what this client believes that another key holds. Seen from there it is a swap of a value for itself.
    async fn copy(&mut self, key: usize) -> Result<(), Violation> {
        let keys = self.known.len() as u64;
        let from = (key + 1 + self.draw.below(keys - 1) as usize) % keys as usize;
        let Some(value) = self.known[from] else { return self.get(from).await };
        // A copy's tag is that of a PUT, and uploads have others.
        let source_tag = self.shared.record.tag_of(value);
        if !matches!(source_tag, ETag::Md5(_)) {
            return self.get(from).await;
        }
        let if_match = Some(ETagMatch::OneOf(vec![source_tag]));
        let conditions = ReadConditions { if_match, ..ReadConditions::default() };
        let source = CopySource { bucket: BUCKET.to_owned(), key: name(from), conditions };
        let (metadata, condition, own) = (MetadataDirective::Copy, Condition::None, OwnAttributes::default());
        let request = CopyRequest { source, metadata, condition, checksum: None, own };
        let reading = self.ask(from, Call::Swap { expected: Some(value), new: Some(value) });
        let writing = self.ask(key, Call::Write(Some(value)));
        let outcome = self.shared.service.copy(&self.root, BUCKET, &name(key), request).await;
        let source_answer = match &outcome {
            Ok(_) => Outcome::Swapped,
            Err(ObjectError::PreconditionFailed { .. }) => Outcome::Occupied,
            Err(ObjectError::NoSuchKey) => Outcome::Differs { found: None },
            Err(error) => {
                self.shared.record.withdraw(reading);
                return self.refused("copies refused", key, error);
            }
        };
        self.shared.record.answer(reading, source_answer);
        match outcome {
            Ok(_) => self.end_write(writing, key, Some(value), outcome),
            Err(_) => {
                self.shared.record.withdraw(writing);
                Ok(())
            }
        }
    }

    /// An object made by an upload of one part. A complete that was answered is asked for again, and must say the same.
    async fn upload(&mut self, key: usize) -> Result<(), Violation> {
        let most_bytes =
            if self.draw.percent(50) { self.shared.workload.small_bytes } else { self.shared.workload.large_bytes };
        let (value, bytes) = self.new_content(most_bytes, upload_tag);
        let (service, root, name) = (self.shared.service.clone(), self.root.clone(), name(key));
        let upload = match service.create_upload(&root, BUCKET, &name, Attributes::default(), None).await {
            Ok(upload) => UploadName { bucket: BUCKET, key: &name, upload: Some(upload) },
            Err(error) => return self.refused("uploads refused", key, &error),
        };
        let part = match service.put_part(&root, upload, 1, Upload::whole(bytes)).await {
            Ok(part) => NamedPart { number: 1, etag: Some(part.etag), checksum: None },
            Err(error) => return self.refused("parts refused", key, &error),
        };
        if self.draw.percent(15) {
            return match service.abort_upload(&root, upload).await {
                Ok(()) => Ok(()),
                Err(error) => self.refused("aborts refused", key, &error),
            };
        }
        let asked = self.ask(key, Call::Write(Some(value)));
        let request = || CompleteRequest { parts: vec![part], ..CompleteRequest::default() };
        let first = service.complete_upload(&root, upload, request()).await;
        let first_tag = first.as_ref().ok().map(|completed| completed.etag);
        self.end_write(asked, key, Some(value), first)?;
        if first_tag.is_none() || self.draw.percent(50) {
            return Ok(());
        }
        match service.complete_upload(&root, upload, request()).await {
            Ok(again) if Some(again.etag) == first_tag => Ok(()),
            Ok(again) => Err(format!("key {key}: a repeated complete says {again:?}, the first said {first_tag:?}")),
            Err(error) => self.refused("repeated completes refused", key, &error),
        }
    }

    async fn get(&mut self, key: usize) -> Result<(), Violation> {
        let asked = self.ask(key, Call::Read);
        let (name, request) = (name(key), ReadRequest::default());
        let found = match self.shared.service.get_cached(&self.root, BUCKET, &name, &request) {
            Some(found) => found,
            None => self.shared.service.get(&self.root, BUCKET, &name, &request).await,
        };
        let read = match found {
            Ok(read) => whole(read).await,
            Err(error) => Err(error),
        };
        let value = match read {
            Ok((etag, bytes)) => Ok(Some(self.shared.record.value_read(&etag, &bytes)?)),
            Err(error) => Err(error),
        };
        self.end_read(asked, key, value)
    }

    async fn head(&mut self, key: usize) -> Result<(), Violation> {
        let asked = self.ask(key, Call::Read);
        let head = self.shared.service.head(&self.root, BUCKET, &name(key), &ReadRequest::default()).await;
        let value = match head {
            Ok(head) => Ok(Some(self.shared.record.value_of(&head.info.attributes.etag, head.info.length)?)),
            Err(error) => Err(error),
        };
        self.end_read(asked, key, value)
    }

    fn end_read(&mut self, asked: Asked, key: usize, found: Result<Option<Value>, ObjectError>) -> Result<(), Violation> {
        let found = match found {
            Ok(found) => found,
            Err(ObjectError::NoSuchKey) => None,
            Err(error) => {
                self.shared.record.withdraw(asked);
                return self.refused("reads refused", key, &error);
            }
        };
        self.note(&format_args!("key {key}: {found:?}"));
        self.shared.record.answer(asked, Outcome::Read(found));
        self.known[key] = found;
        Ok(())
    }

    /// LIST: a read of every key. False if it was refused.
    async fn list(&mut self, page: usize) -> Result<bool, Violation> {
        let asked: Vec<Asked> = (0..self.known.len()).map(|key| self.ask(key, Call::Read)).collect();
        let mut found = vec![None; self.known.len()];
        let mut request = ListRequest { prefix: "key-".to_owned(), max_items: page, ..ListRequest::default() };
        loop {
            let listing = match self.shared.service.list(&self.root, BUCKET, &request).await {
                Ok(listing) => listing,
                Err(error) => {
                    asked.into_iter().for_each(|asked| self.shared.record.withdraw(asked));
                    return self.refused("lists refused", 0, &error).map(|()| false);
                }
            };
            for item in listing.items {
                let ListItem::Object(object) = item else { return Err(format!("a prefix in a list without: {item:?}")) };
                let key = (0..found.len()).find(|key| name(*key).as_bytes() == object.key);
                let key = key.ok_or_else(|| format!("a key that nobody made: {object:?}"))?;
                let value = self.shared.record.value_of(&object.etag, object.length)?;
                if found[key].replace(value).is_some() {
                    return Err(format!("listed twice: {object:?}"));
                }
            }
            match listing.next {
                Some(next) => request.start_after = String::from_utf8_lossy(&next).into_owned(),
                None => break,
            }
        }
        for (key, (asked, found)) in asked.into_iter().zip(found).enumerate() {
            self.end_read(asked, key, Ok(found))?;
        }
        Ok(true)
    }

    /// An error that is neither success nor a condition: a refusal, if the scenario has a fault that explains it.
    fn refused(&self, what: &'static str, key: usize, error: &ObjectError) -> Result<(), Violation> {
        self.note(&format_args!("key {key}: {what}: {error}"));
        let is_refusal =
            matches!(error, ObjectError::ServiceUnavailable { .. } | ObjectError::Full | ObjectError::SlowDown { .. });
        self.count(what);
        match is_refusal && self.shared.may_refuse {
            true => Ok(()),
            false => Err(format!("key {key}: {what}, and nothing explains it: {error}")),
        }
    }

    fn count(&self, what: &'static str) {
        self.shared.coverage.lock().add(what, 1);
    }

    fn note(&self, what: &dyn std::fmt::Display) {
        let Shared { machine, trace, env, .. } = &self.shared;
        let at = env.simulation().expect("simulated").elapsed();
        trace.note(at, &format_args!("machine {machine} client {}: {what}", self.number));
    }
}

fn name(key: usize) -> String {
    format!("key-{key}")
}

/// All bytes of an object, and its tag.
async fn whole(read: Read) -> Result<(ETag, Vec<u8>), ObjectError> {
    let mut bytes = Vec::new();
    match read.body {
        ReadBody::Whole(whole) => bytes.extend_from_slice(&whole),
        ReadBody::Stream(mut stream) => {
            while let Some(piece) = stream.next().await {
                bytes.extend_from_slice(&piece?);
            }
        }
    }
    Ok((read.info.attributes.etag, bytes))
}
