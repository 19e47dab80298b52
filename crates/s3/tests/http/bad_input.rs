//! What is wrong is refused with S3's error, and the connection stays in a known state.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::client::{Client, request};
use crate::server::{ACCESS_KEY, BUCKET, PUBLIC, SECRET, Server};
use crate::signing::{REGION, Request, basic_time, hex, mac};

fn refused(server: &Server, case: &str, head: &str, body: &[u8], expected: (u16, &str)) {
    let answer = request(server.address(), head, body);
    let code = answer.element("Code").unwrap_or_default();
    assert_eq!((answer.status, code.as_str()), expected, "{case}: {}", answer.text());
    assert!(answer.header("x-amz-request-id").is_some(), "{case}: no request id");
    assert!(answer.header("date").is_some(), "{case}: no date");
    assert_eq!(answer.header("content-type"), Some("application/xml"), "{case}");
}

#[test]
fn heads_that_the_guard_refuses() {
    let server = Server::start();
    let path = format!("/{BUCKET}/key");
    let get = Request::new("GET", &path);
    let (signed, _) = get.signed();
    let host = "\r\nhost: localhost";
    let authorization = signed.lines().find(|line| line.starts_with("authorization")).expect("signed").to_owned();
    let cases = [
        (
            "SigV2 by header",
            format!("GET {path} HTTP/1.1{host}\r\nauthorization: AWS {ACCESS_KEY}:c2ln"),
            400,
            "InvalidRequest",
        ),
        (
            "SigV2 by query",
            format!("GET {path}?AWSAccessKeyId={ACCESS_KEY}&Expires=9999999999&Signature=c2ln HTTP/1.1{host}"),
            400,
            "InvalidRequest",
        ),
        ("repeated Host", format!("{signed}\r\nhost: elsewhere"), 400, "InvalidRequest"),
        ("repeated Authorization", format!("{signed}\r\n{authorization}"), 400, "InvalidRequest"),
        ("repeated x-amz-date", format!("{signed}\r\nx-amz-date: 20200101T000000Z"), 400, "InvalidRequest"),
        ("repeated x-amz-content-sha256", format!("{signed}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD"), 400, "InvalidRequest"),
        ("no host", format!("GET {path} HTTP/1.1"), 400, "InvalidRequest"),
        ("another host in the target", format!("GET http://elsewhere{path} HTTP/1.1{host}"), 400, "InvalidRequest"),
        ("other authorization", format!("GET {path} HTTP/1.1{host}\r\nauthorization: Bearer abc"), 400, "InvalidArgument"),
        (
            "signature of nothing",
            format!("GET {path} HTTP/1.1{host}\r\nauthorization: AWS4-HMAC-SHA256"),
            400,
            "AuthorizationHeaderMalformed",
        ),
        ("an unsigned x-amz header", format!("{signed}\r\nx-amz-meta-late: 1"), 403, "AccessDenied"),
        ("another region", signed.replace(REGION, "eu-west-9"), 400, "AuthorizationHeaderMalformed"),
        ("another service", signed.replace("/s3/", "/ec2/"), 400, "AuthorizationHeaderMalformed"),
        ("another day", signed.replacen(&basic_time(get.time)[..8], "20200101", 1), 400, "AuthorizationHeaderMalformed"),
        ("two mechanisms", signed.replacen(" HTTP", "?X-Amz-Signature=a HTTP", 1), 400, "InvalidArgument"),
        (
            "half a presigned url",
            format!("GET {path}?X-Amz-Signature=a HTTP/1.1{host}"),
            400,
            "AuthorizationQueryParametersError",
        ),
        ("a week and a second", get.presigned(604_801), 400, "AuthorizationQueryParametersError"),
        (
            "a form",
            format!("POST /{BUCKET} HTTP/1.1{host}\r\ncontent-type: multipart/form-data; boundary=x\r\ncontent-length: 0"),
            501,
            "NotImplemented",
        ),
        ("a bad escape", format!("GET /{BUCKET}/a%zz HTTP/1.1{host}"), 400, "InvalidURI"),
        ("half an escape", format!("GET /{BUCKET}/a%2 HTTP/1.1{host}"), 400, "InvalidURI"),
        ("no UTF-8", format!("GET /{BUCKET}/a%ff%fe HTTP/1.1{host}"), 400, "InvalidURI"),
        ("a key of 1,025 bytes", format!("GET /{BUCKET}/{} HTTP/1.1{host}", "k".repeat(1025)), 400, "KeyTooLongError"),
        (
            "a key of 1,026 bytes in escapes",
            format!("GET /{BUCKET}/{} HTTP/1.1{host}", "%C3%A9".repeat(513)),
            400,
            "KeyTooLongError",
        ),
        ("too much content", format!("PUT {path} HTTP/1.1{host}\r\ncontent-length: 99999999999"), 400, "EntityTooLarge"),
    ];
    for (case, head, status, code) in cases {
        refused(&server, case, &head, b"", (status, code));
    }
    let longest = Request::new("PUT", &format!("/{BUCKET}/{}", "k".repeat(1024))).body("x");
    assert_eq!(request(server.address(), &longest.signed().0, &longest.body).status, 200, "1,024 bytes are allowed");
    server.stop();
}

