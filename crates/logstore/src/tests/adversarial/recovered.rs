//! What a recovery leaves behind, for those who come after it.

use super::super::gate::Rule;
use super::{A_WHILE, CellRig, all_read, devices_of, get, put, put_if, removing};
use crate::LogStore;
use crate::index::Located;
use crate::relocate::Recopy;
use crate::tests::support::{attributes, key, simulate};
use bytes::Bytes;
use engine::{Committed, CompletePart, Condition, EngineError, ObjectEngine, PartContent, UploadRef};
use format::record::EntryName;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use types::{DeviceId, KeyHash};

/// Names whose copies go to the devices in several orders.
const NAMES: [&str; 16] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

fn newest(store: &LogStore, hash: &KeyHash) -> Located {
    store.inner.shard(hash).lock().index().newest(hash).expect("it is known")
}

/// Where the copies of an object stand.
fn stands_on(store: &LogStore, name: &str) -> Vec<DeviceId> {
    let known = newest(store, &LogStore::object_hash(&key(name)));
    known.places.as_slice().iter().map(|place| place.device).collect()
}

/// A name whose second copy a walk finds after its third.
fn with_its_second_copy_last(store: &LogStore) -> &'static str {
    let is_so = |name: &&str| matches!(devices_of(store, name)[..], [_, second, third] if second > third);
    NAMES.into_iter().find(is_so).expect("one of so many")
}

/// The recovery of the third gateway waits for its own checkpoint, which waits for a write of the leader's.
async fn recovering_without_its_checkpoint(rig: &Arc<CellRig>, leader: &LogStore) -> JoinHandle<()> {
    leader.inner.background.stop().await;
    let last = *devices_of(leader, "other").last().expect("it has devices");
    rig.gates.set(leader, last, Some(Rule::Mute));
    drop(rig.env.spawn(put_if(leader.clone(), "other", "under way", Condition::None)));
    rig.env.sleep(A_WHILE).await;
    rig.gates.set(leader, last, None);
    let removal = removing(rig, &[2]);
    rig.env.sleep(A_WHILE).await;
    assert!(leader.inner.checkpoints.try_lock().is_err(), "the checkpoint waits for the write");
    removal
}

/// A recovery makes missing copies, and everything dies before its checkpoint. Caught: copies that are numbered by how many there are. The third
/// device's had the number of the second's then, and who founded the cell anew named two copies on one device.
#[test]
fn a_recovered_write_stands_on_as_many_devices_after_everything_has_died() {
    simulate(async {
        for (has_third_landed, table) in [(true, &[1u32, 2, 3][..]), (false, &[])] {
            let rig = Arc::new(CellRig::new(201, 3).await);
            let [leader, _, removed] = &rig.gateways()[..] else { panic!("three gateways") };
            let name = with_its_second_copy_last(removed);
            let devices = devices_of(removed, name);
            rig.gates.set(removed, devices[1], Some(Rule::Hold));
            rig.gates.set(removed, devices[2], Some(if has_third_landed { Rule::Mute } else { Rule::Hold }));
            let write = rig.env.spawn(put_if(removed.clone(), name, "new", Condition::None));
            rig.env.sleep(A_WHILE).await;
            assert!(!write.is_finished());
            rig.kill(removed);
            match table {
                // The second device has left the table.
                [] => rig.change_table(&[devices[0].0, devices[2].0]),
                all => rig.change_table(all),
            }
            let removal = recovering_without_its_checkpoint(&rig, leader).await;
            assert_eq!(get(leader, name).await.as_deref(), Some("new"));
            removal.abort();
            let founder = rig.restart_all().await;
            assert_eq!(stands_on(&founder, name), devices, "third landed: {has_third_landed}");
            assert_eq!(get(&founder, name).await.as_deref(), Some("new"));
        }
    });
}

