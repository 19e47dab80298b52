//! Requests on the wire, and the status, the code and the headers that they get.

use crate::client::{Client, request};
use crate::server::{BUCKET, Server};
use crate::signing::Request;

/// No code: the request is done.
const DONE: &str = "";

/// One request, and what comes back. Of a header without a value there must be none.
struct Row<'a> {
    asked: Request,
    status: u16,
    code: &'a str,
    headers: &'a [(&'a str, &'a str)],
}

fn row(asked: Request, status: u16, code: &str) -> Row<'_> {
    Row { asked, status, code, headers: &[] }
}

impl<'a> Row<'a> {
    fn with(self, headers: &'a [(&'a str, &'a str)]) -> Row<'a> {
        Row { headers, ..self }
    }
}

fn check(server: &Server, rows: Vec<Row<'_>>) {
    for Row { asked, status, code, headers } in rows {
        let answer = request(server.address(), &asked.signed().0, &asked.body);
        let found = answer.element("Code").unwrap_or_default();
        // The answer to HEAD has no place for a code.
        let code = if asked.method == "HEAD" { DONE } else { code };
        assert_eq!((answer.status, found.as_str()), (status, code), "{asked:?}\n{}", answer.text());
        for (name, value) in headers {
            let value = if value.is_empty() { None } else { Some(*value) };
            assert_eq!(answer.header(name), value, "{name} of {asked:?}");
        }
    }
}

fn put(server: &Server, path: &str, body: &str) {
    let asked = Request::new("PUT", path).body(body);
    assert_eq!(request(server.address(), &asked.signed().0, &asked.body).status, 200, "{path}");
}

/// A path in the bucket.
fn at(key: &str) -> String {
    format!("/{BUCKET}/{key}")
}

#[test]
fn ranges_by_rfc_9110() {
    let server = Server::start();
    put(&server, &at("empty"), "");
    put(&server, &at("key"), "hello world");
    let ranged = |method: &str, key: &str, range: &str| Request::new(method, &at(key)).header("range", range);
    let whole = &[("content-range", ""), ("content-length", "11")];
    let first = &[("content-range", "bytes 0-4/11"), ("content-length", "5")];
    let mut rows = Vec::new();
    for method in ["GET", "HEAD"] {
        let nothing = &[("content-range", ""), ("content-length", "0")];
        rows.push(row(ranged(method, "empty", "bytes=-5"), 200, DONE).with(nothing));
        for range in ["bytes=0-4", "bytes=0-", "bytes=-0"] {
            rows.push(row(ranged(method, "empty", range), 416, "InvalidRange").with(&[("content-range", "bytes */0")]));
        }
        for range in ["bytes=99-", "bytes=11-11", "bytes=-0", "bytes=99999999999999999999-"] {
            rows.push(row(ranged(method, "key", range), 416, "InvalidRange").with(&[("content-range", "bytes */11")]));
        }
        for range in ["bytes=0-4", "Bytes=0-4", "BYTES=0-4", "bytes=0-4,", "bytes=,0-4", "bytes=, 0-4 ,"] {
            rows.push(row(ranged(method, "key", range), 206, DONE).with(first));
        }
        for range in ["bytes=-99", "bytes=0-99999999999999999999", "bytes=0-"] {
            rows.push(row(ranged(method, "key", range), 206, DONE).with(&[("content-range", "bytes 0-10/11")]));
        }
        // Several, none, or what is no range.
        for range in [
            "bytes=0-1,3-4",
            "bytes=",
            "bytes= -1",
            "bytes=,",
            "bytes=4-0",
            "bytes=0 - 4",
            "bytes=a-b",
            "bytes=-",
            "bytes 0-4",
            "lines=0-4",
        ] {
            rows.push(row(ranged(method, "key", range), 200, DONE).with(whole));
        }
        // A condition counts before the range.
        let asked = ranged(method, "key", "bytes=99-").header("if-match", "\"0123456789abcdef0123456789abcdef\"");
        rows.push(row(asked, 412, "PreconditionFailed"));
        let asked = Request::new(method, &at("key")).header("if-range", "\"other\"");
        rows.push(row(asked, 200, DONE).with(whole));
    }
    check(&server, rows);
    server.stop();
}

#[test]
fn what_is_no_etag_matches_nothing() {
    let server = Server::start();
    put(&server, &at("key"), "content");
    put(&server, &at("copy"), "before");
    let path = at("parts");
    let opened = request(server.address(), &Request::new("POST", &path).query("uploads").signed().0, b"");
    let upload = opened.element("UploadId").expect("an id");
    let copy =
        |name: &str, tag: &str| Request::new("PUT", &at("copy")).header("x-amz-copy-source", &at("key")).header(name, tag);
    let beyond = Request::new("PUT", &path).query(&format!("partNumber=1&uploadId={upload}"));
    let beyond = beyond.header("x-amz-copy-source", &at("key")).header("x-amz-copy-source-range", "bytes=0-7");
    check(&server, vec![row(beyond, 400, "InvalidArgument")]);
    let copied_part = |name: &str, tag: &str| {
        let asked = Request::new("PUT", &path).query(&format!("partNumber=1&uploadId={upload}"));
        asked.header("x-amz-copy-source", &at("key")).header(name, tag)
    };
    let part = "<Part><PartNumber>1</PartNumber><ETag>invalid_etag</ETag></Part>";
    let completed = |condition: &str, tag: &str| {
        let asked = Request::new("POST", &path).query(&format!("uploadId={upload}")).header(condition, tag);
        asked.body(format!("<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"))
    };
    let mut rows = Vec::new();
    for tag in ["invalid_etag", "\"invalid_etag\"", "\"open", "a b", "W/x", "\"\""] {
        let asked = |method: &str, name: &str| Request::new(method, &at("key")).header(name, tag);
        for method in ["GET", "HEAD", "DELETE"] {
            rows.push(row(asked(method, "if-match"), 412, "PreconditionFailed"));
        }
        rows.push(row(asked("GET", "if-none-match"), 200, DONE));
        rows.push(row(asked("PUT", "if-match").body("other"), 412, "PreconditionFailed"));
        rows.push(row(copy("if-match", tag), 412, "PreconditionFailed"));
        rows.push(row(copy("x-amz-copy-source-if-match", tag), 412, "PreconditionFailed"));
        rows.push(row(copy("x-amz-copy-source-if-none-match", tag), 200, DONE));
        rows.push(row(copied_part("x-amz-copy-source-if-match", tag), 412, "PreconditionFailed"));
        rows.push(row(copied_part("x-amz-copy-source-if-none-match", tag), 200, DONE));
    }
    rows.push(row(completed("if-match", "invalid_etag"), 412, "PreconditionFailed"));
    rows.push(row(completed("x-amz-meta-none", "x"), 400, "InvalidPart"));
    check(&server, rows);
    assert_eq!(request(server.address(), &Request::new("GET", &at("key")).signed().0, b"").text(), "content");
    server.stop();
}

#[test]
fn sources_of_copies() {
    let server = Server::start();
    put(&server, &at("key"), "content");
    let copy = |source: &str| Request::new("PUT", &at("copy")).header("x-amz-copy-source", source);
    let mut rows = Vec::new();
    for source in
        ["bucket/%ZZ", "bucket/%", "bucket/%4", "%zz/key", "bucket/%FF", "bucket", "bucket/", "/", "/bucket/", "Bad_Name/key"]
    {
        rows.push(row(copy(source), 400, "InvalidArgument"));
        let asked = Request::new("PUT", &at("copy")).query("partNumber=1&uploadId=0123456789abcdef0123456789abcdef");
        rows.push(row(asked.header("x-amz-copy-source", source), 400, "InvalidArgument"));
    }
    for source in ["bucket/key", "/bucket/key", "%2Fbucket%2Fkey", "bucket/k%65y", "bucket/key?versionId=null"] {
        rows.push(row(copy(source), 200, DONE));
    }
    rows.push(row(copy("bucket/missing"), 404, "NoSuchKey"));
    // Under every directive: it would not be kept.
    let described = copy("bucket/key").header("x-amz-meta-a", &"v".repeat(2048));
    rows.push(row(described.clone(), 400, "MetadataTooLarge"));
    rows.push(row(described.header("x-amz-metadata-directive", "REPLACE"), 400, "MetadataTooLarge"));
    rows.push(row(copy("nowhere/key"), 404, "NoSuchBucket"));
    rows.push(row(copy("bucket/key?versionId=other"), 404, "NoSuchVersion"));
    check(&server, rows);
    server.stop();
}

#[test]
fn a_bad_upload_id_is_looked_at_after_the_bucket() {
    let server = Server::start();
    let document = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"5eb63bbbe01eeed093cb22bb8f5acdc3\"</ETag></Part></CompleteMultipartUpload>";
    for (bucket, code) in [("nowhere", "NoSuchBucket"), (BUCKET, "NoSuchUpload")] {
        let path = format!("/{bucket}/key");
        for id in ["nonsense", "0123456789abcdef0123456789abcdef", "%00"] {
            let part = Request::new("PUT", &path).query(&format!("partNumber=1&uploadId={id}"));
            let whole = |method: &str| Request::new(method, &path).query(&format!("uploadId={id}"));
            check(
                &server,
                vec![
                    row(part.clone().body("x"), 404, code),
                    row(part.header("x-amz-copy-source", &at("key")), 404, code),
                    row(whole("GET"), 404, code),
                    row(whole("DELETE"), 404, code),
                    row(whole("POST").body(document), 404, code),
                ],
            );
        }
    }
    server.stop();
}

/// What ends the content `hello` in chunks: the last chunk and the trailing checksum.
const END: &str = "0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";

/// A PUT in chunks without signatures.
fn chunked(declared: usize) -> Request {
    let put = Request::new("PUT", &at("chunked")).header("content-encoding", "aws-chunked");
    let mut put =
        put.header("x-amz-decoded-content-length", &declared.to_string()).header("x-amz-trailer", "x-amz-checksum-crc32");
    put.content_sha256 = Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned());
    put
}

