//! Connections that are slow, silent, impatient or gone, and a server that ends.

use std::time::Duration;

use s3::{App, ListenError, MinimumPace, S3Server, Timeouts};

use crate::client::Client;
use crate::server::{BUCKET, PUBLIC, Server};
use crate::signing::Request;

const SHORT: Timeouts = Timeouts {
    head: Duration::from_millis(500),
    idle: Duration::from_millis(1000),
    stall: Duration::from_millis(700),
    pace: MinimumPace { bytes_per_second: 1024, window: Duration::from_secs(30) },
    drain: Duration::from_millis(2000),
};

/// Where silence is allowed and slowness is not.
const BRISK: Timeouts = Timeouts {
    head: Duration::from_secs(60),
    idle: Duration::from_secs(60),
    stall: Duration::from_secs(60),
    pace: MinimumPace { bytes_per_second: 100_000, window: Duration::from_millis(1000) },
    drain: Duration::from_millis(2000),
};

#[test]
fn one_connection_serves_many_requests_and_errors() {
    let server = Server::start();
    let address = server.address();
    let mut client = Client::connect(address);
    let path = format!("/{PUBLIC}/kept");
    for round in 0..3 {
        let put = Request::new("PUT", &path).body(format!("round {round}"));
        client.send(format!("{}\r\n\r\nround {round}", put.anonymous()).as_bytes());
        assert_eq!(client.answer().status, 200);
        let denied = Request::new("PUT", &format!("/{BUCKET}/denied")).body("ignored");
        client.send(format!("{}\r\n\r\nignored", denied.anonymous()).as_bytes());
        assert_eq!(client.answer().status, 403, "the body of a refused request is skipped");
        let missing = Request::new("HEAD", &format!("/{PUBLIC}/missing"));
        client.send(format!("{}\r\n\r\n", missing.anonymous()).as_bytes());
        assert_eq!(client.answer_to("HEAD").status, 404);
        client.send(format!("{}\r\n\r\n", Request::new("GET", &path).anonymous()).as_bytes());
        assert_eq!(client.answer().text(), format!("round {round}"));
    }
    server.stop();
}

#[test]
fn a_large_body_that_is_refused_ends_the_connection() {
    let server = Server::start();
    let address = server.address();
    let mut client = Client::connect(address);
    let body = vec![0; 3_000_000];
    let put = Request::new("PUT", &format!("/{BUCKET}/denied")).body(body.clone());
    client.send(format!("{}\r\n\r\n", put.anonymous()).as_bytes());
    client.send(&body);
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (403, Some("close")), "the client reads the answer");
    client.end_sending();
    assert!(client.is_at_end());
    server.stop();
}

#[test]
fn expect_continue() {
    let server = Server::start();
    let address = server.address();
    let mut client = Client::connect(address);
    let body = vec![1; 300_000];
    let put = Request::new("PUT", &format!("/{PUBLIC}/expected")).header("expect", "100-continue").body(body.clone());
    client.send(format!("{}\r\n\r\n", put.anonymous()).as_bytes());
    assert_eq!(client.answer().status, 100);
    client.send(&body);
    assert_eq!(client.answer().status, 200);
    let mut other = Client::connect(address);
    let empty = Request::new("PUT", &format!("/{PUBLIC}/empty")).header("expect", "100-continue");
    other.send(format!("{}\r\n\r\n", empty.anonymous()).as_bytes());
    let answer = other.answer();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "answered without a 100");
    let denied = Request::new("PUT", &format!("/{BUCKET}/denied")).header("expect", "100-continue").body(body.clone());
    client.send(format!("{}\r\n\r\n", denied.anonymous()).as_bytes());
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (403, Some("close")), "refused before the body is sent");
    client.end_sending();
    assert!(client.is_at_end());
    server.stop();
}

#[test]
fn http_1_0_and_close() {
    let server = Server::start();
    let path = format!("/{PUBLIC}/old");
    let mut client = Client::connect(server.address());
    let put = Request::new("PUT", &path).header("connection", "close").body("x");
    client.send(format!("{}\r\n\r\nx", put.anonymous()).as_bytes());
    assert_eq!(client.answer().status, 200);
    assert!(client.is_at_end());
    let mut client = Client::connect(server.address());
    client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
    let answer = String::from_utf8(client.rest()).expect("text");
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\nx"), "{answer}");
    server.stop();
}

#[test]
fn silence_and_slowness_are_ended() {
    let server = Server::start_with(SHORT);
    let address = server.address();
    let mut idle = Client::connect(address);
    let mut slow_head = Client::connect(address);
    slow_head.send(b"GET / HTTP/1.1\r\nhost: a\r\n");
    let mut slow_body = Client::connect(address);
    let put = Request::new("PUT", &format!("/{PUBLIC}/slow")).header("content-length", "100");
    slow_body.send(format!("{}\r\n\r\nfirst", put.anonymous()).as_bytes());
    let answer = slow_body.answer();
    assert_eq!((answer.status, answer.element("Code").as_deref()), (400, Some("RequestTimeout")), "{}", answer.text());
    assert!(slow_body.is_at_end());
    assert!(slow_head.is_at_end(), "headers that do not end");
    assert!(idle.is_at_end(), "no request at all");
    server.stop();
}

