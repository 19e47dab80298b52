//! Chunks, and the records that are to name them: what becomes of the ones when the others wait, fail or move.

use super::history::whole;
use super::script::{CHUNK, Script};
use super::support::{BUCKET, Rig, key, settle, simulate};
use crate::LogStore;
use bytes::Bytes;
use disk::{Fault, FaultRule, Operation};
use engine::{CompletePart, Condition, Content, EngineError, ObjectEngine, PartContent, StagedChunks, UploadQuery, UploadRef};
use format::attributes::Attributes;
use format::record::EntryName;
use smallvec::smallvec;
use std::time::Duration;
use types::{DeviceId, ZoneIndex};

const ZONE_BYTES: u64 = 128 * 1024;
/// Enough for whatever waits for nothing.
const MOMENT: Duration = Duration::from_millis(1);

/// A gateway whose collector takes every zone that is worth it, and works only when it is asked.
async fn greedy(devices: u32) -> (Rig, LogStore) {
    let mut rig = Rig::new(1, devices, 40, ZONE_BYTES).await;
    rig.config.collect_below_free_percent = 100;
    let store = rig.open().await;
    store.inner.background.stop().await;
    (rig, store)
}

/// Whatever comes next goes to other zones, and these are before the start vector: collection may take them.
async fn close_zones(store: &LogStore) {
    for device in store.inner.targets.devices() {
        device.finish_open_zones().await.unwrap();
    }
    store.inner.checkpoint().await.unwrap();
}

async fn stage_one_chunk(store: &LogStore, name: &str) -> StagedChunks {
    let mut staged = store.stage(&key(name), None);
    store.stage_chunk(&mut staged, Bytes::from(vec![7; CHUNK])).await.unwrap();
    staged
}

async fn read(store: &LogStore, name: &str) -> Vec<u8> {
    let found = store.open(&key(name)).await.unwrap();
    whole(found.content, found.info.length).await.unwrap()
}

/// The write goes on without its client, and needs its chunks.
#[test]
fn a_client_that_goes_away_does_not_leave_an_object_without_its_chunks() {
    simulate(async {
        let (rig, store) = greedy(1).await;
        let staged = stage_one_chunk(&store, "key").await;
        close_zones(&store).await;
        store.put(&key("opens a zone"), Attributes::default(), smallvec![], Condition::None).await.unwrap();
        // The write before it in the queue is under way for long.
        rig.disks[0].add_rule(FaultRule::next(Operation::Write, Fault::Hold));
        let small = smallvec![Bytes::from_static(b"small")];
        let (name, gone) = (key("key"), key("key"));
        let mut first = store.put(&name, Attributes::default(), small, Condition::None);
        tokio::time::timeout(MOMENT, &mut first).await.unwrap_err();
        let mut second = store.commit(&gone, staged, Attributes::default(), Condition::None);
        tokio::time::timeout(MOMENT, &mut second).await.unwrap_err();
        drop(second);
        // Collection has looked, and waits for the epoch of the first write; the second one comes after that epoch.
        let inner = store.inner.clone();
        let collecting = tokio::spawn(async move { inner.collect().await });
        settle().await;
        assert!(!collecting.is_finished());
        rig.disks[0].add_rule(FaultRule::next(Operation::Write, Fault::Delay(Duration::from_secs(20))));
        rig.disks[0].release();
        first.await.unwrap();
        collecting.await.unwrap().unwrap();
        assert_eq!(read(&store, "key").await, b"small", "the second write is under way");
        rig.env.sleep(Duration::from_secs(30)).await;
        assert_eq!(read(&store, "key").await, vec![7; CHUNK]);
    });
}