#[test]
fn broken_chunks_are_an_incomplete_body() {
    let server = Server::start();
    let mut rows = vec![row(chunked(5).body(format!("5\r\nhello\r\n{END}")), 200, DONE)];
    for broken in ["5\r\nhel", "5\r\nhello\r\n", ""] {
        rows.push(row(chunked(5).body(broken), 400, "IncompleteBody"));
    }
    for broken in ["x\r\nhello\r\n", "5\r\nhelloworld\r\n", "4\r\nhell\r\n", "5\nhello\r\n", "-5\r\nhello\r\n"] {
        rows.push(row(chunked(5).body(format!("{broken}{END}")), 400, "IncompleteBody"));
    }
    check(&server, rows);
    server.stop();
}

/// Content of so many bytes in chunks of so many, with signatures or without.
fn in_chunks(sizes: &[usize]) -> Request {
    let mut asked = Request::new("PUT", &at("chunked")).header("content-encoding", "aws-chunked");
    asked = asked.header("x-amz-decoded-content-length", &sizes.iter().sum::<usize>().to_string());
    asked.content_sha256 = Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned());
    let chunks: String = sizes.iter().map(|size| format!("{size:x}\r\n{}\r\n", "c".repeat(*size))).collect();
    asked.body(format!("{chunks}0\r\n\r\n"))
}

