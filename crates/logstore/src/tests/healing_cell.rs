//! Damage in a cell: found at any gateway, healed by the leader; and zones with damaged frames, which are collected when nothing staged can be in them.

use super::cell_rig::CellRig;
use super::healing::{A_WHILE, must_be_whole};
use super::script::CHUNK;
use super::support::{attributes, key, simulate};
use crate::{LogStore, ScrubProgress, ScrubState};
use bytes::Bytes;
use engine::{Condition, ObjectEngine};
use smallvec::smallvec;
use std::time::Duration;
use types::{Activation, DeviceId, Place, ZoneIndex};

const KEYS: usize = 12;

async fn put(store: &LogStore, name: &str, length: usize) {
    let content = Bytes::from(vec![5; length]);
    store.put(&key(name), attributes(&content), smallvec![content], Condition::None).await.unwrap();
}

fn name(index: usize) -> String {
    format!("key-{index}")
}

fn places(store: &LogStore, name: &str) -> Vec<Place> {
    let hash = LogStore::object_hash(&key(name));
    let newest = store.inner.shard(&hash).lock().index().newest(&hash).unwrap();
    newest.places.as_slice().to_vec()
}

async fn finish_zones(store: &LogStore) {
    for device in store.inner.targets.devices() {
        device.finish_open_zones().await.unwrap();
    }
}

fn healed(cell: &CellRig) -> u64 {
    cell.gateways().iter().map(|gateway| gateway.stats().healed_copies.get()).sum()
}

async fn agree(cell: &CellRig) {
    for index in 0..KEYS {
        let at: Vec<_> = cell.gateways().iter().map(|gateway| places(gateway, &name(index))).collect();
        assert!(at.windows(2).all(|two| two[0] == two[1]), "{}: {at:?}", name(index));
    }
}

#[test]
fn what_a_follower_reads_is_healed_by_the_leader() {
    simulate(async {
        let cell = CellRig::new(31, 3).await;
        let gateways = cell.gateways();
        for index in 0..KEYS {
            put(&gateways[index % 3], &name(index), 3000).await;
        }
        cell.env.sleep(A_WHILE).await;
        for index in 0..KEYS {
            cell.rot(places(&gateways[0], &name(index))[0]);
        }
        for index in 0..KEYS {
            gateways[1 + index % 2].open(&key(&name(index))).await.unwrap();
        }
        cell.env.sleep(A_WHILE).await;
        assert_eq!((healed(&cell), gateways[0].stats().healed_copies.get()), (KEYS as u64, KEYS as u64));
        agree(&cell).await;
        must_be_whole(&gateways[0], "healed").await;
        // The next leader knows it too, and so does a cell that begins anew.
        cell.kill(&gateways[0]);
        cell.remove(&[0]).await;
        must_be_whole(&cell.gateways()[0], "under another leader").await;
        let founder = cell.restart_all().await;
        must_be_whole(&founder, "after a restart").await;
    });
}

/// Keys through all gateways, in zones that are finished; one copy of each has rotted, on all devices in turn.
async fn put_and_rot(cell: &CellRig, gateways: &[LogStore]) {
    for index in 0..KEYS {
        put(&gateways[index % 3], &name(index), 3000).await;
    }
    // Until the last conclusion is heard.
    cell.env.sleep(Duration::from_millis(100)).await;
    finish_zones(&gateways[0]).await;
    for index in 0..KEYS {
        cell.rot(places(&gateways[0], &name(index))[index % 3]);
    }
}

#[test]
fn each_gateway_scrubs_what_is_its_own() {
    simulate(async {
        let cell = CellRig::scrubbing(32, 3, Duration::from_secs(60)).await;
        let gateways = cell.gateways();
        put_and_rot(&cell, &gateways).await;
        cell.env.sleep(Duration::from_secs(400)).await;
        assert!(healed(&cell) >= KEYS as u64, "{}", healed(&cell));
        agree(&cell).await;
        must_be_whole(&gateways[1], "scrubbed").await;
    });
}