/// A Complete whose outcome is not known may be found by a start: what it names is kept until a checkpoint says that it will not be.
#[test]
fn a_complete_of_unknown_outcome_keeps_what_it_names() {
    simulate(async {
        let (mut rig, store) = greedy(2).await;
        let id = store.create_upload(&key("joined"), Default::default()).await.unwrap();
        let upload = UploadRef { key: key("joined"), upload: id };
        let mut staged = store.stage(&upload.key, Some((id, 1)));
        store.stage_chunk(&mut staged, Bytes::from(vec![7; CHUNK])).await.unwrap();
        let part = store.put_part(&upload, 1, Attributes::default(), PartContent::Staged(staged)).await.unwrap();
        close_zones(&store).await;
        // A write of the key is on its way, and the Complete behind it has looked its parts up.
        let held = store.inner.targets.table().set_of(&LogStore::object_hash(&upload.key)).devices().to_vec();
        let disk = |device: DeviceId| rig.disks[device.0 as usize - 1].clone();
        store.put(&key("opens zones"), Attributes::default(), smallvec![], Condition::None).await.unwrap();
        disk(held[0]).add_rule(FaultRule::next(Operation::Write, Fault::Hold));
        let small = smallvec![Bytes::from_static(b"small")];
        let mut first = store.put(&upload.key, Attributes::default(), small, Condition::None);
        tokio::time::timeout(MOMENT, &mut first).await.unwrap_err();
        let parts = vec![CompletePart { number: 1, order: part.order }];
        let mut second = store.complete(&upload, parts, Attributes::default(), Condition::None);
        tokio::time::timeout(MOMENT, &mut second).await.unwrap_err();
        // Collection has moved the chunk, and waits for the epoch of the first write; the Complete comes after that epoch.
        let inner = store.inner.clone();
        let collecting = tokio::spawn(async move { inner.collect().await });
        rig.env.sleep(10 * MOMENT).await;
        assert!(!collecting.is_finished());
        disk(held[1]).add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        disk(held[0]).release();
        first.await.unwrap();
        let failed = second.await;
        assert!(matches!(failed, Err(EngineError::Unavailable { .. })), "{failed:?}");
        collecting.await.unwrap().unwrap();
        drop(store);
        rig.crash();
        let store = rig.open().await;
        assert!(read(&store, "joined").await == vec![7; CHUNK], "the Complete was found, and stands");
    });
}

/// A checkpoint that failed on its way is finished by the next one, which is to have also what came since: collection resets
/// what it moved away on the strength of it.
#[test]
fn what_collection_moved_is_in_the_checkpoint_before_zones_are_reset() {
    simulate(async {
        for away in 1..=3 {
            let (mut rig, store) = greedy(3).await;
            let mut script = Script::default();
            script.put_large(&store, "moved", 3 * CHUNK).await.unwrap();
            close_zones(&store).await;
            rig.manifests.set_refusing(true);
            store.inner.checkpoint().await.unwrap_err();
            rig.manifests.set_refusing(false);
            let collected = store.inner.collect().await.unwrap();
            assert!(collected.zones >= 3, "{collected:?}");
            script.judge(&store).await;
            drop(store);
            rig.crash();
            // Without a device nobody can tell whether a list of chunks was moved as a whole.
            let store = rig.open_without(&[DeviceId(away)]).await;
            script.judge(&store).await;
        }
    });
}

/// A Complete that failed, and whose key was written since, has done nothing: a start must not end its upload.
#[test]
fn a_failed_complete_that_was_overwritten_leaves_its_upload_open() {
    simulate(async {
        let mut rig = Rig::new(3, 3, 40, ZONE_BYTES).await;
        let mut script = Script::default();
        let store = rig.open().await;
        let id = store.create_upload(&key("joined"), Default::default()).await.unwrap();
        let upload = UploadRef { key: key("joined"), upload: id };
        let mut staged = store.stage(&upload.key, Some((id, 1)));
        store.stage_chunk(&mut staged, Bytes::from(vec![7; CHUNK])).await.unwrap();
        let part = store.put_part(&upload, 1, Attributes::default(), PartContent::Staged(staged)).await.unwrap();
        let parts = vec![CompletePart { number: 1, order: part.order }];
        let primary = store.inner.targets.table().set_of(&LogStore::object_hash(&upload.key)).devices()[0];
        rig.disks[primary.0 as usize - 1].add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        let failed = store.complete(&upload, parts.clone(), Attributes::default(), Condition::None).await;
        assert!(matches!(failed, Err(EngineError::Unavailable { .. })), "{failed:?}");
        script.put(&store, "joined", 100).await.unwrap();
        drop(store);
        rig.crash();
        let store = rig.open().await;
        let query = UploadQuery { bucket: BUCKET, prefix: Bytes::new(), after: None, delimiter: Bytes::new(), max_items: 10 };
        assert_eq!(store.uploads(&query).await.unwrap().uploads.len(), 1);
        let overwritten = script.history.objects["joined"].certain().flatten().unwrap();
        assert_eq!(read(&store, "joined").await, overwritten.bytes);
        store.complete(&upload, parts, Attributes::default(), Condition::None).await.unwrap();
        assert_eq!(read(&store, "joined").await, vec![7; CHUNK]);
    });
}