/// A leader can't make the copies that a recovered write lacks, tells one member of it, and dies together with the only copy. Caught: a next leader that
/// tells only what it finds itself. One member published the write, and the others never heard of it.
#[test]
fn what_a_dead_leader_told_of_a_write_that_is_gone_is_known_to_all_or_none() {
    simulate(async {
        let rig = Arc::new(CellRig::new(203, 4).await);
        let [leader, told, other, removed] = &rig.gateways()[..] else { panic!("four gateways") };
        put(told, "key", "old").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        let devices = devices_of(removed, "key");
        for device in &devices[1..] {
            rig.gates.set(removed, *device, Some(Rule::Hold));
            rig.gates.set(leader, *device, Some(Rule::Away));
        }
        drop(rig.env.spawn(put_if(removed.clone(), "key", "new", Condition::None)));
        rig.env.sleep(A_WHILE).await;
        rig.kill(removed);
        let removal = removing(&rig, &[3]);
        rig.env.sleep(Duration::from_millis(1)).await;
        rig.hold(leader, other, true);
        rig.env.sleep(A_WHILE).await;
        let hash = LogStore::object_hash(&key("key"));
        let held = |gateway: &LogStore| gateway.inner.shard(&hash).lock().held().len();
        assert_eq!([held(leader), held(told), held(other)], [1, 1, 0]);
        removal.abort();
        rig.kill(leader);
        rig.lose(&[devices[0].0]);
        rig.change_table(&[devices[1].0, devices[2].0]);
        rig.remove_beside(&[0], &[removed.inner.me]).await;
        assert_eq!(newest(told, &hash).order, newest(other, &hash).order);
    });
}

/// A leader decides, and its word reaches one member alone; the next one finds a copy less. All hold the same places in the end: those that the former one told.
#[test]
fn who_has_decided_holds_the_places_that_the_next_leader_does() {
    simulate(async {
        let rig = Arc::new(CellRig::new(206, 4).await);
        let [leader, next, decided, removed] = &rig.gateways()[..] else { panic!("four gateways") };
        let devices = devices_of(removed, "key");
        rig.gates.set(removed, devices[2], Some(Rule::Mute));
        drop(rig.env.spawn(put_if(removed.clone(), "key", "new", Condition::None)));
        rig.env.sleep(A_WHILE).await;
        rig.kill(removed);
        rig.hold(leader, decided, true);
        let removal = removing(&rig, &[3]);
        rig.env.sleep(A_WHILE).await;
        // That all hold what they were told is the last that the leader waits for.
        rig.hold(leader, next, true);
        rig.hold(leader, decided, false);
        rig.env.sleep(A_WHILE).await;
        let hash = LogStore::object_hash(&key("key"));
        let held = |gateway: &LogStore| gateway.inner.shard(&hash).lock().held().len();
        assert_eq!([held(leader), held(next), held(decided)], [0, 1, 0]);
        assert_eq!(newest(decided, &hash).places.len(), 3);
        removal.abort();
        rig.kill(leader);
        rig.lose(&[devices[2].0]);
        rig.change_table(&[devices[0].0, devices[1].0]);
        rig.remove_beside(&[0], &[removed.inner.me]).await;
        assert_eq!(newest(decided, &hash), newest(next, &hash));
        for gateway in [next, decided] {
            assert_eq!(get(gateway, "key").await.as_deref(), Some("new"));
        }
    });
}

/// Logs of former versions may have two copies of a record on one device, with two numbers. Caught: places that name both.
#[test]
fn of_two_copies_on_one_device_one_counts() {
    simulate(async {
        let rig = CellRig::new(202, 1).await;
        let store = rig.gateways().remove(0);
        let name = with_its_second_copy_last(&store);
        put(&store, name, "content").await.unwrap();
        let known = newest(&store, &LogStore::object_hash(&key(name)));
        let frame = store.inner.read_copies(&known).await.unwrap().expect("it stands");
        let device = devices_of(&store, name)[1];
        let (record, payload, order) = (frame.record, frame.payload, Some(known.order));
        store.inner.recopy(Recopy { record, payload, order, replica: 2, device, moved: false }).await.unwrap();
        drop(store);
        let founder = rig.restart_all().await;
        let mut devices = stands_on(&founder, name);
        devices.sort_unstable();
        devices.dedup();
        assert_eq!(devices.len(), newest(&founder, &LogStore::object_hash(&key(name))).places.len(), "no device twice");
        rig.env.sleep(30 * A_WHILE).await;
        assert_eq!(stands_on(&founder, name).len(), 3, "what it lacked was made again");
        all_read(&rig, name, Some("content")).await;
    });
}

