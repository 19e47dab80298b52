//! Clients at all gateways, on few keys, and the history of each key.

use super::world::{Process, World};
use crate::LogStore;
use crate::tests::history::Value;
use crate::tests::support::{BUCKET, Draw, key};
use bytes::Bytes;
use engine::{Committed, Condition, Content, ContentReader, ETagMatch, EngineError, Found, ListItem, ListQuery, ObjectEngine};
use format::attributes::ETag;
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Chunks of large objects.
const CHUNK: usize = 24 * 1024;

/// What clients saw.
pub struct Record {
    pub keys: Mutex<Vec<History<Register<u64>>>>,
    next_value: Mutex<u64>,
    pub violation: Mutex<Option<String>>,
    pub is_over: AtomicBool,
    pub answered: Mutex<BTreeMap<&'static str, u64>>,
}

impl Record {
    pub fn new(keys: usize) -> Arc<Record> {
        Arc::new(Record {
            keys: Mutex::new(vec![History::default(); keys]),
            next_value: Mutex::new(0),
            violation: Mutex::default(),
            is_over: AtomicBool::new(false),
            answered: Mutex::default(),
        })
    }

    fn call(&self, at: usize, call: Call<u64>) -> CallId {
        self.keys.lock()[at].call(call)
    }

    fn answer(&self, at: usize, id: CallId, outcome: Outcome<u64>) {
        self.keys.lock()[at].answer(id, outcome);
    }

    fn withdraw(&self, at: usize, id: CallId) {
        self.keys.lock()[at].withdraw(id);
    }

    pub fn violate(&self, what: String) {
        self.violation.lock().get_or_insert(what);
    }

    fn count(&self, what: &'static str) {
        *self.answered.lock().entry(what).or_default() += 1;
    }

    /// The whole history as text.
    pub fn text(&self) -> String {
        let keys = self.keys.lock();
        keys.iter().enumerate().map(|(at, history)| format!("key {at}\n{history}")).collect()
    }

    /// Whether each key's history has an explanation.
    pub fn check(&self) -> Result<(), String> {
        for (at, history) in self.keys.lock().iter().enumerate() {
            history.check(None).map_err(|violation| format!("key {at}: {violation}"))?;
        }
        Ok(())
    }
}

pub fn name(at: usize) -> String {
    format!("key-{at:02}")
}

fn number(etag: &ETag) -> u64 {
    match etag {
        ETag::Md5(bytes) => u64::from_le_bytes(bytes[..8].try_into().unwrap()),
        other => panic!("a tag that nobody gave: {other:?}"),
    }
}

pub struct Client {
    pub world: Arc<World>,
    pub record: Arc<Record>,
    pub draw: Draw,
    /// What it last saw of each key.
    pub seen: BTreeMap<usize, u64>,
}

/// How a call at a gateway ended.
enum End<T> {
    Done(T),
    /// It had no effect that is not told.
    Refused(EngineError),
    Unknown,
}

impl Client {
    pub async fn run(mut self) {
        while !self.record.is_over.load(Ordering::Relaxed) {
            let serving = self.world.serving();
            if serving.is_empty() {
                self.world.env.sleep(Duration::from_millis(5)).await;
                continue;
            }
            let process = serving[self.draw.below(serving.len() as u64) as usize].clone();
            if let Some(store) = process.store() {
                self.step(&process, &store).await;
            }
            let think = self.world.scenario.think_us;
            self.world.env.sleep(Duration::from_micros(1 + self.draw.below(think))).await;
        }
    }

    async fn step(&mut self, process: &Process, store: &LogStore) {
        let at = self.draw.below(self.world.scenario.keys as u64) as usize;
        match self.draw.below(20) {
            0..5 => self.put(process, store, at, Condition::None, false).await,
            5 => self.put(process, store, at, Condition::None, true).await,
            6 | 7 => self.put(process, store, at, Condition::Absent, false).await,
            8 => match self.seen.get(&at) {
                Some(seen) => {
                    let tag = Value::new(*seen, 0).tag();
                    let condition = Condition::Match(ETagMatch::OneOf(vec![tag]));
                    self.put(process, store, at, condition, false).await;
                }
                None => self.get(process, store, at).await,
            },
            9 | 10 => self.delete(process, store, at).await,
            11 => self.list(process, store).await,
            12 | 13 => self.head(process, store, at).await,
            _ => self.get(process, store, at).await,
        }
    }

