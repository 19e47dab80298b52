//! Chunks of clients that give up: they count as live for as long as somebody may name them, and no longer.

use super::history::whole;
use super::support::{Rig, key, settle, simulate};
use super::trees::{counted, named};
use crate::LogStore;
use bytes::Bytes;
use disk::{Fault, FaultRule, Operation};
use engine::{CompletePart, Condition, ETagMatch, EngineError, ObjectEngine, PartContent, StagedChunks, UploadRef};
use format::attributes::{Attributes, ETag};
use smallvec::smallvec;
use std::time::Duration;

const ZONE_BYTES: u64 = 128 * 1024;
const CHUNK: usize = 1000;
/// Enough for whatever waits for nothing.
const MOMENT: Duration = Duration::from_millis(1);

/// A store whose trees have several levels, and whose background stands still. Its zones are open.
async fn store(devices: u32) -> (Rig, LogStore) {
    let mut rig = Rig::new(1, devices, 40, ZONE_BYTES).await;
    rig.config.refs_per_list = 3;
    rig.config.collect_below_free_percent = 100;
    let store = rig.open().await;
    store.inner.background.stop().await;
    for index in 0..20 {
        store.put(&key(&format!("small {index}")), Attributes::default(), smallvec![], Condition::None).await.unwrap();
    }
    (rig, store)
}

async fn stage(store: &LogStore, name: &str, chunks: usize) -> StagedChunks {
    let mut staged = store.stage(&key(name), None);
    for _ in 0..chunks {
        store.stage_chunk(&mut staged, Bytes::from(vec![7; CHUNK])).await.unwrap();
    }
    staged
}

/// What no client can ever meet.
fn unmet() -> Condition {
    Condition::Match(ETagMatch::OneOf(vec![ETag::Md5([9; 16])]))
}

#[test]
fn chunks_that_were_given_up_count_no_longer() {
    simulate(async {
        for devices in [1, 3] {
            let (rig, store) = store(devices).await;
            for chunks in [1, 10] {
                let staged = stage(&store, "large", chunks).await;
                settle().await;
                assert!(!counted(&store).is_empty(), "somebody may name them");
                drop(staged);
                assert_eq!(counted(&store), named(&store).await, "{chunks} chunks");
            }
            // On its way when its client goes.
            rig.disks[0].add_rule(FaultRule { times: 3, ..FaultRule::next(Operation::Write, Fault::Hold) });
            drop(stage(&store, "large", 3).await);
            rig.disks[0].release();
            settle().await;
            assert_eq!(counted(&store), named(&store).await);
        }
    });
}

#[test]
fn chunks_of_a_write_that_was_refused_count_no_longer() {
    simulate(async {
        let (_rig, store) = store(3).await;
        let staged = stage(&store, "large", 10).await;
        let refused = store.commit(&key("large"), staged, Attributes::default(), unmet()).await;
        assert!(matches!(refused, Err(EngineError::NotFound | EngineError::PreconditionFailed)), "{refused:?}");
        assert_eq!(counted(&store), named(&store).await, "nodes too");

        // A small part gets a chunk of its own when its upload is completed.
        let upload = store.create_upload(&key("joined"), Attributes::default()).await.unwrap();
        let upload = UploadRef { key: key("joined"), upload };
        let content = PartContent::Whole(smallvec![Bytes::from(vec![7; CHUNK])]);
        let part = store.put_part(&upload, 1, Attributes::default(), content).await.unwrap();
        let parts = vec![CompletePart { number: 1, order: part.order }];
        let missing = vec![parts[0], CompletePart { number: 2, order: part.order }];
        store.complete(&upload, missing, Attributes::default(), Condition::None).await.unwrap_err();
        assert_eq!(counted(&store), named(&store).await, "a part is missing");
        store.complete(&upload, parts.clone(), Attributes::default(), unmet()).await.unwrap_err();
        assert_eq!(counted(&store), named(&store).await, "the condition is false");
        store.complete(&upload, parts, Attributes::default(), Condition::None).await.unwrap();
        assert_eq!(counted(&store), named(&store).await);
        assert!(!counted(&store).is_empty());
    });
}

