//! Documents: how large, from whom, how many at once, and what they may hold.

use std::sync::mpsc;
use std::time::Duration;

use crate::client::{Answer, Client, request};
use crate::server::{BUCKET, PUBLIC, Server};
use crate::signing::Request;

/// What anybody may bring, and a bit more than the most that a connection's rest is read for.
const SMALL: usize = 64 * 1024;
const LONG: usize = 300_000;
const LARGEST: usize = 8 * 1024 * 1024;
const ALL: usize = 64 * 1024 * 1024;

fn signed(server: &Server, asked: &Request) -> Answer {
    request(server.address(), &asked.signed().0, &asked.body)
}

/// A request to delete `gone`, of so many bytes.
fn deleting(bucket: &str, bytes: usize) -> Request {
    let (before, after) = ("<Delete><Object><Key>gone</Key></Object>", "</Delete>");
    let body = format!("{before}{}{after}", " ".repeat(bytes - before.len() - after.len()));
    Request::new("POST", &format!("/{bucket}")).query("delete").body(body)
}

fn is_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.element("Code").as_deref()), (status, Some(code)), "{}", answer.text());
}

#[test]
fn large_ones_only_from_who_is_known() {
    let server = Server::start();
    assert_eq!(signed(&server, &Request::new("PUT", &format!("/{PUBLIC}/gone")).body("x")).status, 200);
    let too_long = deleting(PUBLIC, SMALL + 1);
    is_refused(&request(server.address(), &too_long.anonymous(), &too_long.body), 400, "MaxMessageLengthExceeded");
    let chunked = deleting(PUBLIC, SMALL + 1);
    let head = chunked.anonymous().replace(&format!("content-length: {}", chunked.body.len()), "transfer-encoding: chunked");
    let body = format!("{:x}\r\n{}\r\n0\r\n\r\n", chunked.body.len(), String::from_utf8_lossy(&chunked.body));
    is_refused(&request(server.address(), &head, body.as_bytes()), 411, "MissingContentLength");
    // Nothing of these is sent, and nothing of them is waited for.
    let stranger = Request { secret: String::from("wrong"), ..deleting(PUBLIC, LONG) };
    let unknown = Request { access_key: String::from("nobody"), ..deleting(PUBLIC, LONG) };
    is_refused(&request(server.address(), &deleting(PUBLIC, LONG).anonymous(), b""), 400, "MaxMessageLengthExceeded");
    is_refused(&request(server.address(), &stranger.signed().0, b""), 403, "SignatureDoesNotMatch");
    is_refused(&request(server.address(), &unknown.signed().0, b""), 403, "InvalidAccessKeyId");
    let beyond = deleting(PUBLIC, LARGEST + 1);
    is_refused(&request(server.address(), &beyond.signed().0, b""), 400, "MaxMessageLengthExceeded");
    assert_eq!(signed(&server, &Request::new("GET", &format!("/{PUBLIC}/gone"))).text(), "x", "nothing was deleted");

    let small = deleting(PUBLIC, SMALL);
    let answer = request(server.address(), &small.anonymous(), &small.body);
    assert_eq!((answer.status, answer.elements("Key")), (200, vec![String::from("gone")]), "{}", answer.text());
    let large = deleting(PUBLIC, LONG);
    assert_eq!(request(server.address(), &large.signed().0, &large.body).elements("Key"), ["gone"]);
    assert_eq!(request(server.address(), &large.presigned(60), &large.body).elements("Key"), ["gone"]);
    server.stop();
}

#[test]
fn large_ones_wait_for_room() {
    let server = Server::start();
    let begin = |asked: &Request| {
        let mut client = Client::connect(server.address());
        client.send(format!("{}\r\nexpect: 100-continue\r\n\r\n", asked.signed().0).as_bytes());
        client
    };
    let largest = deleting(BUCKET, LARGEST);
    let mut inside: Vec<Client> = (0..ALL / LARGEST).map(|_| begin(&largest)).collect();
    for client in &mut inside {
        assert_eq!(client.answer().status, 100, "let in");
    }
    let (tell, told) = mpsc::sync_channel(1);
    let next = deleting(BUCKET, SMALL + 1);
    let mut waiting = begin(&next);
    let waiter = std::thread::spawn(move || {
        tell.send(waiting.answer().status).expect("somebody listens");
        waiting.send(&next.body);
        waiting.answer()
    });
    assert_eq!(signed(&server, &deleting(BUCKET, SMALL)).status, 200, "small ones wait for nobody");
    assert!(told.recv_timeout(Duration::from_millis(300)).is_err(), "let in where there is no room");
    drop(inside.pop());
    assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(100));
    assert_eq!(waiter.join().expect("an answer").status, 200);
    drop(inside);
    server.stop();
}