    /// The outcome of a call, unless the gateway's process ends first.
    async fn ask<T>(&self, process: &Process, call: impl Future<Output = Result<T, EngineError>>) -> End<T> {
        let outcome = tokio::select! {
            biased;
            () = process.life.ended() => return End::Unknown,
            outcome = call => outcome,
            () = self.world.env.sleep(Duration::from_secs(100)) => {
                self.record.violate(format!("a call at gateway {} never ends", process.gateway));
                return End::Unknown;
            }
        };
        match outcome {
            Ok(done) => End::Done(done),
            Err(error @ (EngineError::NotFound | EngineError::PreconditionFailed)) => End::Refused(error),
            Err(EngineError::Unavailable { reason }) => {
                self.record.count("unavailable");
                tracing::debug!(gateway = process.gateway.0, reason, "unavailable");
                End::Unknown
            }
            Err(EngineError::Busy { reason }) => {
                self.record.count("busy");
                tracing::debug!(gateway = process.gateway.0, reason, "busy");
                End::Unknown
            }
            Err(EngineError::Full) => {
                self.record.count("full");
                End::Unknown
            }
            Err(error) => {
                self.record.violate(format!("gateway {}: {error:?}", process.gateway));
                End::Unknown
            }
        }
    }

    fn value(&mut self, length: usize) -> Value {
        let mut next = self.record.next_value.lock();
        *next += 1;
        Value::new(*next, length)
    }

    async fn put(&mut self, process: &Process, store: &LogStore, at: usize, condition: Condition, large: bool) {
        let length =
            if large { 1 + self.draw.below(3 * CHUNK as u64) } else { self.draw.below(self.world.scenario.small_bytes) };
        let value = self.value(length as usize);
        let call = match &condition {
            Condition::None => Call::Write(Some(value.number)),
            Condition::Absent => Call::Swap { expected: None, new: Some(value.number) },
            _ => Call::Swap { expected: self.seen.get(&at).copied(), new: Some(value.number) },
        };
        let is_blind = condition.is_blind();
        let id = self.record.call(at, call);
        let write = async {
            match large {
                false => {
                    store
                        .put(&key(&name(at)), value.attributes(), std::iter::once(value.bytes.clone()).collect(), condition)
                        .await
                }
                true => put_large(store, at, &value).await,
            }
        };
        match self.ask(process, write).await {
            End::Done(_) => {
                self.record.count(if is_blind { "put" } else { "swap" });
                self.seen.insert(at, value.number);
                self.record.answer(at, id, if is_blind { Outcome::Written } else { Outcome::Swapped });
            }
            End::Refused(error) => self.record.answer(at, id, unmet(&error)),
            End::Unknown => self.unknown(process).await,
        }
    }

    async fn delete(&mut self, process: &Process, store: &LogStore, at: usize) {
        let id = self.record.call(at, Call::Write(None));
        match self.ask(process, store.delete(&key(&name(at)), Condition::None)).await {
            End::Done(_) => {
                self.record.count("delete");
                self.record.answer(at, id, Outcome::Written);
            }
            End::Refused(error) => self.record.violate(format!("a delete is answered with {error:?}")),
            End::Unknown => self.unknown(process).await,
        }
    }

    async fn unknown(&self, process: &Process) {
        self.record.count("unknown");
        // Its gateway hardly does better at once.
        let pause = if process.life.is_alive() { 100 } else { 10 };
        self.world.env.sleep(Duration::from_millis(pause)).await;
    }

    async fn get(&mut self, process: &Process, store: &LogStore, at: usize) {
        let id = self.record.call(at, Call::Read);
        let read = async {
            let found = match store.open_cached(&key(&name(at))) {
                Some(found) => found?,
                None => store.open(&key(&name(at))).await?,
            };
            whole(found).await
        };
        match self.ask(process, read).await {
            End::Done((found, bytes)) => {
                if bytes != Value::new(found, bytes.len()).bytes {
                    self.record.violate(format!("other bytes than those of value {found}"));
                }
                self.read(at, id, Some(found));
            }
            End::Refused(_) => self.read(at, id, None),
            End::Unknown => self.record.withdraw(at, id),
        }
    }

    async fn head(&mut self, process: &Process, store: &LogStore, at: usize) {
        let id = self.record.call(at, Call::Read);
        match self.ask(process, store.info(&key(&name(at)))).await {
            End::Done(info) => self.read(at, id, Some(number(&info.attributes.etag))),
            End::Refused(_) => self.read(at, id, None),
            End::Unknown => self.record.withdraw(at, id),
        }
    }

