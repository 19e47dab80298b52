//! Requests about parts of buckets and objects that are not here must not do something to the whole.

use crate::client::{Answer, request};
use crate::server::{BUCKET, Server};
use crate::signing::Request;

/// All that the S3 API knows, and one that it does not know yet.
const PARTS: [&str; 38] = [
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "annotation",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "session",
    "tagging",
    "torrent",
    "uploads",
    "versions",
    "website",
];
const OF_NEXT_YEAR: &str = "nextYearsConfiguration";

fn signed(server: &Server, asked: &Request) -> Answer {
    request(server.address(), &asked.signed().0, &asked.body)
}

#[test]
fn of_buckets() {
    let server = Server::start();
    assert_eq!(signed(&server, &Request::new("PUT", "/empty-bucket").query("x-id=CreateBucket")).status, 200);
    for part in PARTS.into_iter().chain([OF_NEXT_YEAR, "versioning"]) {
        let delete = Request::new("DELETE", "/empty-bucket").query(part);
        request(server.address(), &delete.signed().0, b"");
        let put = Request::new("PUT", "/no-such-bucket").query(part);
        request(server.address(), &put.signed().0, b"");
        assert_eq!(signed(&server, &Request::new("HEAD", "/empty-bucket")).status, 200, "DELETE ?{part}");
        assert_eq!(signed(&server, &Request::new("HEAD", "/no-such-bucket")).status, 404, "PUT ?{part}");
    }
    let delete = Request::new("DELETE", "/empty-bucket").query("metadataConfiguration");
    let answer = request(server.address(), &delete.signed().0, b"");
    assert_eq!((answer.status, answer.element("Code").as_deref()), (501, Some("NotImplemented")));
    let anonymous = request(server.address(), &delete.anonymous(), b"");
    assert_eq!(anonymous.status, 403);
    assert_eq!(signed(&server, &Request::new("DELETE", "/empty-bucket").query("x-id=DeleteBucket")).status, 204);
    let made = request(server.address(), &Request::new("PUT", "/empty-bucket").presigned(60), b"");
    assert_eq!(made.status, 200, "{}", made.text());
    let gone = request(server.address(), &Request::new("DELETE", "/empty-bucket").presigned(60), b"");
    assert_eq!(gone.status, 204, "{}", gone.text());
    server.stop();
}

#[test]
fn of_objects() {
    let server = Server::start();
    let path = format!("/{BUCKET}/whole");
    assert_eq!(signed(&server, &Request::new("PUT", &path).body("content")).status, 200);
    for part in PARTS {
        for asked in [Request::new("PUT", &path).body("of a part"), Request::new("DELETE", &path)] {
            let asked = asked.query(part);
            request(server.address(), &asked.signed().0, &asked.body);
            assert_eq!(signed(&server, &Request::new("GET", &path)).text(), "content", "{} ?{part}", asked.method);
        }
    }
    server.stop();
}
