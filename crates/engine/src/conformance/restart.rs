//! What a restart must keep: everything that was acknowledged, and nothing else.

use std::sync::Arc;

use types::limits::CHUNK_BYTES;

use super::Engine;
use super::support::{attributes, key, list, must_be, must_be_absent, named, names, open_upload, put, put_as, put_part, tag};
use crate::condition::{Condition, ETagMatch};
use crate::traits::ObjectEngine;

pub(super) async fn keeps_what_was_acknowledged<E, R>(mut subject: Arc<E>, restart: &R)
where
    E: ObjectEngine,
    R: AsyncFn(Arc<E>) -> Arc<E>,
{
    let engine: Engine = subject.clone();
    put(&engine, "small", 1, 4096).await;
    put(&engine, "large", 2, 2 * CHUNK_BYTES + 17).await;
    put(&engine, "overwritten", 3, CHUNK_BYTES + 1).await;
    put(&engine, "overwritten", 4, 12).await;
    put(&engine, "deleted", 5, 99).await;
    engine.delete(&key("deleted"), Condition::None).await.expect("delete");
    let upload = open_upload(&engine, &key("upload"), 6).await;
    let first = put_part(&engine, &upload, 1, 7, 30).await.expect("put_part");
    let second = put_part(&engine, &upload, 2, 8, CHUNK_BYTES + 5).await.expect("put_part");
    let done = open_upload(&engine, &key("done"), 9).await;
    let only = put_part(&engine, &done, 1, 10, CHUNK_BYTES).await.expect("put_part");
    let outcome = engine.complete(&done, vec![named(&only)], attributes(10), Condition::None).await.expect("complete");
    let aborted = open_upload(&engine, &key("aborted"), 11).await;
    put_part(&engine, &aborted, 1, 12, 30).await.expect("put_part");
    engine.abort(&aborted).await.expect("abort");

    drop(engine);
    for _ in 0..2 {
        subject = restart(subject).await;
        let engine: Engine = subject.clone();
        must_be(&engine, &key("small"), 1, 4096).await;
        must_be(&engine, &key("large"), 2, 2 * CHUNK_BYTES + 17).await;
        must_be(&engine, &key("overwritten"), 4, 12).await;
        must_be_absent(&engine, &key("deleted")).await;
        must_be_absent(&engine, &key("upload")).await;
        must_be(&engine, &key("done"), 10, CHUNK_BYTES).await;
        assert_eq!(names(&list(&engine, "", "", "", 10).await), ["done", "large", "overwritten", "small"]);
        let parts = engine.parts(&upload, 0, 10).await.expect("the upload is still open");
        let shown: Vec<_> = parts.iter().map(|part| (part.number, part.length, part.attributes.etag)).collect();
        assert_eq!(shown, [(1, 30, tag(7)), (2, CHUNK_BYTES as u64 + 5, tag(8))]);
        assert!(engine.abort(&aborted).await.is_err(), "an aborted upload stays ended");
    }

    let engine: Engine = subject.clone();
    let retried = engine.complete(&done, vec![named(&only)], attributes(13), Condition::None).await;
    assert_eq!(retried.expect("a retry is answered"), outcome);
    let stale = put_as(&engine, &key("small"), 20, 10, Condition::Match(ETagMatch::OneOf(vec![tag(9)]))).await;
    assert!(stale.is_err(), "conditions see what was there before: {stale:?}");
    let swapped = put_as(&engine, &key("small"), 20, 10, Condition::Match(ETagMatch::OneOf(vec![tag(1)]))).await;
    swapped.expect("the tag from before the restart matches");
    let parts = vec![named(&first), named(&second)];
    let joined = engine.complete(&upload, parts, attributes(21), Condition::Absent).await.expect("parts keep their orders");
    drop(engine);
    let engine: Engine = restart(subject).await;
    must_be(&engine, &key("small"), 20, 10).await;
    let info = engine.info(&key("upload")).await.expect("info");
    assert_eq!((info.length, info.order, info.attributes.etag), (CHUNK_BYTES as u64 + 35, joined.order, tag(21)));
}