    fn read(&mut self, at: usize, id: CallId, found: Option<u64>) {
        self.record.count("read");
        if let Some(found) = found {
            self.seen.insert(at, found);
        }
        self.record.answer(at, id, Outcome::Read(found));
    }

    /// A list is a read of every key.
    async fn list(&mut self, process: &Process, store: &LogStore) {
        let ids: Vec<CallId> = (0..self.world.scenario.keys).map(|at| self.record.call(at, Call::Read)).collect();
        match self.ask(process, listed(store)).await {
            End::Done(listed) => {
                self.record.count("list");
                for (at, id) in ids.into_iter().enumerate() {
                    self.record.answer(at, id, Outcome::Read(listed.get(&name(at)).copied()));
                }
            }
            End::Refused(error) => self.record.violate(format!("a list is answered with {error:?}")),
            End::Unknown => ids.into_iter().enumerate().for_each(|(at, id)| self.record.withdraw(at, id)),
        }
    }
}

fn unmet(error: &EngineError) -> Outcome<u64> {
    match error {
        EngineError::NotFound => Outcome::Differs { found: None },
        _ => Outcome::Occupied,
    }
}

async fn put_large(store: &LogStore, at: usize, value: &Value) -> Result<Committed, EngineError> {
    let mut staged = store.stage(&key(&name(at)), None);
    for chunk in value.bytes.chunks(CHUNK) {
        store.stage_chunk(&mut staged, Bytes::copy_from_slice(chunk)).await?;
    }
    store.commit(&key(&name(at)), staged, value.attributes(), Condition::None).await
}

/// A value's number and bytes.
async fn whole(found: Found) -> Result<(u64, Vec<u8>), EngineError> {
    let number = number(&found.info.attributes.etag);
    let bytes = match found.content {
        Content::Whole(bytes) => bytes.to_vec(),
        Content::Chunked(reader) => all_of(&*reader, found.info.length).await?,
    };
    Ok((number, bytes))
}

async fn all_of(reader: &dyn ContentReader, length: u64) -> Result<Vec<u8>, EngineError> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        bytes.extend_from_slice(&reader.read(bytes.len() as u64..length).await?);
    }
    Ok(bytes)
}

/// All names and the numbers of their values.
pub async fn listed(store: &LogStore) -> Result<BTreeMap<String, u64>, EngineError> {
    let query =
        ListQuery { bucket: BUCKET, prefix: Bytes::new(), start_after: Bytes::new(), delimiter: Bytes::new(), max_items: 1000 };
    let page = store.list(&query).await?;
    let item = |item: ListItem| match item {
        ListItem::Object(object) => (String::from_utf8(object.key.to_vec()).unwrap(), number(&object.etag)),
        ListItem::Prefix(prefix) => panic!("no delimiter was given: {prefix:?}"),
    };
    Ok(page.items.into_iter().map(item).collect())
}

/// At the end: what every gateway says of every key. All must say the same, and it must have an explanation.
pub async fn look_around(world: &Arc<World>, record: &Arc<Record>) -> Result<(), String> {
    let mut first: Option<BTreeMap<String, u64>> = None;
    for process in world.members() {
        let store = process.store().expect("a member has an engine");
        let mut found = BTreeMap::new();
        for at in 0..world.scenario.keys {
            let id = record.call(at, Call::Read);
            let read = async { whole(store.open(&key(&name(at))).await?).await };
            let value = match read.await {
                Ok((value, bytes)) if bytes == Value::new(value, bytes.len()).bytes => Some(value),
                Ok((value, _)) => return Err(format!("gateway {}: other bytes than those of value {value}", process.gateway)),
                Err(EngineError::NotFound) => None,
                Err(error) => return Err(format!("gateway {}, key {at}: {error:?}", process.gateway)),
            };
            record.answer(at, id, Outcome::Read(value));
            found.extend(value.map(|value| (name(at), value)));
        }
        let listed = listed(&store).await.map_err(|error| format!("gateway {}: a list: {error:?}", process.gateway))?;
        if listed != found {
            return Err(format!("gateway {} lists {listed:?} and reads {found:?}", process.gateway));
        }
        let first = first.get_or_insert_with(|| found.clone());
        if *first != found {
            return Err(format!("gateway {} has {found:?}, another {first:?}", process.gateway));
        }
    }
    Ok(())
}
