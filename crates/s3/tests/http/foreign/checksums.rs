//! Checksums of content: every one that is sent is compared or refused.

use crate::client::{Answer, request};
use crate::server::{BUCKET, PUBLIC, Server};
use crate::signing::Request;

const CONTENT: &str = "hello world";

/// Each algorithm's header, its name and its value of [`CONTENT`], by independent programs (xxhsum, openssl, the AWS SDKs).
const VALUES: [(&str, &str, &str); 10] = [
    ("x-amz-checksum-crc32", "CRC32", "DUoRhQ=="),
    ("x-amz-checksum-crc32c", "CRC32C", "yZRlqg=="),
    ("x-amz-checksum-crc64nvme", "CRC64NVME", "jSnVw/bqjr4="),
    ("x-amz-checksum-sha1", "SHA1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0="),
    ("x-amz-checksum-sha256", "SHA256", "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="),
    (
        "x-amz-checksum-sha512",
        "SHA512",
        "MJ7MSJwS1utMxA9QyQLytNDtd+5RGnx6m808qG1M2G+YndNbxf9JlnDaNCVbRbDP2DDoH2Bdz33FVC6TrpzXbw==",
    ),
    ("x-amz-checksum-md5", "MD5", "XrY7u+Ae7tCTyyK7j1rNww=="),
    ("x-amz-checksum-xxhash64", "XXHASH64", "RatnNLIeaWg="),
    ("x-amz-checksum-xxhash3", "XXHASH3", "1Eex6kDmmIs="),
    ("x-amz-checksum-xxhash128", "XXHASH128", "340J6T+HSQCpm4d1zBW2xw=="),
];

fn code(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.element("Code"))
}

fn refused(code: &str) -> (u16, Option<String>) {
    (400, Some(code.to_owned()))
}

fn sent(server: &Server, asked: &Request) -> Answer {
    request(server.address(), &asked.signed().0, &asked.body)
}

fn put(path: &str, headers: &[(&str, &str)]) -> Request {
    let asked = Request::new("PUT", path).body(CONTENT);
    headers.iter().fold(asked, |asked, (name, value)| asked.header(name, value))
}

#[test]
fn every_algorithm_is_compared_kept_shown_and_copied() {
    let server = Server::start();
    let path = format!("/{BUCKET}/checked");
    for (header, name, value) in VALUES {
        let put_it = sent(&server, &put(&path, &[(header, value), ("x-amz-sdk-checksum-algorithm", name)]));
        let type_of = |answer: &Answer| answer.header("x-amz-checksum-type").map(str::to_owned);
        assert_eq!((put_it.status, put_it.header(header)), (200, Some(value)), "{}", put_it.text());
        assert_eq!(type_of(&put_it).as_deref(), Some("FULL_OBJECT"), "{name}");
        let get = sent(&server, &Request::new("GET", &path).header("x-amz-checksum-mode", "enabled"));
        assert_eq!((get.header(header), type_of(&get).as_deref()), (Some(value), Some("FULL_OBJECT")), "{name}");
        let attributes = Request::new("GET", &path).query("attributes").header("x-amz-object-attributes", "Checksum,ETag");
        let attributes = sent(&server, &attributes);
        assert_eq!(attributes.element(&format!("Checksum{name}")).as_deref(), Some(value), "{}", attributes.text());
        assert_eq!(attributes.element("ChecksumType").as_deref(), Some("FULL_OBJECT"), "{name}");
        assert_eq!(attributes.element("ETag").as_deref(), Some("5eb63bbbe01eeed093cb22bb8f5acdc3"), "no quotes in this one");
        let copy = Request::new("PUT", &format!("/{BUCKET}/copy")).header("x-amz-copy-source", &path);
        let copy = request(server.address(), &copy.signed().0, b"");
        assert_eq!(copy.element(&format!("Checksum{name}")).as_deref(), Some(value), "{}", copy.text());
        let list = sent(&server, &Request::new("GET", &format!("/{BUCKET}")).query("list-type=2"));
        assert_eq!(list.elements("ChecksumAlgorithm"), [name, name], "{}", list.text());
        let wrong = put(&path, &[(header, value)]).body("hello World");
        assert_eq!(code(&sent(&server, &wrong)), refused("BadDigest"), "{name}");
        let of_others = put(&path, &[(header, "AAAA")]);
        assert_eq!(code(&sent(&server, &of_others)), refused("InvalidRequest"), "{name} of another length");
        let document = "<Delete><Object><Key>checked</Key></Object></Delete>";
        let spoilt = Request::new("POST", &format!("/{BUCKET}")).query("delete").header(header, value).body(document);
        assert_eq!(code(&sent(&server, &spoilt)), refused("BadDigest"), "a document, {name}");
    }
    server.stop();
}

