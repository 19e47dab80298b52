//! Tags that are replaced while everything else of an object stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use format::attributes::Attributes;
use smallvec::smallvec;
use types::limits::{CHUNK_BYTES, MAX_SMALL_BYTES};

use super::Engine;
use super::random::content;
use super::support::{
    attributes, key, must_be, must_be_absent, named, open_upload, put, put_part, rich_attributes, stage, without_notes,
};
use crate::condition::Condition;
use crate::error::EngineError;
use crate::object::Content;

type Tags = Vec<(Bytes, Bytes)>;

fn tags(names: &[&'static str]) -> Tags {
    names.iter().map(|name| (Bytes::from_static(name.as_bytes()), Bytes::from_static(b"value"))).collect()
}

pub(super) async fn leave_the_rest(engine: Engine) {
    let rich = rich_attributes();
    engine.put(&key("small"), rich.clone(), smallvec![Bytes::from(content(1, 100))], Condition::None).await.expect("put");
    let staged = stage(&engine, &key("large"), None, content(2, 3 * CHUNK_BYTES + 1).into()).await.expect("stage");
    engine.commit(&key("large"), staged, rich.clone(), Condition::None).await.expect("commit");
    for name in ["small", "large"] {
        for given in [tags(&["a", "b"]), tags(&[]), tags(&["c"])] {
            let before = engine.info(&key(name)).await.expect("info");
            let committed = engine.set_tags(&key(name), given.clone()).await.expect("tags");
            assert_eq!((committed.etag, committed.modified_ms), (rich.etag, rich.modified_ms), "{name}");
            let info = engine.info(&key(name)).await.expect("info");
            assert!(before.order < info.order && info.order == committed.order, "{name}: a write of its own");
            assert_eq!(without_notes(info.attributes), Attributes { tags: given, ..rich.clone() }, "{name}");
        }
    }
    engine.put(&key("plain"), attributes(3), smallvec![Bytes::from(content(3, 10))], Condition::None).await.expect("put");
    put(&engine, "wide", 4, MAX_SMALL_BYTES).await;
    put(&engine, "long", 5, 2 * CHUNK_BYTES).await;
    for (name, number, length) in [("plain", 3, 10), ("wide", 4, MAX_SMALL_BYTES), ("long", 5, 2 * CHUNK_BYTES)] {
        engine.set_tags(&key(name), tags(&["a"])).await.expect("tags");
        must_be(&engine, &key(name), number, length).await;
    }
    let absent = engine.set_tags(&key("absent"), tags(&["a"])).await;
    assert!(matches!(absent, Err(EngineError::NotFound)), "{absent:?}");
    engine.delete(&key("plain"), Condition::None).await.expect("delete");
    let gone = engine.set_tags(&key("plain"), tags(&["a"])).await;
    assert!(matches!(gone, Err(EngineError::NotFound)), "{gone:?}");
    must_be_absent(&engine, &key("plain")).await;
}

pub(super) async fn leave_the_parts(engine: Engine) {
    let upload = open_upload(&engine, &key("joined"), 9).await;
    let lengths = [CHUNK_BYTES + 3, 2 * CHUNK_BYTES, 70];
    let mut parts = Vec::new();
    for (index, length) in lengths.into_iter().enumerate() {
        let number = index as u16 + 1;
        parts.push(put_part(&engine, &upload, number, u64::from(number), length).await.expect("a part"));
    }
    let checksums: Vec<_> = parts.iter().map(|part| part.attributes.checksum).collect();
    let parts: Vec<_> = parts.iter().map(named).collect();
    let completed = engine.complete(&upload, parts.clone(), attributes(9), Condition::None).await.expect("complete");
    engine.set_tags(&key("joined"), tags(&["a"])).await.expect("tags");
    let found = engine.open(&key("joined")).await.expect("open");
    assert_eq!(found.info.attributes.tags, tags(&["a"]));
    let Content::Chunked(reader) = found.content else { panic!("an object of parts is read by ranges") };
    let table = reader.parts().expect("the parts are still known");
    assert_eq!(table.count(), 3);
    let mut start = 0;
    for (index, length) in lengths.into_iter().enumerate() {
        let part = table.get(index as u16 + 1).expect("counted");
        assert_eq!((part.range, part.checksum), (start..start + length as u64, checksums[index]));
        start += length as u64;
    }
    let again = engine.complete(&upload, parts, attributes(9), Condition::None).await.expect("a retry");
    assert_eq!((again.etag, again.modified_ms), (completed.etag, completed.modified_ms));
    assert_eq!(engine.info(&key("joined")).await.expect("info").attributes.tags, tags(&["a"]), "a retry changes nothing");
}

/// Content that was replaced stays replaced, however tags race with it.
pub(super) async fn never_bring_content_back(engine: Engine) {
    const WRITES: u64 = 60;
    put(&engine, "contested", 0, 10).await;
    let (stop, set) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let tagger = {
        let (engine, stop, set) = (engine.clone(), stop.clone(), set.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::Acquire) {
                match engine.set_tags(&key("contested"), tags(&["a"])).await {
                    Ok(_) => {
                        set.fetch_add(1, Ordering::AcqRel);
                    }
                    Err(EngineError::Busy { .. }) => {}
                    Err(error) => panic!("tags: {error}"),
                }
                tokio::task::yield_now().await;
            }
        })
    };
    // On a busy machine the writes may be through before the tagger has its first turn.
    while set.load(Ordering::Acquire) == 0 && !tagger.is_finished() {
        tokio::task::yield_now().await;
    }
    for number in 1..=WRITES {
        let length = if number % 4 == 0 { MAX_SMALL_BYTES + 10 } else { 10 };
        put(&engine, "contested", number, length).await;
        must_be(&engine, &key("contested"), number, length).await;
        tokio::task::yield_now().await;
    }
    stop.store(true, Ordering::Release);
    tagger.await.expect("the tagger ends");
    engine.set_tags(&key("contested"), tags(&["b"])).await.expect("tags");
    must_be(&engine, &key("contested"), WRITES, MAX_SMALL_BYTES + 10).await;
}