#[test]
fn only_the_last_chunk_may_be_small() {
    let server = Server::start();
    for sizes in [&[100][..], &[], &[8192, 1], &[9000, 8192, 20]] {
        check(&server, vec![row(in_chunks(sizes), 200, DONE)]);
    }
    for (sizes, number, bytes) in [(&[8191, 1][..], "1", "8191"), (&[8192, 10, 8192], "2", "10")] {
        let asked = in_chunks(sizes);
        let answer = request(server.address(), &asked.signed().0, &asked.body);
        let element = |name| answer.element(name).unwrap_or_default();
        assert_eq!((answer.status, element("Code").as_str()), (400, "InvalidChunkSizeError"), "{}", answer.text());
        assert_eq!((element("Chunk").as_str(), element("BadChunkSize").as_str()), (number, bytes));
    }
    server.stop();
}

#[test]
fn attributes_that_are_asked_for() {
    let server = Server::start();
    put(&server, &at("key"), "content");
    let asked =
        |key: &str, names: &str| Request::new("GET", &at(key)).query("attributes").header("x-amz-object-attributes", names);
    check(
        &server,
        vec![
            row(asked("key", "ETag, ObjectSize"), 200, DONE),
            row(asked("key", "ETag,Colour"), 400, "InvalidArgument"),
            row(asked("missing", "Colour"), 400, "InvalidArgument"),
            row(asked("key", ""), 400, "InvalidRequest"),
            row(Request::new("GET", &at("key")).query("attributes"), 400, "InvalidRequest"),
            row(asked("missing", "ETag"), 404, "NoSuchKey"),
            row(Request::new("GET", "/nowhere/key").query("attributes"), 404, "NoSuchBucket"),
        ],
    );
    server.stop();
}

