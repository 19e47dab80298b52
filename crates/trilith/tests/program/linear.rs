//! Are histories on the real server linearizable, across `kill -9`?
//!
//! Clients on connections of their own ask for a few hot keys: PUT, GET, HEAD, DELETE, conditional forms of each, copies from key
//! to key, and LIST. The server is killed in the middle and started again on its data. Each key's whole history, from before the
//! first kill to after the last, goes through the checker ([`model::linearizability`]). A request whose answer the kill took may
//! have had its effect before the next start, or never.
//!
//! A LIST is a read of every key that could have stood in it, so a list that lacks what was acknowledged before it, or shows
//! what was deleted, has no explanation either.
//!
//! A failure prints the seed; TRILITH_TEST_SEED replays the choices, though not what the threads make of them.

pub mod client;
pub mod falsify;
pub mod load;
pub mod record;

use crate::server::{Home, LOOK, PATIENCE, Server, program};
use bench::random::Random;
use client::Client;
use load::Load;
use record::{By, Record};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

/// Kills within one history.
const KILLS: u64 = 3;
pub const CLIENTS: u64 = 6;
pub const KEYS: usize = 4;
/// Requests answered before each kill, at least and at most.
const REQUESTS: (u64, u64) = (100, 300);
pub const BUCKET: &str = "linear";
/// Histories of a long run.
const SOAK_HISTORIES: u64 = 50;

/// One history under way.
struct Run {
    home: Home,
    flags: Vec<String>,
    random: Random,
    clients: Vec<Client>,
    record: Record,
}

impl Run {
    fn new(seed: u64, devices: u32) -> Run {
        println!("seed {seed}, {devices} devices");
        let home = Home::new();
        let flags = if devices == 1 { Vec::new() } else { prepare(&home, devices) };
        let clients = (0..CLIENTS).map(|number| Client::new(seed, number)).collect();
        let run = Run { home, flags, random: Random::new(seed, u64::MAX), clients, record: Record::new(KEYS) };
        let server = run.serve();
        server.make_open_bucket(BUCKET);
        server.stop();
        run
    }

    fn serve(&self) -> Server {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        self.home.serve(&flags)
    }

    /// Serves the clients for a while and ends by a kill.
    fn live(&mut self) {
        let server = self.serve();
        let requests = REQUESTS.0 + self.random.below(REQUESTS.1 - REQUESTS.0);
        let (address, load, record) = (server.s3.clone(), Load::default(), &self.record);
        let env = env::Env::real_with_cores(1);
        let deadline = env.now() + PATIENCE;
        std::thread::scope(|scope| {
            for client in &mut self.clients {
                scope.spawn(|| client.run(&address, record, &load));
            }
            while load.answered.load(Ordering::Relaxed) < requests && load.clients_lost.load(Ordering::Relaxed) == 0 {
                assert!(env.now() < deadline, "not {requests} requests in {PATIENCE:?}");
                std::thread::sleep(LOOK);
            }
            load.is_ending.store(true, Ordering::SeqCst);
            server.kill();
        });
    }

    /// The server serves again: what was under way at the kill is decided. Everything is read once, by GET and by LIST.
    fn look(&mut self) {
        let server = self.serve();
        self.record.server_ended();
        self.clients[0].read_everything(&server.s3, &self.record);
        server.stop();
    }
}

/// Devices with small zones, so that many starts find room; the flags that name them.
fn prepare(home: &Home, devices: u32) -> Vec<String> {
    std::fs::create_dir_all(home.data()).unwrap();
    let paths: Vec<_> = (0..devices).map(|number| home.data().join(format!("disk-{number}"))).collect();
    for path in &paths {
        let output = program().args(["device", "format", "--size", "1GiB", "--zone-size", "8MiB"]).arg(path).output().unwrap();
        assert!(output.status.success());
    }
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    vec!["--devices".to_owned(), names.join(",")]
}

/// A history with its kills, judged.
fn history(seed: u64, devices: u32) -> Record {
    let mut run = Run::new(seed, devices);
    for _ in 0..KILLS {
        run.live();
        run.look();
    }
    println!("{}", run.record.counts());
    run.record.judge().unwrap_or_else(|violation| panic!("seed {seed}, {devices} devices: {violation}"));
    run.record
}

pub fn seed() -> u64 {
    std::env::var("TRILITH_TEST_SEED").map_or(20_261_121, |seed| seed.parse().expect("a number"))
}

#[test]
fn histories_across_kills_are_linearizable() {
    let histories = if std::env::var_os("TRILITH_SOAK").is_some() { SOAK_HISTORIES } else { 1 };
    for number in 0..histories {
        for devices in [1, 3] {
            let record = history(seed() + number, devices);
            assert!(record.counts().lost >= KILLS, "the kills took too few answers: {}", record.counts());
            // The same history with one answer changed has no explanation: the verdict above could have been another.
            for by in [By::Get, By::List] {
                let falsified = falsify::stale_reads(&record, by);
                assert!(falsified.len() >= 10, "{} {by:?} answers could be falsified", falsified.len());
                for lie in falsified {
                    assert!(lie.judge().is_err(), "seed {}: a {by:?} of an overwritten value was explained", seed() + number);
                }
            }
        }
    }
}

/// The checker hears of it when a real server forgets what it acknowledged: its data is put back to an earlier state.
#[test]
fn a_server_that_forgets_is_caught() {
    let mut run = Run::new(seed(), 1);
    let (data, backup) = (run.home.data(), run.home.path("backup"));
    run.live();
    run.look();
    copy_folder(&data, &backup);
    run.live();
    std::fs::remove_dir_all(&data).unwrap();
    copy_folder(&backup, &data);
    run.look();
    let violation = run.record.judge().expect_err("what the second life acknowledged is gone");
    assert!(violation.contains("not linearizable"), "{violation}");
}

/// Copies a folder and keeps the holes of its files.
fn copy_folder(from: &Path, to: &Path) {
    let output = Command::new("cp").args(["-r", "--sparse=always"]).args([from, to]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
