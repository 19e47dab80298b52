//! Copies whose sources change meanwhile, or can't be read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use format::attributes::Attributes;

use crate::client::request;
use crate::full::SmallEngine;
use crate::server::{BUCKET, Server};
use crate::signing::Request;

#[test]
fn a_copy_is_of_one_version() {
    let engine = Arc::new(SmallEngine::new(1_000));
    let server = Server::start_over(engine.clone());
    let signed = |asked: &Request| request(server.address(), &asked.signed().0, &asked.body);
    for directive in ["x-amz-tagging-directive", "x-amz-metadata-directive"] {
        let first = Request::new("PUT", &format!("/{BUCKET}/source"))
            .header("content-type", "text/first")
            .header("x-amz-tagging", "version=first")
            .body("first");
        assert_eq!(signed(&first).status, 200);
        let second = Attributes {
            content_type: Some(Bytes::from_static(b"text/second")),
            tags: vec![(Bytes::from_static(b"version"), Bytes::from_static(b"second"))],
            ..Attributes::default()
        };
        *engine.overtaken.lock() = Some(("source", second, std::iter::once(Bytes::from_static(b"second")).collect()));
        let copy = Request::new("PUT", &format!("/{BUCKET}/copy"))
            .header("x-amz-copy-source", &format!("/{BUCKET}/source"))
            .header("content-type", "text/given")
            .header("x-amz-tagging", "version=given")
            .header(directive, "REPLACE");
        let copied = signed(&copy);
        assert_eq!(copied.status, 200, "{}", copied.text());
        let get = signed(&Request::new("GET", &format!("/{BUCKET}/copy")));
        let tags = signed(&Request::new("GET", &format!("/{BUCKET}/copy")).query("tagging"));
        let version = get.text();
        let (kind, tag) = (format!("text/{version}"), tags.element("Value").expect("a tag"));
        let expected = match directive {
            "x-amz-tagging-directive" => (kind.as_str(), "given"),
            _ => ("text/given", version.as_str()),
        };
        assert_eq!((get.header("content-type").expect("a type"), tag.as_str()), expected, "{directive}, bytes of {version}");
    }
    server.stop();
}

#[test]
fn class_and_redirect_are_the_copys_own() {
    let server = Server::start();
    let signed = |asked: &Request| request(server.address(), &asked.signed().0, &asked.body);
    let source = Request::new("PUT", &format!("/{BUCKET}/classed"))
        .header("x-amz-meta-kept", "yes")
        .header("x-amz-storage-class", "GLACIER")
        .header("x-amz-website-redirect-location", "/elsewhere")
        .body("x");
    assert_eq!(signed(&source).status, 200);
    let copied = |key: &str, class: Option<&str>| {
        let copy = Request::new("PUT", &format!("/{BUCKET}/{key}")).header("x-amz-copy-source", &source.path);
        let copy = match class {
            None => copy,
            Some(class) => copy.header("x-amz-storage-class", class),
        };
        let answer = signed(&copy);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let head = signed(&Request::new("HEAD", &copy.path));
        assert_eq!((head.header("x-amz-meta-kept"), head.header("x-amz-website-redirect-location")), (Some("yes"), None));
        head.header("x-amz-storage-class").map(str::to_owned)
    };
    assert_eq!(copied("copy", None), None, "STANDARD");
    assert_eq!(copied("copy", Some("STANDARD_IA")).as_deref(), Some("STANDARD_IA"));
    assert_eq!(copied("classed", Some("ONEZONE_IA")).as_deref(), Some("ONEZONE_IA"), "onto itself");
    server.stop();
}

/// Its copies are away. Caught: an answer that tells clients, and operators, of an error of ours.
#[test]
fn a_copy_of_what_cant_be_read_now_may_be_tried_again() {
    let engine = Arc::new(SmallEngine::new(1_000));
    let server = Server::start_over(engine.clone());
    let signed = |asked: &Request| request(server.address(), &asked.signed().0, &asked.body);
    let source = format!("/{BUCKET}/source");
    assert_eq!(signed(&Request::new("PUT", &source).body("content")).status, 200);
    let path = format!("/{BUCKET}/joined");
    let upload = signed(&Request::new("POST", &path).query("uploads")).element("UploadId").expect("an id");
    engine.is_away.store(true, Ordering::Relaxed);
    for asked in [
        Request::new("PUT", &format!("/{BUCKET}/copy")),
        Request::new("PUT", &path).query(&format!("partNumber=1&uploadId={upload}")),
    ] {
        let answer = signed(&asked.header("x-amz-copy-source", &source));
        assert_eq!((answer.status, answer.element("Code").as_deref()), (503, Some("ServiceUnavailable")));
    }
    server.stop();
}