/// The third gateway completes an upload: its object is known to all, and overwritten, and the upload has not ended.
struct Interrupted {
    upload: UploadRef,
    parts: Vec<CompletePart>,
    object: Located,
}

const JOINED: &str = "joined";
const FIRST: &[u8] = b"first";

fn upload_hash(upload: &UploadRef) -> KeyHash {
    EntryName::upload(upload.key.bucket(), upload.key.key(), upload.upload).hash()
}

/// An upload whose end is written to another device first than its object.
async fn upload_with_another_primary(store: &LogStore) -> UploadRef {
    loop {
        let id = store.create_upload(&key(JOINED), Default::default()).await.unwrap();
        let upload = UploadRef { key: key(JOINED), upload: id };
        let primary = store.inner.targets.table().set_of(&upload_hash(&upload)).primary();
        if primary != devices_of(store, JOINED)[0] {
            return upload;
        }
    }
}

async fn complete_at(
    store: LogStore,
    upload: UploadRef,
    parts: Vec<CompletePart>,
    etag_of: &[u8],
) -> Result<Committed, EngineError> {
    store.complete(&upload, parts, attributes(etag_of), Condition::None).await
}

/// An upload of one part, and a Complete of it at the third gateway whose object has landed on one device. The next append of that gateway to this device
/// is for the upload's end.
async fn half_complete(rig: &CellRig) -> (UploadRef, Vec<CompletePart>, JoinHandle<Result<Committed, EngineError>>, DeviceId) {
    let completer = &rig.gateways()[2];
    let upload = upload_with_another_primary(completer).await;
    let content = PartContent::Whole(std::iter::once(Bytes::from_static(b"a part")).collect());
    let part = completer.put_part(&upload, 1, Default::default(), content).await.unwrap();
    let parts = vec![CompletePart { number: 1, order: part.order }];
    let primary = completer.inner.targets.table().set_of(&upload_hash(&upload)).primary();
    rig.gates.set(completer, primary, Some(Rule::Mute));
    let completing = rig.env.spawn(complete_at(completer.clone(), upload.clone(), parts.clone(), FIRST));
    rig.env.sleep(A_WHILE).await;
    // The part's chunk.
    rig.gates.land(completer.inner.me).await;
    rig.env.sleep(A_WHILE).await;
    (upload, parts, completing, primary)
}

async fn interrupted_complete(rig: &CellRig) -> Interrupted {
    let (upload, parts, completing, primary) = half_complete(rig).await;
    let [_, member, removed] = &rig.gateways()[..] else { panic!("three gateways") };
    // The object; what comes behind it is held.
    rig.gates.set(removed, primary, Some(Rule::Hold));
    rig.gates.land(removed.inner.me).await;
    rig.env.sleep(A_WHILE).await;
    assert!(!completing.is_finished(), "the upload's end is on its way");
    let object = newest(member, &LogStore::object_hash(&key(JOINED)));
    assert!(object.is_live() && newest(member, &upload_hash(&upload)).is_live());
    put(member, JOINED, "newer").await.unwrap();
    Interrupted { upload, parts, object }
}

