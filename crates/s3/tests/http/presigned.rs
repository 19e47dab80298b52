//! What presigned URLs say in their queries instead of in headers.

use crate::client::{Answer, request};
use crate::server::{BUCKET, PUBLIC, Server};
use crate::signing::Request;

fn signed(server: &Server, asked: &Request) -> Answer {
    request(server.address(), &asked.signed().0, &asked.body)
}

fn put(key: &str, query: &str) -> Request {
    Request::new("PUT", &format!("/{BUCKET}/{key}")).query(query).body("by url")
}

#[test]
fn headers_in_the_query_are_obeyed() {
    let server = Server::start();
    // As the AWS SDK for JavaScript writes it, with the checksum of no content.
    let query = "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-meta-owner=7&x-amz-meta-place=K%C3%B6ln%20%2B1\
                 &x-amz-sdk-checksum-algorithm=CRC32&x-amz-storage-class=STANDARD_IA&x-id=PutObject";
    let asked = put("described", query);
    let answer = request(server.address(), &asked.presigned(60), &asked.body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let head = signed(&server, &Request::new("HEAD", &format!("/{BUCKET}/described")));
    assert_eq!(head.header("x-amz-meta-owner"), Some("7"));
    assert_eq!(head.header("x-amz-meta-place"), Some("Köln +1"));
    assert_eq!(head.header("x-amz-storage-class"), Some("STANDARD_IA"));
    // Signed by header, or by nobody, a query says nothing of the kind.
    let by_header = put("by-header", "x-amz-meta-owner=7");
    assert_eq!(signed(&server, &by_header).status, 200);
    let open = Request { path: format!("/{PUBLIC}/open"), ..by_header.clone() };
    assert_eq!(request(server.address(), &open.anonymous(), &open.body).status, 200);
    for path in [&by_header.path, &open.path] {
        assert_eq!(signed(&server, &Request::new("HEAD", path)).header("x-amz-meta-owner"), None, "{path}");
    }
    let copy = put("copied", &format!("x-amz-copy-source={BUCKET}%2Fdescribed")).body("");
    // Not compared: each says when its copy was made.
    let address = server.address();
    let answer = request(address, &copy.presigned(60), b"");
    assert!(answer.text().contains("<CopyObjectResult"), "{}", answer.text());
    assert_eq!(signed(&server, &Request::new("GET", &format!("/{BUCKET}/copied"))).text(), "by url");
    server.stop();
}

#[test]
fn headers_in_the_query_are_refused() {
    let server = Server::start();
    for (query, status, code) in [
        ("x-amz-server-side-encryption=AES256", 501, "NotImplemented"),
        ("X-Amz-Server-Side-Encryption=AES256", 501, "NotImplemented"),
        ("x-amz-object-lock-mode=GOVERNANCE", 501, "NotImplemented"),
        ("x-amz-storage-class=COLD", 400, "InvalidStorageClass"),
        ("x-amz-meta-a=1&x-amz-meta-a=2", 400, "InvalidRequest"),
        ("x-amz-meta-a=%0Ab", 400, "InvalidArgument"),
        ("x-amz-meta-%20a=b", 400, "InvalidArgument"),
        ("x-amz-expected-bucket-owner=123456789012", 403, "AccessDenied"),
    ] {
        let asked = put("refused", query);
        let answer = request(server.address(), &asked.presigned(60), &asked.body);
        assert_eq!((answer.status, answer.element("Code").as_deref()), (status, Some(code)), "{query}: {}", answer.text());
    }
    let twice = put("refused", "x-amz-meta-a=1").header("x-amz-meta-a", "2");
    let answer = request(server.address(), &twice.presigned(60), &twice.body);
    assert_eq!((answer.status, answer.element("Code").as_deref()), (400, Some("InvalidRequest")));
    let added = put("refused", "").presigned(60).replacen(" HTTP", "&x-amz-meta-late=1 HTTP", 1);
    let answer = request(server.address(), &added, b"by url");
    assert_eq!((answer.status, answer.element("Code").as_deref()), (403, Some("SignatureDoesNotMatch")));
    assert_eq!(signed(&server, &Request::new("HEAD", &format!("/{BUCKET}/refused"))).status, 404);
    server.stop();
}
