//! Devices that fail, rot, fill up or stay away.

use super::script::{CHUNK, Read, Script};
use super::support::{Draw, Rig, simulate};
use crate::LogStore;
use device::{LogVector, WalkEvent};
use disk::{Fault, FaultRule, Operation};
use engine::EngineError;
use format::record::{Record, RecordKind};
use std::collections::BTreeMap;
use types::{DeviceId, Place};

const ZONE_BYTES: u64 = 128 * 1024;

/// Small and large objects, some of them overwritten, some deleted; a checkpoint in the middle if asked for.
async fn fill(script: &mut Script, store: &LogStore, checkpoint: bool) {
    for number in 0..12 {
        script.put(store, &format!("small-{number:02}"), 700 + number).await.unwrap();
    }
    for number in 0..4 {
        script.put_large(store, &format!("large-{number}"), 2 * CHUNK + 100 * number).await.unwrap();
    }
    if checkpoint {
        store.inner.checkpoint().await.unwrap();
    }
    for number in 0..4 {
        script.put(store, &format!("small-{number:02}"), 900).await.unwrap();
        script.delete(store, &format!("small-{:02}", number + 4)).await.unwrap();
    }
    script.put_large(store, "large-0", 3 * CHUNK).await.unwrap();
    script.delete(store, "large-1").await.unwrap();
    if checkpoint {
        store.inner.checkpoint().await.unwrap();
    }
}

#[test]
fn a_device_that_is_away_and_comes_back_changes_nothing() {
    simulate(async {
        for away in 1..=3 {
            let mut rig = Rig::new(40 + away as u64, 3, 48, ZONE_BYTES).await;
            let mut script = Script::default();
            let store = rig.open().await;
            fill(&mut script, &store, true).await;
            for number in 0..6 {
                script.put(&store, &format!("late-{number}"), 500).await.unwrap();
            }
            script.delete(&store, "late-5").await.unwrap();
            drop(store);
            rig.crash();
            // Without it everything is readable: what it alone ordered is rolled forward from the other copies.
            let away = [DeviceId(away)];
            for _ in 0..2 {
                let store = rig.open_without(&away).await;
                script.judge(&store).await;
                rig.crash();
            }
            let store = rig.open_without(&away).await;
            script.judge(&store).await;
            for round in 0..8 {
                script.put(&store, "small-08", 100 + round).await.unwrap();
                script.delete(&store, &format!("large-{}", round % 3)).await.unwrap();
                script.delete(&store, &format!("late-{}", round % 3)).await.unwrap();
                store.inner.checkpoint().await.unwrap();
                store.inner.merge_runs().await.unwrap();
            }
            drop(store);
            rig.crash();
            let store = rig.open().await;
            script.judge(&store).await;
            assert_eq!(store.stats().recopied.get(), 0, "a device that comes back is not copied to the others");
            drop(store);
            rig.crash();
            script.judge(&rig.open().await).await;
        }
    });
}

#[test]
fn a_failed_write_ends_one_device_and_nothing_else() {
    simulate(async {
        for (seed, failing) in [(1u64, 1), (2, 2), (3, 3)] {
            let mut rig = Rig::new(seed, 3, 48, ZONE_BYTES).await;
            let mut script = Script::default();
            let store = rig.open().await;
            fill(&mut script, &store, true).await;
            let generation = store.inner.targets.table().generation();
            rig.disks[failing as usize - 1].add_rule(FaultRule::next(Operation::Write, Fault::FailTorn));
            let mut failed = 0;
            for number in 0..30 {
                if let Err(error) = script.put(&store, &format!("small-{number:02}"), 300 + number).await {
                    assert!(matches!(error, EngineError::Unavailable { .. }), "{error}");
                    failed += 1;
                }
            }
            assert_eq!(failed, 1, "only the write that met the failure fails");
            assert_eq!(store.inner.targets.table().generation().0, generation.0 + 1);
            script.delete(&store, "small-29").await.unwrap();
            script.put_large(&store, "large-2", 3 * CHUNK).await.unwrap();
            script.judge(&store).await;
            store.inner.checkpoint().await.unwrap();
            script.put(&store, "small-20", 77).await.unwrap();
            drop(store);
            rig.crash();
            let store = rig.open_without(&[DeviceId(failing)]).await;
            script.judge(&store).await;
            script.put(&store, "small-21", 78).await.unwrap();
            drop(store);
            rig.crash();
            script.judge(&rig.open().await).await;
        }
    });
}