/// A presigned URL whose parameters are written in escapes has the same signature, and covers no more than before.
#[test]
fn presigned_in_escapes() {
    let server = Server::start();
    let put = Request::new("PUT", &format!("/{BUCKET}/private")).body("payroll");
    assert_eq!(request(server.address(), &put.signed().0, &put.body).status, 200);
    let path = format!("/{BUCKET}/stolen");
    let own = Request::new("PUT", &path);
    let stealing = own.clone().header("x-amz-copy-source", &format!("/{BUCKET}/private"));
    let escaped = stealing.presigned(60).replace("X-Amz-", "X%2DAmz%2D");
    refused(&server, "a header that is not signed", &escaped, b"", (403, "AccessDenied"));
    let two_names =
        stealing.presigned(60).replace("X-Amz-Algorithm", "X-Amz-Al%67orithm").replace("Signature=", "Si%67nature=");
    refused(&server, "two names in escapes", &two_names, b"", (403, "AccessDenied"));
    let time = basic_time(own.time);
    let covering = "host;x-amz-content-sha256;x-amz-copy-source";
    let beside = format!(
        "{escaped}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\nauthorization: AWS4-HMAC-SHA256 \
         Credential={ACCESS_KEY}/{}/{REGION}/s3/aws4_request, SignedHeaders={covering}, Signature={}",
        &time[..8],
        "0".repeat(64),
    );
    refused(&server, "beside a signature by header", &beside, b"", (400, "InvalidArgument"));
    let expires = own.time + 60;
    let text = format!("PUT\n\n\n{expires}\nx-amz-copy-source:/{BUCKET}/private\n{path}");
    let mut version_2 = Hmac::<Sha1>::new_from_slice(SECRET.as_bytes()).expect("any length");
    version_2.update(text.as_bytes());
    let signature = STANDARD.encode(version_2.finalize().into_bytes());
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let query = format!("AWSAccessKey%49d={ACCESS_KEY}&Expires={expires}&Si%67nature={signature}");
    refused(&server, "version 2", &stealing.clone().query(&query).anonymous(), b"", (400, "InvalidRequest"));
    assert_eq!(request(server.address(), &Request::new("GET", &path).signed().0, b"").status, 404, "nothing was copied");

    let escaped = own.clone().body("mine").presigned(60).replace("X-Amz-", "X%2DAmz%2D");
    assert_eq!(request(server.address(), &escaped, b"mine").status, 200, "what is covered is done");
    server.stop();
}

