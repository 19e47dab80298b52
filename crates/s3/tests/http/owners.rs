//! Requests that are meant for one owner's bucket.

use crate::client::{Answer, request};
use crate::server::{BUCKET, Server};
use crate::signing::Request;

fn signed(server: &Server, asked: &Request) -> Answer {
    request(server.address(), &asked.signed().0, &asked.body)
}

#[test]
fn the_owner_that_is_expected() {
    let server = Server::start();
    let path = format!("/{BUCKET}/owned");
    assert_eq!(signed(&server, &Request::new("PUT", &path).body("x")).status, 200);
    assert_eq!(signed(&server, &Request::new("PUT", "/owned-bucket")).status, 200);
    let list = signed(&server, &Request::new("GET", "/"));
    let (id, name) = (list.element("ID").expect("an id"), list.element("DisplayName").expect("a name"));
    let asked = |owner: &str| {
        let delete = "<Delete><Object><Key>owned</Key></Object></Delete>";
        [
            Request::new("GET", &path),
            Request::new("GET", &format!("/{BUCKET}")).query("list-type=2"),
            Request::new("GET", &path).query("tagging"),
            Request::new("PUT", &format!("/{BUCKET}/other")).body("y"),
            Request::new("PUT", &format!("/{BUCKET}/copy")).header("x-amz-copy-source", &path),
            Request::new("POST", &format!("/{BUCKET}")).query("delete").body(delete),
            Request::new("DELETE", &path),
            Request::new("DELETE", "/owned-bucket"),
        ]
        .map(|request| request.header("x-amz-expected-bucket-owner", owner))
    };
    for sent in asked("123456789012") {
        let answer = signed(&server, &sent);
        assert_eq!((answer.status, answer.element("Code").as_deref()), (403, Some("AccessDenied")), "{sent:?}");
    }
    let from = |owner: &str| {
        let copy = Request::new("PUT", &format!("/{BUCKET}/copy")).header("x-amz-copy-source", &path);
        signed(&server, &copy.header("x-amz-source-expected-bucket-owner", owner)).status
    };
    assert_eq!((from("123456789012"), from(&id)), (403, 200));
    assert_eq!(signed(&server, &asked(&name)[0]).text(), "x", "by name");
    for request in asked(&id) {
        let answer = signed(&server, &request);
        assert!(answer.status < 300, "{request:?}: {}", answer.text());
    }
    server.stop();
}
