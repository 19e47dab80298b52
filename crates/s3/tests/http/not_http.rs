//! Bytes that are no request: refused with S3's error like any other, and the connection ends.

use crate::client::{Answer, Client};
use crate::server::{PUBLIC, Server};

/// What a client may send that cannot be read, and the code that it gets.
fn cases() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let host = "host: localhost\r\n";
    let long = |bytes| "a".repeat(bytes);
    let too_large = "RequestHeaderSectionTooLarge";
    vec![
        ("noise", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), "BadRequest"),
        ("no version", b"GET /\r\n\r\n".to_vec(), "BadRequest"),
        ("another version", format!("GET / HTTP/7.3\r\n{host}\r\n").into_bytes(), "BadRequest"),
        ("a bad method", format!("G(T / HTTP/1.1\r\n{host}\r\n").into_bytes(), "BadRequest"),
        ("a bad header name", b"GET / HTTP/1.1\r\nho st: a\r\n\r\n".to_vec(), "BadRequest"),
        ("a bad length", format!("PUT /{PUBLIC}/k HTTP/1.1\r\n{host}content-length: -1\r\n\r\n").into_bytes(), "BadRequest"),
        ("a head without end", format!("GET / HTTP/1.1\r\n{host}x: {}", long(40_000)).into_bytes(), too_large),
        ("too many headers", format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(600)).into_bytes(), too_large),
        ("a very long target", format!("GET /{} HTTP/1.1\r\n{host}\r\n", long(70_000)).into_bytes(), too_large),
    ]
}

fn assert_refused(case: &str, client: &mut Client, code: &str) {
    let answer = client.try_answer("GET").unwrap_or_else(|| panic!("{case}: no answer"));
    assert_eq!((answer.status, answer.element("Code").as_deref()), (400, Some(code)), "{case}: {}", answer.text());
    assert_eq!(answer.header("connection"), Some("close"), "{case}");
    assert_eq!(answer.header("content-type"), Some("application/xml"), "{case}");
    assert!(answer.header("date").is_some_and(|date| date.ends_with(" GMT")), "{case}: {answer:?}");
    let id = answer.element("RequestId").expect("an id");
    assert!(!id.is_empty() && answer.header("x-amz-request-id") == Some(&id), "{case}: {}", answer.text());
    assert!(client.is_at_end(), "{case}: the connection ends");
}

fn head(method: &str, key: &str, length: usize) -> String {
    format!("{method} /{PUBLIC}/{key} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n")
}

#[test]
fn what_cannot_be_read_gets_the_error_of_s3() {
    let server = Server::start();
    let address = server.address();
    for (case, bytes, code) in cases() {
        let mut client = Client::connect(address);
        client.try_send(&bytes);
        assert_refused(case, &mut client, code);
    }
    server.stop();
}

#[test]
fn after_answers_of_every_kind_too() {
    let server = Server::start();
    let large = vec![b'l'; 3_000_000];
    for (case, bytes, code) in cases() {
        let mut client = Client::connect(server.address());
        let mut ask = |method: &str, key: &str, body: &[u8]| -> Answer {
            client.send(&[head(method, key, body.len()).as_bytes(), body].concat());
            client.answer_to(method)
        };
        assert_eq!(ask("PUT", "large", &large).status, 200, "{case}");
        assert!(ask("GET", "large", b"").body == large, "{case}");
        assert_eq!(ask("HEAD", "large", b"").status, 200, "{case}");
        assert_eq!(ask("GET", "missing", b"").status, 404, "{case}");
        assert_eq!(ask("DELETE", "large", b"").status, 204, "{case}");
        client.try_send(&bytes);
        assert_refused(case, &mut client, code);
    }
    server.stop();
}

/// Objects whose content looks like what the HTTP library says of noise arrive as they are, with noise behind the request for
/// them.
#[test]
fn answers_on_their_way_are_left_as_they_are() {
    let server = Server::start();
    // 64 bytes, so that each piece in which a large object is sent begins with it.
    let refusal = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n";
    assert_eq!(refusal.len(), 64);
    for content in [refusal.to_vec(), refusal.repeat(60_000)] {
        let mut client = Client::connect(server.address());
        client.send(&[head("PUT", "refusal", content.len()).as_bytes(), &content].concat());
        assert_eq!(client.answer().status, 200);
        client.send(format!("{}noise\r\n\r\n", head("GET", "refusal", 0)).as_bytes());
        let answer = client.answer();
        assert_eq!(answer.status, 200);
        assert!(answer.body == content, "{} of {} bytes", answer.body.len(), content.len());
        // The noise is answered behind it, or with it.
        assert_eq!(client.answer().status, 400);
        assert!(client.is_at_end());
    }
    server.stop();
}
