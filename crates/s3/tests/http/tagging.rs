//! Tags of objects, given with the object and replaced later, and access control lists, of which only the names of what holds are taken.

use crate::client::{Answer, request};
use crate::server::{BUCKET, PUBLIC, Server};
use crate::signing::Request;

fn signed(server: &Server, asked: &Request) -> Answer {
    request(server.address(), &asked.signed().0, &asked.body)
}

fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.element("Code").unwrap_or_default())
}

/// Keys and values, joined for the eye.
fn tags_of(server: &Server, path: &str) -> Vec<String> {
    let answer = signed(server, &Request::new("GET", path).query("tagging"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.elements("Key").into_iter().zip(answer.elements("Value")).map(|(key, value)| format!("{key}={value}")).collect()
}

fn tagging(path: &str, pairs: &[(&str, &str)]) -> Request {
    let tags: String = pairs.iter().map(|(key, value)| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>")).collect();
    Request::new("PUT", path).query("tagging").body(format!("<Tagging><TagSet>{tags}</TagSet></Tagging>"))
}

#[test]
fn tags_change_and_the_object_stays() {
    let server = Server::start();
    let path = format!("/{BUCKET}/tagged");
    let large = vec![7; 3_000_000];
    let with = |asked: Request| asked.header("x-amz-tagging", "a=1&b=2").header("x-amz-meta-kept", "yes");
    for body in [b"small".to_vec(), large] {
        assert_eq!(signed(&server, &with(Request::new("PUT", &path).body(body.clone()))).status, 200);
        assert_eq!(tags_of(&server, &path), ["a=1", "b=2"]);
        let before = signed(&server, &Request::new("HEAD", &path));
        assert_eq!(before.header("x-amz-tagging-count"), Some("2"));
        for (asked, status, expected) in [
            (tagging(&path, &[("c", "3"), ("d e", ""), ("f", "é")]), 200, &["c=3", "d e=", "f=é"][..]),
            (tagging(&path, &[]), 200, &[]),
            (tagging(&path, &[("g", "4")]), 200, &["g=4"]),
            (Request::new("DELETE", &path).query("tagging"), 204, &[]),
        ] {
            let answer = signed(&server, &asked);
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(tags_of(&server, &path), expected);
            let after = signed(&server, &Request::new("GET", &path));
            assert!(after.body == body, "the content stays");
            for header in ["etag", "last-modified", "x-amz-meta-kept"] {
                assert_eq!(after.header(header), before.header(header), "{header}");
            }
            let count = expected.len().to_string();
            assert_eq!(after.header("x-amz-tagging-count"), (count != "0").then_some(count.as_str()));
        }
    }
    server.stop();
}

#[test]
fn tags_that_are_refused() {
    let server = Server::start();
    let path = format!("/{BUCKET}/tagged");
    assert_eq!(signed(&server, &Request::new("PUT", &path).header("x-amz-tagging", "a=1").body("x")).status, 200);
    let long = ("k".repeat(129), "v".repeat(257));
    let names: Vec<String> = (0..11).map(|number| format!("k{number}")).collect();
    let eleven: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    for (case, pairs) in [
        ("a key that is too long", &[(long.0.as_str(), "v")][..]),
        ("a value that is too long", &[("k", long.1.as_str())]),
        ("no key", &[("", "v")]),
        ("twice", &[("k", "1"), ("k", "2")]),
        ("of the system", &[("aws:k", "v")]),
        ("a character", &[("k", "{}")]),
    ] {
        assert_eq!(refused(&signed(&server, &tagging(&path, pairs))), (400, String::from("InvalidTag")), "{case}");
    }
    assert_eq!(refused(&signed(&server, &tagging(&path, &eleven))), (400, String::from("BadRequest")), "eleven");
    for document in ["<Tagging/>", "<Tagging><TagSet><Tag><Key>k</Key></Tag></TagSet></Tagging>", "<Tagging><Tags/></Tagging>"]
    {
        let asked = Request::new("PUT", &path).query("tagging").body(document);
        assert_eq!(refused(&signed(&server, &asked)), (400, String::from("MalformedXML")), "{document}");
    }
    assert_eq!(tags_of(&server, &path), ["a=1"], "nothing was changed");
    let missing = format!("/{BUCKET}/missing");
    for asked in [
        tagging(&missing, &[("k", "v")]),
        Request::new("DELETE", &missing).query("tagging"),
        Request::new("GET", &missing).query("tagging"),
    ] {
        let answer = signed(&server, &asked);
        assert_eq!(refused(&answer), (404, String::from("NoSuchKey")), "{}", asked.method);
        assert_eq!(answer.element("Key").as_deref(), Some("missing"));
    }
    for asked in
        [tagging(&path, &[("k", "v")]).query("tagging&versionId=7"), Request::new("GET", &path).query("tagging&versionId=7")]
    {
        assert_eq!(refused(&signed(&server, &asked)), (404, String::from("NoSuchVersion")));
    }
    server.stop();
}

#[test]
fn who_may_write_may_not_tag() {
    let server = Server::start();
    let path = format!("/{PUBLIC}/tagged");
    assert_eq!(signed(&server, &Request::new("PUT", &path).header("x-amz-tagging", "a=1").body("x")).status, 200);
    let read = request(server.address(), &Request::new("GET", &path).anonymous(), b"");
    assert_eq!(
        (read.status, read.header("x-amz-tagging-count")),
        (200, None),
        "the policy lets everybody read, and says nothing of tags"
    );
    for asked in [
        Request::new("PUT", &path).header("x-amz-tagging", "b=2").body("y"),
        Request::new("PUT", &path).header("x-amz-tagging", "b=2").header("x-amz-copy-source", &path),
        Request::new("POST", &path).query("uploads").header("x-amz-tagging", "b=2"),
        Request::new("GET", &path).query("tagging"),
        Request::new("DELETE", &path).query("tagging"),
        tagging(&path, &[("b", "2")]),
    ] {
        let answer = request(server.address(), &asked.anonymous(), &asked.body);
        assert_eq!(refused(&answer), (403, String::from("AccessDenied")), "{} {}", asked.method, asked.query);
    }
    assert_eq!(tags_of(&server, &path), ["a=1"]);
    server.stop();
}

#[test]
fn lists_of_access_by_name() {
    let server = Server::start();
    let (bucket, object) = (format!("/{BUCKET}"), format!("/{BUCKET}/listed"));
    assert_eq!(signed(&server, &Request::new("PUT", &object).body("x")).status, 200);
    let written = "<AccessControlPolicy><Owner><ID>a</ID></Owner><AccessControlList></AccessControlList></AccessControlPolicy>";
    for path in [&bucket, &object] {
        let acl = || Request::new("PUT", path).query("acl");
        for (asked, status, code) in [
            (acl().header("x-amz-acl", "private"), 200, ""),
            (acl().header("x-amz-acl", "bucket-owner-full-control"), 200, ""),
            (acl().header("x-amz-acl", "public-read"), 400, "AccessControlListNotSupported"),
            (acl().header("x-amz-acl", "nonsense"), 400, "InvalidArgument"),
            (acl().header("x-amz-grant-read", "id=\"a\""), 400, "AccessControlListNotSupported"),
            (acl().body(written), 400, "AccessControlListNotSupported"),
            (acl(), 400, "MissingSecurityHeader"),
        ] {
            assert_eq!(refused(&signed(&server, &asked)), (status, code.to_owned()), "{path}: {:?}", asked.headers);
        }
    }
    server.stop();
}