/// The library's reader drops it, and would delete another key.
#[test]
fn cdata_is_refused() {
    let server = Server::start();
    for key in ["a", "ab"] {
        assert_eq!(signed(&server, &Request::new("PUT", &format!("/{BUCKET}/{key}")).body(key)).status, 200);
    }
    for document in ["<Delete><Object><Key>a<![CDATA[b]]></Key></Object></Delete>", "<Delete><![CDATA[x]]></Delete>"] {
        let asked = Request::new("POST", &format!("/{BUCKET}")).query("delete").body(document);
        is_refused(&request(server.address(), &asked.signed().0, &asked.body), 400, "MalformedXML");
    }
    for key in ["a", "ab"] {
        assert_eq!(signed(&server, &Request::new("GET", &format!("/{BUCKET}/{key}"))).text(), key);
    }
    let commented = Request::new("POST", &format!("/{BUCKET}")).query("delete");
    let commented = commented.body("<Delete><Object><Key>a<!-- and -->b</Key></Object></Delete>");
    assert_eq!(signed(&server, &commented).elements("Key"), ["ab"], "a comment is no content");
    server.stop();
}

#[test]
fn more_tags_than_any_document_needs() {
    let server = Server::start();
    let body = format!("<Delete>{}</Delete>", "<X/>".repeat(1 << 18));
    let asked = Request::new("POST", &format!("/{BUCKET}")).query("delete").body(body);
    // The library passes over what it does not know, and would complain about the keys.
    is_refused(&request(server.address(), &asked.signed().0, &asked.body), 400, "MalformedXML");
    server.stop();
}

/// A key with a carriage return, written as it is, is another key to who reads it.
#[test]
fn control_characters_are_written_as_references() {
    let server = Server::start();
    let (path, shown) = (format!("/{BUCKET}/a%0D%01%7Fb"), "a&#xd;&#x1;&#x7f;b");
    assert_eq!(signed(&server, &Request::new("PUT", &path).body("x")).status, 200);
    let opened = signed(&server, &Request::new("POST", &path).query("uploads"));
    assert_eq!(opened.elements("Key"), [shown]);
    for query in ["", "list-type=2", "versions", "uploads"] {
        let list = signed(&server, &Request::new("GET", &format!("/{BUCKET}")).query(query));
        assert_eq!((list.status, list.elements("Key")), (200, vec![shown.to_owned()]), "{query}");
    }
    assert_eq!(signed(&server, &Request::new("PUT", &format!("/{BUCKET}/c%0Dd")).body("x")).status, 200);
    let delete = Request::new("POST", &format!("/{BUCKET}")).query("delete");
    let answer = signed(&server, &delete.body("<Delete><Object><Key>c&#13;d</Key></Object></Delete>"));
    assert_eq!(answer.elements("Key"), ["c&#xd;d"]);
    assert_eq!(signed(&server, &Request::new("HEAD", &format!("/{BUCKET}/c%0Dd"))).status, 404);
    // What is no XML stays as it is.
    let statement =
        format!(r#"{{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::{BUCKET}/*"}}"#);
    let policy = format!("{{\r\n\"Version\":\"2012-10-17\",\"Statement\":[{statement}]}}");
    let asked = Request::new("PUT", &format!("/{BUCKET}")).query("policy").body(policy.clone());
    assert_eq!(signed(&server, &asked).status, 204);
    assert_eq!(signed(&server, &Request::new("GET", &format!("/{BUCKET}")).query("policy")).text(), policy);
    let xml = Request::new("PUT", &format!("/{BUCKET}/xml")).header("content-type", "application/xml").body("<a>\r\u{1}</a>");
    assert_eq!(signed(&server, &xml).status, 200);
    assert_eq!(request(server.address(), &Request::new("GET", &format!("/{BUCKET}/xml")).signed().0, b"").body, xml.body);
    server.stop();
}