/// Pins keep the zones of chunks that are being read. Should one ever be reset all the same, nobody gets another object's bytes.
#[test]
fn a_reader_whose_zone_was_reset_gets_an_error() {
    simulate(async {
        let mut rig = Rig::new(5, 1, 8, ZONE_BYTES).await;
        rig.config.collect_below_free_percent = 0;
        let store = rig.open().await;
        let mut script = Script::default();
        script.put_large(&store, "read", CHUNK).await.unwrap();
        let (whole_chunk, piece) = (0..CHUNK as u64, 0..100);
        let readers = [store.open(&key("read")).await.unwrap().content, store.open(&key("read")).await.unwrap().content];
        let [Content::Chunked(first), Content::Chunked(second)] = readers else { panic!("it is large") };
        close_zones(&store).await;
        let device = store.inner.targets.devices().next().unwrap();
        device.reset(ZoneIndex(0), device.zones()[0].activation).await.unwrap();
        while script.put_large(&store, "other", CHUNK).await.is_ok() {}
        for read in [first.read(whole_chunk).await, second.read(piece).await] {
            let Err(EngineError::Corrupt { detail }) = read else { panic!("{read:?}") };
            assert!(detail.contains("another object"), "{detail}");
        }
    });
}

/// A tombstone of an upload can't be written. Caught: others that wait behind it, and parts of uploads that have ended: as long as the first one
/// failed nothing else was tidied up.
#[test]
fn an_upload_that_cant_be_ended_holds_up_no_others() {
    simulate(async {
        let rig = Rig::new(4, 3, 40, ZONE_BYTES).await;
        let store = rig.open().await;
        store.inner.background.stop().await;
        let mut names = Vec::new();
        for of in ["a", "b", "c", "ended"] {
            let upload =
                UploadRef { key: key(of), upload: store.create_upload(&key(of), Attributes::default()).await.unwrap() };
            let content = PartContent::Whole(smallvec![Bytes::from_static(b"of a part")]);
            store.put_part(&upload, 1, Attributes::default(), content).await.unwrap();
            if of == "ended" {
                names.push(EntryName::part(BUCKET, b"ended", upload.upload, 1));
                store.inner.background.drop_parts(upload);
                continue;
            }
            let name = EntryName::upload(BUCKET, of.as_bytes(), upload.upload);
            store.inner.background.end_upload(name.clone(), Attributes::default());
            names.push(name);
        }
        let is_live = |name: &EntryName| {
            let newest = store.inner.shard(&name.hash()).lock().index().newest(&name.hash());
            newest.is_some_and(|known| known.is_live())
        };
        let live = || names.iter().map(is_live).collect::<Vec<_>>();
        assert_eq!(live(), [true; 4]);
        let primary = store.inner.targets.table().set_of(&names[0].hash()).devices()[0];
        rig.disks[primary.0 as usize - 1].add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        assert!(store.inner.tidy_uploads().await.is_err());
        assert_eq!(live(), [true, false, false, false]);
        assert!(store.inner.background.ending(&names[0]).is_some(), "it is tried again");
    });
}
