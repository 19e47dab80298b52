//! Copies that rot, and are made again: found by reads, or by the scrub, in a server of its own.

mod asked;

use super::script::{CHUNK, Read, Script};
use super::support::{Draw, Rig, key, simulate};
use crate::LogStore;
use crate::check::CheckReport;
use crate::heal::Damaged;
use crate::index::Located;
use crate::large::read_tree;
use crate::read::chunk_frame_bytes;
use disk::{AlignedBuf, DiskExt, Durability, Fault, FaultRule, Operation};
use engine::{EngineError, ObjectEngine};
use format::replicas::Places;
use std::time::Duration;
use target::ReadFailure;
use types::limits::BLOCK_BYTES;
use types::{DeviceId, Place};

pub const ZONE_BYTES: u64 = 128 * 1024;
/// Longer than healing takes.
pub const A_WHILE: Duration = Duration::from_secs(20);
const SHORT_FRAME_BYTES: u32 = 2048;
/// Bytes of a frame's header that tie it to its zone: without them it is not known for one.
const SEAL_BYTES: u64 = 64;

/// Where a place lies on its disk.
pub fn on_disk(place: Place, zone_bytes: u64) -> u64 {
    format::superblock::FIRST_REGION_BYTE + u64::from(place.zone.0) * zone_bytes + place.offset.bytes()
}

/// What of a frame rots.
#[derive(Clone, Copy, Debug)]
pub enum Rot {
    Header,
    Payload,
}

/// Rots something of a frame, which has so many bytes. One that is short has little but its header.
pub fn rot(rig: &Rig, (place, frame_bytes): (Place, u32), what: Rot, zone_bytes: u64) {
    let at = on_disk(place, zone_bytes);
    let at = match what {
        Rot::Payload if frame_bytes >= SHORT_FRAME_BYTES => at + u64::from(frame_bytes) / 2,
        _ => at,
    };
    // Some bits may be those of padding.
    for _ in 0..4 {
        rig.disks[place.device.0 as usize - 1].corrupt_at_rest(at, SEAL_BYTES);
    }
}

fn located(store: &LogStore, name: &str) -> Located {
    let hash = LogStore::object_hash(&key(name));
    store.inner.shard(&hash).lock().index().newest(&hash).expect("it was written")
}

/// The places of the copies of a record, and of everything below it, with the bytes of a frame: one list for each record, node or chunk.
async fn copies(store: &LogStore, name: &str) -> Vec<Vec<(Place, u32)>> {
    let located = located(store, name);
    let frames = |places: &Places, bytes: u32| places.as_slice().iter().map(|place| (*place, bytes)).collect();
    let mut all = vec![frames(&located.places, located.frame_bytes)];
    if located.large {
        let frame = store.inner.read_copies(&located).await.unwrap().unwrap();
        let tree = read_tree(&store.inner, &frame.payload, frame.record.tree_height).await.unwrap();
        all.extend(tree.all().map(|chunk| frames(&chunk.places, chunk_frame_bytes(chunk.payload_bytes))));
    }
    all
}

/// Finishes the open zones, and covers them.
async fn close_zones(store: &LogStore) {
    for device in store.inner.targets.devices() {
        device.finish_open_zones().await.unwrap();
    }
    store.inner.checkpoint().await.unwrap();
}

/// Small and large objects, with nodes above the chunks of one.
async fn filled(rig: &Rig, script: &mut Script) -> LogStore {
    let store = rig.open().await;
    for number in 0..6 {
        script.put(&store, &format!("small-{number}"), 3000 + 100 * number).await.unwrap();
    }
    script.put_large(&store, "large", 2 * CHUNK).await.unwrap();
    script.put_large(&store, "deep", 5 * CHUNK).await.unwrap();
    close_zones(&store).await;
    store
}

async fn rig(seed: u64, devices: u32, scrub_period: Duration) -> Rig {
    let mut rig = Rig::new(seed, devices, 48, ZONE_BYTES).await;
    rig.config.refs_per_list = 2;
    rig.config.collect_below_free_percent = 0;
    rig.config.scrub_period = scrub_period;
    rig
}

/// Every copy is good, and there are as many as there should be.
pub async fn must_be_whole(store: &LogStore, case: &str) -> CheckReport {
    let report = store.check().await;
    assert!(report.is_well() && report.few_copies == 0, "{case}: {report:#?}");
    report
}

async fn read_all(script: &Script, store: &LogStore) {
    for name in script.names() {
        let read = script.read(store, &name).await;
        assert!(matches!(read, Read::Right), "{name}: {read:?}");
    }
}