#[test]
fn methods_that_a_resource_has_not() {
    let server = Server::start();
    put(&server, &at("key"), "content");
    let mut rows = Vec::new();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        rows.push(row(Request::new(method, "/"), 405, "MethodNotAllowed").with(&[("allow", "GET")]));
    }
    for method in ["POST", "PATCH", "TRACE"] {
        let allow = &[("allow", "GET, HEAD, PUT, DELETE")];
        rows.push(row(Request::new(method, &at("key")), 405, "MethodNotAllowed").with(allow));
    }
    rows.push(row(Request::new("POST", &format!("/{BUCKET}")), 412, "PreconditionFailed"));
    check(&server, rows);
    server.stop();
}

#[test]
fn lengths_that_transfer_encoding_takes_the_place_of() {
    let server = Server::start();
    let chunks = "5\r\nhello\r\n0\r\n\r\n";
    let asked = Request::new("PUT", &at("key")).header("transfer-encoding", "chunked");
    let sent = |asked: &Request, body: &str| {
        let answer = request(server.address(), &asked.signed().0, body.as_bytes());
        (answer.status, answer.element("Code").unwrap_or_default())
    };
    let missing = (411, "MissingContentLength".to_owned());
    assert_eq!(sent(&asked.clone().body("hello"), chunks), missing, "none is given");
    let signed = asked.clone().header("content-length", "5").body("hello");
    assert_eq!(sent(&signed, chunks), missing, "the signature covers one that does not count");
    let framed = chunked(5).header("transfer-encoding", "chunked");
    let inner = format!("5\r\nhello\r\n{END}");
    let outer = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
    assert_eq!(sent(&framed, &outer), (200, DONE.to_owned()), "the content's own length is given");
    let get = request(server.address(), &Request::new("GET", &at("chunked")).signed().0, b"");
    assert_eq!(get.text(), "hello");
    server.stop();
}

#[test]
fn buckets_made_again_and_removed_with_open_uploads() {
    let server = Server::start();
    let make = Request::new("PUT", &format!("/{BUCKET}"));
    let alice = Request { access_key: "alice-key".to_owned(), secret: "alice-secret".to_owned(), ..make.clone() };
    check(
        &server,
        vec![
            row(make.clone(), 200, DONE).with(&[("location", "/bucket"), ("x-amz-bucket-arn", "arn:aws:s3:::bucket")]),
            row(make.clone().header("x-trilith-etag", "md5"), 200, DONE),
            row(make.clone().header("x-trilith-etag", "fast"), 409, "BucketAlreadyOwnedByYou"),
            row(make.clone().header("x-trilith-engine", "log"), 200, DONE),
            row(make.clone().header("x-trilith-engine", "volume:strict"), 409, "BucketAlreadyOwnedByYou"),
            row(make.clone().header("x-trilith-engine", "blocks"), 400, "InvalidArgument"),
            row(alice, 409, "BucketAlreadyExists"),
        ],
    );
    let signed = |asked: &Request| request(server.address(), &asked.signed().0, &asked.body);
    let bucket = format!("/{BUCKET}");
    let upload = signed(&Request::new("POST", &at("key")).query("uploads")).element("UploadId").expect("an id");
    let part = Request::new("PUT", &at("key")).query(&format!("partNumber=1&uploadId={upload}")).body("part");
    assert_eq!(signed(&part).status, 200);
    put(&server, &at("object"), "x");
    let refused = signed(&Request::new("DELETE", &bucket));
    assert_eq!((refused.status, refused.element("Code").as_deref()), (409, Some("BucketNotEmpty")));
    assert_eq!(signed(&part).status, 200, "the upload goes on");
    assert_eq!(signed(&Request::new("DELETE", &at("object"))).status, 204);
    assert_eq!(signed(&Request::new("DELETE", &bucket)).status, 204);
    assert_eq!(signed(&part).element("Code").as_deref(), Some("NoSuchBucket"));
    assert_eq!(signed(&make).status, 200);
    assert_eq!(signed(&part).element("Code").as_deref(), Some("NoSuchUpload"), "another bucket");
    server.stop();
}

#[test]
fn http2_is_told_that_it_is_not_spoken() {
    let server = Server::start();
    let address = server.address();
    let mut client = Client::connect(address);
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let answer = client.answer();
    assert_eq!((answer.status, answer.element("Code").as_deref()), (505, Some("HttpVersionNotSupported")));
    assert!(answer.text().contains("speaks HTTP/1.1") && answer.header("connection") == Some("close"), "{}", answer.text());
    assert!(client.is_at_end());
    server.stop();
}
