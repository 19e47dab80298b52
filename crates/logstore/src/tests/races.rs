//! Races by name.

use super::history::whole;
use super::script::{CHUNK, Script};
use super::support::{Rig, key, records, simulate};
use crate::LogStore;
use crate::relocate::Recopy;
use disk::{Fault, FaultRule, Operation};
use engine::{CompletePart, Condition, Content, ObjectEngine, PartContent, UploadQuery, UploadRef};
use format::record::{Record, RecordKind};
use smallvec::smallvec;
use std::time::Duration;
use target::{LogEvent, LogTarget, WalkRange};
use types::ZoneIndex;

const ZONE_BYTES: u64 = 128 * 1024;

/// A rig whose collector takes every zone that is worth it.
async fn greedy(seed: u64, devices: u32, zones: u64) -> Rig {
    let mut rig = Rig::new(seed, devices, zones, ZONE_BYTES).await;
    rig.config.checkpoint_entries = 20;
    rig.config.collect_below_free_percent = 100;
    rig
}

/// Lets the background work.
async fn rest(rig: &Rig) {
    rig.env.sleep(Duration::from_secs(20)).await;
}

/// Overwrites a key until zones have been collected.
async fn churn(script: &mut Script, store: &LogStore, rig: &Rig, zones: u64) {
    let before = store.stats().collected_zones.get();
    for round in 0..2000 {
        script.put_large(store, "churn", 3 * CHUNK + round).await.unwrap();
        rig.env.sleep(Duration::from_millis(10)).await;
        if store.stats().collected_zones.get() >= before + zones {
            return;
        }
    }
    panic!("nothing is collected");
}

#[test]
fn a_slow_reader_keeps_reading_what_was_overwritten_or_moved() {
    simulate(async {
        for overwritten in [false, true] {
            let rig = greedy(1, 3, 40).await;
            let mut script = Script::default();
            let store = rig.open().await;
            script.put_large(&store, "read", 4 * CHUNK).await.unwrap();
            let expected = script.history.objects["read"].certain().flatten().unwrap();
            let found = store.open(&key("read")).await.unwrap();
            let Content::Chunked(reader) = found.content else { panic!("it is large") };
            let first = reader.read(0..100).await.unwrap();
            if overwritten {
                script.delete(&store, "read").await.unwrap();
            }
            for round in 0..60 {
                script.put_large(&store, "churn", 3 * CHUNK + round).await.unwrap();
                rig.env.sleep(Duration::from_millis(700)).await;
            }
            assert_eq!(first, expected.bytes[..first.len()]);
            let bytes = whole(Content::Chunked(reader), expected.bytes.len() as u64).await.unwrap();
            assert!(bytes == expected.bytes, "overwritten: {overwritten}");
            // The reader is gone: its zones are free to go.
            churn(&mut script, &store, &rig, 5).await;
            script.judge(&store).await;
        }
    });
}

/// A list of chunks that was read before collection moved them is not pinned by a reader that comes after.
#[test]
fn a_reader_that_comes_too_late_looks_again() {
    simulate(async {
        let rig = Rig::new(2, 1, 40, ZONE_BYTES).await;
        let mut script = Script::default();
        let store = rig.open().await;
        script.put_large(&store, "read", 2 * CHUNK).await.unwrap();
        let name = format::record::EntryName::object(super::support::BUCKET, bytes::Bytes::from_static(b"read"));
        let hash = name.hash();
        let (located, frame) = store.inner.read_newest(&name, &hash).await.unwrap();
        let written = (located.order, located.places);
        store.inner.rewrite(frame.record.clone(), frame.payload.clone(), written).await.unwrap();
        assert!(store.inner.pin_content(&hash, &located, &frame).is_none(), "its chunks may be gone");
        let (located, frame, pin) = store.inner.read_pinned(&name, &hash).await.unwrap();
        assert!(pin.is_some() && located.places != written.1);
        assert!(store.inner.pin_content(&hash, &located, &frame).is_some());
        script.judge(&store).await;
    });
}

/// A repair's list of chunks that came too late took the object back from before its deletion, where no checkpoint had a run yet: it is the last
/// record of its key in the log.
#[test]
fn a_rewriting_that_came_too_late_brings_nothing_back() {
    simulate(async {
        for is_overwritten in [false, true] {
            let mut rig = Rig::new(4, 2, 40, ZONE_BYTES).await;
            let mut script = Script::default();
            let store = rig.open().await;
            script.put_large(&store, "late", 3 * CHUNK).await.unwrap();
            let name = format::record::EntryName::object(super::support::BUCKET, bytes::Bytes::from_static(b"late"));
            let (known, frame) = store.inner.read_newest(&name, &name.hash()).await.unwrap();
            match is_overwritten {
                true => script.put_large(&store, "late", 2 * CHUNK).await.unwrap(),
                false => script.delete(&store, "late").await.unwrap(),
            }
            let rewritten = store.inner.rewrite(frame.record.clone(), frame.payload.clone(), (known.order, known.places)).await;
            assert!(!rewritten.unwrap(), "it was replaced");
            // One that had begun before.
            let write = store.inner.next_write_id();
            for (replica, place) in known.places.as_slice().iter().enumerate() {
                let record = Record { write, ..frame.record.clone() };
                let (payload, order, device) = (frame.payload.clone(), Some(known.order), place.device);
                store.inner.recopy(Recopy { record, payload, order, replica, device, moved: true }).await.unwrap();
            }
            drop(store);
            rig.crash();
            let store = rig.open().await;
            script.judge(&store).await;
        }
    });
}

