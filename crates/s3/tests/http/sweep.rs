//! Many kinds of requests, signed in each way and not at all: none ends in an error of the server's.

use crate::client::{Answer, request};
use crate::server::{BUCKET, DOMAIN, PUBLIC, Server};
use crate::signing::{Request, now};

/// Sends a request; its answer, which is no error of the server's.
fn sweep(server: &Server, head: &str, body: &[u8]) -> Answer {
    let answer = request(server.address(), head, body);
    assert!(answer.status < 500 || answer.status == 501, "{} to\n{head}\n{}", answer.status, answer.text());
    answer
}

fn prepare(server: &Server) {
    let put = |path: &str, asked: Request| {
        let asked = Request { path: path.to_owned(), ..asked };
        assert_eq!(request(server.address(), &asked.signed().0, &asked.body).status, 200, "{path}");
    };
    let full = Request::new("PUT", "")
        .header("content-type", "text/plain; charset=utf-8")
        .header("content-encoding", "gzip")
        .header("content-disposition", "attachment; filename=\"a.txt\"")
        .header("content-language", "en")
        .header("cache-control", "max-age=5")
        .header("expires", "Wed, 21 Oct 2026 07:28:00 GMT")
        .header("x-amz-meta-one", "1")
        .header("x-amz-meta-two", "zwei")
        .header("x-amz-storage-class", "STANDARD_IA")
        .header("x-amz-tagging", "a=b&c=d")
        .header("x-amz-website-redirect-location", "/elsewhere")
        .header("x-amz-checksum-crc32", "DUoRhQ==")
        .body("hello world");
    for bucket in [BUCKET, PUBLIC] {
        put(&format!("/{bucket}/full"), full.clone());
        put(&format!("/{bucket}/plain"), Request::new("PUT", "").body("plain"));
        put(&format!("/{bucket}/empty"), Request::new("PUT", ""));
        put(&format!("/{bucket}/%C3%A9t%C3%A9/%F0%9F%98%80%20%26%20%3C%3E%22"), Request::new("PUT", "").body("odd"));
        put(&format!("/{bucket}/large"), Request::new("PUT", "").body(vec![3; 3_000_000]));
    }
}

#[test]
fn reads() {
    let server = Server::start();
    prepare(&server);
    let tag = "\"5eb63bbbe01eeed093cb22bb8f5acdc3\"";
    let with = |name: &str, value: &str| Request::new("GET", "").header(name, value);
    let variants = [
        Request::new("GET", ""),
        Request::new("HEAD", ""),
        with("range", "bytes=1-3"),
        with("range", "bytes=-2"),
        with("range", "bytes=99-"),
        with("range", "bytes=0-0"),
        with("range", "bytes=5-2"),
        with("range", "lines=1-2"),
        with("if-match", tag),
        with("if-match", "\"0123456789abcdef0123456789abcdef\""),
        with("if-none-match", tag),
        with("if-none-match", "*"),
        with("if-modified-since", "Wed, 21 Oct 2037 07:28:00 GMT"),
        with("if-unmodified-since", "Wed, 21 Oct 2015 07:28:00 GMT"),
        with("x-amz-checksum-mode", "ENABLED"),
        with("if-range", tag).header("range", "bytes=1-3"),
        with("if-range", "\"other\"").header("range", "bytes=1-3"),
        with("if-range", "Wed, 21 Oct 2037 07:28:00 GMT").header("range", "bytes=1-3"),
        Request::new("GET", "").query("partNumber=1"),
        Request::new("GET", "").query("partNumber=2"),
        Request::new("GET", "").query("partNumber=x"),
        Request::new("GET", "").query("versionId=null"),
        Request::new("GET", "").query("versionId=abc"),
        Request::new("GET", "").query("response-content-type=text%2Fx&response-cache-control=no-store"),
        Request::new("GET", "").query("x-id=GetObject"),
        Request::new("GET", "").query("surprise=1"),
        Request::new("HEAD", "").header("range", "bytes=2-"),
        Request::new("HEAD", "").header("if-none-match", tag),
        Request::new("HEAD", "").query("partNumber=1"),
    ];
    for key in ["full", "plain", "empty", "missing", "%C3%A9t%C3%A9/%F0%9F%98%80%20%26%20%3C%3E%22", "large", "a//b", "full/"] {
        for variant in &variants {
            for bucket in [BUCKET, PUBLIC, "nowhere", "Bad_Name"] {
                let asked = Request { path: format!("/{bucket}/{key}"), ..variant.clone() };
                sweep(&server, &asked.signed().0, b"");
                sweep(&server, &asked.anonymous(), b"");
                if asked.headers.len() == 1 {
                    sweep(&server, &asked.presigned(100), b"");
                }
            }
        }
    }
    server.stop();
}

