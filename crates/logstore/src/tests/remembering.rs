//! What a start remembers for the next one (docs/rfd/0004): a key may be unavailable, never old.

use super::healing::{Rot, on_disk, rot};
use super::support::{BUCKET, MemoryManifests, Rig, attributes, key, simulate};
use super::unread_ranges::fail_reads;
use crate::{LogStore, OpenError};
use bytes::Bytes;
use disk::{Fault, FaultRule, Operation};
use engine::{Condition, Content, EngineError, ListQuery, ObjectEngine};
use format::replicas::Places;
use smallvec::smallvec;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, Place};

const ONE: DeviceId = DeviceId(1);
const TWO: DeviceId = DeviceId(2);
const ZONE_BYTES: u64 = 1024 * 1024;

/// How a start ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// With a last checkpoint.
    Close,
    Crash,
}

async fn end(rig: &mut Rig, store: LogStore, how: End) {
    if how == End::Close {
        store.close().await;
    }
    drop(store);
    rig.crash();
}

async fn rig() -> Rig {
    Rig::new(11, 2, 32, 1024 * 1024).await
}

async fn try_put(store: &LogStore, name: &str, content: &str, condition: Condition) -> Result<(), EngineError> {
    let payload = smallvec![Bytes::copy_from_slice(content.as_bytes())];
    store.put(&key(name), attributes(content.as_bytes()), payload, condition).await.map(drop)
}

async fn put(store: &LogStore, name: &str, content: &str) {
    try_put(store, name, content, Condition::None).await.unwrap();
}

