//! `--sync`: what each mode says at the start, and what it asks of the disk.

use crate::admin::metric;
use crate::http::Connection;
use crate::server::{Home, LOOK, PATIENCE, Server};

const PUTS: usize = 60;
const DURABLE_WRITES: &str = "trilith_disk_durable_write_requests_total{device=\"0\"}";
const TIMED_FLUSHES: &str = "trilith_target_timed_flushes_total{device=\"0\"}";

/// Durable writes that the disk was asked for while objects were put, one after the other.
fn durable_writes_of_puts(server: &Server) -> usize {
    server.make_open_bucket("bucket");
    let mut s3 = Connection::open(&server.s3).unwrap();
    let before = metric(server, DURABLE_WRITES);
    for index in 0..PUTS {
        assert_eq!(s3.ask("PUT", &format!("/bucket/{index}"), &[], content(index).as_bytes()).unwrap().status, 200);
    }
    (metric(server, DURABLE_WRITES) - before) as usize
}

fn content(index: usize) -> String {
    format!("content of {index}")
}

/// In every mode, the end of the process alone loses nothing.
fn assert_kept(home: &Home, flags: &[&str]) {
    let server = home.serve(flags);
    let mut s3 = Connection::open(&server.s3).unwrap();
    for index in 0..PUTS {
        let answer = s3.get(&format!("/bucket/{index}")).unwrap();
        assert_eq!((answer.status, answer.text()), (200, content(index)), "object {index}");
    }
}

#[test]
fn the_default_makes_every_put_durable_and_warns_of_nothing() {
    let home = Home::new();
    let server = home.serve(&[]);
    assert!(durable_writes_of_puts(&server) >= PUTS);
    let told = server.stop_and_tell();
    assert!(!told.contains("  note  "), "{told}");
}

#[test]
fn off_says_what_it_risks_and_asks_for_no_durability() {
    let home = Home::new();
    let flags = ["--sync", "off"];
    let server = home.serve(&flags);
    // The manager's own changes are durable in any mode, and a few of them may fall into this time.
    let durable_writes = durable_writes_of_puts(&server);
    assert!(durable_writes < PUTS / 2, "{durable_writes} durable writes for {PUTS} objects");
    assert_eq!(metric(&server, TIMED_FLUSHES), 0.0);
    let told = server.run(&["status"]);
    assert!(told.contains("note: sync=off: a power cut loses any amount"), "{told}");
    server.kill();
    assert_kept(&home, &flags);
    let told = home.serve(&flags).stop_and_tell();
    assert!(told.contains("note       sync=off: a power cut loses any amount of what was acknowledged; sync=always"), "{told}");
}

#[test]
fn batch_says_how_much_it_risks_and_flushes_by_time() {
    let home = Home::new();
    let flags = ["--sync", "batch:5"];
    let server = home.serve(&flags);
    let durable_writes = durable_writes_of_puts(&server);
    assert!(durable_writes < PUTS / 2, "{durable_writes} durable writes for {PUTS} objects");
    let env = env::Env::real_with_cores(1);
    let deadline = env.now() + PATIENCE;
    while metric(&server, TIMED_FLUSHES) == 0.0 {
        assert!(env.now() < deadline, "nothing was flushed");
        std::thread::sleep(LOOK);
    }
    server.kill();
    assert_kept(&home, &flags);
    let told = home.serve(&flags).stop_and_tell();
    assert!(told.contains("note       sync=batch:5: a power cut loses what was acknowledged in the last 5 ms"), "{told}");
}
