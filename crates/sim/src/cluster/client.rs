//! Clients at all nodes, on few keys.

use super::histories::{Histories, Value, name};
use super::host::process_of;
use super::world::{Running, World};
use crate::content::content;
use crate::draw::Draw;
use bytes::Bytes;
use engine::{
    CompletePart, Condition, Content, ContentReader, ETagMatch, EngineError, Found, ListItem, ListQuery, ObjectEngine,
    ObjectKey, PartContent, UploadRef,
};
use format::attributes::{Attributes, ETag};
use model::linearizability::CallId;
use model::register::{Call, Outcome};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::BucketId;

const BUCKET: BucketId = BucketId(7);
/// Chunks and parts of large objects.
const CHUNK: usize = 24 * 1024;
/// How long a client rests after a call without an answer: histories of many such calls take long to judge.
const AFTER_FAILURE: Duration = Duration::from_millis(700);
/// How long a call may take. Faults last less, and what waits for one goes on after it.
const CALL_LIMIT: Duration = Duration::from_secs(100);
const NOBODY_SERVES: Duration = Duration::from_millis(20);

pub struct Client {
    pub world: Arc<World>,
    pub histories: Arc<Histories>,
    pub draw: Draw,
    /// What it last saw of each key.
    pub seen: BTreeMap<usize, Value>,
    pub is_over: Arc<AtomicBool>,
}

/// How a call ended.
enum End<T> {
    Done(T),
    /// The condition did not hold, or there is nothing.
    Refused(EngineError),
    Unknown,
}

fn key(at: usize) -> ObjectKey {
    ObjectKey::new(BUCKET, Bytes::from(name(at))).expect("a short name")
}

fn attributes(value: Value) -> Attributes {
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&value.to_le_bytes());
    Attributes { etag: ETag::Md5(digest), modified_ms: 1_700_000_000_000 + value, ..Attributes::default() }
}

/// The value that a tag stands for.
fn value_of(etag: &ETag) -> Result<Value, String> {
    match etag {
        ETag::Md5(bytes) => Ok(u64::from_le_bytes(*bytes.first_chunk().expect("sixteen bytes"))),
        other => Err(format!("a tag that nobody gave: {other:?}")),
    }
}

