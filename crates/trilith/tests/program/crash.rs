//! `kill -9` under mixed load, again and again: nothing acknowledged is lost, nothing is half there, and LIST and GET agree.
//!
//! Each worker has keys of its own, so that it knows what a key may hold: what was acknowledged last, or, after an answer that
//! never came, either that or what was asked. A failure prints the seed; TRILITH_TEST_SEED replays its choices (though not the
//! moments of the kills).

use crate::http::{Answer, Connection};
use crate::listing::{Listed, list};
use crate::server::{Home, LOOK, PATIENCE, Server, program};
use bench::random::{Random, mix64};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ROUNDS: u64 = 10;
const WORKERS: u64 = 4;
const KEYS_PER_WORKER: u64 = 24;
/// Operations acknowledged before the kill, at least and at most.
const OPERATIONS: (u64, u64) = (40, 400);
const BUCKET: &str = "crash";
/// Keys a page: several pages, the last one not full.
const LIST_PAGE: u64 = 37;

/// What an object holds: a function of these two numbers and the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    version: u64,
    length: usize,
}

/// What a key may hold, most likely first. None: nothing.
type Possible = Vec<Option<Value>>;

struct Worker {
    random: Random,
    version: u64,
    keys: BTreeMap<String, Possible>,
}

#[test]
fn ten_kills_under_load_lose_nothing_acknowledged() {
    let seed = std::env::var("TRILITH_TEST_SEED").map_or(20_240_917, |seed| seed.parse().expect("a number"));
    let rounds = if std::env::var_os("TRILITH_SOAK").is_some() { 50 * ROUNDS } else { ROUNDS };
    println!("seed {seed}");
    let home = Home::new();
    let mut random = Random::new(seed, 0);
    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(seed, number)).collect();
    prepare_small_zones(&home);
    let mut server = home.serve(&[]);
    server.make_open_bucket(BUCKET);
    for round in 0..rounds {
        let operations = OPERATIONS.0 + random.below(OPERATIONS.1 - OPERATIONS.0);
        load_and_kill(server, &mut workers, operations);
        server = home.serve(&[]);
        verify(&server, &mut workers, round);
        // A stop in order leaves a checkpoint; what it covers is what collection may free.
        if (round + 1) % ROUNDS == 0 {
            server.stop();
            server = home.serve(&[]);
            wait_for_room(&server);
            verify(&server, &mut workers, round);
        }
    }
}

/// In a long run collection must keep up: servers that are killed at once never get to it.
fn wait_for_room(server: &Server) {
    let env = env::Env::real_with_cores(1);
    let deadline = env.now() + PATIENCE;
    loop {
        let answer = Connection::open(&server.admin).unwrap().get("/status").unwrap();
        let status: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let count = |what: &str| status["devices"][0][what].as_u64().unwrap();
        if count("free_zones") * 5 >= count("zones") {
            return;
        }
        assert!(env.now() < deadline, "collection frees too little: {status}");
        std::thread::sleep(LOOK);
    }
}

/// Every start ends the zones that were open, so small ones make room for many starts.
fn prepare_small_zones(home: &Home) {
    std::fs::create_dir_all(home.data()).unwrap();
    let device = home.data().join("device-0.trilith");
    let mut format = program();
    format.args(["device", "format", "--size", "4GiB", "--zone-size", "8MiB"]).arg(device);
    assert!(format.output().unwrap().status.success());
}

/// Lets the workers run until so many operations are acknowledged, then kills the server in the middle of the next ones.
fn load_and_kill(server: Server, workers: &mut [Worker], operations: u64) {
    let load = Load::default();
    let env = env::Env::real_with_cores(1);
    let deadline = env.now() + PATIENCE;
    let address = server.s3.clone();
    std::thread::scope(|scope| {
        for worker in workers.iter_mut() {
            scope.spawn(|| worker.run(&address, &load));
        }
        while load.done.load(Ordering::Relaxed) < operations && load.workers_lost.load(Ordering::Relaxed) == 0 {
            assert!(env.now() < deadline, "not {operations} operations in {PATIENCE:?}");
            std::thread::sleep(LOOK);
        }
        load.is_ending.store(true, Ordering::SeqCst);
        server.kill();
    });
}

/// What the workers of one round and the one who kills share.
#[derive(Default)]
struct Load {
    done: AtomicU64,
    /// The kill is next: from now on connections may break.
    is_ending: AtomicBool,
    workers_lost: AtomicU64,
}

/// Every key holds something it may hold, and the list says the same. What was found is certain from then on.
fn verify(server: &Server, workers: &mut [Worker], round: u64) {
    let mut connection = Connection::open(&server.s3).unwrap();
    let mut present = BTreeMap::new();
    for (key, possible) in workers.iter_mut().flat_map(|worker| worker.keys.iter_mut()) {
        let answer = connection.get(&path(key)).unwrap();
        let found = value_of(key, &answer);
        assert!(possible.contains(&found), "round {round}: {key} holds {found:?}, not one of {possible:?}");
        *possible = vec![found];
        if found.is_some() {
            let etag = answer.header("etag").unwrap().to_owned();
            present.insert(key.clone(), Listed { etag, size: answer.body.len().to_string() });
        }
    }
    let listed = list(&mut connection, BUCKET, "", LIST_PAGE).unwrap();
    assert_eq!(listed, present, "round {round}: LIST and GET disagree");
}