#[test]
fn a_copy_that_a_read_finds_damaged_is_made_again() {
    simulate(async {
        for what in [Rot::Header, Rot::Payload] {
            let mut rig = rig(1, 3, Duration::ZERO).await;
            let mut script = Script::default();
            let store = filled(&rig, &mut script).await;
            // The first copy is the one that is read.
            let mut rotten = 0;
            for name in script.names() {
                for places in copies(&store, &name).await {
                    rot(&rig, places[0], what, ZONE_BYTES);
                    rotten += 1;
                }
            }
            assert!(store.check().await.bad_copies >= rotten, "{what:?}");
            read_all(&script, &store).await;
            rig.env.sleep(A_WHILE).await;
            // Nodes that stand above a list which was written anew are gone, not healed.
            assert!(store.stats().healed_copies.get() > rotten / 2, "{what:?}: {}", store.stats().healed_copies.get());
            assert_eq!((store.stats().unhealed_copies.get(), store.size().suspect_copies), (0, 0));
            must_be_whole(&store, &format!("{what:?}")).await;
            script.judge(&store).await;
            drop(store);
            rig.crash();
            let store = rig.open().await;
            must_be_whole(&store, &format!("{what:?}, after a restart")).await;
            script.judge(&store).await;
        }
    });
}

#[test]
fn a_range_that_meets_damage_heals_its_chunk() {
    simulate(async {
        let rig = rig(2, 2, Duration::ZERO).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        let chunk = copies(&store, "large").await[1][0];
        rot(&rig, chunk, Rot::Payload, ZONE_BYTES);
        let engine::Content::Chunked(reader) = store.open(&key("large")).await.unwrap().content else { panic!("it is large") };
        reader.read(10..1000).await.unwrap();
        drop(reader);
        rig.env.sleep(A_WHILE).await;
        assert_eq!(store.stats().healed_copies.get(), 1);
        must_be_whole(&store, "a range").await;
    });
}

/// A disk that says that it can't read something is as bad as one that reads it wrong. One that is away is not.
#[test]
fn a_copy_that_the_disk_cant_read_is_made_again() {
    simulate(async {
        let rig = rig(3, 3, Duration::ZERO).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        let bad = located(&store, "small-1").places.primary();
        let at = on_disk(bad, ZONE_BYTES);
        let disk = &rig.disks[bad.device.0 as usize - 1];
        disk.add_rule(FaultRule::always_in(at..at + 4096, Operation::Read, Fault::Fail));
        read_all(&script, &store).await;
        rig.env.sleep(A_WHILE).await;
        assert!(store.stats().healed_copies.get() > 0);
        assert_ne!(located(&store, "small-1").places.primary(), bad);
        must_be_whole(&store, "with a bad sector").await;
    });
}

#[test]
fn the_scrub_finds_what_nobody_reads() {
    simulate(async {
        for (seed, what) in [(1, Rot::Header), (2, Rot::Payload), (3, Rot::Header), (4, Rot::Payload)] {
            let mut rig = rig(seed, 3, Duration::from_secs(60)).await;
            let mut script = Script::default();
            let store = filled(&rig, &mut script).await;
            let mut draw = Draw::new(seed);
            for name in script.names() {
                // Any copy, also one that reads never get to.
                for places in copies(&store, &name).await {
                    rot(&rig, places[draw.below(3) as usize], what, ZONE_BYTES);
                }
            }
            let (run, frame_bytes) = store.inner.names.layers().runs[0].frames().next().unwrap();
            rot(&rig, (run.as_slice()[1], frame_bytes), what, ZONE_BYTES);
            close_zones(&store).await;
            assert!(!store.check().await.is_well());
            rig.env.sleep(Duration::from_secs(600)).await;
            must_be_whole(&store, &format!("{what:?}")).await;
            assert!(store.stats().damaged_copies.get() > 0 && store.size().suspect_copies == 0);
            script.judge(&store).await;
            drop(store);
            rig.crash();
            script.judge(&rig.open().await).await;
        }
    });
}

/// Nothing is left of a frame.
async fn wipe(rig: &Rig, place: Place) {
    let disk = &rig.disks[place.device.0 as usize - 1];
    let block = AlignedBuf::zeroed(BLOCK_BYTES);
    disk.write(on_disk(place, ZONE_BYTES), block, Durability::Durable).await.unwrap();
}

#[test]
fn the_scrub_finds_what_left_nothing_but_a_hole() {
    simulate(async {
        let rig = rig(10, 3, Duration::from_secs(60)).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        for number in 0..6 {
            wipe(&rig, located(&store, &format!("small-{number}")).places.as_slice()[number % 3]).await;
        }
        assert_eq!(store.check().await.bad_copies, 6);
        rig.env.sleep(Duration::from_secs(600)).await;
        must_be_whole(&store, "wiped").await;
        script.judge(&store).await;
    });
}

