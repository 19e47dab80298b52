//! What requests do when nothing is wrong with them.

use std::sync::Arc;

use format::attributes::{Attributes, ETag};

use crate::client::{Client, request};
use crate::full::SmallEngine;
use crate::server::{BUCKET, DOMAIN, PUBLIC, Server};
use crate::signing::Request;

fn signed(server: &Server, asked: &Request) -> crate::client::Answer {
    request(server.address(), &asked.signed().0, &asked.body)
}

#[test]
fn put_get_head_delete() {
    let server = Server::start();
    let path = format!("/{BUCKET}/a%20key/with%2Bplus");
    let put =
        Request::new("PUT", &path).header("content-type", "text/plain").header("x-amz-meta-colour", "blue").body("hello world");
    let answer = signed(&server, &put);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("etag"), Some("\"5eb63bbbe01eeed093cb22bb8f5acdc3\""));
    assert_eq!(answer.header("x-amz-request-id").map(str::len), Some(16));

    let get = signed(&server, &Request::new("GET", &path));
    assert_eq!((get.status, get.body.as_slice()), (200, b"hello world".as_slice()));
    assert_eq!(get.header("content-type"), Some("text/plain"));
    assert_eq!(get.header("x-amz-meta-colour"), Some("blue"));
    assert_eq!(get.header("etag"), Some("\"5eb63bbbe01eeed093cb22bb8f5acdc3\""));
    assert_eq!(get.header("accept-ranges"), Some("bytes"));
    assert!(get.header("last-modified").is_some_and(|date| date.ends_with(" GMT")));

    let head = signed(&server, &Request::new("HEAD", &path));
    assert_eq!((head.status, head.header("content-length")), (200, Some("11")));

    let range = signed(&server, &Request::new("GET", &path).header("range", "bytes=6-"));
    assert_eq!((range.status, range.text().as_str()), (206, "world"));
    assert_eq!(range.header("content-range"), Some("bytes 6-10/11"));
    let resumed = |tag: &str| signed(&server, &Request::new("GET", &path).header("range", "bytes=6-").header("if-range", tag));
    let unchanged = resumed("\"5eb63bbbe01eeed093cb22bb8f5acdc3\"");
    assert_eq!((unchanged.status, unchanged.text().as_str()), (206, "world"));
    let changed = resumed("\"0123456789abcdef0123456789abcdef\"");
    assert_eq!((changed.status, changed.text().as_str()), (200, "hello world"), "another object, so all of it");

    assert_eq!(signed(&server, &Request::new("DELETE", &path)).status, 204);
    let gone = signed(&server, &Request::new("GET", &path));
    assert_eq!((gone.status, gone.element("Code").as_deref()), (404, Some("NoSuchKey")));
    assert_eq!(gone.element("Resource").as_deref(), Some(path.as_str()));
    assert_eq!(gone.element("RequestId").as_deref(), gone.header("x-amz-request-id"));
    assert_eq!(signed(&server, &Request::new("HEAD", &path)).status, 404);
    server.stop();
}

#[test]
fn ranges_of_an_object_that_is_still_the_same() {
    let server = Server::start();
    let path = format!("/{BUCKET}/resumed");
    let put = signed(&server, &Request::new("PUT", &path).body("hello world"));
    let (tag, other) = (put.header("etag").expect("a tag").to_owned(), "\"0123456789abcdef0123456789abcdef\"");
    let date = signed(&server, &Request::new("HEAD", &path)).header("last-modified").expect("a date").to_owned();
    let later = "Wed, 21 Oct 2037 07:28:00 GMT";
    let (past, weak) = ("Wed, 21 Oct 2015 07:28:00 GMT", format!("W/{tag}"));
    for (case, status, text, if_range, condition) in [
        ("the same tag", 206, "world", tag.as_str(), None),
        ("another tag", 200, "hello world", other, None),
        ("a weak tag", 200, "hello world", weak.as_str(), None),
        ("the same date", 206, "world", date.as_str(), None),
        ("a later date", 200, "hello world", later, None),
        ("an earlier date", 200, "hello world", past, None),
        ("no tag and no date", 200, "hello world", "nonsense", None),
        ("If-Match holds", 200, "hello world", other, Some(("if-match", tag.as_str()))),
        ("If-Match and the same tag", 206, "world", tag.as_str(), Some(("if-match", "*"))),
        ("If-Match fails", 412, "", tag.as_str(), Some(("if-match", other))),
        ("If-Unmodified-Since fails", 412, "", tag.as_str(), Some(("if-unmodified-since", past))),
        ("If-None-Match fails", 304, "", tag.as_str(), Some(("if-none-match", tag.as_str()))),
    ] {
        let asked = Request::new("GET", &path).header("range", "bytes=6-").header("if-range", if_range);
        let asked = match condition {
            None => asked,
            Some((name, value)) => asked.header(name, value),
        };
        let answer = request(server.address(), &asked.signed().0, b"");
        assert_eq!(answer.status, status, "{case}: {}", answer.text());
        assert!(status > 299 || answer.text() == text, "{case}: {}", answer.text());
    }
    let beyond = Request::new("GET", &path).header("range", "bytes=99-").header("if-range", other);
    assert_eq!(request(server.address(), &beyond.signed().0, b"").text(), "hello world", "the range was of another");
    server.stop();
}

