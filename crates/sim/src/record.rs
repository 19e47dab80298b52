//! What clients asked and heard: a history for each key.

use crate::content::Value;
use format::attributes::ETag;
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A call under way at some machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    machine: usize,
    key: usize,
    call: CallId,
}

/// What is known of a content that was sent.
#[derive(Clone, Debug)]
struct Sent {
    value: Value,
    bytes_hashed: [u8; 16],
    length: u64,
}

/// The histories of all keys of a run.
pub struct Record {
    keys: Vec<Mutex<History<Register<Value>>>>,
    /// Calls of each machine's clients that are not answered.
    open: Mutex<Vec<Vec<Asked>>>,
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    next_value: Value,
    by_tag: BTreeMap<String, Sent>,
    tags: BTreeMap<Value, ETag>,
}

impl Record {
    pub fn new(machines: usize, keys: usize) -> Record {
        Record {
            keys: (0..keys).map(|_| Mutex::default()).collect(),
            open: Mutex::new(vec![Vec::new(); machines]),
            contents: Mutex::default(),
        }
    }

    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// A number that no content had.
    pub fn next_value(&self) -> Value {
        let mut contents = self.contents.lock();
        contents.next_value += 1;
        contents.next_value
    }

    /// A content is about to be sent, whose object will have this tag.
    pub fn sends(&self, value: Value, bytes: &[u8], tag: ETag) {
        let sent = Sent { value, bytes_hashed: hash(bytes), length: bytes.len() as u64 };
        let mut contents = self.contents.lock();
        contents.by_tag.insert(tag.to_string(), sent);
        contents.tags.insert(value, tag);
    }

    pub fn tag_of(&self, value: Value) -> ETag {
        self.contents.lock().tags[&value]
    }

    /// The content of an object with this tag and length.
    pub fn value_of(&self, tag: &ETag, length: u64) -> Result<Value, String> {
        match self.contents.lock().by_tag.get(&tag.to_string()) {
            Some(sent) if sent.length == length => Ok(sent.value),
            found => Err(format!("an object of {length} bytes with the tag {tag}, which is that of {found:?}")),
        }
    }

    /// As [`Record::value_of`], for an object whose bytes are at hand.
    pub fn value_read(&self, tag: &ETag, bytes: &[u8]) -> Result<Value, String> {
        let value = self.value_of(tag, bytes.len() as u64)?;
        let is_whole = self.contents.lock().by_tag[&tag.to_string()].bytes_hashed == hash(bytes);
        is_whole.then_some(value).ok_or_else(|| format!("an object with the tag of content {value} and other bytes"))
    }

    pub fn ask(&self, machine: usize, key: usize, call: Call<Value>) -> Asked {
        let call = self.keys[key].lock().call(call);
        let asked = Asked { machine, key, call };
        self.open.lock()[machine].push(asked);
        asked
    }

    pub fn answer(&self, asked: Asked, outcome: Outcome<Value>) {
        self.end(asked);
        self.keys[asked.key].lock().answer(asked.call, outcome);
    }

    /// The outcome of a write that succeeded.
    pub fn written(&self, asked: Asked) -> Outcome<Value> {
        match self.keys[asked.key].lock().asked(asked.call) {
            Call::Swap { .. } => Outcome::Swapped,
            _ => Outcome::Written,
        }
    }

    /// The answer promises that nothing was done.
    pub fn withdraw(&self, asked: Asked) {
        self.end(asked);
        self.keys[asked.key].lock().withdraw(asked.call);
    }

    fn end(&self, asked: Asked) {
        let mut open = self.open.lock();
        let at = open[asked.machine].iter().position(|other| *other == asked);
        open[asked.machine].swap_remove(at.expect("it was asked and not answered"));
    }

    /// A machine has started: what its clients had not heard of, or were told might have happened, has happened or never does.
    /// How many that were.
    pub fn machine_started(&self, machine: usize) -> u64 {
        let lost = std::mem::take(&mut self.open.lock()[machine]);
        for asked in &lost {
            self.keys[asked.key].lock().lose(asked.call);
        }
        lost.len() as u64
    }

    /// Whether every key's history has an explanation.
    pub fn judge(&self) -> Result<(), String> {
        for (number, history) in self.keys.iter().enumerate() {
            history.lock().check(None).map_err(|violation| format!("key {number}: {violation}"))?;
        }
        Ok(())
    }

    /// Calls recorded, of all keys.
    pub fn calls(&self) -> usize {
        self.keys.iter().map(|history| history.lock().len()).sum()
    }
}

fn hash(bytes: &[u8]) -> [u8; 16] {
    use md5::{Digest, Md5};
    Md5::digest(bytes).into()
}
