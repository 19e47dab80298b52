//! What clients did, and what may therefore be found afterwards.
//!
//! Each key has one client at a time. So of a key, what was acknowledged last may be found, or what was tried after it and never
//! answered; nothing else, and of each only the whole.

use super::support::{BUCKET, key};
use crate::LogStore;
use bytes::Bytes;
use engine::{Content, EngineError, ListItem, ListQuery, ObjectEngine, ObjectKey, UploadQuery, UploadRef};
use format::attributes::{Attributes, ETag};
use std::collections::BTreeMap;
use types::UploadId;

/// One value that a client once wrote; the number is in its tag.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    pub number: u64,
    pub bytes: Bytes,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}({} bytes)", self.number, self.bytes.len())
    }
}

impl Value {
    /// Bytes that depend on the number and on their place.
    pub fn new(number: u64, length: usize) -> Value {
        let mut draw = super::support::Draw::new(number.wrapping_mul(0xd134_2543_de82_ef95));
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&draw.next().to_le_bytes());
        }
        bytes.truncate(length);
        Value { number, bytes: Bytes::from(bytes) }
    }

    pub fn tag(&self) -> ETag {
        tag(self.number)
    }

    pub fn attributes(&self) -> Attributes {
        Attributes { etag: self.tag(), modified_ms: 1_700_000_000_000 + self.number, ..Attributes::default() }
    }
}

fn tag(number: u64) -> ETag {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    ETag::Md5(bytes)
}

/// What one client asked of one name.
#[derive(Clone, Debug)]
struct Attempt {
    value: Option<Value>,
    acknowledged: bool,
}

/// The attempts since a state that was seen.
#[derive(Clone, Debug, Default)]
pub struct Register {
    settled: Option<Value>,
    attempts: Vec<Attempt>,
    /// Values from before the settled one.
    past: Vec<Value>,
}

impl Register {
    /// A client begins to write; `None` deletes.
    pub fn begin(&mut self, value: Option<Value>) {
        self.attempts.push(Attempt { value, acknowledged: false });
    }

    pub fn acknowledged(&mut self) {
        self.attempts.last_mut().expect("something was begun").acknowledged = true;
    }

    /// The last attempt certainly had no effect.
    pub fn refused(&mut self) {
        self.attempts.pop().expect("something was begun");
    }

    /// What may be there.
    pub fn allowed(&self) -> Vec<Option<Value>> {
        let from = self.attempts.iter().rposition(|attempt| attempt.acknowledged);
        let first = from.map_or(self.settled.clone(), |from| self.attempts[from].value.clone());
        let later = self.attempts.iter().skip(from.map_or(0, |from| from + 1));
        std::iter::once(first).chain(later.map(|attempt| attempt.value.clone())).collect()
    }

    /// What must be there, if that is certain.
    pub fn certain(&self) -> Option<Option<Value>> {
        let mut allowed = self.allowed();
        (allowed.len() == 1).then(|| allowed.remove(0))
    }

    /// Everything that was ever tried.
    pub fn ever(&self) -> Vec<Value> {
        let tried = self.attempts.iter().filter_map(|attempt| attempt.value.as_ref());
        self.past.iter().chain(&self.settled).chain(tried).cloned().collect()
    }

    /// This was seen: what came before does not matter any more. What failed may still take effect at a start.
    fn settle(&mut self, value: Option<Value>) {
        let past = self.ever();
        let from = self.attempts.iter().rposition(|attempt| attempt.acknowledged).map_or(0, |from| from + 1);
        let mut failed = self.attempts.split_off(from);
        if let Some(effective) = failed.iter().rposition(|attempt| attempt.value == value) {
            failed.drain(..=effective);
        }
        *self = Register { settled: value, attempts: failed, past };
    }

    /// A start has decided what had failed.
    fn decide(&mut self) {
        self.attempts.clear();
    }
}

/// How an upload was asked to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Completed { value: Value, acknowledged: bool },
    Aborted { acknowledged: bool },
}

/// One upload whose creation was acknowledged.
#[derive(Clone, Debug)]
pub struct Upload {
    pub key: String,
    pub id: UploadId,
    pub parts: BTreeMap<u16, Register>,
    pub ending: Option<Ending>,
}