#[test]
fn a_delete_after_a_failed_put_outlives_a_restart() {
    simulate(async {
        for failing in [1, 2, 3] {
            let mut rig = Rig::new(60, 3, 48, ZONE_BYTES).await;
            let mut script = Script::default();
            let store = rig.open().await;
            // The zones are open: the next write is a record.
            for number in 0..4 {
                script.put(&store, &format!("before-{number}"), 100).await.unwrap();
            }
            rig.disks[failing - 1].add_rule(FaultRule::next(Operation::Write, Fault::Fail));
            script.put(&store, "failed", 100).await.unwrap_err();
            script.delete(&store, "failed").await.unwrap();
            drop(store);
            rig.crash();
            script.judge(&rig.open().await).await;
        }
    });
}

#[test]
fn collection_goes_on_when_a_device_has_failed() {
    simulate(async {
        let mut rig = Rig::new(70, 3, 20, ZONE_BYTES).await;
        rig.config.checkpoint_entries = 30;
        rig.config.collect_below_free_percent = 60;
        let mut script = Script::default();
        let store = rig.open().await;
        for number in 0..6 {
            script.put_large(&store, &format!("kept-{number}"), 2 * CHUNK).await.unwrap();
        }
        rig.disks[1].add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        script.put(&store, "victim", 10).await.unwrap_err();
        overwrite(&mut script, &store, &rig, 300).await;
        let store = {
            script.judge(&store).await;
            drop(store);
            rig.crash();
            rig.open_without(&[DeviceId(2)]).await
        };
        script.judge(&store).await;
        overwrite(&mut script, &store, &rig, 300).await;
        script.judge(&store).await;
    });
}

