//! Cells of several gateways over the same targets: writes, reads and lists at any of them, views that change, gateways that die.

use super::cell_rig::CellRig;
use super::gate::Rule;
use super::support::{BUCKET, attributes, key, read_all, simulate};
use bytes::Bytes;
use engine::conformance::run_all;
use engine::{CompletePart, Condition, EngineError, ListItem, ListQuery, ObjectEngine, PartContent, UploadRef};
use smallvec::smallvec;
use std::sync::Arc;
use std::time::Duration;

async fn put(store: &dyn ObjectEngine, name: &str, content: &[u8]) -> Result<(), EngineError> {
    let payload = std::iter::once(Bytes::copy_from_slice(content)).collect();
    store.put(&key(name), attributes(content), payload, Condition::None).await.map(|_| ())
}

pub async fn get(store: &dyn ObjectEngine, name: &str) -> Option<Bytes> {
    match store.open(&key(name)).await {
        Ok(found) => Some(match found.content {
            engine::Content::Whole(bytes) => bytes,
            engine::Content::Chunked(_) => panic!("small objects only"),
        }),
        Err(EngineError::NotFound) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// What a gateway lists.
pub async fn names(store: &dyn ObjectEngine) -> Vec<String> {
    let query =
        ListQuery { bucket: BUCKET, prefix: Bytes::new(), start_after: Bytes::new(), delimiter: Bytes::new(), max_items: 1000 };
    let page = store.list(&query).await.unwrap();
    let name = |item: ListItem| match item {
        ListItem::Object(object) => String::from_utf8(object.key.to_vec()).unwrap(),
        ListItem::Prefix(prefix) => panic!("no delimiter was given: {prefix:?}"),
    };
    page.items.into_iter().map(name).collect()
}

#[test]
fn what_one_gateway_acknowledges_every_gateway_reads_and_lists() {
    simulate(async {
        let rig = CellRig::new(1, 3).await;
        let gateways = rig.gateways();
        for round in 0..30usize {
            let (writer, reader) = (&gateways[round % 3], &gateways[(round + 1) % 3]);
            let name = format!("key-{}", round % 7);
            let content = format!("content {round}");
            put(writer, &name, content.as_bytes()).await.unwrap();
            assert_eq!(get(reader, &name).await.as_deref(), Some(content.as_bytes()), "round {round}");
            assert!(names(reader).await.contains(&name), "round {round}");
        }
        gateways[1].delete(&key("key-3"), Condition::None).await.unwrap();
        assert_eq!(get(&gateways[2], "key-3").await, None);
        assert_eq!(names(&gateways[0]).await.len(), 6);
    });
}

#[test]
fn of_conditional_writes_at_two_gateways_one_wins() {
    simulate(async {
        let rig = CellRig::new(2, 3).await;
        let gateways = rig.gateways();
        for round in 0..20 {
            let name = format!("key-{round}");
            let at = |gateway: usize| {
                let (store, name) = (gateways[gateway].clone(), key(&name));
                async move {
                    let content = Bytes::from(vec![gateway as u8; 10]);
                    let payload = std::iter::once(content.clone()).collect();
                    store.put(&name, attributes(&content), payload, Condition::Absent).await
                }
            };
            let outcomes = tokio::join!(at(0), at(1), at(2));
            let outcomes = [outcomes.0, outcomes.1, outcomes.2];
            let won: Vec<usize> = (0..3).filter(|gateway| outcomes[*gateway].is_ok()).collect();
            assert_eq!(won.len(), 1, "round {round}: {outcomes:?}");
            for gateway in &gateways {
                assert_eq!(get(gateway, &name).await.as_deref(), Some(&vec![won[0] as u8; 10][..]));
            }
        }
    });
}

#[test]
fn a_cell_of_three_gateways_conforms() {
    simulate(async {
        run_all(async || Arc::new(CellRig::prompt(3, 3).await.round_robin())).await;
    });
}

#[test]
fn a_gateway_that_dies_loses_nothing_that_it_acknowledged() {
    simulate(async {
        let rig = CellRig::new(4, 3).await;
        let gateways = rig.gateways();
        for index in 0..40usize {
            put(&gateways[index % 3], &format!("key-{index}"), format!("content {index}").as_bytes()).await.unwrap();
        }
        // The others have not heard how its last writes ended.
        rig.cut(gateways[2].clone());
        let late = gateways[2].clone();
        let unheard = rig.env.spawn(async move { put(&late, "key-late", b"late").await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        rig.kill(&gateways[2]);
        drop(unheard);
        rig.remove(&[2]).await;
        for index in 0..40usize {
            let expected = format!("content {index}");
            for gateway in &gateways[..2] {
                assert_eq!(get(gateway, &format!("key-{index}")).await.as_deref(), Some(expected.as_bytes()), "key-{index}");
            }
        }
        // A write that nobody acknowledged is there for all or for none.
        let late = (get(&gateways[0], "key-late").await, get(&gateways[1], "key-late").await);
        assert_eq!(late.0, late.1);
        put(&gateways[0], "key-after", b"after").await.unwrap();
        assert_eq!(get(&gateways[1], "key-after").await.as_deref(), Some(&b"after"[..]));
        // It comes back as another incarnation and knows everything.
        let back = rig.join().await;
        for index in 0..40usize {
            let expected = format!("content {index}");
            assert_eq!(get(&back, &format!("key-{index}")).await.as_deref(), Some(expected.as_bytes()), "key-{index}");
        }
        assert_eq!(names(&back).await, names(&gateways[0]).await);
    });
}

#[test]
fn a_gateway_without_a_lease_answers_nothing() {
    simulate(async {
        let rig = CellRig::new(5, 3).await;
        let gateways = rig.gateways();
        put(&gateways[0], "key", b"old").await.unwrap();
        rig.lend_for(Duration::ZERO);
        tokio::time::sleep(Duration::from_secs(7200)).await;
        let refused = gateways[1].open(&key("key")).await;
        assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{:?}", refused.map(|found| found.info));
        rig.lend_for(Duration::from_secs(3600));
        assert_eq!(get(&gateways[1], "key").await.as_deref(), Some(&b"old"[..]));
    });
}

/// Who still reached each other, and devices that could not be fenced, acknowledged writes beside a cell that was founded anew without them: the new one's
/// write of the key, acknowledged before, won.
#[test]
fn a_gateway_cut_off_from_the_manager_acknowledges_writes_for_a_while_and_then_none() {
    simulate(async {
        let rig = CellRig::new(5, 3).await;
        let gateways = rig.gateways();
        rig.lend_for(Duration::ZERO);
        // The lease is that of the rig's start.
        tokio::time::sleep(Duration::from_secs(3602)).await;
        put(&gateways[0], "key", b"a moment after the lease").await.unwrap();
        // One is on its way when that is over.
        rig.gates.set(&gateways[0], types::DeviceId(1), Some(Rule::Mute));
        let writer = gateways[0].clone();
        let late = rig.env.spawn(async move { put(&writer, "late", b"late").await });
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(!late.is_finished());
        tokio::time::sleep(Duration::from_secs(4)).await;
        rig.gates.set(&gateways[0], types::DeviceId(1), None);
        rig.gates.land(gateways[0].inner.me).await;
        let is_refused = |outcome: Result<(), EngineError>| matches!(outcome, Err(EngineError::Unavailable { .. }));
        assert!(is_refused(late.await.unwrap()));
        assert!(is_refused(put(&gateways[0], "key", b"too late").await));
        assert!(is_refused(gateways[0].delete(&key("key"), Condition::None).await));
        rig.lend_for(Duration::from_secs(3600));
        put(&gateways[0], "key", b"new").await.unwrap();
        assert_eq!(get(&gateways[1], "late").await.as_deref(), Some(&b"late"[..]), "it was refused, and stands");
    });
}

/// Its object is made when the answer may not leave any more. Caught: a Complete that ended with that, and left its upload open. The same call, made again as
/// clients do, replaced what had been written since.
#[test]
fn a_complete_whose_answer_may_not_leave_ends_its_upload() {
    simulate(async {
        let rig = CellRig::new(6, 3).await;
        let gateways = rig.gateways();
        let upload = gateways[0].create_upload(&key("key"), Default::default()).await.unwrap();
        let upload = UploadRef { key: key("key"), upload };
        let content = PartContent::Whole(smallvec![Bytes::from_static(b"a part")]);
        let part = gateways[0].put_part(&upload, 1, Default::default(), content).await.unwrap();
        let parts = vec![CompletePart { number: 1, order: part.order }];
        rig.lend_for(Duration::ZERO);
        tokio::time::sleep(Duration::from_secs(3598)).await;
        rig.gates.set(&gateways[0], types::DeviceId(1), Some(Rule::Mute));
        let completing = rig.env.spawn({
            let (gateway, upload, parts) = (gateways[0].clone(), upload.clone(), parts.clone());
            async move { gateway.complete(&upload, parts, attributes(b"a part"), Condition::None).await }
        });
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(!completing.is_finished());
        rig.gates.set(&gateways[0], types::DeviceId(1), None);
        rig.gates.land(gateways[0].inner.me).await;
        let outcome = completing.await.unwrap();
        assert!(matches!(outcome, Err(EngineError::Unavailable { .. })), "{outcome:?}");
        rig.lend_for(Duration::from_secs(3600));
        put(&gateways[1], "key", b"newer").await.unwrap();
        gateways[1].complete(&upload, parts, attributes(b"a part"), Condition::None).await.unwrap();
        assert_eq!(get(&gateways[1], "key").await.as_deref(), Some(&b"newer"[..]));
        let parts = gateways[1].parts(&upload, 0, 10).await;
        assert!(matches!(parts, Err(EngineError::NoSuchUpload)), "{parts:?}");
    });
}

/// A device is away for longer than the others have room: it has zones in which nothing is live, and can't be asked to reset them. Caught: a cycle
/// of collection that ends with the first device that does not answer.
#[test]
fn collection_goes_on_while_a_device_is_away() {
    simulate(async {
        let rig = CellRig::with_zones(8, 3, 16, 256 * 1024).await;
        let gateways = rig.gateways();
        let content = |index: usize| vec![index as u8; 8 * 1024];
        for index in 0..1200usize {
            if index == 300 {
                gateways.iter().for_each(|gateway| rig.gates.set(gateway, types::DeviceId(1), Some(Rule::Away)));
                rig.write_to(&[2, 3]).await;
            }
            put(&gateways[index % 3], &format!("key-{}", index % 50), &content(index)).await.unwrap();
        }
        gateways.iter().for_each(|gateway| rig.gates.set(gateway, types::DeviceId(1), None));
        for at in 1150..1200usize {
            assert_eq!(get(&gateways[at % 3], &format!("key-{}", at % 50)).await.as_deref(), Some(&content(at)[..]));
        }
    });
}

#[test]
fn checkpoints_and_collection_run_beside_writes_at_all_gateways() {
    simulate(async {
        let rig = CellRig::with_zones(6, 3, 16, 256 * 1024).await;
        let gateways = rig.gateways();
        let content = |index: usize| vec![index as u8; 8 * 1024];
        for index in 0..1500usize {
            put(&gateways[index % 3], &format!("key-{}", index % 50), &content(index)).await.unwrap();
            if index % 100 == 99 {
                for at in (index - 49)..=index {
                    let got = get(&gateways[(at + 1) % 3], &format!("key-{}", at % 50)).await;
                    assert_eq!(got.as_deref(), Some(&content(at)[..]), "key-{} after {index}", at % 50);
                }
            }
        }
        let collected: u64 = gateways.iter().map(|gateway| gateway.stats().collected_zones.get()).sum();
        assert!(collected > 10, "{collected} zones were collected");
        assert!(gateways[0].stats().checkpoints.get() > 2);
        assert_eq!(names(&gateways[2]).await.len(), 50);
        // All of it again after every process has died.
        let restarted = rig.restart_all().await;
        for at in 1450..1500usize {
            assert_eq!(get(&restarted, &format!("key-{}", at % 50)).await.as_deref(), Some(&content(at)[..]));
        }
    });
}

#[test]
fn what_was_written_to_fewer_devices_gets_its_copies_when_there_are_more() {
    simulate(async {
        let rig = CellRig::new(8, 3).await;
        let gateways = rig.gateways();
        rig.write_to(&[1, 2]).await;
        let large = vec![7u8; 3 * 1024 * 1024];
        for index in 0..20usize {
            put(&gateways[index % 3], &format!("key-{index}"), &[index as u8; 300]).await.unwrap();
        }
        let mut staged = gateways[1].stage(&key("large"), None);
        for chunk in large.chunks(1024 * 1024) {
            gateways[1].stage_chunk(&mut staged, Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        gateways[1].commit(&key("large"), staged, attributes(b"large"), Condition::None).await.unwrap();
        let copies = |gateway: &crate::LogStore, name: &str| {
            let hash = crate::LogStore::object_hash(&key(name));
            gateway.inner.shard(&hash).lock().index().newest(&hash).unwrap().places.len()
        };
        assert_eq!(copies(&gateways[2], "key-7"), 2);
        rig.write_to(&[1, 2, 3]).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        for gateway in &gateways {
            for index in 0..20 {
                assert_eq!(copies(gateway, &format!("key-{index}")), 3, "key-{index}");
            }
            assert_eq!(copies(gateway, "large"), 3);
        }
        // Any two devices may go now.
        rig.write_to(&[3]).await;
        rig.lose(&[1, 2]);
        let found = gateways[0].open(&key("large")).await.unwrap();
        let engine::Content::Chunked(reader) = found.content else { panic!("three chunks are not read at once") };
        assert!(read_all(&*reader, large.len()).await == large, "the large object is whole on device 3");
        assert_eq!(get(&gateways[1], "key-7").await.as_deref(), Some(&[7u8; 300][..]));
    });
}

#[test]
fn a_lists_condition_is_its_newest_etag() {
    simulate(async {
        let rig = CellRig::new(7, 3).await;
        let gateways = rig.gateways();
        put(&gateways[0], "key", b"one").await.unwrap();
        let etag = attributes(b"one").etag;
        let payload = || std::iter::once(Bytes::from_static(b"two")).collect();
        let swap = |store: &crate::LogStore| {
            let store = store.clone();
            async move {
                store
                    .put(&key("key"), attributes(b"two"), payload(), Condition::Match(engine::ETagMatch::OneOf(vec![etag])))
                    .await
            }
        };
        swap(&gateways[1]).await.unwrap();
        assert!(matches!(swap(&gateways[2]).await, Err(EngineError::PreconditionFailed)));
    });
}

/// What a gateway that has left its cell knew must not stay in memory beside what its next incarnation knows.
#[test]
fn a_gateway_that_has_left_is_forgotten() {
    simulate(async {
        let rig = CellRig::new(9, 3).await;
        for round in 0..30usize {
            put(&rig.gateways()[round % 3], &format!("key-{round}"), b"content").await.unwrap();
        }
        let leaving = rig.gateways().remove(2);
        let engine = Arc::downgrade(&leaving.inner);
        rig.kill(&leaving);
        drop(leaving);
        rig.remove(&[2]).await;
        rig.env.sleep(Duration::from_secs(30)).await;
        assert_eq!(engine.strong_count(), 0);
    });
}
