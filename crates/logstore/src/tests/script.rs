//! One client that goes step by step through a test, with its history.

use super::history::{History, Seen, Value, whole};
use super::support::key;
use crate::LogStore;
use engine::{Condition, EngineError, ObjectEngine, StagedChunks};
use smallvec::smallvec;

/// Bytes of one chunk of a large object here.
pub const CHUNK: usize = 6000;

#[derive(Default)]
pub struct Script {
    pub history: History,
}

/// What a read gave.
#[derive(Debug)]
pub enum Read {
    Right,
    /// One of the older or unanswered values of the key.
    Other(Option<Value>),
    Failed(EngineError),
}

impl Script {
    fn begin(&mut self, name: &str, value: Option<Value>) {
        self.history.objects.entry(name.to_owned()).or_default().begin(value);
    }

    fn end<T>(&mut self, name: &str, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        if outcome.is_ok() {
            self.history.objects.get_mut(name).unwrap().acknowledged();
        }
        outcome
    }

    pub async fn put(&mut self, store: &LogStore, name: &str, length: usize) -> Result<(), EngineError> {
        let value = self.history.value(length);
        self.begin(name, Some(value.clone()));
        let put = store.put(&key(name), value.attributes(), smallvec![value.bytes.clone()], Condition::None).await;
        self.end(name, put).map(|_| ())
    }

    pub async fn put_large(&mut self, store: &LogStore, name: &str, length: usize) -> Result<(), EngineError> {
        let value = self.history.value(length);
        self.begin(name, Some(value.clone()));
        let mut staged = store.stage(&key(name), None);
        let put = match stage(store, &mut staged, &value).await {
            Ok(()) => store.commit(&key(name), staged, value.attributes(), Condition::None).await,
            Err(error) => Err(error),
        };
        self.end(name, put).map(|_| ())
    }

    pub async fn delete(&mut self, store: &LogStore, name: &str) -> Result<(), EngineError> {
        self.begin(name, None);
        let deleted = store.delete(&key(name), Condition::None).await;
        self.end(name, deleted).map(|_| ())
    }

    /// Everything must be right.
    pub async fn judge(&mut self, store: &LogStore) -> Seen {
        match self.history.judge(store).await {
            Ok(seen) => seen,
            Err(violation) => panic!("{violation}"),
        }
    }

    /// Reads a key, whatever comes; panics at bytes that nobody wrote under it.
    pub async fn read(&self, store: &LogStore, name: &str) -> Read {
        let register = &self.history.objects[name];
        let allowed = register.allowed();
        let (found, info) = match store.open(&key(name)).await {
            Ok(found) => (found.content, found.info),
            Err(EngineError::NotFound) if allowed.contains(&None) => return Read::Right,
            Err(EngineError::NotFound) => return Read::Other(None),
            Err(error) => return Read::Failed(error),
        };
        let value = register.ever().into_iter().find(|value| value.tag() == info.attributes.etag);
        let value = value.unwrap_or_else(|| panic!("{name}: {info:?} was never written here"));
        let bytes = match whole(found, info.length).await {
            Ok(bytes) => bytes,
            Err(reason) => return Read::Failed(EngineError::Corrupt { detail: reason }),
        };
        assert!(bytes == value.bytes, "{name}: {value:?} has wrong bytes");
        match allowed.contains(&Some(value.clone())) {
            true => Read::Right,
            false => Read::Other(Some(value)),
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.history.objects.keys().cloned().collect()
    }
}

async fn stage(store: &LogStore, staged: &mut StagedChunks, value: &Value) -> Result<(), EngineError> {
    for start in (0..value.bytes.len()).step_by(CHUNK) {
        let chunk = value.bytes.slice(start..value.bytes.len().min(start + CHUNK));
        store.stage_chunk(staged, chunk).await?;
    }
    Ok(())
}