#[test]
fn large_object_in_pieces() {
    let server = Server::start();
    let body: Vec<u8> = (0..5_000_000u32).map(|at| (at * 7 + at / 1000) as u8).collect();
    let path = format!("/{PUBLIC}/large");
    let put = Request::new("PUT", &path).body(body.clone());
    assert_eq!(request(server.address(), &put.anonymous(), &body).status, 200);
    let get = request(server.address(), &Request::new("GET", &path).anonymous(), b"");
    assert!(get.body == body, "the same bytes come back");
    let range = Request::new("GET", &path).header("range", "bytes=1048570-3000000");
    let part = request(server.address(), &range.anonymous(), b"");
    assert!(part.body == body[1_048_570..=3_000_000], "a range over three chunks");
    assert_eq!(signed(&server, &put).status, 200, "signed, with its hash");
    server.stop();
}

#[test]
fn presigned_urls() {
    let server = Server::start();
    let path = format!("/{BUCKET}/presigned");
    let put = Request::new("PUT", &path).body("by url");
    assert_eq!(request(server.address(), &put.presigned(60), &put.body).status, 200);
    let get = Request::new("GET", &path).query("response-content-type=text%2Fcsv");
    let answer = request(server.address(), &get.presigned(60), b"");
    assert_eq!((answer.status, answer.text().as_str()), (200, "by url"));
    assert_eq!(answer.header("content-type"), Some("text/csv"));
    server.stop();
}

#[test]
fn virtual_host_style() {
    let server = Server::start();
    let host = format!("{BUCKET}.{DOMAIN}:9000");
    let put = Request::new("PUT", "/key").header("host", &host).body("by host");
    assert_eq!(signed(&server, &put).status, 200);
    assert_eq!(signed(&server, &Request::new("GET", "/key").header("host", &host)).text(), "by host");
    assert_eq!(signed(&server, &Request::new("GET", &format!("/{BUCKET}/key"))).text(), "by host");
    let on_domain = Request::new("GET", &format!("/{BUCKET}/key")).header("host", DOMAIN);
    assert_eq!(signed(&server, &on_domain).text(), "by host");
    let list = signed(&server, &Request::new("GET", "/").header("host", &host).query("list-type=2"));
    assert_eq!(list.elements("Key"), ["key"]);
    server.stop();
}

#[test]
fn buckets() {
    let server = Server::start();
    assert_eq!(signed(&server, &Request::new("PUT", "/another")).status, 200);
    assert_eq!(signed(&server, &Request::new("HEAD", "/another")).status, 200);
    let list = signed(&server, &Request::new("GET", "/"));
    assert_eq!(list.elements("Name"), ["another", BUCKET, PUBLIC]);
    let location = signed(&server, &Request::new("GET", "/another").query("location"));
    assert_eq!(location.status, 200);
    assert!(location.text().contains("LocationConstraint"), "{}", location.text());
    assert_eq!(signed(&server, &Request::new("PUT", "/another/key").body("x")).status, 200);
    let full = signed(&server, &Request::new("DELETE", "/another"));
    assert_eq!((full.status, full.element("Code").as_deref()), (409, Some("BucketNotEmpty")));
    assert_eq!(signed(&server, &Request::new("DELETE", "/another/key")).status, 204);
    assert_eq!(signed(&server, &Request::new("DELETE", "/another")).status, 204);
    assert_eq!(signed(&server, &Request::new("HEAD", "/another")).status, 404);
    server.stop();
}

