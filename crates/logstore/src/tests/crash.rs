use super::support::{BUCKET, Rig, attributes, key};
use bytes::Bytes;
use engine::{Condition, Content, ListItem, ListQuery, ObjectEngine};
use smallvec::smallvec;

async fn put(store: &crate::LogStore, name: &str, content: &[u8]) {
    let payload = smallvec![Bytes::copy_from_slice(content)];
    store.put(&key(name), attributes(content), payload, Condition::None).await.unwrap();
}

async fn get(store: &crate::LogStore, name: &str) -> Option<Bytes> {
    match store.open(&key(name)).await {
        Ok(found) => match found.content {
            Content::Whole(bytes) => Some(bytes),
            Content::Chunked(_) => panic!("small objects are whole"),
        },
        Err(engine::EngineError::NotFound) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_crash() {
    let mut rig = Rig::new(5, 3, 32, 1024 * 1024).await;
    let store = rig.open().await;
    for round in 0..300u32 {
        put(&store, &format!("key-{}", round % 50), &round.to_le_bytes()).await;
    }
    store.delete(&key("key-7"), Condition::None).await.unwrap();
    drop(store);
    rig.crash();
    let store = rig.open().await;
    for index in 0..50u32 {
        let expected = (index != 7).then(|| Bytes::copy_from_slice(&(250 + index).to_le_bytes()));
        assert_eq!(get(&store, &format!("key-{index}")).await, expected, "key-{index}");
    }
    let query =
        ListQuery { bucket: BUCKET, prefix: Bytes::new(), start_after: Bytes::new(), delimiter: Bytes::new(), max_items: 1000 };
    let page = store.list(&query).await.unwrap();
    assert_eq!(page.items.len(), 49);
    assert!(page.items.iter().all(|item| matches!(item, ListItem::Object(_))));
}

#[tokio::test]
async fn a_request_that_leaves_as_its_turn_comes_holds_nobody_up() {
    let rig = Rig::new(6, 1, 32, 1024 * 1024).await;
    let store = rig.open().await;
    let draft = crate::LogStore::object_draft(&key("key"), &attributes(b"never"));
    let op = crate::write::WriteOp::new(&store.inner, draft, true);
    let hash = key_hash("key");
    let mut out = crate::machine::Outputs::new();
    let view = {
        let mut keys = store.inner.shard(&hash).lock();
        keys.request(hash, crate::gateway::Op::Write(op.clone()), true, &mut out).unwrap();
        keys.view()
    };
    // The turn is granted; before its thread says so, the request goes away.
    op.withdraw(engine::EngineError::Unavailable { reason: "gone".to_owned() });
    store.inner.perform(out, view);
    put(&store, "key", b"next").await;
    assert_eq!(get(&store, "key").await.as_deref(), Some(&b"next"[..]));
}

fn key_hash(name: &str) -> types::KeyHash {
    crate::LogStore::object_hash(&key(name))
}