/// Two rewritings of a descriptor, the second torn by a crash: copies of both stand, and are not mixed.
#[test]
fn a_torn_rewriting_of_a_descriptor_is_not_mixed_with_the_one_before() {
    simulate(async {
        for torn_copies in 0..=3 {
            let mut rig = Rig::new(3, 3, 40, ZONE_BYTES).await;
            let mut script = Script::default();
            let store = rig.open().await;
            script.put_large(&store, "moved", 3 * CHUNK).await.unwrap();
            store.inner.checkpoint().await.unwrap();
            let name = format::record::EntryName::object(super::support::BUCKET, bytes::Bytes::from_static(b"moved"));
            let hash = name.hash();
            for _ in 0..2 {
                let (known, frame) = store.inner.read_newest(&name, &hash).await.unwrap();
                store.inner.rewrite(frame.record, frame.payload, (known.order, known.places)).await.unwrap();
            }
            // The rewriting that a crash tears: only so many of its copies are made.
            let (known, frame) = store.inner.read_newest(&name, &hash).await.unwrap();
            let write = store.inner.next_write_id();
            for replica in 0..torn_copies {
                let copy = Recopy {
                    record: Record { write, ..frame.record.clone() },
                    payload: frame.payload.clone(),
                    order: Some(known.order),
                    replica,
                    device: known.places.as_slice()[replica].device,
                    moved: true,
                };
                store.inner.recopy(copy).await.unwrap();
            }
            drop(store);
            rig.crash();
            let store = rig.open().await;
            let (after, _) = store.inner.read_newest(&name, &hash).await.unwrap();
            let mut writes = std::collections::BTreeSet::new();
            for place in after.places.as_slice() {
                writes.insert(store.inner.targets.read(place, after.frame_bytes).await.unwrap().record.write);
            }
            assert_eq!(writes.len(), 1, "copies of one rewriting");
            assert_eq!(writes.contains(&write), torn_copies == 3);
            assert_eq!(after.order, known.order);
            script.judge(&store).await;
        }
    });
}

/// A copy that is moved after its key was deleted brings nothing back, however late it is found.
#[test]
fn a_late_relocation_does_not_outlive_a_tombstone() {
    simulate(async {
        let mut rig = Rig::new(4, 3, 40, ZONE_BYTES).await;
        let mut script = Script::default();
        let store = rig.open().await;
        script.put(&store, "gone", 500).await.unwrap();
        let name = format::record::EntryName::object(super::support::BUCKET, bytes::Bytes::from_static(b"gone"));
        let hash = name.hash();
        let (known, frame) = store.inner.read_newest(&name, &hash).await.unwrap();
        script.delete(&store, "gone").await.unwrap();
        for epoch in 0..6 {
            let moved = store.inner.move_copy(frame.record.clone(), frame.payload.clone(), known.places.primary(), &hash).await;
            assert!(!moved.unwrap(), "epoch {epoch}: it is deleted");
            let copy = Recopy {
                record: frame.record.clone(),
                payload: frame.payload.clone(),
                order: Some(known.order),
                replica: 0,
                device: known.places.primary().device,
                moved: true,
            };
            store.inner.recopy(copy).await.unwrap();
            script.put(&store, "other", 10).await.unwrap();
            store.inner.checkpoint().await.unwrap();
            store.inner.merge_runs().await.unwrap();
        }
        script.judge(&store).await;
        drop(store);
        rig.crash();
        script.judge(&rig.open().await).await;
    });
}