impl Upload {
    pub fn named(&self) -> UploadRef {
        UploadRef { key: key(&self.key), upload: self.id }
    }
}

/// Everything that clients did.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub objects: BTreeMap<String, Register>,
    pub uploads: Vec<Upload>,
    /// Creations of uploads that were not answered.
    pub unanswered_creations: usize,
    next_number: u64,
}

/// What a store holds, as its clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub objects: BTreeMap<String, Value>,
    /// Open uploads, with the number and the tag of each part.
    pub uploads: BTreeMap<(String, UploadId), Vec<(u16, u64)>>,
}

/// What is wrong.
pub type Violation = String;

impl History {
    /// A value that nobody wrote before.
    pub fn value(&mut self, length: usize) -> Value {
        self.next_number += 1;
        Value::new(self.next_number, length)
    }

    /// As [`History::judge`], just after a start: what was under way is decided.
    pub async fn judge_start(&mut self, store: &LogStore) -> Result<Seen, Violation> {
        let seen = self.judge(store).await?;
        let parts = self.uploads.iter_mut().flat_map(|upload| upload.parts.values_mut());
        self.objects.values_mut().chain(parts).for_each(Register::decide);
        Ok(seen)
    }

    /// Looks at everything, judges it, and takes what was seen as the state from here on.
    pub async fn judge(&mut self, store: &LogStore) -> Result<Seen, Violation> {
        let mut objects = BTreeMap::new();
        let names: Vec<String> = self.objects.keys().cloned().collect();
        for name in names {
            let register = self.objects.get_mut(&name).expect("one of its keys");
            let found = read(store, &key(&name), &register.allowed()).await.map_err(|error| format!("{name}: {error}"))?;
            register.settle(found.clone());
            objects.extend(found.map(|found| (name, found)));
        }
        judge_list(store, &objects).await?;
        let uploads = self.judge_uploads(store, &objects).await?;
        Ok(Seen { objects, uploads })
    }

    async fn judge_uploads(
        &mut self,
        store: &LogStore,
        objects: &BTreeMap<String, Value>,
    ) -> Result<BTreeMap<(String, UploadId), Vec<(u16, u64)>>, Violation> {
        let mut listed = list_uploads(store).await?;
        let mut open = BTreeMap::new();
        for upload in &mut self.uploads {
            let is_listed = listed.iter().position(|(name, id)| (name, id) == (&upload.key, &upload.id));
            let is_listed = is_listed.map(|at| listed.remove(at)).is_some();
            let ended = match &upload.ending {
                None => false,
                Some(Ending::Completed { acknowledged: true, .. } | Ending::Aborted { acknowledged: true }) => true,
                Some(Ending::Completed { value, .. }) => objects.get(&upload.key) == Some(value),
                Some(Ending::Aborted { .. }) => !is_listed,
            };
            if ended == is_listed {
                return Err(format!("listed: {is_listed}, though ended: {ended}: {upload:?}"));
            }
            match &mut upload.ending {
                Some(Ending::Completed { acknowledged, .. } | Ending::Aborted { acknowledged }) if ended => {
                    *acknowledged = true
                }
                _ => {
                    upload.ending = None;
                    open.insert((upload.key.clone(), upload.id), judge_parts(store, upload).await?);
                }
            }
        }
        if listed.len() > self.unanswered_creations {
            return Err(format!("uploads that nobody opened: {listed:?}"));
        }
        for (name, id) in listed {
            self.uploads.push(Upload { key: name.clone(), id, parts: BTreeMap::new(), ending: None });
            open.insert((name, id), Vec::new());
        }
        self.unanswered_creations = 0;
        Ok(open)
    }
}

