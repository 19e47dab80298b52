//! Devices that are full, or nearly.

use super::history::whole;
use super::script::{CHUNK, Script};
use super::support::{BUCKET, Rig, key, simulate};
use crate::LogStore;
use bytes::Bytes;
use device::{ZoneState, ZoneStream};
use engine::{Committed, CompletePart, Condition, EngineError, ObjectEngine, PartContent, UploadQuery, UploadRef};
use format::record::EntryName;
use smallvec::smallvec;
use std::sync::Arc;
use std::time::Duration;
use target::LogTarget;
use types::KeyHash;
use types::limits::BLOCK_BYTES;

const ZONE_BYTES: u64 = 128 * 1024;
/// How long a condition that the background brings about may take, in simulated time.
const DEADLINE: Duration = Duration::from_secs(120);

/// Waits until the background has brought something about.
async fn until(rig: &Rig, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = rig.env.now() + DEADLINE;
    while !is_so() {
        assert!(rig.env.now() < deadline, "not within {DEADLINE:?}: {what}");
        rig.env.sleep(Duration::from_millis(100)).await;
    }
}

fn device_of(store: &LogStore) -> Arc<dyn LogTarget> {
    store.inner.targets.devices().next().unwrap().clone()
}

fn is_live(store: &LogStore, hash: &KeyHash) -> bool {
    store.inner.shard(hash).lock().index().newest(hash).is_some_and(|known| known.is_live())
}

/// Takes free zones by copies of something that nobody knows, until so many are left.
async fn leave_free_zones(store: &LogStore, zones: u32) {
    let name = EntryName::object(BUCKET, Bytes::from_static(b"filler"));
    let (known, frame) = store.inner.read_newest(&name, &name.hash()).await.unwrap();
    let device = device_of(store);
    while device.usage().free_zones > zones {
        let mut record = frame.record.clone();
        record.hash = EntryName::object(BUCKET, Bytes::from_static(b"nobody")).hash();
        let payload = Bytes::from(vec![7; ZONE_BYTES as usize * 5 / 8]);
        let order = Some(known.order);
        let copy = crate::relocate::Recopy { record, payload, order, replica: 0, device: device.id(), moved: true };
        store.inner.recopy(copy).await.unwrap();
    }
}

/// Puts until the open zone of objects has room for so many blocks.
async fn leave_blocks(script: &mut Script, store: &LogStore, blocks: u64) {
    let device = device_of(store);
    let usage = device.usage();
    let room = || {
        let is_open = |zone: &device::ZoneInfo| zone.state == Some(ZoneState::Open) && zone.stream == Some(ZoneStream::Ordered);
        let open = device.zones().into_iter().find(is_open).unwrap();
        (usage.capacity_bytes / u64::from(usage.zones) - open.written_bytes) / BLOCK_BYTES as u64
    };
    while room() > blocks {
        script.put(store, "filler", 500).await.unwrap();
    }
    assert_eq!(room(), blocks);
}

async fn open_uploads(store: &LogStore) -> usize {
    let query = UploadQuery { bucket: BUCKET, prefix: Bytes::new(), after: None, delimiter: Bytes::new(), max_items: 10 };
    store.uploads(&query).await.unwrap().uploads.len()
}

async fn complete(store: &LogStore, upload: &UploadRef, parts: &[CompletePart]) -> Committed {
    store.complete(upload, parts.to_vec(), Default::default(), Condition::None).await.unwrap()
}