/// What stands of a write, by the copies whose writes are lost though they were answered, and what a start makes of it.
#[test]
fn a_partial_write_is_rolled_forward_or_discarded_by_what_stands() {
    simulate(async {
        for (lost, stays) in [(&[1usize, 2][..], true), (&[2], true), (&[0], true), (&[0, 1], false), (&[0, 1, 2], false)] {
            let mut rig = Rig::new(5, 3, 40, ZONE_BYTES).await;
            let mut script = Script::default();
            let store = rig.open().await;
            script.put(&store, "key", 300).await.unwrap();
            let before = script.history.objects["key"].certain().unwrap();
            let hash = LogStore::object_hash(&key("key"));
            let devices = store.inner.targets.table().set_of(&hash).devices().to_vec();
            for replica in lost {
                let disk = &rig.disks[devices[*replica].0 as usize - 1];
                disk.add_rule(FaultRule::next(Operation::Write, Fault::Lose));
            }
            script.put(&store, "key", 400).await.unwrap();
            let after = script.history.objects["key"].certain().unwrap();
            drop(store);
            rig.crash();
            for _ in 0..2 {
                let store = rig.open().await;
                let found = store.open(&key("key")).await.unwrap();
                let expected = if stays { &after } else { &before };
                assert_eq!(found.info.attributes.etag, expected.as_ref().unwrap().tag(), "lost copies: {lost:?}");
                drop(store);
                rig.crash();
            }
            let store = rig.open().await;
            script.put(&store, "key", 500).await.unwrap();
            script.judge(&store).await;
            drop(store);
            rig.crash();
            script.judge(&rig.open().await).await;
        }
    });
}

/// A client that goes away while its Complete runs leaves the object without its upload, or the upload without its object.
#[test]
fn a_client_that_goes_away_leaves_no_upload_of_a_completed_object() {
    simulate(async {
        for polls in 0..30 {
            let rig = Rig::new(6, 3, 40, ZONE_BYTES).await;
            let store = rig.open().await;
            rig.set_order(disk::CompletionOrder::Timed(Duration::from_millis(2)));
            let id = store.create_upload(&key("joined"), Default::default()).await.unwrap();
            let upload = UploadRef { key: key("joined"), upload: id };
            let content = PartContent::Whole(smallvec![bytes::Bytes::from_static(b"part")]);
            let part = store.put_part(&upload, 1, Default::default(), content).await.unwrap();
            let parts = vec![CompletePart { number: 1, order: part.order }];
            let complete = store.complete(&upload, parts, Default::default(), Condition::None);
            drop(tokio::time::timeout(Duration::from_millis(polls), complete).await);
            rest(&rig).await;
            let exists = store.info(&key("joined")).await.is_ok();
            let query = UploadQuery {
                bucket: super::support::BUCKET,
                prefix: bytes::Bytes::new(),
                after: None,
                delimiter: bytes::Bytes::new(),
                max_items: 10,
            };
            let open = store.uploads(&query).await.unwrap().uploads.len();
            assert_eq!((exists, open), (true, 0), "gone after {polls} ms");
        }
    });
}

/// The zones in which a walk finds damage.
async fn damaged_zones(device: &dyn LogTarget) -> Vec<u32> {
    let mut damaged = Vec::new();
    for zone in 0..device.usage().zones {
        let mut walk = device.walk(WalkRange::Zone(ZoneIndex(zone)), true);
        let mut is_damaged = false;
        while let Some(event) = walk.next().await.unwrap() {
            is_damaged |= matches!(event, LogEvent::Damaged { .. });
        }
        damaged.extend(is_damaged.then_some(zone));
    }
    damaged
}

/// Damaged frames that nothing names, as crashes leave them, don't keep their zones from collection for ever, also while some large
/// object is always on its way.
#[test]
fn zones_with_torn_frames_are_collected() {
    simulate(async {
        let mut rig = greedy(7, 1, 24).await;
        let mut script = Script::default();
        for round in 0..8 {
            let store = rig.open().await;
            script.judge(&store).await;
            for number in 0..6 {
                script.put(&store, &format!("key-{number}"), 900 + round).await.unwrap();
            }
            store.inner.checkpoint().await.unwrap();
            script.put(&store, "key-0", 500).await.unwrap();
            drop(store);
            rig.crash();
        }
        // Every frame of a record that is overwritten since.
        let store = rig.open().await;
        let live: Vec<_> = records(&store).await.iter().flat_map(|(_, located)| located.places.as_slice().to_vec()).collect();
        drop(store);
        rig.crash();
        let mut torn = 0;
        for frame in super::faults::frames(&rig).await {
            if frame.kind == RecordKind::Object && !live.contains(&frame.place) {
                super::faults::rot(&rig, &frame, true);
                torn += 1;
            }
        }
        assert!(torn > 20);
        let store = rig.open().await;
        let device = store.inner.targets.devices().next().unwrap();
        assert!(damaged_zones(&**device).await.len() > 4);
        let deadline = rig.env.now() + Duration::from_secs(300);
        let mut on_its_way = vec![store.stage(&key("on its way"), None)];
        loop {
            // The next one begins before the last one ends.
            let mut next = store.stage(&key("on its way"), None);
            store.stage_chunk(&mut next, bytes::Bytes::from_static(b"chunk")).await.unwrap();
            on_its_way = vec![next];
            let damaged = damaged_zones(&**device).await;
            if damaged.is_empty() {
                break;
            }
            assert!(rig.env.now() < deadline, "zones {damaged:?} are not collected");
            rig.env.sleep(Duration::from_millis(100)).await;
        }
        drop(on_its_way);
        script.judge(&store).await;
    });
}