#[test]
fn lists() {
    let server = Server::start();
    for key in ["a", "a/b", "a/c", "d e", "z"] {
        let path = format!("/{BUCKET}/{}", key.replace(' ', "%20"));
        assert_eq!(signed(&server, &Request::new("PUT", &path).body(key)).status, 200);
    }
    let list = |query: &str| signed(&server, &Request::new("GET", &format!("/{BUCKET}")).query(query));
    let all = list("list-type=2");
    assert_eq!(all.elements("Key"), ["a", "a/b", "a/c", "d e", "z"]);
    assert_eq!((all.element("KeyCount").as_deref(), all.element("IsTruncated").as_deref()), (Some("5"), Some("false")));
    let rolled = list("list-type=2&delimiter=%2F&encoding-type=url");
    assert_eq!(rolled.elements("Key"), ["a", "d%20e", "z"]);
    assert_eq!(rolled.element("KeyCount").as_deref(), Some("4"), "prefixes count");
    assert_eq!(rolled.element("CommonPrefixes").as_deref(), Some("<Prefix>a/</Prefix>"));
    let first = list("list-type=2&max-keys=2");
    let token = first.element("NextContinuationToken").expect("more follows");
    let second = list(&format!("continuation-token={token}&list-type=2&max-keys=2"));
    assert_eq!(second.elements("Key"), ["a/c", "d e"]);
    let v1 = list("marker=a%2Fc&max-keys=1");
    assert_eq!((v1.elements("Key"), v1.element("NextMarker")), (vec![String::from("d e")], Some(String::from("d e"))));
    assert_eq!(v1.elements("DisplayName").len(), 1, "version 1 names owners");
    for query in ["list-type=2&prefix=X-Amz-", "list-type=2&prefix=Signature%3D"] {
        let named_alike = list(query);
        assert_eq!(named_alike.status, 200, "{query} is no signature: {}", named_alike.text());
    }
    assert_eq!(list("fetch-owner=true&list-type=2").elements("DisplayName").len(), 5);
    server.stop();
}

#[test]
fn multipart() {
    let server = Server::start();
    let path = format!("/{BUCKET}/parts");
    let created = signed(&server, &Request::new("POST", &path).query("uploads"));
    let upload = created.element("UploadId").expect("an id");
    let first: Vec<u8> = vec![7; 5 * 1024 * 1024];
    let mut tags = Vec::new();
    for (number, body) in [(1, first.as_slice()), (2, b"the end")] {
        let put = Request::new("PUT", &path).query(&format!("partNumber={number}&uploadId={upload}")).body(body);
        let answer = signed(&server, &put);
        tags.push(answer.header("etag").expect("a tag").to_owned());
    }
    let parts = signed(&server, &Request::new("GET", &path).query(&format!("uploadId={upload}")));
    assert_eq!(parts.elements("PartNumber"), ["1", "2"]);
    let part = |number: usize| format!("<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag></Part>", tags[number - 1]);
    let complete = |parts: String| {
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        signed(&server, &Request::new("POST", &path).query(&format!("uploadId={upload}")).body(body))
    };
    let backwards = complete(part(2) + &part(1));
    assert_eq!((backwards.status, backwards.element("Code").as_deref()), (400, Some("InvalidPartOrder")));
    let done = complete(part(1) + &part(2));
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(done.element("ETag").is_some_and(|tag| tag.contains("-2")), "{}", done.text());
    let second = signed(&server, &Request::new("GET", &path).query("partNumber=2"));
    assert_eq!((second.status, second.text().as_str()), (206, "the end"));
    assert_eq!(second.header("x-amz-mp-parts-count"), Some("2"));
    server.stop();
}