/// A walk passes over a frame of which nothing is left. Its record still names it: the zone was reset, and the copy was missing from then on.
#[test]
fn collection_finds_what_left_nothing_but_a_hole() {
    simulate(async {
        let mut rig = rig(12, 3, Duration::ZERO).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        let wiped: Vec<Place> =
            (0..3).map(|number| located(&store, &format!("small-{number}")).places.as_slice()[number]).collect();
        drop(store);
        rig.restart();
        for place in &wiped {
            wipe(&rig, *place).await;
        }
        rig.config.collect_below_free_percent = 100;
        let store = rig.open().await;
        // Collection of everything that is not full never rests, and takes the processor.
        let until = rig.env.now() + A_WHILE;
        while !(store.stats().collected_zones.get() > 0 && store.check().await.is_well()) {
            assert!(rig.env.now() < until, "{:?}", store.stats());
            rig.env.sleep(Duration::from_millis(500)).await;
        }
        must_be_whole(&store, "collected").await;
        script.judge(&store).await;
    });
}

/// A start takes the end of the last whole frame for the end of a zone that was open: a copy behind it seems to have moved, for ever.
#[test]
fn a_copy_beyond_the_end_that_a_start_gave_its_zone_is_made_again() {
    simulate(async {
        for scrub_period in [Duration::ZERO, Duration::from_secs(60)] {
            let mut rig = rig(11, 3, scrub_period).await;
            let mut script = Script::default();
            let store = filled(&rig, &mut script).await;
            script.put(&store, "last", 3000).await.unwrap();
            store.inner.checkpoint().await.unwrap();
            let last = located(&store, "last").places.primary();
            drop(store);
            rig.crash();
            wipe(&rig, last).await;
            let store = rig.open().await;
            let report = store.check().await;
            assert_eq!((report.bad_copies, report.findings[0].bad[0].1.as_str()), (1, "the record has moved"));
            if scrub_period.is_zero() {
                assert!(matches!(script.read(&store, "last").await, Read::Right));
            }
            rig.env.sleep(A_WHILE).await;
            must_be_whole(&store, &format!("scrub: {scrub_period:?}")).await;
            script.judge(&store).await;
        }
    });
}

/// What a crash tore is looked up once, and nothing is copied for it.
#[test]
fn torn_writes_that_nobody_names_cost_nothing() {
    simulate(async {
        let mut rig = rig(5, 3, Duration::from_secs(60)).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        let places = copies(&store, "small-0").await.remove(0);
        script.put(&store, "small-0", 500).await.unwrap();
        places.iter().for_each(|place| rot(&rig, *place, Rot::Payload, ZONE_BYTES));
        rig.env.sleep(Duration::from_secs(600)).await;
        assert_eq!((store.stats().damaged_copies.get(), store.stats().healed_copies.get()), (0, 0));
        let scrubbed: u64 =
            store.inner.targets.devices().map(|target| target.local().unwrap().stats().scrub_damage.get()).sum();
        assert!(scrubbed >= 3, "the scrub has met {scrubbed}");
        drop(store);
        rig.crash();
        must_be_whole(&rig.open().await, "after a restart").await;
    });
}

#[test]
fn an_object_without_a_good_copy_is_an_error_and_no_absence() {
    simulate(async {
        let mut rig = rig(6, 3, Duration::from_secs(60)).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        let places = located(&store, "small-2").places;
        copies(&store, "small-2").await[0].iter().for_each(|copy| rot(&rig, *copy, Rot::Payload, ZONE_BYTES));
        let is_corrupt = async |store: &LogStore| {
            let read = script.read(store, "small-2").await;
            assert!(matches!(read, Read::Failed(EngineError::Corrupt { .. })), "{read:?}");
        };
        is_corrupt(&store).await;
        rig.env.sleep(Duration::from_secs(600)).await;
        assert!(store.stats().unhealed_copies.get() >= 3, "{}", store.stats().unhealed_copies.get());
        assert_eq!(located(&store, "small-2").places, places, "it stays named");
        is_corrupt(&store).await;
        let report = store.check().await;
        assert_eq!((report.lost, report.bad_copies), (1, 0));
        drop(store);
        rig.crash();
        is_corrupt(&rig.open().await).await;
    });
}

