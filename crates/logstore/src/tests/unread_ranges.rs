//! Blocks behind the last checkpoint that a disk can't read, when a log is walked: other copies tell what stood there, if there are any.

use super::cell_rig::CellRig;
use super::gate::Rule;
use super::healing::on_disk;
use super::support::{Rig, attributes, key, simulate};
use crate::{LogStore, OpenError};
use bytes::Bytes;
use disk::{Fault, FaultRule, Operation};
use engine::{Condition, Content, EngineError, ObjectEngine};
use smallvec::smallvec;
use std::time::Duration;
use types::limits::BLOCK_BYTES;
use types::{DeviceId, Place, ZoneOffset};

const A_WHILE: Duration = Duration::from_secs(1);
const ZONE_BYTES: u64 = 1024 * 1024;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// From now on the block with this place can't be read.
pub fn fail_reads(rig: &Rig, place: Place, zone_bytes: u64) {
    let at = on_disk(place, zone_bytes);
    let block = at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    let never = FaultRule::always_in(block..block + BLOCK_BYTES as u64, Operation::Read, Fault::Fail);
    rig.disks[place.device.0 as usize - 1].add_rule(never);
}

async fn put(store: LogStore, name: &'static str, content: &'static str) -> Result<(), EngineError> {
    let payload = smallvec![Bytes::from_static(content.as_bytes())];
    store.put(&key(name), attributes(content.as_bytes()), payload, Condition::None).await.map(drop)
}