/// Caught: whose first attempt had gone on, and had its parts removed while they were looked up, was told that there are no such parts.
#[test]
fn a_complete_that_another_attempt_overtakes_gets_its_outcome() {
    let engine = Arc::new(SmallEngine::new(1 << 20));
    let server = Server::start_over(engine.clone());
    let path = format!("/{BUCKET}/parts");
    let upload = signed(&server, &Request::new("POST", &path).query("uploads")).element("UploadId").expect("an id");
    let put = Request::new("PUT", &path).query(&format!("partNumber=1&uploadId={upload}")).body("all of it");
    let part = signed(&server, &put).header("etag").expect("a tag").to_owned();
    let etag = ETag::Multipart { digest: [7; 16], parts: 1 };
    *engine.completed.lock() = Some(Attributes { etag, ..Attributes::default() });
    let list = |part: &str| {
        format!("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part></CompleteMultipartUpload>")
    };
    let done = signed(&server, &Request::new("POST", &path).query(&format!("uploadId={upload}")).body(list(&part)));
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(done.element("ETag").is_some_and(|found| found.contains(&etag.to_string())), "{}", done.text());
    server.stop();
}

/// In the request that ends an upload this header is about the object, not about the list of its parts.
#[test]
fn the_checksum_of_an_upload() {
    let server = Server::start();
    let path = format!("/{BUCKET}/summed");
    let open = Request::new("POST", &path)
        .query("uploads")
        .header("x-amz-checksum-algorithm", "CRC32")
        .header("x-amz-checksum-type", "FULL_OBJECT");
    let upload = signed(&server, &open).element("UploadId").expect("an id");
    let put = Request::new("PUT", &path).query(&format!("partNumber=1&uploadId={upload}"));
    let put = put.header("x-amz-checksum-crc32", "DUoRhQ==").body("hello world");
    let part = signed(&server, &put);
    let tag = part.header("etag").expect("a tag");
    let list =
        format!("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part></CompleteMultipartUpload>");
    let complete = |checksum: &str| {
        let asked = Request::new("POST", &path).query(&format!("uploadId={upload}")).body(list.clone());
        signed(&server, &asked.header("x-amz-checksum-crc32", checksum).header("x-amz-checksum-type", "FULL_OBJECT"))
    };
    let wrong = complete("AAAAAA==");
    assert_eq!((wrong.status, wrong.element("Code").as_deref()), (400, Some("BadDigest")), "{}", wrong.text());
    let right = complete("DUoRhQ==");
    assert_eq!(right.status, 200, "{}", right.text());
    assert_eq!(signed(&server, &Request::new("GET", &path)).text(), "hello world");
    server.stop();
}

/// A condition that is not understood must not be taken for one that holds.
#[test]
fn conditions_of_deletes_that_are_not_there() {
    let server = Server::start();
    let path = format!("/{BUCKET}/kept");
    assert_eq!(signed(&server, &Request::new("PUT", &path).body("x")).status, 200);
    for condition in ["<Size>5</Size>", "<LastModifiedTime>Wed, 21 Oct 2015 07:28:00 GMT</LastModifiedTime>"] {
        let document = format!("<Delete><Object><Key>kept</Key>{condition}</Object></Delete>");
        let answer = signed(&server, &Request::new("POST", &format!("/{BUCKET}")).query("delete").body(document));
        assert_eq!((answer.status, answer.element("Code").as_deref()), (200, Some("NotImplemented")), "{}", answer.text());
    }
    for (name, value) in [("x-amz-if-match-size", "5"), ("x-amz-if-match-last-modified-time", "Wed, 21 Oct 2015 07:28:00 GMT")]
    {
        let asked = Request::new("DELETE", &path).header(name, value);
        let address = server.address();
        assert_eq!(request(address, &asked.signed().0, b"").status, 501, "{name}");
    }
    assert_eq!(signed(&server, &Request::new("GET", &path)).text(), "x");
    server.stop();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start();
    let mut client = Client::connect(server.address());
    let mut all = Vec::new();
    for number in 0..20 {
        let put = Request::new("PUT", &format!("/{PUBLIC}/{number}")).body(format!("value {number}"));
        all.extend(format!("{}\r\n\r\n", put.anonymous()).into_bytes());
        all.extend(&put.body);
        all.extend(format!("{}\r\n\r\n", Request::new("GET", &format!("/{PUBLIC}/{number}")).anonymous()).into_bytes());
    }
    client.send(&all);
    for number in 0..20 {
        assert_eq!(client.answer().status, 200);
        assert_eq!(client.answer().text(), format!("value {number}"));
    }
    server.stop();
}