#[test]
fn writes_and_deletes() {
    let server = Server::start();
    let with = |name: &str, value: &str| Request::new("PUT", "").header(name, value).body("hello world");
    let variants = [
        Request::new("PUT", "").body("hello world"),
        Request::new("PUT", ""),
        Request::new("PUT", "").body(vec![5; 400_000]),
        with("content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="),
        with("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="),
        with("content-md5", "nonsense"),
        with("x-amz-checksum-crc32", "DUoRhQ=="),
        with("x-amz-checksum-crc32", "AAAAAA=="),
        with("x-amz-checksum-crc32", "AA=="),
        with("x-amz-checksum-crc32c", "yZRlqg=="),
        with("x-amz-checksum-crc64nvme", "jSnVw/bqjr4="),
        with("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0="),
        with("x-amz-checksum-sha256", "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="),
        with("x-amz-checksum-crc32", "DUoRhQ==").header("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0="),
        with("x-amz-checksum-algorithm", "SHA256"),
        with("x-amz-checksum-algorithm", "MD4"),
        with("x-amz-sdk-checksum-algorithm", "CRC32"),
        with("x-amz-storage-class", "GLACIER"),
        with("x-amz-storage-class", "COLD"),
        with("x-amz-tagging", "a=1&a=2"),
        with("x-amz-server-side-encryption", "AES256"),
        with("x-amz-object-lock-mode", "GOVERNANCE"),
        with("x-amz-meta-long", &"m".repeat(2100)),
        with("x-amz-acl", "private"),
        with("if-none-match", "*"),
        with("if-match", "\"0123456789abcdef0123456789abcdef\""),
        with("if-match", "*"),
        with("x-amz-content-sha256-other", "x"),
        Request::new("DELETE", ""),
        Request::new("DELETE", "").header("if-match", "\"0123456789abcdef0123456789abcdef\""),
        Request::new("DELETE", "").query("versionId=null"),
        Request::new("DELETE", "").query("versionId=other"),
        Request::new("PUT", "").query("partNumber=1&uploadId=0123456789abcdef0123456789abcdef").body("x"),
        Request::new("PUT", "").query("partNumber=0&uploadId=0123456789abcdef0123456789abcdef").body("x"),
        Request::new("PUT", "").query("partNumber=10001&uploadId=0123456789abcdef0123456789abcdef").body("x"),
        Request::new("PUT", "").query("partNumber=1&uploadId=nonsense").body("x"),
    ];
    for variant in &variants {
        for bucket in [BUCKET, PUBLIC, "nowhere"] {
            let path = format!("/{bucket}/key");
            let put = Request::new("PUT", &path).body("before");
            let reset = || request(server.address(), &put.signed().0, &put.body);
            let asked = Request { path: path.clone(), ..variant.clone() };
            for head in [
                asked.signed().0,
                asked.anonymous(),
                Request { content_sha256: Some(String::from("UNSIGNED-PAYLOAD")), ..asked.clone() }.signed().0,
            ] {
                reset();
                sweep(&server, &head, &asked.body);
            }
        }
    }
    server.stop();
}