/// The device has room for the object of a Complete, but not for the tombstone of its upload, or not for that of the part.
#[test]
fn an_upload_whose_tombstones_find_no_room_has_ended_all_the_same() {
    simulate(async {
        // The part's chunk and the descriptor take a block each, then the upload's tombstone one.
        for blocks in [2, 3] {
            let mut rig = Rig::new(200, 1, 24, ZONE_BYTES).await;
            rig.config.collect_below_free_percent = 0;
            let mut script = Script::default();
            let store = rig.open().await;
            script.put(&store, "filler", 500).await.unwrap();
            let upload = UploadRef {
                key: key("joined"),
                upload: store.create_upload(&key("joined"), Default::default()).await.unwrap(),
            };
            let bytes = Bytes::from_static(b"what the part holds");
            let content = || PartContent::Whole(smallvec![bytes.clone()]);
            let part = store.put_part(&upload, 1, Default::default(), content()).await.unwrap();
            let parts = [CompletePart { number: 1, order: part.order }];
            let part_hash = EntryName::part(BUCKET, b"joined", upload.upload, 1).hash();
            leave_free_zones(&store, 2).await;
            leave_blocks(&mut script, &store, blocks).await;

            let committed = complete(&store, &upload, &parts).await;
            assert_eq!(open_uploads(&store).await, 0, "room for {blocks}");
            assert_eq!(complete(&store, &upload, &parts).await, committed, "a Complete that is tried again");
            for refused in [
                store.put_part(&upload, 2, Default::default(), content()).await.map(|_| ()),
                store.abort(&upload).await,
                store.upload(&upload).await.map(|_| ()),
            ] {
                assert!(matches!(refused, Err(EngineError::NoSuchUpload)), "room for {blocks}: {refused:?}");
            }
            store.inner.checkpoint().await.unwrap();
            let upload_hash = EntryName::upload(BUCKET, b"joined", upload.upload).hash();
            assert_eq!(is_live(&store, &upload_hash), blocks == 2, "otherwise this tests nothing");
            assert!(is_live(&store, &part_hash), "otherwise this tests nothing");
            drop(store);
            rig.crash();

            rig.config.collect_below_free_percent = 50;
            let store = rig.open().await;
            assert_eq!(open_uploads(&store).await, 0, "room for {blocks}, after a start");
            assert_eq!(complete(&store, &upload, &parts).await, committed, "after a start");
            until(&rig, "collection makes room", || device_of(&store).usage().free_data_zones > 0).await;
            for _ in 0..4 {
                script.put(&store, "filler", 500).await.unwrap();
                store.inner.checkpoint().await.unwrap();
            }
            store.inner.merge_runs().await.unwrap();
            until(&rig, "upload and part end", || !is_live(&store, &upload_hash) && !is_live(&store, &part_hash)).await;
            assert_eq!(store.info(&key("joined")).await.unwrap().length, bytes.len() as u64);
            drop(store);
            rig.crash();
            let store = rig.open().await;
            assert_eq!((open_uploads(&store).await, is_live(&store, &part_hash)), (0, false));
            assert_eq!(store.info(&key("joined")).await.unwrap().length, bytes.len() as u64);
        }
    });
}

/// Longest that a put may take while there is enough to collect, in simulated time.
const PUT_PATIENCE: Duration = Duration::from_secs(1);

/// Overwrites a few objects again and again; the device sees much more than it can hold.
async fn overwrite(rig: &Rig, store: &LogStore, script: &mut Script, rounds: usize, is_large: bool, pause: Duration) {
    for round in 0..rounds {
        let began = rig.env.now();
        let written = match is_large {
            true => script.put_large(store, &format!("large-{}", round % 3), 3 * CHUNK + round).await,
            false => script.put(store, &format!("key-{:02}", round * 7 % 60), 3800).await,
        };
        let took = rig.env.now() - began;
        written.unwrap_or_else(|error| panic!("put {round} of {rounds}: {error}"));
        assert!(took < PUT_PATIENCE, "put {round} of {rounds} took {took:?}");
        match pause.is_zero() {
            true => tokio::task::yield_now().await,
            false => rig.env.sleep(pause).await,
        }
    }
}

#[test]
fn overwriting_neither_stalls_nor_is_refused_while_much_is_dead() {
    simulate(async {
        for (devices, is_large, pause) in [(1, false, 0), (1, false, 2), (3, false, 2), (1, true, 0), (3, true, 4)] {
            let rig = Rig::new(210, devices, 32, ZONE_BYTES).await;
            let mut script = Script::default();
            let store = rig.open().await;
            let rounds = if is_large { 600 } else { 3000 };
            overwrite(&rig, &store, &mut script, rounds, is_large, Duration::from_millis(pause)).await;
            assert!(store.stats().collected_zones.get() > 50, "otherwise this tests nothing");
            script.judge(&store).await;
        }
    });
}

/// A reader that takes for ever holds up the zones that have chunks, and no others.
#[test]
fn a_slow_reader_does_not_hold_up_the_zones_of_small_objects() {
    simulate(async {
        let rig = Rig::new(211, 1, 32, ZONE_BYTES).await;
        let mut script = Script::default();
        let store = rig.open().await;
        script.put_large(&store, "read", 3 * CHUNK).await.unwrap();
        let slow = store.open(&key("read")).await.unwrap();
        overwrite(&rig, &store, &mut script, 3000, false, Duration::from_millis(2)).await;
        drop(slow);
        script.judge(&store).await;
    });
}