#[test]
fn signed_content_that_is_not_what_was_signed() {
    let server = Server::start();
    let path = format!("/{BUCKET}/content");
    let put = Request::new("PUT", &path).body("as signed");
    refused(&server, "small", &put.signed().0, b"not this!", (400, "XAmzContentSHA256Mismatch"));
    let large = Request::new("PUT", &path).body(vec![1; 500_000]);
    refused(&server, "large", &large.signed().0, &vec![2; 500_000], (400, "XAmzContentSHA256Mismatch"));
    let open = Request::new("PUT", &format!("/{PUBLIC}/content")).body("as hashed");
    let hash = hex(&Sha256::digest(&open.body));
    let hashed = |hash: &str| open.clone().header("x-amz-content-sha256", hash).anonymous();
    assert_eq!(request(server.address(), &hashed(&hash), b"as hashed").status, 200);
    refused(&server, "hashed, not signed", &hashed(&hash), b"as other!", (400, "XAmzContentSHA256Mismatch"));
    refused(&server, "in upper case", &hashed(&hash.to_uppercase()), b"as other!", (400, "InvalidArgument"));
    let other = Request { content_sha256: Some(String::from("STREAMING-SOMETHING")), ..put.clone() };
    refused(&server, "an unknown kind of payload", &other.signed().0, b"as signed", (400, "InvalidArgument"));
    let (head, _) = put.signed();
    let without = head.lines().filter(|line| !line.starts_with("x-amz-content-sha256")).collect::<Vec<_>>().join("\r\n");
    refused(&server, "without a payload hash", &without, b"as signed", (400, "InvalidRequest"));
    assert_eq!(request(server.address(), &Request::new("GET", &path).signed().0, b"").status, 404, "nothing was written");
    server.stop();
}

