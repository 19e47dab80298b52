//! Uploads whose clients stop: what they hold together, and the requests beside them.

use std::time::Duration;

use crate::client::{Client, request};
use crate::server::{PUBLIC, Server};
use crate::signing::Request;

/// Room for four chunks.
const LIMIT: usize = 4 * 1024 * 1024;
const STALLED: usize = 300;
/// Of each stalled upload: all of them together would need 15 times the room.
const SENT: usize = 200_000;
const ANNOUNCED: usize = 5_000_000;
/// Until what closed connections held is given back.
const LOOKS: usize = 2000;

fn stall(server: &Server, number: usize, sent: &[u8]) -> Client {
    let mut client = Client::connect(server.address());
    let put = Request::new("PUT", &format!("/{PUBLIC}/stalled-{number}")).header("content-length", &ANNOUNCED.to_string());
    client.send(format!("{}\r\n\r\n", put.anonymous()).as_bytes());
    client.send(sent);
    client
}

fn is_served(server: &Server, key: &str, length: usize) {
    let path = format!("/{PUBLIC}/{key}");
    let body: Vec<u8> = (0..length).map(|at| (at % 249) as u8).collect();
    let put = Request::new("PUT", &path).body(body.clone());
    assert_eq!(request(server.address(), &put.anonymous(), &body).status, 200, "PUT of {length} bytes");
    let got = request(server.address(), &Request::new("GET", &path).anonymous(), b"");
    assert_eq!((got.status, got.body.len()), (200, length));
    assert!(got.body == body, "{length} bytes came back changed");
}

/// Waits until the server's uploads hold so little.
fn hold_at_most(server: &Server, bytes: u64) {
    for _ in 0..LOOKS {
        if server.upload_memory().used_bytes <= bytes {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", server.upload_memory());
}

#[test]
fn many_that_stop_hold_no_more_than_the_limit_and_keep_nobody_out() {
    let server = Server::start_with_upload_memory(LIMIT);
    let sent = vec![7; SENT];
    let mut stalled: Vec<Client> = (0..STALLED).map(|number| stall(&server, number, &sent)).collect();
    for length in [0, 4096, 100_000, 1 << 20, 10_000_000] {
        is_served(&server, &format!("beside-{length}"), length);
    }
    let stats = server.upload_memory();
    assert!(stats.early_chunks > 0, "room was made: {stats:?}");
    assert_eq!((stats.refused, stats.limit_bytes), (0, LIMIT as u64));

    // One of the first goes on where it stopped.
    let mut first = stalled.swap_remove(0);
    first.send(&vec![7; ANNOUNCED - SENT]);
    assert_eq!(first.answer().status, 200);
    let got = request(server.address(), &Request::new("GET", &format!("/{PUBLIC}/stalled-0")).anonymous(), b"");
    assert!(got.body == vec![7; ANNOUNCED], "what was staged early is part of the object");

    drop(stalled);
    hold_at_most(&server, 0);
    let stats = server.upload_memory();
    assert!(stats.peak_bytes <= stats.limit_bytes && stats.waiting == 0, "{stats:?}");
    server.stop();
}

#[test]
fn what_is_held_is_what_came() {
    let server = Server::start_with_upload_memory(LIMIT);
    let stalled: Vec<Client> = (0..STALLED).map(|number| stall(&server, number, &[7; 1000])).collect();
    is_served(&server, "beside", 4096);
    let stats = server.upload_memory();
    assert!(stats.peak_bytes <= (STALLED * 4096 + LIMIT / 2) as u64, "{stats:?}");
    assert_eq!(stats.early_chunks, 0, "a little of each has room beside the others");
    drop(stalled);
    hold_at_most(&server, 0);
    server.stop();
}