async fn try_get(store: &LogStore, name: &str) -> Result<Option<String>, EngineError> {
    match store.open(&key(name)).await {
        Ok(found) => match found.content {
            Content::Whole(bytes) => Ok(Some(String::from_utf8(bytes.to_vec()).unwrap())),
            Content::Chunked(_) => panic!("small objects are whole"),
        },
        Err(EngineError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn get(store: &LogStore, name: &str) -> Option<String> {
    try_get(store, name).await.unwrap()
}

async fn list(store: &LogStore) -> Result<usize, EngineError> {
    let none = Bytes::new;
    let query = ListQuery { bucket: BUCKET, prefix: none(), start_after: none(), delimiter: none(), max_items: 1000 };
    store.list(&query).await.map(|page| page.items.len())
}

fn waits_for_two<T: std::fmt::Debug>(outcome: Result<T, EngineError>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, EngineError::DeviceMissing { .. }), "{error}");
    assert!(error.to_string().contains("unavailable until device 2 is back"), "{error}");
}

/// Device 1 has the old version of `key` and not `late`; device 2 alone has what came after.
async fn overwritten_without_one(rig: &mut Rig, how: End) {
    let store = rig.open().await;
    put(&store, "key", "old").await;
    put(&store, "untouched", "same").await;
    end(rig, store, End::Close).await;
    let store = rig.open_without(&[ONE]).await;
    put(&store, "key", "new").await;
    put(&store, "late", "new").await;
    end(rig, store, how).await;
}

#[test]
fn a_start_without_the_newest_writes_answers_nothing_old() {
    simulate(async {
        for how in [End::Crash, End::Close] {
            let mut rig = rig().await;
            overwritten_without_one(&mut rig, how).await;
            // Twice: a start that can't decide leaves the next one no wiser.
            for _ in 0..2 {
                let store = rig.open_without(&[TWO]).await;
                for name in ["key", "late", "untouched"] {
                    waits_for_two(try_get(&store, name).await);
                    waits_for_two(try_put(&store, name, "else", Condition::Absent).await);
                }
                waits_for_two(list(&store).await);
                waits_for_two(store.is_empty(BUCKET).await);
                assert_eq!(store.waits_for(), [TWO]);
                assert_eq!(store.size().undecidable_share, 1.0);
                end(&mut rig, store, how).await;
            }
            let store = rig.open().await;
            assert_eq!(store.waits_for(), []);
            assert_eq!(get(&store, "key").await.as_deref(), Some("new"), "{how:?}");
            assert_eq!(get(&store, "late").await.as_deref(), Some("new"), "{how:?}");
            assert_eq!(get(&store, "untouched").await.as_deref(), Some("same"), "{how:?}");
            assert_eq!(list(&store).await.unwrap(), 3);
            end(&mut rig, store, End::Close).await;
        }
    });
}

#[test]
fn what_is_written_meanwhile_can_be_read_and_wins() {
    simulate(async {
        for how in [End::Crash, End::Close] {
            let mut rig = rig().await;
            overwritten_without_one(&mut rig, End::Crash).await;
            let before = rig.manifests.installed();
            let store = rig.open_without(&[TWO]).await;
            put(&store, "key", "newest").await;
            assert_eq!(get(&store, "key").await.as_deref(), Some("newest"));
            // Nothing is known of it here, and yet the delete must be more than a word.
            store.delete(&key("late"), Condition::None).await.unwrap();
            assert_eq!(get(&store, "late").await, None);
            waits_for_two(try_get(&store, "untouched").await);
            store.inner.checkpoint().await.unwrap();
            let held = rig.manifests.installed();
            assert!(held.epoch > before.epoch);
            assert_eq!((held.start, held.covered), (before.start, before.covered), "nothing counts as covered");
            assert!(held.tables.len() > before.tables.len(), "{:?}", held.tables);
            end(&mut rig, store, how).await;
            for round in 0..3 {
                let store = rig.open().await;
                assert_eq!(get(&store, "key").await.as_deref(), Some("newest"), "{how:?}, round {round}");
                assert_eq!(get(&store, "late").await, None, "{how:?}, round {round}");
                assert_eq!(get(&store, "untouched").await.as_deref(), Some("same"));
                put(&store, "more", "more").await;
                end(&mut rig, store, End::Close).await;
                let after = rig.manifests.installed();
                assert_eq!((after.covered, after.tables.len()), (after.epoch, 1), "all is decided");
            }
        }
    });
}

#[test]
fn a_device_that_fails_is_out_of_the_recorded_table_before_the_next_write() {
    simulate(async {
        let mut rig = rig().await;
        let store = rig.open().await;
        put(&store, "key", "old").await;
        rig.disks[0].add_rule(FaultRule::next(Operation::Write, Fault::FailTorn));
        try_put(&store, "other", "lost", Condition::None).await.unwrap_err();
        put(&store, "key", "new").await;
        assert_eq!(store.inner.targets.table().devices(), [TWO]);
        end(&mut rig, store, End::Crash).await;
        // Device 1 is well again, and knows nothing of the newer version.
        let store = rig.open_without(&[TWO]).await;
        waits_for_two(try_get(&store, "key").await);
        end(&mut rig, store, End::Crash).await;
        assert_eq!(get(&rig.open().await, "key").await.as_deref(), Some("new"));
    });
}

#[test]
fn a_device_that_is_gone_for_good_is_waited_for_no_longer() {
    simulate(async {
        let mut rig = rig().await;
        overwritten_without_one(&mut rig, End::Crash).await;
        let store = rig.open_without(&[TWO]).await;
        waits_for_two(try_get(&store, "key").await);
        end(&mut rig, store, End::Crash).await;
        let store = rig.open_forgetting(&[TWO]).await;
        assert_eq!(store.waits_for(), []);
        assert_eq!(get(&store, "key").await.as_deref(), Some("old"), "what the device had is lost with it");
        put(&store, "key", "next").await;
        end(&mut rig, store, End::Close).await;
        let after = rig.manifests.installed();
        assert_eq!(after.covered, after.epoch, "vectors move again");
        assert_eq!(get(&rig.open_forgetting(&[TWO]).await, "key").await.as_deref(), Some("next"));
    });
}

#[test]
fn a_checkpoint_that_is_lost_with_a_device_is_made_anew_of_the_logs() {
    simulate(async {
        let mut rig = rig().await;
        overwritten_without_one(&mut rig, End::Close).await;
        // What the last checkpoint wrote stands on device 2 alone.
        let store = rig.open_without(&[TWO]).await;
        waits_for_two(try_put(&store, "key", "else", Condition::None).await);
        end(&mut rig, store, End::Close).await;
        for round in 0..2 {
            let store = rig.open_forgetting(&[TWO]).await;
            assert_eq!(get(&store, "key").await.as_deref(), Some("old"), "what the device had is lost with it");
            assert_eq!(get(&store, "untouched").await.as_deref(), Some("same"));
            assert_eq!(list(&store).await.unwrap(), 2 + round);
            put(&store, &format!("more-{round}"), "more").await;
            end(&mut rig, store, End::Close).await;
        }
    });
}

/// What is deleted may stand in the logs still, and the checkpoint alone says that it is.
#[test]
fn a_checkpoint_that_cant_be_read_for_a_moment_is_not_given_up() {
    simulate(async {
        let mut rig = Rig::new(17, 3, 32, ZONE_BYTES).await;
        // A device is gone for good, and known to the manifest for ever.
        let store = rig.open().await;
        end(&mut rig, store, End::Close).await;
        let store = rig.open_forgetting(&[TWO]).await;
        put(&store, "deleted", "content").await;
        store.delete(&key("deleted"), Condition::None).await.unwrap();
        put(&store, "key", "content").await;
        end(&mut rig, store, End::Close).await;
        // The next start walks from behind this run.
        let store = rig.open_forgetting(&[TWO]).await;
        put(&store, "late", "content").await;
        end(&mut rig, store, End::Close).await;
        let run = rig.manifests.installed().runs[0].index[0].places;
        env::keep_marks();
        // Others read there before the run is loaded.
        for skip in 0..8 {
            for place in run.as_slice() {
                let at = on_disk(*place, ZONE_BYTES);
                let once = FaultRule { skip, times: 1, ..FaultRule::always_in(at..at + 1, Operation::Read, Fault::Fail) };
                rig.disks[place.device.0 as usize - 1].add_rule(once);
            }
            let store = rig.open_forgetting(&[TWO]).await;
            assert_eq!(get(&store, "deleted").await, None);
            end(&mut rig, store, End::Crash).await;
            rig.disks.iter().for_each(|disk| disk.clear_faults());
        }
        let again = env::take_marks().get("start: a checkpoint that can't be read is read again").copied();
        assert!(again > Some(0), "the run is read at each start");
        let store = rig.open_forgetting(&[TWO]).await;
        assert_eq!((get(&store, "deleted").await, get(&store, "key").await.as_deref()), (None, Some("content")));
    });
}

/// A server that has died; each part of its checkpoint has a copy on both of its devices.
async fn dead_with_checkpoint() -> (Rig, Vec<(Place, u32)>) {
    let mut rig = rig().await;
    let store = rig.open().await;
    put(&store, "key", "content").await;
    put(&store, "deleted", "content").await;
    store.delete(&key("deleted"), Condition::None).await.unwrap();
    store.inner.checkpoint().await.unwrap();
    let runs = store.inner.names.layers().runs;
    let frames = runs.iter().flat_map(|run| run.frames());
    let on_one = |(places, frame_bytes): (Places, u32)| {
        assert_eq!(places.len(), 2);
        (places.as_slice().iter().copied().find(|place| place.device == ONE).unwrap(), frame_bytes)
    };
    let on_one = frames.map(on_one).collect();
    end(&mut rig, store, End::Crash).await;
    (rig, on_one)
}

/// Caught: a server that could never be started again, without anything that a person could do.
#[test]
fn a_checkpoint_is_lost_with_a_device_that_is_gone_if_its_other_copies_are_damaged() {
    simulate(async {
        for is_readable in [true, false] {
            for part in 0..2 {
                let (mut rig, on_one) = dead_with_checkpoint().await;
                match is_readable {
                    true => rot(&rig, on_one[part], Rot::Header, ZONE_BYTES),
                    false => fail_reads(&rig, on_one[part].0, ZONE_BYTES),
                }
                // While the other one is away it may come back.
                let store = rig.open_without(&[TWO]).await;
                waits_for_two(try_get(&store, "key").await);
                end(&mut rig, store, End::Crash).await;
                if !is_readable {
                    fail_reads(&rig, on_one[part].0, ZONE_BYTES);
                }
                let store = rig.open_forgetting(&[TWO]).await;
                assert_eq!(get(&store, "key").await.as_deref(), Some("content"));
                assert_eq!(get(&store, "deleted").await, None, "its tombstone is in the log still");
                put(&store, "more", "more").await;
                end(&mut rig, store, End::Close).await;
                assert_eq!(list(&rig.open_forgetting(&[TWO]).await).await.unwrap(), 2);
            }
        }
    });
}

/// The manifest may be an older one, whose frames were overwritten since.
#[test]
fn a_checkpoint_that_is_damaged_beside_no_device_that_is_gone_is_not_given_up() {
    simulate(async {
        let (rig, on_one) = dead_with_checkpoint().await;
        rot(&rig, on_one[0], Rot::Header, ZONE_BYTES);
        let places = rig.manifests.installed().runs[0].index[0].places;
        for place in places.as_slice() {
            rot(&rig, (*place, 0), Rot::Header, ZONE_BYTES);
        }
        let error = rig.try_open(&[]).await.err().expect("it can't be read");
        assert!(matches!(error, OpenError::Checkpoint(EngineError::Corrupt { .. })), "{error}");
    });
}

/// Whether anything would be lost with these devices, once missing copies have had time to be made.
async fn is_safe_without(store: &LogStore, lost: &[u32]) -> bool {
    tokio::time::sleep(Duration::from_secs(5)).await;
    store.would_lose(&lost.iter().copied().map(DeviceId).collect()).await.unwrap().is_nothing()
}

/// Small objects, and some with chunks, each of which stands where its own hash puts it.
async fn put_all_kinds(store: &LogStore) {
    for number in 0..64 {
        put(store, &format!("key-{number}"), "content").await;
    }
    for number in 0..8 {
        let large = key(&format!("large-{number}"));
        let mut staged = store.stage(&large, None);
        for _ in 0..4 {
            store.stage_chunk(&mut staged, Bytes::from(vec![number; 100 * 1024])).await.unwrap();
        }
        store.commit(&large, staged, attributes(&[number]), Condition::None).await.unwrap();
    }
}

async fn check_all_kinds(store: &LogStore) {
    for number in 0..64 {
        assert_eq!(get(store, &format!("key-{number}")).await.as_deref(), Some("content"));
    }
    for number in 0..8 {
        let found = store.open(&key(&format!("large-{number}"))).await.unwrap();
        let Content::Chunked(reader) = found.content else { panic!("it is large") };
        let mut at = 0;
        while at < 400 * 1024 {
            let read = reader.read(at..400 * 1024).await.unwrap();
            assert!(!read.is_empty() && read.iter().all(|byte| *byte == number));
            at += read.len() as u64;
        }
    }
}

#[test]
fn what_had_copies_on_a_device_that_is_gone_gets_others() {
    simulate(async {
        let mut rig = Rig::new(13, 4, 32, 1024 * 1024).await;
        let store = rig.open().await;
        put_all_kinds(&store).await;
        assert!(is_safe_without(&store, &[1, 2]).await);
        end(&mut rig, store, End::Close).await;
        // Without two of the three devices that are left everything has its third copy: none is on the device that is gone.
        let store = rig.open_forgetting(&[TWO]).await;
        assert!(is_safe_without(&store, &[1, 3]).await && is_safe_without(&store, &[3, 4]).await);
        assert_eq!(list(&store).await.unwrap(), 72);
    });
}

#[test]
fn more_devices_make_more_copies() {
    simulate(async {
        let mut rig = Rig::new(14, 3, 32, 1024 * 1024).await;
        let store = rig.open_forgetting(&[TWO, DeviceId(3)]).await;
        put_all_kinds(&store).await;
        end(&mut rig, store, End::Close).await;
        let store = rig.open().await;
        assert!(is_safe_without(&store, &[1, 2]).await && is_safe_without(&store, &[1, 3]).await);
        end(&mut rig, store, End::Crash).await;
        let store = rig.open().await;
        assert!(is_safe_without(&store, &[1, 2]).await && is_safe_without(&store, &[2, 3]).await);
        check_all_kinds(&store).await;
    });
}

/// Caught: a checkpoint that said that the object stands on the device that was lost alone, with another copy of it in vain on the other one. And
/// checkpoints without end.
#[test]
fn when_no_copies_are_left_to_make_a_checkpoint_has_them() {
    simulate(async {
        let mut rig = rig().await;
        let store = rig.open_forgetting(&[TWO]).await;
        put(&store, "key", "content").await;
        end(&mut rig, store, End::Close).await;
        let store = rig.open().await;
        assert!(store.size().repair_left > 0);
        while store.size().repair_left > 0 {
            tokio::time::sleep(Duration::from_micros(10)).await;
        }
        let made = store.stats().checkpoints.get();
        assert_eq!((store.stats().added_copies.get(), made), (1, 1));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(store.stats().checkpoints.get(), made);
        // Nothing is to be made, and nothing to be written down.
        store.inner.background.want_repair();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!((store.size().repair_left, store.stats().checkpoints.get()), (0, made));
        end(&mut rig, store, End::Crash).await;
        let store = rig.open_forgetting(&[ONE]).await;
        assert_eq!(get(&store, "key").await.as_deref(), Some("content"));
    });
}

/// Caught: devices that could go by places of which no start knows.
#[test]
fn what_would_not_be_lost_is_not_lost_with_all_power_either() {
    simulate(async {
        let mut rig = Rig::new(18, 6, 32, ZONE_BYTES).await;
        let store = rig.open().await;
        put(&store, "key", "content").await;
        store.inner.checkpoint().await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let hash = LogStore::object_hash(&key("key"));
        let known = || store.inner.shard(&hash).lock().index().newest(&hash).unwrap();
        let places = known().places;
        let left: BTreeSet<DeviceId> = places.as_slice().iter().map(|place| place.device).collect();
        let others = (1..=6).map(DeviceId).filter(|device| !left.contains(device));
        for (place, to) in places.as_slice().iter().zip(others) {
            let frame = store.inner.read_copies(&known()).await.unwrap().unwrap();
            assert!(store.inner.replace_copy(frame.record, frame.payload, (*place, to), &hash).await.unwrap());
        }
        assert!(store.would_lose(&left).await.unwrap().is_nothing());
        end(&mut rig, store, End::Crash).await;
        let store = rig.open_forgetting(&Vec::from_iter(left)).await;
        assert_eq!(get(&store, "key").await.as_deref(), Some("content"));
    });
}

#[test]
fn a_power_cut_while_copies_are_made_loses_none() {
    let mut were_cut = 0;
    for pause_us in (0..40).map(|step| step * step * 25) {
        were_cut += simulate(async {
            let mut rig = Rig::new(15 + pause_us, 3, 32, 1024 * 1024).await;
            let store = rig.open_forgetting(&[TWO, DeviceId(3)]).await;
            put_all_kinds(&store).await;
            end(&mut rig, store, if pause_us % 2 == 0 { End::Close } else { End::Crash }).await;
            let mut were_cut = 0;
            for _ in 0..3 {
                let store = rig.open().await;
                tokio::time::sleep(Duration::from_micros(pause_us)).await;
                were_cut += u32::from(store.stats().added_copies.get() > 0 && store.size().repair_left > 0);
                end(&mut rig, store, End::Crash).await;
            }
            let store = rig.open().await;
            check_all_kinds(&store).await;
            assert!(is_safe_without(&store, &[1, 2]).await && is_safe_without(&store, &[2, 3]).await);
            check_all_kinds(&store).await;
            were_cut
        });
    }
    assert!(were_cut > 10, "some cuts come in the middle: {were_cut}");
}

#[test]
fn of_four_devices_only_keys_whose_copies_are_all_away_wait() {
    simulate(async {
        let mut rig = Rig::new(12, 4, 32, 1024 * 1024).await;
        let store = rig.open().await;
        for number in 0..64 {
            put(&store, &format!("key-{number}"), "old").await;
        }
        end(&mut rig, store, End::Crash).await;
        // Three copies of four devices: each key is without a copy on one of them.
        let away = [DeviceId(2), DeviceId(3), DeviceId(4)];
        let store = rig.open_without(&away).await;
        let mut waiting = 0;
        for number in 0..64 {
            match try_get(&store, &format!("key-{number}")).await {
                Ok(found) => assert_eq!(found.as_deref(), Some("old")),
                Err(error) => {
                    assert!(error.to_string().contains("until devices 2, 3, 4 are back"), "{error}");
                    waiting += 1;
                }
            }
        }
        assert!((4..32).contains(&waiting), "a quarter of the keys has no copy on device 1: {waiting}");
        assert_eq!(store.size().undecidable_share, 0.25);
        assert!(list(&store).await.is_err());
    });
}

#[test]
fn a_manager_that_went_back_in_time_is_refused() {
    simulate(async {
        let mut rig = rig().await;
        let store = rig.open().await;
        put(&store, "key", "value").await;
        end(&mut rig, store, End::Crash).await;
        rig.manifests = Arc::new(MemoryManifests::default());
        let refused = rig.try_open(&[]).await.err().expect("generations would repeat");
        assert!(matches!(refused, OpenError::ManagerBehind { .. }), "{refused}");
        assert!(refused.to_string().contains("trilith fsck --rebuild"), "{refused}");
    });
}

/// A write that stands on one of three devices. Whatever the first start makes of it, the next ones may not think better of it
/// because they see less.
#[test]
fn what_one_start_did_not_find_stays_away_when_a_device_is_missing() {
    simulate(async {
        let mut discarded = 0;
        for survivor in 0..3 {
            for missing in (1..=3).map(DeviceId) {
                let mut rig = Rig::new(12, 3, 32, 1024 * 1024).await;
                let store = rig.open().await;
                let names: Vec<String> = (0..6).map(|number| format!("key {number}")).collect();
                for name in &names {
                    put(&store, name, "old").await;
                }
                let dead = (0..3).filter(|disk| *disk != survivor);
                dead.for_each(|disk| rig.disks[disk].power_cut());
                for name in &names {
                    let lost = tokio::time::timeout(Duration::from_secs(1), put(&store, name, "new"));
                    lost.await.expect_err("two of three copies never land");
                }
                end(&mut rig, store, End::Crash).await;
                let store = rig.open().await;
                let mut seen = Vec::new();
                for name in &names {
                    seen.push(get(&store, name).await);
                }
                discarded += seen.iter().filter(|value| value.as_deref() == Some("old")).count();
                end(&mut rig, store, End::Crash).await;
                let store = rig.open_without(&[missing]).await;
                for (name, seen) in names.iter().zip(seen) {
                    assert_eq!(get(&store, name).await, seen, "{name}, survivor {survivor}, without {missing}");
                }
                end(&mut rig, store, End::Crash).await;
            }
        }
        assert!(discarded > 0, "a copy that is not the primary's and stands alone is discarded");
    });
}
