//! What requests leave in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::client::request;
use crate::full::SmallEngine;
use crate::server::{BUCKET, PUBLIC, Server};
use crate::signing::Request;

static OF_LIBRARY: AtomicUsize = AtomicUsize::new(0);
static OURS: AtomicUsize = AtomicUsize::new(0);

/// Counts events by who tells them.
struct Counting;

impl Subscriber for Counting {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let target = event.metadata().target();
        if target.starts_with("s3s") {
            OF_LIBRARY.fetch_add(1, Ordering::Relaxed);
        } else if target == "s3::translate" {
            OURS.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The library tells of whole documents that it can't read, and anybody may send one.
#[test]
fn the_library_is_silent_and_our_own_code_is_not() {
    tracing::subscriber::set_global_default(Counting).expect("the only one of this program");
    let engine = Arc::new(SmallEngine::new(1_000));
    let server = Server::start_over(engine.clone());
    let malformed = Request::new("POST", &format!("/{PUBLIC}")).query("delete").body("no XML");
    assert_eq!(request(server.address(), &malformed.anonymous(), &malformed.body).status, 400);
    let put = Request::new("PUT", &format!("/{BUCKET}/key")).body("x");
    assert_eq!(request(server.address(), &put.signed().0, &put.body).status, 200);
    engine.is_broken.store(true, Ordering::Relaxed);
    for (way, asked) in [
        ("an operation", Request::new("GET", &format!("/{BUCKET}/key")).query("tagging")),
        ("a direct operation", Request::new("HEAD", &format!("/{BUCKET}/key"))),
    ] {
        let before = OURS.load(Ordering::Relaxed);
        assert_eq!(request(server.address(), &asked.signed().0, b"").status, 500, "{way}");
        assert!(OURS.load(Ordering::Relaxed) > before, "{way}");
    }
    assert_eq!(OF_LIBRARY.load(Ordering::Relaxed), 0);
    server.stop();
}