impl Client {
    pub async fn run(mut self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let running = self.world.running();
            let serving: Vec<Running> = running.into_iter().filter(|running| running.node.status().serves).collect();
            if serving.is_empty() {
                self.world.env.sleep(NOBODY_SERVES).await;
                continue;
            }
            let at = &serving[self.draw.below(serving.len() as u64) as usize];
            self.step(at).await;
            let think = self.draw.duration(self.world.scenario.workload.think);
            self.world.env.sleep(think).await;
        }
    }

    async fn step(&mut self, node: &Running) {
        let mix = self.world.scenario.workload.mix;
        let weights = [
            mix.put,
            mix.put_large,
            mix.upload,
            mix.put_if_absent,
            mix.put_if_match,
            mix.delete,
            mix.delete_if_match,
            mix.get,
            mix.head,
            mix.list,
        ];
        let mut drawn = self.draw.below(weights.iter().sum());
        let mut kind = 0;
        while drawn >= weights[kind] {
            drawn -= weights[kind];
            kind += 1;
        }
        let at = self.draw.below(self.histories.keys() as u64) as usize;
        let seen = self.seen.get(&at).copied();
        match (kind, seen) {
            (0, _) => self.put(node, at, None).await,
            (1, _) => self.put_large(node, at).await,
            (2, _) => self.upload(node, at).await,
            (3, _) => self.put(node, at, Some(None)).await,
            (4, Some(seen)) => self.put(node, at, Some(Some(seen))).await,
            (5, _) => self.delete(node, at, None).await,
            (6, Some(seen)) => self.delete(node, at, Some(seen)).await,
            (8, _) => self.head(node, at).await,
            (9, _) => self.list(node).await,
            _ => self.get(node, at).await,
        }
    }

    /// The outcome of a call at a node, unless the node's process ends first.
    async fn ask<T>(&self, node: &Running, call: impl Future<Output = Result<T, EngineError>>) -> End<T> {
        let process = process_of(&node.env);
        let outcome = tokio::select! {
            biased;
            () = process.ended() => return End::Unknown,
            outcome = node.env.within(call) => outcome,
            () = self.world.env.sleep(CALL_LIMIT) => {
                self.histories.violate(format!("a call at node {} never ends", node.number));
                return End::Unknown;
            }
        };
        match outcome {
            Ok(done) => End::Done(done),
            Err(error @ (EngineError::NotFound | EngineError::PreconditionFailed)) => End::Refused(error),
            Err(EngineError::Unavailable { .. }) => self.failed("client: unavailable"),
            Err(EngineError::DeviceMissing { .. }) => self.failed("client: a device is missing"),
            Err(EngineError::Busy { .. }) => self.failed("client: busy"),
            Err(EngineError::Full) => self.failed("client: full"),
            Err(EngineError::NoSuchUpload | EngineError::Conflict { .. }) => self.failed("client: no such upload"),
            // While one device rots and others are away.
            Err(EngineError::Corrupt { .. }) => self.failed("client: no copy can be read"),
            Err(error) => {
                self.histories.violate(format!("node {}: {error:?}", node.number));
                End::Unknown
            }
        }
    }

    fn failed<T>(&self, what: &'static str) -> End<T> {
        self.histories.count(what);
        End::Unknown
    }

    fn length(&mut self, most: u64) -> usize {
        8 + self.draw.below(most) as usize
    }

    /// `expected`: none for a blind write, else what must be there.
    async fn put(&mut self, node: &Running, at: usize, expected: Option<Option<Value>>) {
        let value = self.histories.next_value();
        let bytes = content(value, self.length(self.world.scenario.workload.small_bytes));
        let condition = match expected {
            None => Condition::None,
            Some(None) => Condition::Absent,
            Some(Some(seen)) => Condition::Match(ETagMatch::OneOf(vec![attributes(seen).etag])),
        };
        let engine = node.node.engine();
        let key = key(at);
        let put = engine.put(&key, attributes(value), std::iter::once(bytes).collect(), condition);
        self.write(node, at, Some(value), expected, put).await;
    }

    async fn put_large(&mut self, node: &Running, at: usize) {
        let value = self.histories.next_value();
        let bytes = content(value, self.length(self.world.scenario.workload.large_bytes));
        let engine = node.node.engine();
        let key = key(at);
        let put = async {
            let mut staged = engine.stage(&key, None);
            for chunk in bytes.chunks(CHUNK) {
                engine.stage_chunk(&mut staged, Bytes::copy_from_slice(chunk)).await?;
            }
            engine.commit(&key, staged, attributes(value), Condition::None).await
        };
        self.write(node, at, Some(value), None, put).await;
    }

    async fn upload(&mut self, node: &Running, at: usize) {
        let value = self.histories.next_value();
        let bytes = content(value, self.length(self.world.scenario.workload.large_bytes));
        let is_abandoned = self.draw.percent(15);
        let engine = node.node.engine();
        let key = key(at);
        let prepare = async {
            let upload = UploadRef { key: key.clone(), upload: engine.create_upload(&key, Attributes::default()).await? };
            let mut parts = Vec::new();
            for (number, part) in (1..).zip(bytes.chunks(CHUNK)) {
                let content = PartContent::Whole(std::iter::once(Bytes::copy_from_slice(part)).collect());
                let part = engine.put_part(&upload, number, Attributes::default(), content).await?;
                parts.push(CompletePart { number, order: part.order });
            }
            Ok((upload, parts))
        };
        let End::Done((upload, parts)) = self.ask(node, prepare).await else {
            return self.world.env.sleep(AFTER_FAILURE).await;
        };
        if is_abandoned {
            if let End::Done(()) = self.ask(node, engine.abort(&upload)).await {
                self.histories.count("client: uploads aborted");
            }
            return;
        }
        self.histories.count("client: uploads completed");
        self.write(node, at, Some(value), None, engine.complete(&upload, parts, attributes(value), Condition::None)).await;
    }

    async fn delete(&mut self, node: &Running, at: usize, expected: Option<Value>) {
        let condition =
            expected.map_or(Condition::None, |seen| Condition::Match(ETagMatch::OneOf(vec![attributes(seen).etag])));
        let engine = node.node.engine();
        let key = key(at);
        self.write(node, at, None, expected.map(Some), engine.delete(&key, condition)).await;
    }

    async fn write<T>(
        &mut self,
        node: &Running,
        at: usize,
        value: Option<Value>,
        expected: Option<Option<Value>>,
        write: impl Future<Output = Result<T, EngineError>>,
    ) {
        let call = match expected {
            None => Call::Write(value),
            Some(expected) => Call::Swap { expected, new: value },
        };
        let id = self.histories.call(at, call);
        let outcome = match (self.ask(node, write).await, expected) {
            (End::Done(_), None) => Outcome::Written,
            (End::Done(_), Some(_)) => {
                self.histories.count("client: conditions that held");
                Outcome::Swapped
            }
            (End::Refused(EngineError::PreconditionFailed), Some(_)) => {
                self.histories.count("client: conditions that did not hold");
                Outcome::Occupied
            }
            (End::Refused(EngineError::NotFound), Some(Some(_))) => Outcome::Differs { found: None },
            (End::Refused(error), _) => return self.histories.violate(format!("a write is answered with {error:?}")),
            (End::Unknown, _) => {
                self.histories.count("client: outcomes unknown");
                return self.world.env.sleep(AFTER_FAILURE).await;
            }
        };
        if let (Some(value), Outcome::Written | Outcome::Swapped) = (value, &outcome) {
            self.seen.insert(at, value);
        }
        self.histories.count("client: writes answered");
        self.histories.answer(at, id, outcome);
    }

    async fn get(&mut self, node: &Running, at: usize) {
        let id = self.histories.call(at, Call::Read);
        match self.ask(node, read(&*node.node.engine(), at)).await {
            End::Done(Ok(value)) => self.answer_read(at, id, Some(value)),
            End::Done(Err(violation)) => self.histories.violate(format!("node {}: {violation}", node.number)),
            End::Refused(_) => self.answer_read(at, id, None),
            End::Unknown => self.histories.withdraw(at, id),
        }
    }

    async fn head(&mut self, node: &Running, at: usize) {
        let id = self.histories.call(at, Call::Read);
        let (engine, key) = (node.node.engine(), key(at));
        match self.ask(node, engine.info(&key)).await {
            End::Done(info) => match value_of(&info.attributes.etag) {
                Ok(value) => self.answer_read(at, id, Some(value)),
                Err(violation) => self.histories.violate(violation),
            },
            End::Refused(_) => self.answer_read(at, id, None),
            End::Unknown => self.histories.withdraw(at, id),
        }
    }

    fn answer_read(&mut self, at: usize, id: CallId, found: Option<Value>) {
        self.histories.count("client: reads answered");
        if let Some(found) = found {
            self.seen.insert(at, found);
        }
        self.histories.answer(at, id, Outcome::Read(found));
    }

    /// A list is a read of every key.
    async fn list(&mut self, node: &Running) {
        let ids: Vec<CallId> = (0..self.histories.keys()).map(|at| self.histories.call(at, Call::Read)).collect();
        match self.ask(node, list(&*node.node.engine())).await {
            End::Done(Ok(listed)) => {
                self.histories.count("client: lists answered");
                for (at, id) in ids.into_iter().enumerate() {
                    self.histories.answer(at, id, Outcome::Read(listed.get(&name(at)).copied()));
                }
            }
            End::Done(Err(violation)) => self.histories.violate(format!("node {}: {violation}", node.number)),
            End::Refused(error) => self.histories.violate(format!("a list is answered with {error:?}")),
            End::Unknown => ids.into_iter().enumerate().for_each(|(at, id)| self.histories.withdraw(at, id)),
        }
    }
}