#[test]
fn a_reader_that_does_not_read_is_cut() {
    let server = Server::start_with(SHORT);
    let path = format!("/{PUBLIC}/large");
    let body = vec![4; 40_000_000];
    let put = Request::new("PUT", &path).body(body.clone());
    assert_eq!(crate::client::request(server.address(), &put.anonymous(), &body).status, 200);
    let mut client = Client::connect(server.address());
    client.send(format!("{}\r\n\r\n", Request::new("GET", &path).anonymous()).as_bytes());
    std::thread::sleep(Duration::from_millis(2500));
    assert!(client.rest().len() < body.len(), "the server gave up");
    server.stop();
}

#[test]
fn a_sender_that_trickles_is_ended() {
    let server = Server::start_with(BRISK);
    let path = format!("/{PUBLIC}/trickled");
    let address = server.address();
    let mut client = Client::connect(address);
    let put = Request::new("PUT", &path).header("content-length", "1000000");
    client.send(format!("{}\r\n\r\n", put.anonymous()).as_bytes());
    let mut sender = client.sender();
    let trickling = std::thread::spawn(move || while sender.try_send(b"x") && pause(20) {});
    let answer = client.answer();
    assert_eq!((answer.status, answer.element("Code").as_deref()), (400, Some("RequestTimeout")), "{}", answer.text());
    let message = "Your socket connection to the server was not read from or written to within the timeout period.";
    assert!(answer.element("Message").is_some_and(|found| found.starts_with(message)), "{}", answer.text());
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.is_at_end());
    trickling.join().expect("the sender finds the connection ended");
    let head = Request::new("HEAD", &path);
    assert_eq!(crate::client::request(server.address(), &head.anonymous(), b"").status, 404, "half a body is no object");
    server.stop();
}

#[test]
fn a_sender_that_is_slow_but_fast_enough_is_served() {
    let server = Server::start_with(BRISK);
    let address = server.address();
    let mut client = Client::connect(address);
    // Three windows at more than three times the least pace.
    let (piece, pieces) = (vec![7; 20_000], 60);
    let put = Request::new("PUT", &format!("/{PUBLIC}/slow")).header("content-length", "1200000");
    client.send(format!("{}\r\n\r\n", put.anonymous()).as_bytes());
    for _ in 0..pieces {
        client.send(&piece);
        pause(50);
    }
    assert_eq!(client.answer().status, 200);
    server.stop();
}

#[test]
fn a_reader_that_trickles_is_cut_and_a_slow_one_is_served() {
    let server = Server::start_with(BRISK);
    let path = format!("/{PUBLIC}/large");
    let body = vec![4; 40_000_000];
    let put = Request::new("PUT", &path).body(body.clone());
    assert_eq!(crate::client::request(server.address(), &put.anonymous(), &body).status, 200);
    let get = format!("{}\r\n\r\n", Request::new("GET", &path).header("connection", "close").anonymous());
    let mut trickling = Client::connect(server.address());
    trickling.send(get.as_bytes());
    let mut taken = 0;
    for _ in 0..60 {
        taken += trickling.take(1000);
        pause(50);
    }
    assert!(taken + trickling.rest().len() < body.len(), "the server gave up on less than 20,000 bytes per second");
    let mut slow = Client::connect(server.address());
    slow.send(get.as_bytes());
    let mut taken = 0;
    // Ten million bytes per second: the kernel's buffers hold some millions, and move them in large steps.
    loop {
        match slow.take(500_000) {
            0 => break,
            bytes => taken += bytes,
        }
        pause(50);
    }
    assert!(taken > body.len(), "the whole answer came");
    server.stop();
}

/// Waits; always true, for loops.
fn pause(ms: u64) -> bool {
    std::thread::sleep(Duration::from_millis(ms));
    true
}

#[test]
fn a_client_that_leaves_disturbs_nobody() {
    let server = Server::start();
    for _ in 0..50 {
        let mut client = Client::connect(server.address());
        let put = Request::new("PUT", &format!("/{PUBLIC}/left")).header("content-length", "1000000");
        client.send(format!("{}\r\n\r\nsome", put.anonymous()).as_bytes());
    }
    let head = Request::new("HEAD", &format!("/{PUBLIC}/left"));
    assert_eq!(crate::client::request(server.address(), &head.anonymous(), b"").status, 404, "half a body is no object");
    server.stop();
}

#[test]
fn draining_finishes_what_was_begun() {
    let server = Server::start();
    let address = server.address();
    let mut idle = Client::connect(address);
    idle.send(format!("{}\r\n\r\n", Request::new("HEAD", &format!("/{PUBLIC}/x")).anonymous()).as_bytes());
    assert_eq!(idle.answer_to("HEAD").status, 404);
    let mut busy = Client::connect(address);
    let put = Request::new("PUT", &format!("/{PUBLIC}/begun")).header("expect", "100-continue").body("the body");
    busy.send(format!("{}\r\n\r\n", put.anonymous()).as_bytes());
    assert_eq!(busy.answer().status, 100, "the request is being served");
    let stopping = std::thread::spawn(move || server.stop());
    assert!(idle.is_at_end(), "an idle connection ends at once");
    busy.send(b"the body");
    let answer = busy.answer();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(busy.is_at_end());
    stopping.join().expect("stopped");
    assert!(std::net::TcpStream::connect(address).is_err(), "the port is closed");
}

#[test]
fn a_second_server_on_the_port_is_noticed() {
    let server = Server::start();
    let app: std::sync::Arc<App> = server.another_app(server.address());
    match S3Server::start(app, 2) {
        Err(ListenError::InUse { address }) => assert_eq!(address, server.address()),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("two servers on one port"),
    }
    server.stop();
}
