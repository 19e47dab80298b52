//! One client: asks at random and records what it hears.

use super::load::Load;
use super::record::{Asked, By, Record, Value};
use super::{BUCKET, KEYS};
use crate::http::{Answer, Connection};
use crate::listing::list;
use bench::random::{Random, mix64};
use md5::{Digest, Md5};
use model::register::{Call, Outcome};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pages of a LIST: one for all keys, or several.
const LIST_PAGES: [u64; 2] = [1000, 1];
/// What a step may be is one of so many; from [`READS`] on they are reads.
const CHOICES: u64 = 100;
const READS: u64 = 65;
/// Between two requests of a client of a cluster: histories stay short enough to be judged.
const PACE: Duration = Duration::from_millis(8);
/// Before a client of a cluster that was not served goes to another node.
const REFUSED_PAUSE: Duration = Duration::from_millis(150);
/// How often a delete finds no room, at most, when there is some again.
const ROOM_TRIES: u32 = 100;
/// Requests on one connection to a node, at most.
const REQUESTS_AT_A_NODE: u64 = 40;

pub struct Client {
    random: Random,
    next_value: Value,
    /// Not served the last time. It only reads until it is: how a write ended that was not answered stays open, and a history with
    /// many such writes takes long to judge.
    is_unsure: bool,
    /// What each key held when this client last knew.
    known: [Option<Value>; KEYS],
}

impl Client {
    pub fn new(seed: u64, number: u64) -> Client {
        Client { random: Random::new(seed, number), next_value: number << 32, is_unsure: false, known: [None; KEYS] }
    }

