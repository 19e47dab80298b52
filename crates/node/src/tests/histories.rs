//! What clients did and were told, key by key.

use super::service::{get, key, put};
use engine::{Condition, ETagMatch, EngineError, ObjectEngine};
use env::Env;
use format::attributes::ETag;
use model::linearizability::History;
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use std::sync::Arc;

/// Values are never written twice, so that a read tells which write it saw.
pub type Value = u64;

/// Histories of all keys. One observer sees all calls and answers, so they have one order.
#[derive(Default)]
pub struct Histories {
    by_key: Mutex<Vec<History<Register<Value>>>>,
    next: Mutex<Value>,
    pub answered: Mutex<u64>,
    pub failed: Mutex<u64>,
}

impl Histories {
    pub fn new(keys: usize) -> Arc<Histories> {
        Arc::new(Histories { by_key: Mutex::new(vec![History::default(); keys]), ..Histories::default() })
    }

    fn new_value(&self) -> Value {
        let mut next = self.next.lock();
        *next += 1;
        *next
    }

    /// One call of a client at a node, drawn by chance; false if it failed.
    pub async fn call(&self, env: &Env, engine: &dyn ObjectEngine, seen: &mut Option<Value>) -> bool {
        let failed = *self.failed.lock();
        self.call_one(env, engine, seen).await;
        *self.failed.lock() == failed
    }

    async fn call_one(&self, env: &Env, engine: &dyn ObjectEngine, seen: &mut Option<Value>) {
        let keys = self.by_key.lock().len();
        let at = env.random_below(keys as u64) as usize;
        match env.random_below(10) {
            0..4 => *seen = self.read(engine, at).await.or(*seen),
            4..7 => self.write(engine, at, Some(self.new_value()), Condition::None, None).await,
            7 => self.write(engine, at, None, Condition::None, None).await,
            8 => self.write(engine, at, Some(self.new_value()), Condition::Absent, Some(None)).await,
            _ => {
                let Some(expected) = *seen else { return };
                let mut digest = [0; 16];
                digest[..8].copy_from_slice(&expected.to_le_bytes());
                let condition = Condition::Match(ETagMatch::OneOf(vec![ETag::Md5(digest)]));
                self.write(engine, at, Some(self.new_value()), condition, Some(Some(expected))).await;
            }
        }
    }

    /// Reads a key; what it held.
    pub async fn read(&self, engine: &dyn ObjectEngine, at: usize) -> Option<Value> {
        let id = self.by_key.lock()[at].call(Call::Read);
        let read = get(engine, &name(at)).await;
        let mut by_key = self.by_key.lock();
        match read {
            Ok(found) => {
                *self.answered.lock() += 1;
                by_key[at].answer(id, Outcome::Read(found));
                found
            }
            Err(_) => {
                *self.failed.lock() += 1;
                by_key[at].withdraw(id);
                None
            }
        }
    }

    async fn write(
        &self,
        engine: &dyn ObjectEngine,
        at: usize,
        value: Option<Value>,
        condition: Condition,
        expected: Option<Option<Value>>,
    ) {
        let call = match expected {
            None => Call::Write(value),
            Some(expected) => Call::Swap { expected, new: value },
        };
        let id = self.by_key.lock()[at].call(call);
        let written = match value {
            Some(value) => put(engine, &name(at), value, condition).await,
            None => engine.delete(&key(&name(at)), condition).await.map(|_| ()),
        };
        let outcome = match (written, expected) {
            (Ok(()), None) => Some(Outcome::Written),
            (Ok(()), Some(_)) => Some(Outcome::Swapped),
            (Err(EngineError::PreconditionFailed), Some(_)) => Some(Outcome::Occupied),
            (Err(EngineError::NotFound), Some(Some(_))) => Some(Outcome::Differs { found: None }),
            // It may take effect, now or later.
            (Err(_), _) => None,
        };
        match outcome {
            Some(outcome) => {
                *self.answered.lock() += 1;
                self.by_key.lock()[at].answer(id, outcome);
            }
            None => *self.failed.lock() += 1,
        }
    }

    /// Panics unless every key's history is linearizable.
    pub fn judge(&self, seed: u64) {
        for (at, history) in self.by_key.lock().iter().enumerate() {
            if let Err(violation) = history.check(None) {
                panic!("seed {seed}, {}: {violation:?}\n{history:#?}", name(at));
            }
        }
    }
}

fn name(at: usize) -> String {
    format!("key-{at}")
}