#[test]
fn what_a_client_says_of_checksums_is_obeyed_or_refused() {
    let server = Server::start();
    let path = format!("/{BUCKET}/said");
    let crc = ("x-amz-checksum-crc32", "DUoRhQ==");
    let sdk = "x-amz-sdk-checksum-algorithm";
    for (case, headers, expected) in [
        ("an unknown algorithm", vec![("x-amz-checksum-md4", "AAAA")], refused("InvalidRequest")),
        ("two values", vec![crc, ("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0=")], refused("InvalidRequest")),
        ("a composite's value", vec![("x-amz-checksum-crc32", "DUoRhQ==-1")], refused("InvalidRequest")),
        ("the SDK's name of another", vec![crc, (sdk, "SHA256")], refused("InvalidRequest")),
        ("the SDK's name alone", vec![(sdk, "CRC32")], refused("InvalidRequest")),
        ("an unknown name of the SDK's", vec![crc, (sdk, "MD4")], refused("InvalidRequest")),
        ("another algorithm asked for", vec![crc, ("x-amz-checksum-algorithm", "SHA1")], refused("InvalidRequest")),
        ("an unknown one asked for", vec![("x-amz-checksum-algorithm", "MD4")], refused("InvalidRequest")),
        ("an unknown type", vec![crc, ("x-amz-checksum-type", "HALF")], refused("InvalidRequest")),
        ("a composite of no parts", vec![crc, ("x-amz-checksum-type", "COMPOSITE")], refused("InvalidRequest")),
        ("a trailer that cannot come", vec![("x-amz-trailer", "x-amz-checksum-crc32")], refused("InvalidRequest")),
        ("a type in small letters", vec![crc, ("x-amz-checksum-type", "full_object")], (200, None)),
        ("the SDK's name in small letters", vec![crc, (sdk, "crc32")], (200, None)),
    ] {
        assert_eq!(code(&sent(&server, &put(&path, &headers))), expected, "{case}");
    }
    let copy = Request::new("PUT", &path).header("x-amz-copy-source", &path).header("x-amz-checksum-crc32", "AAAAAA==");
    assert_eq!(code(&sent(&server, &copy)), refused("InvalidRequest"), "a checksum of a copy, which carries no content");
    let get = Request::new("GET", &path).header("x-amz-checksum-md4", "AAAA");
    assert_eq!(code(&sent(&server, &get)), refused("InvalidRequest"), "an unknown algorithm, of a read");
    server.stop();
}

/// AWS computes one since December 2024.
#[test]
fn an_object_without_a_checksum_gets_one() {
    let server = Server::start();
    let path = format!("/{BUCKET}/plain");
    let answer = sent(&server, &put(&path, &[]));
    assert_eq!(answer.header("x-amz-checksum-crc64nvme"), Some("jSnVw/bqjr4="), "{}", answer.text());
    let silent = sent(&server, &Request::new("GET", &path));
    assert_eq!(silent.header("x-amz-checksum-crc64nvme"), None, "not asked for");
    let head = sent(&server, &Request::new("HEAD", &path).header("x-amz-checksum-mode", "ENABLED"));
    assert_eq!(head.header("x-amz-checksum-crc64nvme"), Some("jSnVw/bqjr4="));
    let range = Request::new("GET", &path).header("x-amz-checksum-mode", "ENABLED").header("range", "bytes=0-3");
    assert_eq!(sent(&server, &range).header("x-amz-checksum-crc64nvme"), None, "a range has none");
    for list in ["", "list-type=2", "versions"] {
        let list = sent(&server, &Request::new("GET", &format!("/{BUCKET}")).query(list));
        assert_eq!(list.element("ChecksumAlgorithm").as_deref(), Some("CRC64NVME"), "{}", list.text());
        assert_eq!(list.element("ChecksumType").as_deref(), Some("FULL_OBJECT"), "{}", list.text());
    }
    server.stop();
}