/// Reads an object whole, which must be one of these values.
async fn read(store: &LogStore, key: &ObjectKey, allowed: &[Option<Value>]) -> Result<Option<Value>, Violation> {
    let found = match store.open(key).await {
        Ok(found) => found,
        Err(EngineError::NotFound) if allowed.contains(&None) => return Ok(None),
        Err(error) => return Err(format!("{error}; allowed: {allowed:?}")),
    };
    let is_it = |value: &&Value| value.tag() == found.info.attributes.etag;
    let Some(expected) = allowed.iter().flatten().find(is_it) else {
        return Err(format!("found {:?}, allowed: {allowed:?}", found.info));
    };
    let info = store.info(key).await.map_err(|error| format!("info: {error}"))?;
    if (info.length, info.order, info.attributes.etag) != (expected.bytes.len() as u64, found.info.order, expected.tag()) {
        return Err(format!("info says {info:?}, a read {:?}", found.info));
    }
    let bytes = whole(found.content, found.info.length).await?;
    if bytes != expected.bytes {
        return Err(format!("{expected:?} has other bytes"));
    }
    Ok(Some(expected.clone()))
}

/// All bytes of a content.
pub async fn whole(content: Content, length: u64) -> Result<Vec<u8>, Violation> {
    let reader = match content {
        Content::Whole(bytes) => return Ok(bytes.to_vec()),
        Content::Chunked(reader) => reader,
    };
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let read = reader.read(bytes.len() as u64..length).await.map_err(|error| format!("byte {}: {error}", bytes.len()))?;
        bytes.extend_from_slice(&read);
    }
    Ok(bytes)
}

/// The list says what reads say.
async fn judge_list(store: &LogStore, objects: &BTreeMap<String, Value>) -> Result<(), Violation> {
    let mut listed = Vec::new();
    let mut query =
        ListQuery { bucket: BUCKET, prefix: Bytes::new(), start_after: Bytes::new(), delimiter: Bytes::new(), max_items: 5 };
    loop {
        let page = store.list(&query).await.map_err(|error| format!("list: {error}"))?;
        for item in page.items {
            let ListItem::Object(object) = item else { return Err(format!("a prefix in a list without: {item:?}")) };
            query.start_after = object.key.clone();
            listed.push((object.key, object.length, object.etag, object.modified_ms));
        }
        if !page.truncated {
            break;
        }
    }
    let expected: Vec<_> = objects
        .iter()
        .map(|(name, value)| {
            let modified_ms = value.attributes().modified_ms;
            (Bytes::copy_from_slice(name.as_bytes()), value.bytes.len() as u64, value.tag(), modified_ms)
        })
        .collect();
    match listed == expected {
        true => Ok(()),
        false => Err(format!("listed {listed:?}\nreadable {expected:?}")),
    }
}

async fn list_uploads(store: &LogStore) -> Result<Vec<(String, UploadId)>, Violation> {
    let query = UploadQuery { bucket: BUCKET, prefix: Bytes::new(), after: None, delimiter: Bytes::new(), max_items: 1000 };
    let page = store.uploads(&query).await.map_err(|error| format!("uploads: {error}"))?;
    let named = |upload: &engine::ListedUpload| (String::from_utf8_lossy(&upload.key).into_owned(), upload.upload);
    Ok(page.uploads.iter().map(named).collect())
}

async fn judge_parts(store: &LogStore, upload: &mut Upload) -> Result<Vec<(u16, u64)>, Violation> {
    let named = upload.named();
    let parts = store.parts(&named, 0, 1000).await.map_err(|error| format!("parts of {upload:?}: {error}"))?;
    let mut seen = Vec::new();
    for (number, register) in &mut upload.parts {
        let part = parts.iter().find(|part| part.number == *number);
        let allowed = register.allowed();
        let is_it = |value: &&Option<Value>| match (part, value) {
            (Some(part), Some(value)) => part.attributes.etag == value.tag() && part.length == value.bytes.len() as u64,
            (part, value) => part.is_none() && value.is_none(),
        };
        let Some(found) = allowed.iter().find(is_it) else {
            return Err(format!("part {number}: found {part:?}, allowed {allowed:?}"));
        };
        register.settle(found.clone());
        seen.extend(found.as_ref().map(|value| (*number, value.number)));
    }
    match parts.len() == seen.len() {
        true => Ok(seen),
        false => Err(format!("parts {parts:?}, known {seen:?}")),
    }
}