/// Reads a key; a violation if its bytes are not those of its tag.
async fn read(engine: &dyn ObjectEngine, at: usize) -> Result<Result<Value, String>, EngineError> {
    let key = key(at);
    let found = match engine.open_cached(&key) {
        Some(found) => found?,
        None => engine.open(&key).await?,
    };
    let Found { info, content: found } = found;
    let bytes = match found {
        Content::Whole(bytes) => bytes.to_vec(),
        Content::Chunked(reader) => all_of(&*reader, info.length).await?,
    };
    Ok(value_of(&info.attributes.etag).and_then(|value| match content(value, bytes.len()) == bytes {
        true => Ok(value),
        false => Err(format!("{} has other bytes than those of value {value}", name(at))),
    }))
}

async fn all_of(reader: &dyn ContentReader, length: u64) -> Result<Vec<u8>, EngineError> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        bytes.extend_from_slice(&reader.read(bytes.len() as u64..length).await?);
    }
    Ok(bytes)
}

/// All names and their values.
async fn list(engine: &dyn ObjectEngine) -> Result<Result<BTreeMap<String, Value>, String>, EngineError> {
    let query =
        ListQuery { bucket: BUCKET, prefix: Bytes::new(), start_after: Bytes::new(), delimiter: Bytes::new(), max_items: 1000 };
    let page = engine.list(&query).await?;
    let item = |item: ListItem| match item {
        ListItem::Object(object) => {
            let name = String::from_utf8(object.key.to_vec()).map_err(|error| error.to_string())?;
            Ok((name, value_of(&object.etag)?))
        }
        ListItem::Prefix(prefix) => Err(format!("no delimiter was given: {prefix:?}")),
    };
    Ok(page.items.into_iter().map(item).collect())
}

/// What every node says of every key, by GET and by LIST: all must say the same, and it must have an explanation.
pub async fn look_around(world: &World, histories: &Histories) -> Result<(), String> {
    let mut first: Option<BTreeMap<String, Value>> = None;
    for running in world.gateways() {
        let (engine, number) = (running.node.engine(), running.number);
        let mut found = BTreeMap::new();
        for at in 0..histories.keys() {
            let id = histories.call(at, Call::Read);
            let value = match running.env.within(read(&*engine, at)).await {
                Ok(value) => Some(value.map_err(|violation| format!("node {number}: {violation}"))?),
                Err(EngineError::NotFound) => None,
                Err(error) => return Err(format!("at rest, node {number}, {}: {error:?}", name(at))),
            };
            histories.answer(at, id, Outcome::Read(value));
            found.extend(value.map(|value| (name(at), value)));
        }
        let listed = running.env.within(list(&*engine)).await;
        let listed = listed.map_err(|error| format!("at rest, node {number}, a list: {error:?}"))??;
        if listed != found {
            return Err(format!("node {number} lists {listed:?} and reads {found:?}"));
        }
        let first = first.get_or_insert_with(|| found.clone());
        if *first != found {
            return Err(format!("node {number} has {found:?}, another {first:?}"));
        }
    }
    Ok(())
}