/// A body in unsigned chunks, with these trailing headers, after these headers.
fn trailing(server: &Server, headers: &[(&str, &str)], trailers: &str) -> Answer {
    let body = format!("b\r\n{CONTENT}\r\n0\r\n{trailers}\r\n");
    let mut asked = Request::new("PUT", &format!("/{PUBLIC}/trailing"))
        .header("content-encoding", "aws-chunked")
        .header("x-amz-decoded-content-length", "11")
        .header("content-length", &body.len().to_string());
    for (name, value) in headers {
        asked = asked.header(name, value);
    }
    asked.content_sha256 = Some(String::from("STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
    let anonymous = format!("{}\r\nx-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER", asked.anonymous());
    let unsigned = request(server.address(), &anonymous, body.as_bytes());
    let signed = request(server.address(), &asked.signed().0, body.as_bytes());
    assert_eq!(code(&signed), code(&unsigned), "signed or not: {trailers}");
    unsigned
}

#[test]
fn trailing_checksums() {
    let server = Server::start();
    for (header, name, value) in VALUES {
        let announced = [("x-amz-trailer", header), ("x-amz-sdk-checksum-algorithm", name)];
        let right = trailing(&server, &announced, &format!("{header}:{value}\r\n"));
        assert_eq!((right.status, right.header(header)), (200, Some(value)), "{}", right.text());
        let other = if name == "SHA1" { "CRC32" } else { "SHA1" };
        let named = [("x-amz-trailer", header), ("x-amz-sdk-checksum-algorithm", other)];
        let named = trailing(&server, &named, &format!("{header}:{value}\r\n"));
        assert_eq!(code(&named), refused("InvalidRequest"), "the SDK names {other} and sends {name}");
    }
    let crc = [("x-amz-trailer", "x-amz-checksum-crc32")];
    for (case, headers, trailers, expected) in [
        ("right", crc.as_slice(), "x-amz-checksum-crc32:DUoRhQ==\r\n", (200, None)),
        ("wrong", &crc, "x-amz-checksum-crc32:AAAAAA==\r\n", refused("BadDigest")),
        ("no value of it", &crc, "x-amz-checksum-crc32:AA==\r\n", refused("InvalidRequest")),
        ("missing", &crc, "", refused("MalformedTrailerError")),
        ("another than announced", &crc, "x-amz-checksum-crc32c:yZRlqg==\r\n", refused("MalformedTrailerError")),
        ("not announced", &[], "x-amz-checksum-crc32:DUoRhQ==\r\n", refused("MalformedTrailerError")),
        ("not announced, and wrong", &[], "x-amz-checksum-crc32:AAAAAA==\r\n", refused("MalformedTrailerError")),
        (
            "a second one",
            &crc,
            "x-amz-checksum-crc32:DUoRhQ==\r\nx-amz-checksum-crc32c:yZRlqg==\r\n",
            refused("MalformedTrailerError"),
        ),
        ("of no checksum", &crc, "x-amz-checksum-crc32:DUoRhQ==\r\nx-amz-meta-a:1\r\n", refused("MalformedTrailerError")),
        ("twice", &crc, "x-amz-checksum-crc32:DUoRhQ==\r\nx-amz-checksum-crc32:DUoRhQ==\r\n", refused("MalformedTrailerError")),
        ("as clients of MinIO end it", &crc, "x-amz-checksum-crc32:DUoRhQ==\n\r\n", (200, None)),
        ("wrong, as clients of MinIO end it", &crc, "x-amz-checksum-crc32:AAAAAA==\n\r\n", refused("BadDigest")),
    ] {
        assert_eq!(code(&trailing(&server, headers, trailers)), expected, "{case}");
    }
    let both_kinds = [("x-amz-trailer", "x-amz-checksum-crc32"), ("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0=")];
    let answer = trailing(&server, &both_kinds, "x-amz-checksum-crc32:DUoRhQ==\r\n");
    assert_eq!(code(&answer), refused("InvalidRequest"), "beforehand and behind");
    server.stop();
}

/// An upload by parts and what was said of it.
struct Upload<'a> {
    server: &'a Server,
    path: String,
    id: String,
}

impl<'a> Upload<'a> {
    fn open(server: &'a Server, name: &str, headers: &[(&str, &str)]) -> Upload<'a> {
        let path = format!("/{BUCKET}/{name}");
        let open = Request::new("POST", &path).query("uploads");
        let open = headers.iter().fold(open, |open, (name, value)| open.header(name, value));
        let answer = request(server.address(), &open.signed().0, b"");
        Upload { server, path, id: answer.element("UploadId").unwrap_or_else(|| panic!("{}", answer.text())) }
    }

    fn part(&self, headers: &[(&str, &str)]) -> Answer {
        let asked = Request::new("PUT", &self.path).query(&format!("partNumber=1&uploadId={}", self.id)).body(CONTENT);
        sent(self.server, &headers.iter().fold(asked, |asked, (name, value)| asked.header(name, value)))
    }

    /// With the part of [`CONTENT`], about which `said` is said beside its tag.
    fn complete(&self, said: &str, headers: &[(&str, &str)]) -> Answer {
        let document = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>5eb63bbbe01eeed093cb22bb8f5acdc3</ETag>{said}</Part></CompleteMultipartUpload>"
        );
        let asked = Request::new("POST", &self.path).query(&format!("uploadId={}", self.id)).body(document);
        let asked = headers.iter().fold(asked, |asked, (name, value)| asked.header(name, value));
        request(self.server.address(), &asked.signed().0, &asked.body)
    }
}

#[test]
fn opening_an_upload() {
    let server = Server::start();
    let open = |headers: &[(&str, &str)]| {
        let asked = Request::new("POST", &format!("/{BUCKET}/opened")).query("uploads");
        let asked = headers.iter().fold(asked, |asked, (name, value)| asked.header(name, value));
        request(server.address(), &asked.signed().0, b"")
    };
    let (algorithm, kind) = ("x-amz-checksum-algorithm", "x-amz-checksum-type");
    for (headers, expected) in [
        (vec![(algorithm, "CRC32"), (kind, "Full_Object")], (200, None)),
        (vec![(algorithm, "CRC32"), (kind, "HALF")], refused("InvalidRequest")),
        (vec![(algorithm, "SHA256"), (kind, "FULL_OBJECT")], refused("InvalidRequest")),
        (vec![(algorithm, "CRC64NVME"), (kind, "composite")], refused("InvalidRequest")),
        (vec![(algorithm, "MD4")], refused("InvalidRequest")),
        (vec![(algorithm, "XXHASH64"), (kind, "FULL_OBJECT")], refused("InvalidRequest")),
        (vec![(kind, "FULL_OBJECT")], refused("InvalidRequest")),
    ] {
        assert_eq!(code(&open(&headers)), expected, "{headers:?}");
    }
    let list = sent(&server, &Request::new("GET", &format!("/{BUCKET}")).query("uploads"));
    assert_eq!(list.elements("ChecksumAlgorithm"), ["CRC32"], "{}", list.text());
    assert_eq!(list.elements("ChecksumType"), ["FULL_OBJECT"]);
    server.stop();
}

#[test]
fn composite_uploads() {
    let server = Server::start();
    let upload = Upload::open(&server, "composite", &[("x-amz-checksum-algorithm", "CRC32")]);
    assert_eq!(code(&upload.part(&[])), refused("InvalidRequest"), "a part without a checksum");
    assert_eq!(code(&upload.part(&[("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0=")])), refused("InvalidRequest"));
    assert_eq!(code(&upload.part(&[("x-amz-checksum-crc32", "DUoRhQ==")])), (200, None));
    let parts = sent(&server, &Request::new("GET", &upload.path).query(&format!("uploadId={}", upload.id)));
    assert_eq!(
        (parts.element("ChecksumAlgorithm").as_deref(), parts.element("ChecksumType").as_deref()),
        (Some("CRC32"), Some("COMPOSITE"))
    );
    assert_eq!(parts.element("ChecksumCRC32").as_deref(), Some("DUoRhQ=="));
    let good = "<ChecksumCRC32>DUoRhQ==</ChecksumCRC32>";
    let two = "<ChecksumCRC32>DUoRhQ==</ChecksumCRC32><ChecksumSHA1>Kq5sNclPz7QV2+lfQIuc6R7oRu0=</ChecksumSHA1>";
    for (case, said, headers, expected) in [
        ("no checksum of a part", "", vec![], refused("InvalidRequest")),
        ("a wrong one", "<ChecksumCRC32>AAAAAA==</ChecksumCRC32>", vec![], refused("InvalidPart")),
        ("none at all", "<ChecksumCRC32>AA==</ChecksumCRC32>", vec![], refused("InvalidArgument")),
        ("two", two, vec![], refused("InvalidArgument")),
        ("another's", "<ChecksumMD5>XrY7u+Ae7tCTyyK7j1rNww==</ChecksumMD5>", vec![], refused("BadDigest")),
        ("an unknown one", "<ChecksumMD4>AAAA</ChecksumMD4>", vec![], refused("MalformedXML")),
        ("another type", good, vec![("x-amz-checksum-type", "FULL_OBJECT")], refused("InvalidRequest")),
        ("an unknown type", good, vec![("x-amz-checksum-type", "HALF")], refused("InvalidRequest")),
        ("an unknown algorithm", good, vec![("x-amz-checksum-md4", "AAAA")], refused("InvalidRequest")),
        ("another algorithm", good, vec![("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0=")], refused("InvalidRequest")),
        ("of more parts", good, vec![("x-amz-checksum-crc32", "YChbaA==-2")], refused("BadDigest")),
        ("a negative size", good, vec![("x-amz-mp-object-size", "-1")], refused("InvalidRequest")),
        ("another size", good, vec![("x-amz-mp-object-size", "12")], refused("InvalidRequest")),
        ("right", good, vec![("x-amz-checksum-type", "composite"), ("x-amz-mp-object-size", "11")], (200, None)),
    ] {
        let answer = upload.complete(said, &headers);
        assert_eq!(code(&answer), expected, "{case}: {}", answer.text());
    }
    let part = Request::new("GET", &upload.path).query("partNumber=1").header("x-amz-checksum-mode", "ENABLED");
    let part = sent(&server, &part);
    assert_eq!((part.status, part.header("x-amz-checksum-crc32")), (206, Some("DUoRhQ==")), "the part's");
    assert_eq!((part.header("x-amz-checksum-type"), part.header("x-amz-mp-parts-count")), (Some("COMPOSITE"), Some("1")));
    let whole = sent(&server, &Request::new("HEAD", &upload.path).header("x-amz-checksum-mode", "ENABLED"));
    assert_eq!(whole.header("x-amz-checksum-crc32"), Some("YChbaA==-1"), "the composite");
    server.stop();
}

/// Each algorithm that can be composite, and the digest of the digest of [`CONTENT`], by independent programs (hashlib, zlib, xxhash).
const COMPOSITES: [(&str, &str); 9] = [
    ("CRC32", "YChbaA=="),
    ("CRC32C", "6yb7oQ=="),
    ("SHA1", "Z77PhTCKzwJhdQ2hB1aB7lxBLwU="),
    ("SHA256", "vGLUuA2eNtopwWxdTZ8Rcx82BSxyQBp2wjwPtam3RCM="),
    ("SHA512", "Dpv/aR9NGAfMG3V/OdK+9f/OW6V9zuB5fRqgpJv1XKuLtQ2qfCb7uYTfM4Yb293Ce/YvGvz/KbMjJv/y5TcP2w=="),
    ("MD5", "JB2KJ8g2QnvX8ERhtg5zWQ=="),
    ("XXHASH64", "eLjv0gsUMwM="),
    ("XXHASH3", "HU6AWAF3/zk="),
    ("XXHASH128", "FXOQBxPaqnja7ygbpTYBFw=="),
];

#[test]
fn composites_of_every_algorithm() {
    let server = Server::start();
    for (name, composite) in COMPOSITES {
        let (header, _, value) = VALUES.into_iter().find(|(_, found, _)| *found == name).expect("all are there");
        let upload = Upload::open(&server, name, &[("x-amz-checksum-algorithm", name)]);
        assert_eq!(code(&upload.part(&[])), refused("InvalidRequest"), "{name}: a part without a checksum");
        let wrong = "A".repeat(value.len() - 2) + &value[value.len() - 2..];
        assert_ne!(code(&upload.part(&[(header, &wrong)])), (200, None), "{name}: another's checksum");
        assert_eq!(upload.part(&[(header, value)]).header(header), Some(value), "{name}");
        let element = format!("Checksum{name}");
        let parts = sent(&server, &Request::new("GET", &upload.path).query(&format!("uploadId={}", upload.id)));
        let found = [&element, "ChecksumAlgorithm", "ChecksumType"].map(|name| parts.element(name).unwrap_or_default());
        assert_eq!(found, [value, name, "COMPOSITE"], "{}", parts.text());
        let said = |value: &str| format!("<{element}>{value}</{element}>");
        assert_eq!(code(&upload.complete("", &[])), refused("InvalidRequest"), "{name}: no checksum of the part");
        assert_eq!(code(&upload.complete(&said("nonsense"), &[])), refused("InvalidArgument"), "{name}");
        assert_eq!(code(&upload.complete(&said(composite), &[])), refused("InvalidPart"), "{name}: another's in the list");
        assert_eq!(code(&upload.complete(&said(value), &[(header, value)])), refused("BadDigest"), "{name}: the object's");
        let done = upload.complete(&said(value), &[(header, &format!("{composite}-1"))]);
        assert_eq!(done.element(&element), Some(format!("{composite}-1")), "{}", done.text());
        assert_eq!(done.element("ChecksumType").as_deref(), Some("COMPOSITE"), "{name}");
        let head = sent(&server, &Request::new("HEAD", &upload.path).header("x-amz-checksum-mode", "ENABLED"));
        assert_eq!(head.header(header), Some(format!("{composite}-1").as_str()), "{name}");
        let attributes = Request::new("GET", &upload.path).query("attributes").header("x-amz-object-attributes", "Checksum");
        let attributes = sent(&server, &attributes);
        assert_eq!(
            attributes.element(&element).as_deref(),
            Some(composite),
            "without the number of parts: {}",
            attributes.text()
        );
    }
    server.stop();
}

#[test]
fn uploads_that_were_opened_for_nothing() {
    let server = Server::start();
    let upload = Upload::open(&server, "nothing", &[]);
    let part = upload.part(&[]);
    assert_eq!((part.status, part.header("x-amz-checksum-crc64nvme")), (200, Some("jSnVw/bqjr4=")), "{}", part.text());
    assert_eq!(code(&upload.complete("", &[("x-amz-checksum-type", "COMPOSITE")])), refused("InvalidRequest"));
    let done = upload.complete("", &[]);
    assert_eq!(done.element("ChecksumCRC64NVME").as_deref(), Some("jSnVw/bqjr4="), "{}", done.text());
    assert_eq!(done.element("ChecksumType").as_deref(), Some("FULL_OBJECT"));
    let attributes = |headers: &[(&str, &str)]| {
        let asked = Request::new("GET", &upload.path).query("attributes").header("x-amz-object-attributes", "ObjectParts");
        sent(&server, &headers.iter().fold(asked, |asked, (name, value)| asked.header(name, value)))
    };
    let parts = attributes(&[]);
    let element = |name| parts.element(name).unwrap_or_default();
    assert_eq!((element("PartsCount"), element("PartNumber"), element("Size")), ("1".into(), "1".into(), "11".into()));
    assert_eq!((element("ChecksumCRC64NVME"), element("IsTruncated")), ("jSnVw/bqjr4=".into(), "false".into()));
    let beyond = attributes(&[("x-amz-part-number-marker", "1"), ("x-amz-max-parts", "5")]);
    assert_eq!((beyond.elements("Part"), beyond.element("MaxParts").as_deref()), (vec![], Some("5")), "{}", beyond.text());
    let wrong = attributes(&[("x-amz-part-number-marker", "-1")]);
    assert_eq!(code(&wrong), refused("InvalidArgument"), "{}", wrong.text());
    server.stop();
}