#[test]
fn lists() {
    let server = Server::start();
    prepare(&server);
    for query in [
        "",
        "list-type=2",
        "list-type=2&prefix=f&max-keys=1",
        "list-type=2&delimiter=%2F",
        "list-type=2&delimiter=%2F&encoding-type=url&fetch-owner=true",
        "list-type=2&start-after=f",
        "list-type=2&continuation-token=Zg",
        "list-type=2&continuation-token=*",
        "list-type=2&continuation-token=",
        "list-type=2&max-keys=0",
        "list-type=2&max-keys=-1",
        "list-type=2&max-keys=x",
        "list-type=2&max-keys=5000",
        "list-type=3",
        "delimiter=%2F&marker=e",
        "encoding-type=url&prefix=%C3%A9",
        "encoding-type=xml",
        "prefix=%FF",
    ] {
        for bucket in [BUCKET, PUBLIC, "nowhere", "Bad_Name"] {
            for path in [format!("/{bucket}"), format!("/{bucket}/")] {
                let asked = Request::new("GET", &path).query(query);
                sweep(&server, &asked.signed().0, b"");
                sweep(&server, &asked.anonymous(), b"");
                sweep(&server, &asked.presigned(100), b"");
            }
        }
    }
    server.stop();
}

#[test]
fn who_asks() {
    let server = Server::start();
    prepare(&server);
    let get = Request::new("GET", &format!("/{BUCKET}/plain"));
    let alice = Request { access_key: String::from("alice-key"), secret: String::from("alice-secret"), ..get.clone() };
    let answer = request(server.address(), &alice.signed().0, b"");
    assert_eq!(answer.element("Code").as_deref(), Some("AccessDenied"), "somebody else's bucket");
    let public = Request { path: format!("/{PUBLIC}/plain"), ..alice.clone() };
    assert_eq!(request(server.address(), &public.signed().0, b"").status, 200, "what everybody may, users may");
    for (case, code, asked) in [
        ("unknown key", "InvalidAccessKeyId", Request { access_key: String::from("nobody"), ..get.clone() }),
        ("wrong secret", "SignatureDoesNotMatch", Request { secret: String::from("wrong"), ..get.clone() }),
        ("an hour ago", "RequestTimeTooSkewed", Request { time: now() - 3600, ..get.clone() }),
        ("in an hour", "RequestTimeTooSkewed", Request { time: now() + 3600, ..get.clone() }),
    ] {
        let answer = sweep(&server, &asked.signed().0, b"");
        assert_eq!((answer.status, answer.element("Code").as_deref()), (403, Some(code)), "{case}");
    }
    for (case, code, expires, asked) in [
        ("unknown key", "InvalidAccessKeyId", 100, Request { access_key: String::from("nobody"), ..get.clone() }),
        ("wrong secret", "SignatureDoesNotMatch", 100, Request { secret: String::from("wrong"), ..get.clone() }),
        ("expired", "AccessDenied", 100, Request { time: now() - 200, ..get.clone() }),
        ("not yet", "RequestTimeTooSkewed", 100, Request { time: now() + 3600, ..get.clone() }),
    ] {
        let answer = sweep(&server, &asked.presigned(expires), b"");
        assert_eq!((answer.status, answer.element("Code").as_deref()), (403, Some(code)), "presigned, {case}");
    }
    let older = Request { time: now() - 600, ..get.clone() };
    assert_eq!(request(server.address(), &older.signed().0, b"").status, 200, "ten minutes are no skew");
    let host = Request::new("GET", "/plain").header("host", &format!("{BUCKET}.{DOMAIN}"));
    assert_eq!(request(server.address(), &host.signed().0, b"").text(), "plain");
    let raw_path = Request::new("GET", &format!("/{BUCKET}/plain=2"));
    request(server.address(), &raw_path.signed().0, b"");
    let encoded = Request::new("GET", &format!("/{BUCKET}/%70lain"));
    request(server.address(), &encoded.anonymous(), b"");
    server.stop();
}