/// Nodes between the record and ten chunks, which are written one after the other before it.
const NODES: u64 = 6;

/// The client goes away while a write is on its way: that of the last node, and that of the record.
#[test]
fn chunks_count_as_long_as_a_record_may_name_them() {
    simulate(async {
        let (rig, store) = store(1).await;
        let name = key("large");
        for skip in [NODES - 1, NODES] {
            let staged = stage(&store, "large", 10).await;
            settle().await;
            rig.disks[0].add_rule(FaultRule { skip, ..FaultRule::next(Operation::Write, Fault::Hold) });
            let mut commit = store.commit(&name, staged, Attributes::default(), Condition::None);
            tokio::time::timeout(MOMENT, &mut commit).await.unwrap_err();
            drop(commit);
            settle().await;
            assert_eq!(!counted(&store).is_empty(), skip == NODES, "whether its record is on its way");
            rig.disks[0].release();
            settle().await;
            assert_eq!(counted(&store), named(&store).await);
        }
        let found = store.open(&name).await.unwrap();
        assert_eq!(whole(found.content, found.info.length).await.unwrap().len(), 10 * CHUNK);

        // Whether the record of another one stands nobody knows.
        let staged = stage(&store, "other", 1).await;
        settle().await;
        let before = counted(&store);
        rig.disks[0].add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        let failed = store.commit(&key("other"), staged, Attributes::default(), Condition::None).await;
        assert!(matches!(failed, Err(EngineError::Unavailable { .. })), "{failed:?}");
        assert_eq!(counted(&store), before);
    });
}

/// Caught: an epoch that never ends, and every checkpoint after it.
#[test]
fn a_relocation_that_is_given_up_leaves_its_epoch() {
    simulate(async {
        let (rig, store) = store(1).await;
        let hash = LogStore::object_hash(&key("small 7"));
        let located = store.inner.locate(&hash).await.unwrap();
        let frame = store.inner.read_loose(&located.places, located.frame_bytes).await.unwrap();
        rig.disks[0].add_rule(FaultRule::next(Operation::Write, Fault::Hold));
        let moving = store.inner.move_copy(frame.record, frame.payload, located.places.primary(), &hash);
        tokio::time::timeout(MOMENT, moving).await.unwrap_err();
        rig.disks[0].release();
        tokio::time::timeout(Duration::from_secs(60), store.inner.checkpoint()).await.expect("it ends").unwrap();
        store.open(&key("small 7")).await.unwrap();
    });
}

/// Caught: zones full of what clients gave up, which seem live and are never looked at.
#[test]
fn zones_of_chunks_that_were_given_up_are_freed() {
    simulate(async {
        let (_rig, store) = store(1).await;
        // Ten of them fill a zone, with little between them.
        let chunk = Bytes::from(vec![7; 12_000]);
        let mut staged = store.stage(&key("large"), None);
        for _ in 0..45 {
            store.stage_chunk(&mut staged, chunk.clone()).await.unwrap();
        }
        settle().await;
        let device = store.inner.targets.devices().next().unwrap();
        device.finish_open_zones().await.unwrap();
        store.inner.checkpoint().await.unwrap();
        let collect = async || -> u64 {
            let mut zones = 0;
            for _ in 0..5 {
                zones += store.inner.collect().await.unwrap().zones;
            }
            zones
        };
        collect().await;
        let before = device.usage().free_zones;
        drop(staged);
        let freed = collect().await;
        assert!(freed >= 4, "{freed} zones");
        assert!(device.usage().free_zones >= before + 3, "{} of {before}", device.usage().free_zones);
        for index in 0..20 {
            store.open(&key(&format!("small {index}"))).await.unwrap();
        }
    });
}