/// Counts a worker that panics, so that nobody waits for its work.
struct LostWorker<'a>(&'a Load);

impl Drop for LostWorker<'_> {
    fn drop(&mut self) {
        self.0.workers_lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Worker {
    fn new(seed: u64, number: u64) -> Worker {
        let key = |index| (format!("worker-{number}/key-{index:02}"), vec![None]);
        Worker { random: Random::new(seed, number + 1), version: number << 32, keys: (0..KEYS_PER_WORKER).map(key).collect() }
    }

    /// Works until the server is killed. A connection that breaks before is a failure.
    fn run(&mut self, address: &str, load: &Load) {
        let lost = LostWorker(load);
        let mut connection = match Connection::open(address) {
            Ok(connection) => connection,
            Err(error) => {
                assert!(load.is_ending.load(Ordering::SeqCst), "cannot connect: {error}");
                return std::mem::forget(lost);
            }
        };
        loop {
            let index = self.random.below(KEYS_PER_WORKER) as usize;
            let key = self.keys.keys().nth(index).expect("an index below the count").clone();
            if let Err(error) = self.step(&mut connection, &key) {
                assert!(load.is_ending.load(Ordering::SeqCst), "{key}: the connection broke while the server ran: {error}");
                return std::mem::forget(lost);
            }
            load.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn step(&mut self, connection: &mut Connection, key: &str) -> std::io::Result<()> {
        let present = self.keys[key][0];
        match self.random.below(100) {
            0..60 => self.put(connection, key, &[], 200),
            60..70 if present.is_some() => self.put(connection, key, &[("If-None-Match", "*")], 412),
            60..70 => self.put(connection, key, &[("If-None-Match", "*")], 200),
            70..85 => {
                self.asked(key, None);
                let answer = connection.ask("DELETE", &path(key), &[], b"")?;
                assert_eq!(answer.status, 204, "{key}: {}", answer.text());
                self.certain(key, None);
                Ok(())
            }
            _ => {
                let answer = connection.get(&path(key))?;
                assert_eq!(value_of(key, &answer), present, "{key} while the server runs");
                Ok(())
            }
        }
    }

    fn put(&mut self, connection: &mut Connection, key: &str, headers: &[(&str, &str)], expected: u16) -> std::io::Result<()> {
        self.version += 1;
        let length = match self.random.below(20) {
            // A server may refuse without reading a long body, and close.
            _ if expected != 200 => self.random.below(9_000),
            0 if self.random.below(4) == 0 => 1_200_000 + self.random.below(3_000_000),
            0 => self.random.below(100),
            1..3 => self.random.below(150_000),
            _ => self.random.below(9_000),
        };
        let value = Value { version: self.version, length: length as usize };
        if expected == 200 {
            self.asked(key, Some(value));
        }
        let answer = connection.ask("PUT", &path(key), headers, &content(key, value))?;
        assert_eq!(answer.status, expected, "{key}: {}", answer.text());
        if expected == 200 {
            self.certain(key, Some(value));
        }
        Ok(())
    }

    /// The server has been asked: from now on the key may hold this too.
    fn asked(&mut self, key: &str, value: Option<Value>) {
        self.keys.get_mut(key).expect("a key of this worker").push(value);
    }

    /// The server has answered.
    fn certain(&mut self, key: &str, value: Option<Value>) {
        *self.keys.get_mut(key).expect("a key of this worker") = vec![value];
    }
}

fn path(key: &str) -> String {
    format!("/{BUCKET}/{key}")
}

/// The version, then bytes that depend on it and on the key.
fn content(key: &str, value: Value) -> Vec<u8> {
    let mut state = key.bytes().fold(mix64(value.version), |state, byte| mix64(state ^ u64::from(byte)));
    let mut bytes = Vec::with_capacity(value.length + 16);
    bytes.extend_from_slice(&value.version.to_le_bytes());
    while bytes.len() < value.length + 8 {
        bytes.extend_from_slice(&state.to_le_bytes());
        state = mix64(state);
    }
    bytes.truncate(value.length + 8);
    bytes
}

/// What an answer holds, checked to its last byte.
fn value_of(key: &str, answer: &Answer) -> Option<Value> {
    if answer.status == 404 {
        return None;
    }
    assert_eq!(answer.status, 200, "{key}: {}", answer.text());
    let version = answer.body.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let value = Value { version: version.expect("content begins with its version"), length: answer.body.len() - 8 };
    assert!(answer.body == content(key, value), "{key} holds bytes that were never put together");
    Some(value)
}