/// Caught: a recovery that ends only those uploads whose objects are the newest of their keys. And, of Completes that wait for the decision: one that
/// ends uploads behind it; and at the leader, one that does not say so before.
#[test]
fn a_complete_that_is_repeated_after_its_gateway_died_replaces_nothing() {
    simulate(async {
        for waiting in [None, Some(1), Some(0)] {
            let rig = Arc::new(CellRig::new(203, 3).await);
            let gateways = rig.gateways();
            let Interrupted { upload, parts, object } = interrupted_complete(&rig).await;
            let again = |at: usize| rig.env.spawn(complete_at(gateways[at].clone(), upload.clone(), parts.clone(), b"second"));
            let early = waiting.map(again);
            rig.env.sleep(A_WHILE).await;
            assert!(early.as_ref().is_none_or(|early| !early.is_finished()), "the upload is frozen");
            rig.kill(&gateways[2]);
            rig.remove(&[2]).await;
            let again = early.unwrap_or_else(|| again(1)).await.unwrap().unwrap();
            assert_eq!((again.order, again.etag), (object.order, attributes(FIRST).etag), "waiting at {waiting:?}");
            rig.env.sleep(A_WHILE).await;
            for gateway in &gateways[..2] {
                assert_eq!(get(gateway, JOINED).await.as_deref(), Some("newer"), "waiting at {waiting:?}");
                let parts = gateway.parts(&upload, 0, 10).await;
                assert!(matches!(parts, Err(EngineError::NoSuchUpload)), "{parts:?}");
            }
            all_read(&rig, JOINED, Some("newer")).await;
        }
    });
}

/// An upload that a lost gateway had begun is completed elsewhere while that gateway is recovered. Caught: members that hold what they have published long since until all
/// is decided. The Complete had the upload's turn and waited for the object's key, and the recovery waited for the Complete, until that gave up.
#[test]
fn a_recovery_does_not_wait_for_a_complete_of_what_is_recovered() {
    simulate(async {
        let rig = Arc::new(CellRig::new(207, 3).await);
        let [leader, member, removed] = &rig.gateways()[..] else { panic!("three gateways") };
        // No checkpoint covers what follows.
        leader.inner.background.stop().await;
        put(removed, JOINED, "older").await.unwrap();
        let id = removed.create_upload(&key(JOINED), Default::default()).await.unwrap();
        let upload = UploadRef { key: key(JOINED), upload: id };
        let content = PartContent::Whole(std::iter::once(Bytes::from_static(b"a part")).collect());
        let part = removed.put_part(&upload, 1, Default::default(), content).await.unwrap();
        rig.env.sleep(A_WHILE).await;
        // It has the upload's turn, and the part's chunk is on its way.
        let devices = devices_of(member, JOINED);
        devices.iter().for_each(|device| rig.gates.set(member, *device, Some(Rule::Mute)));
        let parts = vec![CompletePart { number: 1, order: part.order }];
        let completing = rig.env.spawn(complete_at(member.clone(), upload, parts, FIRST));
        rig.env.sleep(A_WHILE).await;
        rig.kill(removed);
        let recovery = removing(&rig, &[2]);
        rig.env.sleep(A_WHILE).await;
        let decided = |gateway: &LogStore| gateway.member_status().unwrap().decided.contains(&removed.inner.me);
        assert!(!completing.is_finished() && decided(leader) && decided(member));
        devices.iter().for_each(|device| rig.gates.set(member, *device, None));
        rig.gates.land(member.inner.me).await;
        completing.await.unwrap().unwrap();
        recovery.await.unwrap();
        for gateway in [leader, member] {
            assert_eq!(gateway.info(&key(JOINED)).await.unwrap().attributes.etag, attributes(FIRST).etag);
        }
    });
}