/// A reader that takes for ever holds up the zones that have chunks of its object, and those of other objects are overwritten again and again. Caught: zones
/// that wait for whoever reads anything: the puts were refused.
#[test]
fn a_slow_reader_does_not_hold_up_the_zones_of_other_large_objects() {
    simulate(async {
        let rig = Rig::new(212, 1, 32, ZONE_BYTES).await;
        let mut script = Script::default();
        let store = rig.open().await;
        script.put_large(&store, "read", 3 * CHUNK).await.unwrap();
        let [quick, slow] = [store.open(&key("read")).await.unwrap(), store.open(&key("read")).await.unwrap()];
        let length = slow.info.length;
        let before = whole(quick.content, length).await.unwrap();
        // The version that is read is garbage, and stays where it is.
        script.put_large(&store, "read", 3 * CHUNK + 1).await.unwrap();
        overwrite(&rig, &store, &mut script, 600, true, Duration::from_millis(2)).await;
        assert!(store.stats().collected_zones.get() > 50, "otherwise this tests nothing");
        assert!(whole(slow.content, length).await.unwrap() == before, "as it was when it was opened");
        script.judge(&store).await;
    });
}

/// A Complete finds no room for the chunk of a small part, or for its object, and collection has its hands full. Caught: a Complete that keeps its pin: the
/// zones that are emptied for it wait for that, and it was refused for want of them.
#[test]
fn a_complete_that_waits_for_room_holds_no_pin() {
    simulate(async {
        for blocks in [0, 1] {
            let mut rig = Rig::new(213, 1, 24, ZONE_BYTES).await;
            rig.config.collect_below_free_percent = 0;
            let mut script = Script::default();
            let store = rig.open().await;
            script.put(&store, "filler", 500).await.unwrap();
            let id = store.create_upload(&key("joined"), Default::default()).await.unwrap();
            let upload = UploadRef { key: key("joined"), upload: id };
            let content = PartContent::Whole(smallvec![Bytes::from_static(b"what the part holds")]);
            let part = store.put_part(&upload, 1, Default::default(), content).await.unwrap();
            leave_free_zones(&store, 2).await;
            leave_blocks(&mut script, &store, blocks).await;

            let waits = store.inner.checkpoints.lock().await;
            store.inner.background.want_checkpoint();
            let (completed, of) = (store.clone(), upload.clone());
            let completing = rig.env.spawn(async move {
                let parts = vec![CompletePart { number: 1, order: part.order }];
                completed.complete(&of, parts, Default::default(), Condition::None).await
            });
            rig.env.sleep(Duration::from_secs(1)).await;
            assert!(!completing.is_finished(), "room for {blocks}");
            assert!(store.inner.pins.released(None, store.inner.pins.mark()), "room for {blocks}");
            drop(waits);
            let refused = completing.await.unwrap();
            assert!(matches!(refused, Err(EngineError::Full)), "room for {blocks}: {refused:?}");
            assert_eq!(open_uploads(&store).await, 1, "it can be completed when there is room");
        }
    });
}

/// Copies of what other devices lost. Caught: they waited for zones that data may open, though the zone that was open for copies had room for them.
#[test]
fn copies_of_what_was_lost_fill_the_open_zone_when_zones_are_short() {
    simulate(async {
        let mut rig = Rig::new(214, 1, 24, ZONE_BYTES).await;
        rig.config.collect_below_free_percent = 0;
        let mut script = Script::default();
        let store = rig.open().await;
        store.inner.background.stop().await;
        script.put(&store, "filler", 500).await.unwrap();
        let (device, inner) = (device_of(&store), store.inner.clone());
        for (zones, small, large) in [(5, true, true), (2, true, false), (1, false, false)] {
            leave_free_zones(&store, zones).await;
            assert_eq!(device.usage().free_zones, zones);
            assert!(device.open_room(ZoneStream::Relocated) > ZONE_BYTES / 4, "otherwise this tests nothing");
            assert_eq!(inner.has_spare_room(device.id(), ZONE_BYTES / 8), small, "{zones}");
            assert_eq!(inner.has_spare_room(device.id(), ZONE_BYTES / 2), large, "{zones}");
        }
    });
}