/// Whoever is asked reads what is its own, and knows when the leader has healed it.
#[test]
fn a_follower_that_is_asked_to_scrub_tells_when_all_is_healed() {
    simulate(async {
        let cell = CellRig::new(34, 3).await;
        let gateways = cell.gateways();
        put_and_rot(&cell, &gateways).await;
        let follower = &gateways[2];
        assert!(!follower.scrub(None).unwrap().is_empty() && !follower.inner.leads());
        cell.env.sleep(A_WHILE).await;
        let scrubs = follower.scrubs();
        let is_healed = |scrub: &ScrubProgress| scrub.state == ScrubState::Done && scrub.left_copies == 0;
        assert!(scrubs.iter().all(is_healed), "{scrubs:?}");
        let found: u64 = scrubs.iter().map(|scrub| scrub.damaged_copies).sum();
        assert_eq!((found, gateways[0].stats().healed_copies.get()), (KEYS as u64, KEYS as u64));
        agree(&cell).await;
        must_be_whole(&gateways[1], "scrubbed").await;
    });
}

/// Zones with frames in them, by device.
fn zone_of(store: &LogStore, place: Place) -> (DeviceId, ZoneIndex, Activation) {
    let device = store.inner.targets.device(place.device).unwrap();
    (place.device, place.zone, device.zones()[place.zone.0 as usize].activation)
}

fn was_reset(store: &LogStore, zone: &(DeviceId, ZoneIndex, Activation)) -> bool {
    let info = store.inner.targets.device(zone.0).unwrap().zones()[zone.1.0 as usize];
    info.activation != zone.2 || info.state == Some(device::ZoneState::Free)
}

/// Power cuts leave such zones behind: without this a cell never gets them back.
#[test]
fn a_zone_with_damaged_frames_is_collected() {
    simulate(async {
        let cell = CellRig::greedy(33, 3).await;
        let gateways = cell.gateways();
        for index in 0..KEYS {
            put(&gateways[index % 3], &name(index), 3000).await;
        }
        let zones: Vec<_> = places(&gateways[0], &name(3)).iter().map(|place| zone_of(&gateways[0], *place)).collect();
        // Of one a live copy, of the others garbage.
        cell.rot(places(&gateways[0], &name(0))[0]);
        let garbage = places(&gateways[0], &name(1));
        put(&gateways[1], &name(1), 100).await;
        garbage.iter().for_each(|place| cell.rot(*place));
        finish_zones(&gateways[0]).await;
        for round in 0..20 {
            put(&gateways[round % 3], "other", 3000).await;
            cell.env.sleep(Duration::from_secs(6)).await;
        }
        for zone in &zones {
            assert!(was_reset(&gateways[0], zone), "{zone:?}");
        }
        agree(&cell).await;
        must_be_whole(&gateways[0], "collected").await;
    });
}

/// The doubt: a damaged frame may be a chunk that another gateway is about to name.
#[test]
fn a_damaged_zone_stays_while_another_gateway_may_name_something_in_it() {
    simulate(async {
        let cell = CellRig::greedy(34, 3).await;
        let (leader, follower) = (cell.gateways()[0].clone(), cell.gateways()[1].clone());
        let before = cell.frames().await;
        let mut staged = follower.stage(&key("large"), None);
        // One alone: another one beside it, whole, would keep the zone.
        follower.stage_chunk(&mut staged, Bytes::from(vec![7; CHUNK])).await.unwrap();
        cell.env.sleep(Duration::from_millis(100)).await;
        let chunk = *cell.frames().await.iter().find(|place| !before.contains(place)).expect("a chunk was appended");
        let zone = zone_of(&leader, chunk);
        cell.rot(chunk);
        finish_zones(&leader).await;
        let work = async |rounds: usize| {
            for round in 0..rounds {
                put(&leader, &name(round % KEYS), 3000).await;
                cell.env.sleep(Duration::from_secs(6)).await;
            }
        };
        work(20).await;
        assert!(!was_reset(&leader, &zone), "a staged chunk's zone was given up");
        follower.commit(&key("large"), staged, attributes(b"large"), Condition::None).await.unwrap();
        work(20).await;
        assert!(was_reset(&leader, &zone), "nothing is staged any more");
        must_be_whole(&leader, "committed").await;
        for gateway in cell.gateways() {
            gateway.open(&key("large")).await.unwrap();
        }
    });
}