/// A recovery does not find a write, whose only copy is on a device that is away, and one member of two hears that it is over. The next one finds that write. Caught: a leader that tells
/// of it: who had decided passed it over, and the other one published it.
#[test]
fn what_a_recovery_did_not_find_is_void_for_the_next_one() {
    simulate(async {
        for has_next_decided in [true, false] {
            let rig = Arc::new(CellRig::new(208, 4).await);
            let [leader, next, last, removed] = &rig.gateways()[..] else { panic!("four gateways") };
            put(next, "key", "old").await.unwrap();
            rig.env.sleep(A_WHILE).await;
            let devices = devices_of(removed, "key");
            devices[1..].iter().for_each(|device| rig.gates.set(removed, *device, Some(Rule::Hold)));
            drop(rig.env.spawn(put_if(removed.clone(), "key", "new", Condition::None)));
            rig.env.sleep(A_WHILE).await;
            rig.kill(removed);
            let (decided, undecided) = if has_next_decided { (next, last) } else { (last, next) };
            let (led_by, view) = rig.leave_out(&[3], &[]).await;
            rig.hold(leader, decided, true);
            let others = devices[1..].to_vec();
            let recovery = rig.env.spawn(async move { led_by.recover(&view.undecided, &others).await });
            rig.env.sleep(A_WHILE).await;
            // Both are to hold what there is; the decision goes to one.
            rig.hold(leader, undecided, true);
            rig.hold(leader, decided, false);
            rig.env.sleep(A_WHILE).await;
            let has_decided = |gateway: &LogStore| gateway.member_status().unwrap().decided.contains(&removed.inner.me);
            assert!(has_decided(decided) && !has_decided(undecided));
            recovery.abort();
            rig.kill(leader);
            rig.remove_beside(&[0], &[removed.inner.me]).await;
            let hash = LogStore::object_hash(&key("key"));
            assert_eq!(newest(next, &hash), newest(last, &hash), "has the next leader decided: {has_next_decided}");
            all_read(&rig, "key", Some("old")).await;
        }
    });
}

/// A Complete has made its object and finds no room for the upload's end; it is repeated elsewhere: at another gateway, at one that has joined since, after
/// its gateway has died and a checkpoint covers the object. Caught: the end that is known to that gateway alone; and a recovery that ends the uploads
/// alone of which the walk finds the objects.
#[test]
fn a_complete_that_is_repeated_while_its_upload_ends_replaces_nothing() {
    simulate(async {
        for elsewhere in ["at another", "at one that has joined", "after its death"] {
            let rig = CellRig::new(204, 3).await;
            let (upload, parts, completing, primary) = half_complete(&rig).await;
            let [leader, member, completer] = &rig.gateways()[..] else { panic!("three gateways") };
            rig.gates.set(completer, primary, Some(Rule::Full));
            rig.gates.land(completer.inner.me).await;
            let first = completing.await.unwrap().unwrap();
            rig.env.sleep(A_WHILE).await;
            assert!(newest(leader, &upload_hash(&upload)).is_live(), "it is complete, and has not ended");
            for gateway in [leader, member, completer] {
                let parts = gateway.parts(&upload, 0, 10).await;
                assert!(matches!(parts, Err(EngineError::NoSuchUpload)), "{parts:?} at {}", gateway.inner.me);
            }
            put(member, JOINED, "newer").await.unwrap();
            let at = match elsewhere {
                "at one that has joined" => rig.join().await,
                "after its death" => {
                    leader.inner.checkpoint().await.unwrap();
                    rig.env.sleep(A_WHILE).await;
                    rig.kill(completer);
                    rig.remove(&[2]).await;
                    assert!(!newest(leader, &upload_hash(&upload)).is_live(), "the leader ends it");
                    member.clone()
                }
                _ => member.clone(),
            };
            let again = complete_at(at, upload.clone(), parts, b"second").await.unwrap();
            assert_eq!((again.order, again.etag), (first.order, first.etag), "{elsewhere}");
            rig.env.sleep(A_WHILE).await;
            for gateway in rig.gateways() {
                assert_eq!(get(&gateway, JOINED).await.as_deref(), Some("newer"), "{elsewhere}");
                assert!(!newest(&gateway, &upload_hash(&upload)).is_live(), "{elsewhere}: it has ended");
                assert_eq!(gateway.inner.background.endings().len(), 0, "{elsewhere}: nobody waits for it");
            }
            all_read(&rig, JOINED, Some("newer")).await;
        }
    });
}