/// The compare-and-swap: what is written or deleted while a copy is made again stays.
#[test]
fn healing_loses_against_every_newer_write() {
    simulate(async {
        let mut rig = rig(7, 3, Duration::ZERO).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        for round in 0..30 {
            let name = format!("small-{}", round % 6);
            if script.history.objects[&name].certain().flatten().is_none() {
                script.put(&store, &name, 700).await.unwrap();
            }
            let hash = LogStore::object_hash(&key(&name));
            let place = located(&store, &name).places.primary();
            rot(&rig, copies(&store, &name).await[0][0], Rot::Header, ZONE_BYTES);
            assert!(matches!(script.read(&store, &name).await, Read::Right));
            let inner = store.inner.clone();
            let healing = rig.env.spawn(async move { inner.heal_copies().await });
            for _ in 0..round % 5 {
                tokio::task::yield_now().await;
            }
            match round % 3 {
                0 => script.delete(&store, &name).await.unwrap(),
                1 => script.put(&store, &name, 900 + round).await.unwrap(),
                _ => script.put_large(&store, &name, 2 * CHUNK).await.unwrap(),
            }
            healing.await.unwrap().unwrap();
            // Told again, much later: nothing has this place any more.
            store.inner.suspects.note(Damaged { place, owner: Some(hash) }, rig.env.now());
            store.inner.heal_copies().await.unwrap();
            script.judge(&store).await;
        }
        drop(store);
        rig.crash();
        script.judge(&rig.open().await).await;
    });
}

/// A device that takes no writes any more: the copy goes to one that has none.
#[test]
fn a_copy_on_a_device_that_takes_no_writes_is_made_elsewhere() {
    simulate(async {
        let rig = rig(8, 4, Duration::ZERO).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        let (failed, frame_bytes) = copies(&store, "small-3").await[0][0];
        rig.disks[failed.device.0 as usize - 1].add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        for number in 0..20 {
            // One of them meets the failure.
            let _met = script.put(&store, &format!("more-{number}"), 100).await;
        }
        assert!(!store.inner.targets.is_writable(failed.device));
        rot(&rig, (failed, frame_bytes), Rot::Payload, ZONE_BYTES);
        assert!(matches!(script.read(&store, "small-3").await, Read::Right));
        rig.env.sleep(A_WHILE).await;
        let places = located(&store, "small-3").places;
        assert!(places.as_slice().iter().all(|place| place.device != failed.device), "{places:?}");
        assert_eq!(places.len(), 3);
        assert!(matches!(script.read(&store, "small-3").await, Read::Right));
    });
}

/// The copies of a record that was written to fewer devices say so: the one that was added later is made again from them.
#[test]
fn a_copy_that_was_added_later_is_made_again() {
    simulate(async {
        let mut rig = rig(9, 3, Duration::ZERO).await;
        let mut script = Script::default();
        let away = DeviceId(3);
        let store = rig.open_forgetting(&[away]).await;
        for number in 0..6 {
            script.put(&store, &format!("small-{number}"), 700).await.unwrap();
        }
        close_zones(&store).await;
        drop(store);
        rig.restart();
        let store = rig.open().await;
        store.inner.background.want_repair();
        rig.env.sleep(A_WHILE).await;
        for name in script.names() {
            let added = located(&store, &name).places.as_slice()[2];
            assert_eq!(added.device, away);
            store.inner.suspects.note(Damaged { place: added, owner: Some(LogStore::object_hash(&key(&name))) }, rig.env.now());
        }
        rig.env.sleep(A_WHILE).await;
        assert_eq!(store.stats().healed_copies.get(), 6);
        must_be_whole(&store, "added and healed").await;
    });
}

/// A delete is in a run after a checkpoint. Caught: a check that looks for the copies of its record, which collection has given up.
#[test]
fn a_check_misses_no_copies_of_deletes_that_are_written_down() {
    simulate(async {
        let mut rig = rig(10, 3, Duration::ZERO).await;
        rig.config.collect_below_free_percent = 100;
        let mut script = Script::default();
        let store = rig.open().await;
        script.put(&store, "deleted", 3000).await.unwrap();
        script.delete(&store, "deleted").await.unwrap();
        let tombstone = located(&store, "deleted");
        must_be_whole(&store, "not written down").await;
        close_zones(&store).await;
        store.inner.collect().await.unwrap();
        assert_eq!(located(&store, "deleted"), tombstone, "it is not forgotten yet");
        for place in tombstone.places.as_slice() {
            let read = store.inner.targets.read(place, tombstone.frame_bytes).await;
            assert!(matches!(read, Err(ReadFailure::Moved)), "its zone was reset");
        }
        must_be_whole(&store, "its zone was reset").await;
        script.judge(&store).await;
    });
}