async fn get(store: &LogStore, name: &str) -> Option<Bytes> {
    match store.open(&key(name)).await {
        Ok(found) => match found.content {
            Content::Whole(bytes) => Some(bytes),
            Content::Chunked(_) => panic!("small objects only"),
        },
        Err(EngineError::NotFound) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

fn places_of(store: &LogStore, name: &str) -> Vec<Place> {
    let hash = LogStore::object_hash(&key(name));
    store.inner.shard(&hash).lock().index().newest(&hash).expect("it is known").places.as_slice().to_vec()
}

/// A server that has written objects since its last checkpoint, and died; where the copies of each stand.
async fn dead_server(seed: u64, devices: u32) -> (Rig, Vec<Vec<Place>>) {
    let mut rig = Rig::new(seed, devices, 40, ZONE_BYTES).await;
    let store = rig.open().await;
    put(store.clone(), NAMES[0], "old").await.unwrap();
    store.inner.checkpoint().await.unwrap();
    for name in NAMES {
        put(store.clone(), name, "new").await.unwrap();
    }
    let places = NAMES.map(|name| places_of(&store, name)).to_vec();
    drop(store);
    rig.restart();
    (rig, places)
}

async fn all_are_there(store: &LogStore) {
    for name in NAMES {
        assert_eq!(get(store, name).await.as_deref(), Some(&b"new"[..]), "{name}");
    }
}

/// Caught: a start that ends with the first range that can't be read, and one that takes what was read with a bad block for bad.
#[test]
fn a_server_starts_over_a_block_that_cant_be_read() {
    simulate(async {
        for replica in 0..3 {
            let (mut rig, places) = dead_server(1, 3).await;
            for _ in 0..2 {
                fail_reads(&rig, places[2][replica], ZONE_BYTES);
                let store = rig.open().await;
                all_are_there(&store).await;
                drop(store);
                rig.restart();
            }
            fail_reads(&rig, places[2][replica], ZONE_BYTES);
            let store = rig.open().await;
            all_are_there(&store).await;
        }
    });
}

/// Of the frames of one read only that in the bad block is made again.
#[test]
fn a_block_that_cant_be_read_hides_nothing_beside_it() {
    simulate(async {
        let (rig, places) = dead_server(2, 3).await;
        fail_reads(&rig, places[2][1], ZONE_BYTES);
        let store = rig.open().await;
        assert_eq!(store.stats().recopied.get(), 1);
        assert_ne!(places_of(&store, NAMES[2]), places[2]);
        for (name, places) in NAMES.iter().zip(&places).filter(|(name, _)| **name != NAMES[2]) {
            assert_eq!(places_of(&store, name), *places, "{name}");
        }
    });
}

/// What such a range held may have been acknowledged and stand nowhere else. Caught: a start that passes over it.
#[test]
fn a_start_does_not_pass_over_the_only_copy() {
    simulate(async {
        let (rig, places) = dead_server(3, 1).await;
        fail_reads(&rig, places[2][0], ZONE_BYTES);
        let refused = rig.try_open(&[]).await.err().expect("it is refused");
        assert!(matches!(refused, OpenError::Walk { device: DeviceId(1), .. }), "{refused}");
        rig.disks[0].clear_faults();
        all_are_there(&rig.open().await).await;
    });
}

/// Of two devices, both copies of one record may be in what can't be read.
#[test]
fn a_start_does_not_pass_over_ranges_of_two_devices() {
    simulate(async {
        let (rig, places) = dead_server(4, 3).await;
        fail_reads(&rig, places[1][0], ZONE_BYTES);
        let other = places[2].iter().find(|place| place.device != places[1][0].device).expect("three devices");
        fail_reads(&rig, *other, ZONE_BYTES);
        let refused = rig.try_open(&[]).await.err().expect("it is refused");
        assert!(matches!(refused, OpenError::Walk { .. }), "{refused}");
        rig.disks.iter().for_each(|disk| disk.clear_faults());
        all_are_there(&rig.open().await).await;
    });
}

/// With the other copy's device away, nobody could tell what stood there.
#[test]
fn a_start_does_not_pass_over_a_range_whose_other_copies_are_away() {
    simulate(async {
        let (rig, places) = dead_server(5, 2).await;
        let (bad, away) = (places[2][0], places[2][1].device);
        fail_reads(&rig, bad, ZONE_BYTES);
        let refused = rig.try_open(&[away]).await.err().expect("it is refused");
        assert!(matches!(refused, OpenError::Walk { device, .. } if device == bad.device), "{refused}");
        rig.disks.iter().for_each(|disk| disk.clear_faults());
        all_are_there(&rig.open().await).await;
    });
}

/// A gateway dies with a write under way, and one block of it can't be read. Caught: a recovery that is refused, again and again; nobody could list
/// or join, and the keys in flight stayed so.
#[test]
fn a_recovery_goes_on_over_a_block_that_cant_be_read() {
    simulate(async {
        for replica in 0..3 {
            let rig = CellRig::new(6, 3).await;
            let gateways = rig.gateways();
            put(gateways[0].clone(), "other", "other").await.unwrap();
            let hash = LogStore::object_hash(&key("key"));
            let devices = gateways[2].inner.targets.table().set_of(&hash).devices().to_vec();
            rig.gates.set(&gateways[2], devices[2], Some(Rule::Mute));
            let before = rig.frames().await;
            drop(rig.env.spawn(put(gateways[2].clone(), "key", "new")));
            rig.env.sleep(A_WHILE).await;
            let is_copy = |place: &Place| place.device == devices[replica] && !before.contains(place);
            rig.fail_reads(rig.frames().await.into_iter().find(is_copy).expect("all copies stand"));
            rig.kill(&gateways[2]);
            rig.remove(&[2]).await;
            for gateway in &gateways[..2] {
                assert_eq!(get(gateway, "key").await.as_deref(), Some(&b"new"[..]), "replica {replica}");
                assert_eq!(places_of(gateway, "key").len(), 3, "the copy that can't be read is made again");
            }
            let founder = rig.restart_all().await;
            assert_eq!(get(&founder, "key").await.as_deref(), Some(&b"new"[..]), "replica {replica}");
            assert_eq!(get(&founder, "other").await.as_deref(), Some(&b"other"[..]));
        }
    });
}

/// Everything dies before a checkpoint has what stands in the block.
#[test]
fn a_cell_is_founded_over_a_block_that_cant_be_read() {
    simulate(async {
        for replica in 0..3 {
            let rig = CellRig::new(7, 3).await;
            put(rig.gateways()[1].clone(), "key", "new").await.unwrap();
            rig.fail_reads(places_of(&rig.gateways()[1], "key")[replica]);
            let founder = rig.restart_all().await;
            assert_eq!(get(&founder, "key").await.as_deref(), Some(&b"new"[..]), "replica {replica}");
        }
    });
}

/// Caught: such a zone was looked at by every later start, of which none succeeds where two devices have one, because there was space enough and nothing collected it.
#[test]
fn a_zone_of_which_nothing_can_be_read_is_given_up_when_it_is_covered() {
    simulate(async {
        let (mut rig, places) = dead_server(7, 2).await;
        let lost = Place { offset: ZoneOffset(0), ..places[2][0] };
        let start = on_disk(lost, ZONE_BYTES);
        let never = FaultRule::always_in(start..start + 4 * BLOCK_BYTES as u64, Operation::Read, Fault::Fail);
        rig.disks[lost.device.0 as usize - 1].add_rule(never);
        let store = rig.open().await;
        all_are_there(&store).await;
        let zone = |store: &LogStore| store.inner.targets.device(lost.device).unwrap().zones()[lost.zone.0 as usize];
        assert_eq!(zone(&store).stream, None);
        for _ in 0..3 {
            put(store.clone(), NAMES[0], "new").await.unwrap();
            store.inner.checkpoint().await.unwrap();
            store.inner.collect().await.unwrap();
        }
        assert_ne!(zone(&store).state, Some(device::ZoneState::Finished));
        all_are_there(&store).await;
        drop(store);
        rig.restart();
        all_are_there(&rig.open().await).await;
    });
}
