//! What clients asked and heard, key by key, in the order in which it happened.

use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Names a content: no two PUTs have the same.
pub type Value = u64;

/// How a key was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Get,
    List,
    Put,
    Delete,
    /// Content that another key held.
    Copy,
}

/// One step of a key's history. Calls are numbered in the order in which they were made.
#[derive(Clone, Debug)]
pub enum Event {
    Called {
        by: By,
        call: Call<Value>,
    },
    Answered {
        number: usize,
        outcome: Outcome<Value>,
    },
    /// The answer promises that nothing was done.
    Withdrawn {
        number: usize,
    },
    /// The server was killed and has started again, or the cluster has settled: calls without an answer get none, and do nothing from here on.
    ServerEnded,
}

/// The history of one key.
#[derive(Clone, Debug, Default)]
pub struct KeyRecord {
    pub events: Vec<Event>,
    calls: usize,
}

/// A call under way.
#[derive(Debug)]
#[must_use]
pub struct Asked {
    key: usize,
    number: usize,
}

/// The histories of all keys, and what is known of every content that was ever sent.
#[derive(Default)]
pub struct Record {
    keys: Vec<Mutex<KeyRecord>>,
    /// By their ETags, which are the MD5s of all bytes: an answer with a known tag and these bytes is whole.
    contents: Mutex<HashMap<String, Value>>,
    tags: Mutex<HashMap<Value, String>>,
}

/// How much a record says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub calls: u64,
    pub reads: u64,
    pub listed: u64,
    pub refused: u64,
    pub lost: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { calls, reads, listed, refused, lost } = self;
        write!(f, "{calls} calls: {reads} reads, {listed} by LIST, {refused} refused by their condition, {lost} answers lost")
    }
}

impl Record {
    pub fn new(keys: usize) -> Record {
        Record { keys: (0..keys).map(|_| Mutex::default()).collect(), ..Record::default() }
    }

    /// A record of one key's history.
    pub fn of_key(key: KeyRecord) -> Record {
        Record { keys: vec![Mutex::new(key)], ..Record::default() }
    }

    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    pub fn key(&self, key: usize) -> KeyRecord {
        self.keys[key].lock().clone()
    }

    /// A content is about to be sent.
    pub fn content(&self, value: Value, etag: &str) {
        self.contents.lock().insert(etag.to_owned(), value);
        self.tags.lock().insert(value, etag.to_owned());
    }

    /// The content with this tag.
    pub fn value_of(&self, etag: &str) -> Value {
        let value = self.contents.lock().get(etag).copied();
        value.unwrap_or_else(|| panic!("{etag} is the tag of nothing that was ever sent"))
    }

    pub fn etag_of(&self, value: Value) -> String {
        self.tags.lock()[&value].clone()
    }

    /// A request is about to be sent.
    pub fn ask(&self, key: usize, by: By, call: Call<Value>) -> Asked {
        let mut record = self.keys[key].lock();
        record.events.push(Event::Called { by, call });
        record.calls += 1;
        Asked { key, number: record.calls - 1 }
    }

    /// The answer has come.
    pub fn answer(&self, asked: Asked, outcome: Outcome<Value>) {
        self.keys[asked.key].lock().events.push(Event::Answered { number: asked.number, outcome });
    }

    pub fn withdraw(&self, asked: Asked) {
        self.keys[asked.key].lock().events.push(Event::Withdrawn { number: asked.number });
    }

    pub fn server_ended(&self) {
        self.keys.iter().for_each(|key| key.lock().events.push(Event::ServerEnded));
    }

    /// Every key's history has an explanation, or the one that has none.
    pub fn judge(&self) -> Result<(), String> {
        for (number, key) in self.keys.iter().enumerate() {
            key.lock().history().check(None).map_err(|violation| format!("key {number}: {violation}"))?;
        }
        Ok(())
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for key in &self.keys {
            let key = key.lock();
            let mut open = 0;
            for event in &key.events {
                match event {
                    Event::Called { by, .. } => {
                        counts.calls += 1;
                        counts.listed += u64::from(*by == By::List);
                        open += 1;
                        continue;
                    }
                    Event::Answered { outcome, .. } => {
                        counts.reads += u64::from(matches!(outcome, Outcome::Read(_)));
                        counts.refused += u64::from(matches!(outcome, Outcome::Occupied | Outcome::Differs { .. }));
                    }
                    Event::Withdrawn { .. } => {}
                    Event::ServerEnded => {
                        counts.lost += open;
                        open = 1;
                    }
                }
                open -= 1;
            }
        }
        counts
    }
}

impl KeyRecord {
    fn history(&self) -> History<Register<Value>> {
        let mut history = History::default();
        let mut calls: Vec<(CallId, bool)> = Vec::new();
        for event in &self.events {
            match event {
                Event::Called { call, .. } => calls.push((history.call(call.clone()), true)),
                Event::Answered { number, outcome } => {
                    history.answer(calls[*number].0, outcome.clone());
                    calls[*number].1 = false;
                }
                Event::Withdrawn { number } => {
                    history.withdraw(calls[*number].0);
                    calls[*number].1 = false;
                }
                Event::ServerEnded => {
                    for (call, is_open) in &mut calls {
                        if std::mem::replace(is_open, false) {
                            end_without_answer(&mut history, *call);
                        }
                    }
                }
            }
        }
        for (call, _) in calls.into_iter().filter(|(_, is_open)| *is_open) {
            if has_no_effect(history.asked(call)) {
                history.withdraw(call);
            }
        }
        history
    }
}

/// Nobody will hear of the call.
fn end_without_answer(history: &mut History<Register<Value>>, call: CallId) {
    match has_no_effect(history.asked(call)) {
        true => history.withdraw(call),
        false => history.lose(call),
    }
}

/// Whether it does not matter if the call was carried out: to leave it out makes the search for an explanation shorter.
fn has_no_effect(call: &Call<Value>) -> bool {
    match call {
        Call::Read => true,
        Call::Swap { expected, new } => expected == new,
        Call::Write(_) => false,
    }
}