#[test]
fn lengths() {
    let server = Server::start();
    let path = format!("/{PUBLIC}/length");
    let chunked = format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked");
    refused(&server, "no length", &chunked, b"5\r\nhello\r\n0\r\n\r\n", (411, "MissingContentLength"));
    let address = server.address();
    for wrong in ["x", "-1", "5, 6", "5\r\ncontent-length: 6"] {
        let mut client = Client::connect(address);
        client.send(format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {wrong}\r\n\r\nhello").as_bytes());
        let answer = client.try_answer("PUT").unwrap_or_else(|| panic!("no answer to content-length: {wrong}"));
        assert_eq!(answer.status, 400, "content-length: {wrong}");
        assert!(client.is_at_end(), "content-length: {wrong}");
    }
    let mut client = Client::connect(address);
    client.send(format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nonly this").as_bytes());
    client.end_sending();
    if let Some(answer) = client.try_answer("PUT") {
        assert_eq!((answer.status, answer.element("Code").as_deref()), (400, Some("IncompleteBody")));
    }
    assert!(client.is_at_end(), "a body that broke off ends the connection");
    assert_eq!(request(server.address(), &Request::new("HEAD", &path).anonymous(), b"").status, 404, "nothing was written");
    server.stop();
}

#[test]
fn xml_and_parameters() {
    let server = Server::start();
    let post = |path: &str, query: &str, body: &str| {
        let asked = Request::new("POST", path).query(query).body(body);
        request(server.address(), &asked.signed().0, body.as_bytes())
    };
    let bucket = format!("/{BUCKET}");
    let many = "<Object><Key>k</Key></Object>".repeat(1001);
    for (case, body, code) in [
        ("nothing", String::new(), "MissingRequestBodyError"),
        ("no XML", String::from("key=value"), "MalformedXML"),
        ("not closed", String::from("<Delete><Object><Key>a</Key></Object>"), "MalformedXML"),
        ("another document", String::from("<Remove/>"), "MalformedXML"),
        ("no keys", String::from("<Delete></Delete>"), "MalformedXML"),
        ("1,001 keys", format!("<Delete>{many}</Delete>"), "MalformedXML"),
        ("no UTF-8", String::from("<Delete><Object><Key>&#0;</Key></Object></Delete>"), "MalformedXML"),
    ] {
        let answer = post(&bucket, "delete", &body);
        assert_eq!((answer.status, answer.element("Code").as_deref()), (400, Some(code)), "delete, {case}: {}", answer.text());
    }
    let path = format!("/{BUCKET}/upload");
    let created = request(server.address(), &Request::new("POST", &path).query("uploads").signed().0, b"");
    let upload = created.element("UploadId").expect("an id");
    let part = |number: &str| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>\"5eb63bbbe01eeed093cb22bb8f5acdc3\"</ETag></Part>")
    };
    let all: String = (1..=10_001).map(|number| part(&number.to_string())).collect();
    for (case, body, code) in [
        ("no parts", String::from("<CompleteMultipartUpload/>"), "MalformedXML"),
        ("10,001 parts", format!("<CompleteMultipartUpload>{all}</CompleteMultipartUpload>"), "MalformedXML"),
        ("an unknown part", format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", part("1")), "InvalidPart"),
        (
            "out of order",
            format!("<CompleteMultipartUpload>{}{}</CompleteMultipartUpload>", part("2"), part("1")),
            "InvalidPartOrder",
        ),
        ("part 0", format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", part("0")), "InvalidArgument"),
        ("part x", format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", part("x")), "MalformedXML"),
        (
            "no tag",
            String::from("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"),
            "MalformedXML",
        ),
    ] {
        let answer = post(&path, &format!("uploadId={upload}"), &body);
        assert_eq!(
            (answer.status, answer.element("Code").as_deref()),
            (400, Some(code)),
            "complete, {case}: {}",
            answer.text()
        );
    }
    let unknown =
        post(&path, "uploadId=nonsense", &format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", part("1")));
    assert_eq!((unknown.status, unknown.element("Code").as_deref()), (404, Some("NoSuchUpload")));
    let policy = Request::new("PUT", &bucket).query("policy").body("{\"Statement\":[{\"Effect\":\"Deny\"}]}");
    refused(&server, "a policy", &policy.signed().0, &policy.body, (400, "MalformedPolicy"));
    let constraint = Request::new("PUT", "/elsewhere-bucket")
        .body("<CreateBucketConfiguration><LocationConstraint>mars-1</LocationConstraint></CreateBucketConfiguration>");
    refused(&server, "a region", &constraint.signed().0, &constraint.body, (400, "IllegalLocationConstraintException"));
    for name in ["/AB", "/a", "/192.168.1.1", "/under_score", "/double..dot"] {
        let asked = Request::new("PUT", name);
        refused(&server, name, &asked.signed().0, b"", (400, "InvalidBucketName"));
    }
    server.stop();
}

/// A PUT in signed chunks, with the chunks' signatures made by `chunk`.
fn streamed(path: &str, declared: usize, chunk: impl Fn(&Request, &str) -> Vec<u8>) -> (String, Vec<u8>) {
    let mut put = Request::new("PUT", path)
        .header("content-encoding", "aws-chunked")
        .header("x-amz-decoded-content-length", &declared.to_string());
    put.content_sha256 = Some(String::from("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"));
    let (head, seed) = put.signed();
    let body = chunk(&put, &seed);
    let head = head.replace("content-length: 0", &format!("content-length: {}", body.len()));
    (head, body)
}

fn signed_chunk(put: &Request, previous: &str, data: &[u8]) -> (Vec<u8>, String) {
    let time = basic_time(put.time);
    let empty = hex(&Sha256::digest(b""));
    let hash = hex(&Sha256::digest(data));
    let text =
        format!("AWS4-HMAC-SHA256-PAYLOAD\n{time}\n{}/{REGION}/s3/aws4_request\n{previous}\n{empty}\n{hash}", &time[..8]);
    let signature = hex(&mac(&put.signing_key(&time[..8]), text.as_bytes()));
    let mut chunk = format!("{:x};chunk-signature={signature}\r\n", data.len()).into_bytes();
    chunk.extend(data);
    chunk.extend(b"\r\n");
    (chunk, signature)
}

fn chunks(put: &Request, seed: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut previous = seed.to_owned();
    for piece in pieces {
        let (chunk, signature) = signed_chunk(put, &previous, piece);
        body.extend(chunk);
        previous = signature;
    }
    body
}

#[test]
fn signed_chunks() {
    let server = Server::start();
    let path = format!("/{BUCKET}/streamed");
    let large = vec![9; 200_000];
    let (head, body) = streamed(&path, 200_011, |put, seed| chunks(put, seed, &[&large, b"hello world", b""]));
    assert_eq!(request(server.address(), &head, &body).status, 200);
    let get = request(server.address(), &Request::new("GET", &path).signed().0, b"");
    assert_eq!(get.body.len(), 200_011);
    assert_eq!(get.header("content-encoding"), None, "the framing is no encoding of the object");

    let bad = format!("/{BUCKET}/bad");
    let (head, mut body) = streamed(&bad, 11, |put, seed| chunks(put, seed, &[b"hello world", b""]));
    body[90] ^= 1;
    refused(&server, "a changed byte", &head, &body, (403, "SignatureDoesNotMatch"));
    let (head, body) = streamed(&bad, 12, |put, seed| chunks(put, seed, &[b"hello world", b""]));
    refused(&server, "fewer bytes than declared", &head, &body, (400, "IncompleteBody"));
    let (head, body) = streamed(&bad, 11, |put, seed| chunks(put, seed, &[b"hello world"]));
    refused(&server, "without the last chunk", &head, &body, (400, "IncompleteBody"));
    let (head, _) = streamed(&bad, 0, |_, _| Vec::new());
    refused(&server, "nothing, and without the last chunk", &head, b"", (400, "IncompleteBody"));
    let (head, body) = streamed(&bad, 11, |put, seed| {
        let whole = chunks(put, seed, &[b"hello world", b""]);
        whole[..whole.len() - 20].to_vec()
    });
    refused(&server, "half of the last chunk", &head, &body, (400, "IncompleteBody"));
    // A path that is not canonical is written out to be verified.
    let odd = format!("/{BUCKET}/odd(1)");
    let (head, body) = streamed(&odd, 11, |put, seed| chunks(put, seed, &[b"hello world"]));
    refused(&server, "without the last chunk, at a path that is not canonical", &head, &body, (400, "IncompleteBody"));
    assert_eq!(request(server.address(), &Request::new("HEAD", &odd).signed().0, b"").status, 404, "nothing was written");
    let (head, body) = streamed(&odd, 11, |put, seed| chunks(put, seed, &[b"hello world", b""]));
    assert_eq!(request(server.address(), &head, &body).status, 200);
    let (head, body) = streamed(&bad, 11, |_, _| b"xyz\r\nhello world\r\n0\r\n\r\n".to_vec());
    refused(&server, "broken framing", &head, &body, (400, "IncompleteBody"));
    assert_eq!(request(server.address(), &Request::new("HEAD", &bad).signed().0, b"").status, 404, "nothing was written");
    server.stop();
}

#[test]
fn unsigned_chunks_with_trailers() {
    let server = Server::start();
    let path = format!("/{PUBLIC}/trailer");
    let put = |checksum: &str, trailer: &str| {
        let body = format!("b\r\nhello world\r\n0\r\n{trailer}\r\n");
        let mut asked = Request::new("PUT", &path)
            .header("content-encoding", "aws-chunked")
            .header("x-amz-decoded-content-length", "11")
            .header("x-amz-trailer", checksum)
            .header("content-length", &body.len().to_string());
        asked.content_sha256 = Some(String::from("STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
        let anonymous = format!("{}\r\nx-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER", asked.anonymous());
        let answer = request(server.address(), &asked.signed().0, body.as_bytes());
        let unsigned = request(server.address(), &anonymous, body.as_bytes());
        assert_eq!((answer.status, answer.element("Code")), (unsigned.status, unsigned.element("Code")), "signed or not");
        answer
    };
    let good = put("x-amz-checksum-crc32", "x-amz-checksum-crc32:DUoRhQ==\r\n");
    assert_eq!(good.status, 200, "{}", good.text());
    assert_eq!(good.header("x-amz-checksum-crc32"), Some("DUoRhQ=="));
    let wrong = put("x-amz-checksum-crc32", "x-amz-checksum-crc32:AAAAAA==\r\n");
    assert_eq!((wrong.status, wrong.element("Code").as_deref()), (400, Some("BadDigest")));
    let missing = put("x-amz-checksum-crc32", "");
    assert_eq!((missing.status, missing.element("Code").as_deref()), (400, Some("MalformedTrailerError")));
    let unknown = put("x-amz-checksum-md4", "x-amz-checksum-md4:AAAA\r\n");
    assert_eq!((unknown.status, unknown.element("Code").as_deref()), (400, Some("InvalidRequest")));
    server.stop();
}