    /// Asks until the server is killed. A connection that breaks before is a failure.
    pub fn run(&mut self, address: &str, record: &Record, load: &Load) {
        let lost = LostClient(load);
        let outcome = Connection::open(address).and_then(|mut connection| {
            loop {
                let choice = self.random.below(CHOICES);
                self.step(&mut connection, record, choice)?;
                load.answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let error: io::Error = match outcome {
            Ok(never) => never,
            Err(error) => error,
        };
        assert!(load.is_ending.load(Ordering::SeqCst), "the connection broke while the server ran: {error}");
        std::mem::forget(lost);
    }

    /// Asks one node after the other until the load ends. Nodes may refuse, and connections break, at any time.
    pub fn run_in_cluster(&mut self, nodes: &[String], record: &Record, load: &Load) {
        let lost = LostClient(load);
        while !load.is_ending.load(Ordering::SeqCst) {
            let node = &nodes[self.random.below(nodes.len() as u64) as usize];
            let asked = Connection::open(node).and_then(|mut connection| self.stay(&mut connection, record, load));
            if asked.is_err() {
                self.is_unsure = true;
                std::thread::sleep(REFUSED_PAUSE);
            }
        }
        std::mem::forget(lost);
    }

    /// Some requests to one node.
    fn stay(&mut self, connection: &mut Connection, record: &Record, load: &Load) -> io::Result<()> {
        for _ in 0..self.random.below(REQUESTS_AT_A_NODE) {
            if load.is_ending.load(Ordering::SeqCst) {
                return Ok(());
            }
            let choice = if self.is_unsure { READS } else { self.random.below(CHOICES) };
            self.step(connection, record, choice)?;
            load.answered.fetch_add(1, Ordering::Relaxed);
            self.is_unsure = false;
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    /// Reads every key by GET and by LIST.
    pub fn read_everything(&mut self, address: &str, record: &Record) {
        let mut connection = Connection::open(address).unwrap();
        for key in 0..KEYS {
            self.get(&mut connection, record, key, "GET").unwrap();
        }
        for page in LIST_PAGES {
            self.list(&mut connection, record, page).unwrap();
        }
    }

    /// Deletes every key. After a disk was full a server needs a moment to find that it has room again.
    pub fn delete_everything(&mut self, address: &str, record: &Record) {
        let mut connection = Connection::open(address).unwrap();
        for key in 0..KEYS {
            let mut tries = ROOM_TRIES;
            while let Err(error) = self.delete(&mut connection, record, key) {
                tries -= 1;
                assert!(error.kind() == io::ErrorKind::StorageFull && tries > 0, "{error}");
                std::thread::sleep(REFUSED_PAUSE);
            }
        }
    }

    /// Another record begins: nothing of the former is known in it.
    pub fn forget(&mut self) {
        self.known = [None; KEYS];
    }

    fn step(&mut self, connection: &mut Connection, record: &Record, choice: u64) -> io::Result<()> {
        let key = self.random.below(KEYS as u64) as usize;
        match choice {
            0..25 => self.put(connection, record, key),
            25..33 => self.swap(connection, record, key, None, true),
            33..43 => self.swap(connection, record, key, self.known[key], true),
            43..50 => self.swap(connection, record, key, self.known[key], false),
            50..57 => self.delete(connection, record, key),
            57..65 => self.copy(connection, record, key),
            65..68 => self.get(connection, record, key, "HEAD"),
            68..85 => self.get(connection, record, key, "GET"),
            85..90 => self.get_if_changed(connection, record, key),
            _ => {
                let page = LIST_PAGES[self.random.below(2) as usize];
                self.list(connection, record, page)
            }
        }
    }

    /// A content that was never sent before.
    fn content(&mut self, record: &Record, most_bytes: u64) -> (Value, Vec<u8>) {
        self.next_value += 1;
        let length = match self.random.below(40) {
            0 if most_bytes > 1 << 20 => 1_200_000 + self.random.below(2_000_000),
            1..4 => self.random.below(most_bytes),
            _ => self.random.below(9_000),
        };
        let mut state = mix64(self.next_value);
        let mut bytes = self.next_value.to_le_bytes().to_vec();
        while bytes.len() < length as usize {
            bytes.extend_from_slice(&state.to_le_bytes());
            state = mix64(state);
        }
        record.content(self.next_value, &etag(&bytes));
        (self.next_value, bytes)
    }

    fn put(&mut self, connection: &mut Connection, record: &Record, key: usize) -> io::Result<()> {
        let (value, bytes) = self.content(record, 2 << 20);
        let asked = record.ask(key, By::Put, Call::Write(Some(value)));
        let (asked, answer) = write(record, asked, connection.ask("PUT", &path(key), &[], &bytes)?)?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        record.answer(asked, Outcome::Written);
        self.known[key] = Some(value);
        Ok(())
    }

    fn delete(&mut self, connection: &mut Connection, record: &Record, key: usize) -> io::Result<()> {
        let asked = record.ask(key, By::Delete, Call::Write(None));
        let (asked, answer) = write(record, asked, connection.ask("DELETE", &path(key), &[], b"")?)?;
        assert_eq!(answer.status, 204, "{}", answer.text());
        record.answer(asked, Outcome::Written);
        self.known[key] = None;
        Ok(())
    }

    /// A PUT, or else a DELETE, on condition that the key holds `expected`. There is no DELETE of what is not there.
    fn swap(
        &mut self,
        connection: &mut Connection,
        record: &Record,
        key: usize,
        expected: Option<Value>,
        puts: bool,
    ) -> io::Result<()> {
        let (method, by, new, bytes) = match (puts, expected) {
            // A server may refuse without reading a long body, and close.
            (true, _) => {
                let (value, bytes) = self.content(record, 9_000);
                ("PUT", By::Put, Some(value), bytes)
            }
            (false, Some(_)) => ("DELETE", By::Delete, None, Vec::new()),
            (false, None) => return self.get(connection, record, key, "GET"),
        };
        let tag = expected.map(|value| record.etag_of(value));
        let condition = tag.as_deref().map_or(("If-None-Match", "*"), |tag| ("If-Match", tag));
        let asked = record.ask(key, by, Call::Swap { expected, new });
        let (asked, answer) = write(record, asked, connection.ask(method, &path(key), &[condition], &bytes)?)?;
        self.end_swap(record, asked, &answer);
        if answer.status < 300 {
            self.known[key] = new;
        }
        Ok(())
    }

    fn end_swap(&self, record: &Record, asked: Asked, answer: &Answer) {
        let outcome = match answer.status {
            200 | 204 => Outcome::Swapped,
            412 => Outcome::Occupied,
            404 => Outcome::Differs { found: None },
            _ => panic!("a condition is answered with {}: {}", answer.status, answer.text()),
        };
        record.answer(asked, outcome);
    }

    /// Copies what this client believes that another key holds. Seen from there it is a swap of a value for itself.
    fn copy(&mut self, connection: &mut Connection, record: &Record, key: usize) -> io::Result<()> {
        let from = (key + 1 + self.random.below(KEYS as u64 - 1) as usize) % KEYS;
        let Some(value) = self.known[from] else { return self.get(connection, record, from, "GET") };
        let tag = record.etag_of(value);
        let source = path(from);
        let headers = [("x-amz-copy-source", source.as_str()), ("x-amz-copy-source-if-match", tag.as_str())];
        let reading = record.ask(from, By::Get, Call::Swap { expected: Some(value), new: Some(value) });
        let writing = record.ask(key, By::Copy, Call::Write(Some(value)));
        let (writing, answer) = write(record, writing, connection.ask("PUT", &path(key), &headers, b"")?)?;
        if answer.status == 200 {
            assert!(answer.text().replace("&quot;", "\"").contains(&tag), "{}", answer.text());
            record.answer(writing, Outcome::Written);
            self.known[key] = Some(value);
        } else {
            record.withdraw(writing);
        }
        self.end_swap(record, reading, &answer);
        Ok(())
    }

    fn get(&mut self, connection: &mut Connection, record: &Record, key: usize, method: &str) -> io::Result<()> {
        let asked = record.ask(key, By::Get, Call::Read);
        let answer = served(connection.ask(method, &path(key), &[], b"")?)?;
        self.end_get(record, asked, key, &answer, method == "GET");
        Ok(())
    }

    fn get_if_changed(&mut self, connection: &mut Connection, record: &Record, key: usize) -> io::Result<()> {
        let Some(known) = self.known[key] else { return self.get(connection, record, key, "GET") };
        let asked = record.ask(key, By::Get, Call::Read);
        let answer = served(connection.ask("GET", &path(key), &[("If-None-Match", &record.etag_of(known))], b"")?)?;
        match answer.status {
            304 => record.answer(asked, Outcome::Read(Some(known))),
            _ => self.end_get(record, asked, key, &answer, true),
        }
        Ok(())
    }

    fn end_get(&mut self, record: &Record, asked: Asked, key: usize, answer: &Answer, has_body: bool) {
        let found = match answer.status {
            404 => None,
            200 => {
                let tag = answer.header("etag").expect("an object has a tag");
                assert!(!has_body || etag(&answer.body) == tag, "key {key}: {tag} with bytes that are not its");
                Some(record.value_of(tag))
            }
            status => panic!("key {key}: {status} {}", answer.text()),
        };
        record.answer(asked, Outcome::Read(found));
        self.known[key] = found;
    }

    /// LIST: a read of every key.
    fn list(&mut self, connection: &mut Connection, record: &Record, page: u64) -> io::Result<()> {
        let asked: Vec<Asked> = (0..KEYS).map(|key| record.ask(key, By::List, Call::Read)).collect();
        let mut listed = list(connection, BUCKET, "hot/", page)?;
        for (key, asked) in asked.into_iter().enumerate() {
            let found = listed.remove(&name(key)).map(|listed| record.value_of(&listed.etag));
            record.answer(asked, Outcome::Read(found));
            self.known[key] = found;
        }
        assert!(listed.is_empty(), "keys that nobody made: {listed:?}");
        Ok(())
    }
}

/// An answer, unless it says that nothing can be served now: whether a write was carried out is not known then.
fn served(answer: Answer) -> io::Result<Answer> {
    match answer.status {
        503 => Err(io::Error::new(io::ErrorKind::ResourceBusy, answer.text())),
        _ => Ok(answer),
    }
}

/// As [`served`], of a write: told that there is no room, nothing was done.
fn write(record: &Record, asked: Asked, answer: Answer) -> io::Result<(Asked, Answer)> {
    if answer.status == 507 {
        record.withdraw(asked);
        return Err(io::Error::new(io::ErrorKind::StorageFull, answer.text()));
    }
    Ok((asked, served(answer)?))
}

/// Counts a client that panics, so that nobody waits for its work.
struct LostClient<'a>(&'a Load);

impl Drop for LostClient<'_> {
    fn drop(&mut self) {
        self.0.clients_lost.fetch_add(1, Ordering::Relaxed);
    }
}

fn name(key: usize) -> String {
    format!("hot/key-{key}")
}

fn path(key: usize) -> String {
    format!("/{BUCKET}/{}", name(key))
}

fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", hex::encode(Md5::digest(bytes)))
}