/// Overwrites two large objects until the devices have been filled several times.
async fn overwrite(script: &mut Script, store: &LogStore, rig: &Rig, rounds: usize) {
    for round in 0..rounds {
        let mut tries = 0;
        while let Err(error) = script.put_large(store, &format!("over-{}", round % 2), 3 * CHUNK + round).await {
            assert!(matches!(error, EngineError::Full), "{error}");
            tries += 1;
            assert!(tries < 100, "collection frees nothing");
            rig.env.sleep(std::time::Duration::from_millis(500)).await;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_replaced_by_another() {
    simulate(async {
        for (devices, copies_left) in [(3usize, true), (1, false)] {
            let rig = Rig::new(80, devices as u32, 48, ZONE_BYTES).await;
            let mut script = Script::default();
            let store = rig.open().await;
            fill(&mut script, &store, true).await;
            for disk in &rig.disks {
                for fault in [Fault::Fail, Fault::Corrupt] {
                    disk.add_rule(FaultRule::always_in(0..u64::MAX, Operation::Read, fault));
                    for name in script.names() {
                        let is_absent = script.history.objects[&name].certain() == Some(None);
                        match script.read(&store, &name).await {
                            // Some bytes of a frame are padding, and may change.
                            Read::Right => assert!(copies_left || is_absent || fault == Fault::Corrupt, "{name}"),
                            Read::Failed(error) => assert!(!copies_left, "{name}: {error}"),
                            Read::Other(other) => panic!("{name}: {other:?}"),
                        }
                    }
                    disk.clear_faults();
                }
            }
            script.judge(&store).await;
        }
    });
}

/// A frame on a device.
pub struct Frame {
    device: usize,
    pub place: Place,
    pub kind: RecordKind,
    bytes: u64,
}

/// Every frame on every device, by its kind.
pub async fn frames(rig: &Rig) -> Vec<Frame> {
    let mut frames = Vec::new();
    for device in 1..=rig.disks.len() as u32 {
        let opened = rig.device(DeviceId(device)).await.unwrap();
        let mut walk = opened.walk(&LogVector::START, true);
        while let Some(event) = walk.next().await {
            let WalkEvent::Frame(frame) = event else { continue };
            let record = Record::decode(&bytes::Bytes::copy_from_slice(frame.engine_header())).unwrap();
            let bytes = frame.view.frame_bytes() as u64;
            frames.push(Frame { device: device as usize - 1, place: frame.place, kind: record.kind, bytes });
        }
    }
    frames
}

/// Rot in the header, or in the last sector, of a frame.
pub fn rot(rig: &Rig, frame: &Frame, header: bool) {
    let opened = rig.disks[frame.device].clone();
    let region = disk_offset(frame.place);
    match header {
        true => opened.corrupt_at_rest(region, 64),
        false => opened.corrupt_at_rest(region + frame.bytes - 64, 64),
    }
}

/// Where a place lies on the disk: zones follow one another behind the superblock region.
fn disk_offset(place: Place) -> u64 {
    format::superblock::FIRST_REGION_BYTE + place.zone.0 as u64 * ZONE_BYTES + place.offset.bytes()
}

/// Rots one frame of each kind at a time. With three devices nothing is lost; with one there is an error, and never wrong bytes.
async fn rot_everything(devices: u32, checkpoint: bool) {
    let mut covered: BTreeMap<u8, u32> = BTreeMap::new();
    let mut draw = Draw::new(devices as u64);
    for round in 0..60 {
        let mut rig = Rig::new(90, devices, 48, ZONE_BYTES).await;
        let mut script = Script::default();
        let store = rig.open().await;
        fill(&mut script, &store, checkpoint).await;
        drop(store);
        rig.crash();
        let frames = frames(&rig).await;
        let least = frames.iter().map(|frame| covered.get(&(frame.kind as u8)).copied().unwrap_or(0)).min().unwrap();
        let rare: Vec<_> =
            frames.iter().filter(|frame| covered.get(&(frame.kind as u8)).copied().unwrap_or(0) == least).collect();
        let frame = rare[draw.below(rare.len() as u64) as usize];
        *covered.entry(frame.kind as u8).or_default() += 1;
        rot(&rig, frame, round % 2 == 0);
        let case = format!("{:?} at {:?} of {devices} devices, checkpoint: {checkpoint}", frame.kind, frame.place);
        let store = match rig.try_open(&[]).await {
            Ok(store) => store,
            Err(error) => {
                assert!(devices == 1, "{case}: {error}");
                continue;
            }
        };
        for name in script.names() {
            match script.read(&store, &name).await {
                Read::Right => {}
                Read::Failed(error) => assert!(devices == 1, "{case}: {name}: {error}"),
                // On one device a write that no checkpoint covers can't be told from one that the crash tore.
                Read::Other(other) => assert!(devices == 1 && !checkpoint, "{case}: {name}: {other:?}"),
            }
        }
        if devices > 1 {
            script.judge(&store).await;
        }
    }
    assert!(covered.len() >= if checkpoint { 6 } else { 4 }, "{covered:?}");
}

#[test]
fn rot_of_any_frame_is_answered_by_another_copy() {
    simulate(async {
        rot_everything(3, true).await;
        rot_everything(3, false).await;
    });
}

#[test]
fn rot_on_a_single_device_is_an_error_and_never_wrong_bytes() {
    simulate(async {
        rot_everything(1, true).await;
        rot_everything(1, false).await;
    });
}

/// Stores objects until they are refused; how many.
async fn store_until_full(script: &mut Script, store: &LogStore) -> u64 {
    for stored in 0..5000 {
        // Frames that fill whole blocks: what is stored can't be packed any better.
        if let Err(refused) = script.put(store, &format!("key-{stored:04}"), 3800).await {
            assert!(matches!(refused, EngineError::Full), "refused by {refused}");
            return stored;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never fills up");
}

async fn full_rig(zones: &[u64]) -> Rig {
    let mut rig = Rig::with_zones(100, zones, ZONE_BYTES).await;
    rig.config.checkpoint_entries = 40;
    rig.config.collect_below_free_percent = 50;
    rig
}

#[test]
fn a_full_device_says_so_reads_deletes_and_starts() {
    simulate(async {
        for zones in [&[20u64][..], &[24, 24, 16], &[16, 24, 24]] {
            let mut rig = full_rig(zones).await;
            let mut script = Script::default();
            let store = rig.open().await;
            let stored = store_until_full(&mut script, &store).await;
            for _ in 0..50 {
                let again = script.put(&store, "more", 3800).await;
                assert!(again.is_ok() || matches!(again, Err(EngineError::Full)), "{again:?}");
                rig.env.sleep(std::time::Duration::from_millis(100)).await;
            }
            script.judge(&store).await;
            for number in 0..10 {
                let name = format!("key-{:04}", number * stored / 10);
                script.delete(&store, &name).await.unwrap_or_else(|error| panic!("{zones:?}: delete {name}: {error}"));
            }
            script.judge(&store).await;
            drop(store);
            rig.crash();
            for _ in 0..3 {
                script.judge(&rig.open().await).await;
                rig.crash();
            }
        }
    });
}

/// Deletes two thirds of what a full pool holds, then writes again.
#[test]
fn a_full_pool_is_emptied_by_deletes() {
    simulate(async {
        for zones in [&[20u64][..], &[24, 24, 16], &[16, 24, 24], &[30, 16]] {
            let mut rig = full_rig(zones).await;
            let mut script = Script::default();
            let store = rig.open().await;
            let stored = store_until_full(&mut script, &store).await;
            drop(store);
            rig.crash();
            let store = rig.open().await;
            for number in (0..stored).filter(|number| number % 3 > 0) {
                let deleted = script.delete(&store, &format!("key-{number:04}")).await;
                deleted.unwrap_or_else(|error| panic!("{zones:?}: delete {number} of {stored}: {error}"));
            }
            for number in 0..stored / 3 {
                let written = script.put(&store, &format!("new-{number:04}"), 3800).await;
                written.unwrap_or_else(|error| panic!("{zones:?}: put {number} of {stored}: {error}"));
            }
            script.judge(&store).await;
            drop(store);
            rig.crash();
            script.judge(&rig.open().await).await;
        }
    });
}

/// What rots before collection takes it is copied from where it is whole, or stays where it is: a copy gets checksums of its own, under
/// which wrong bytes would pass for right ones.
#[test]
fn collection_copies_nothing_that_has_rotted() {
    simulate(async {
        for devices in [1, 2] {
            let mut rig = Rig::new(31, devices, 40, ZONE_BYTES).await;
            rig.config.collect_below_free_percent = 100;
            let mut script = Script::default();
            let store = rig.open().await;
            store.inner.background.stop().await;
            for number in 0..12 {
                script.put(&store, &format!("key-{number}"), 5000).await.unwrap();
            }
            for device in store.inner.targets.devices() {
                device.finish_open_zones().await.unwrap();
            }
            store.inner.checkpoint().await.unwrap();
            drop(store);
            rig.restart();
            let frames = frames(&rig).await;
            let rotten = frames.iter().find(|frame| frame.kind == RecordKind::Object && frame.device == 0).unwrap();
            rig.disks[0].corrupt_at_rest(disk_offset(rotten.place) + rotten.bytes / 2, 64);
            let store = rig.open().await;
            // It ends with a round of everything.
            store.inner.background.stop().await;
            assert_eq!(store.stats().collected_zones.get() > 0, devices > 1, "{devices} devices");
            let mut lost = 0;
            for name in script.names() {
                match script.read(&store, &name).await {
                    Read::Right => {}
                    Read::Failed(EngineError::Corrupt { .. }) => lost += 1,
                    other => panic!("{devices} devices: {name}: {other:?}"),
                }
            }
            assert_eq!(lost, u32::from(devices == 1), "{devices} devices");
        }
    });
}
