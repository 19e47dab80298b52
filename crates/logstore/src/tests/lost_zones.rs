//! Zones of which nothing is known, because their headers were lost: they are given up when they are covered, and hold up nothing until then.

use super::healing::on_disk;
use super::support::{Rig, attributes, key, simulate};
use crate::LogStore;
use bytes::Bytes;
use device::{ZoneInfo, ZoneState};
use disk::{Fault, FaultRule, Operation};
use engine::{Condition, Content, ObjectEngine};
use format::zone_header::ZONE_DATA_START;
use smallvec::smallvec;
use std::time::Duration;
use types::limits::BLOCK_BYTES;
use types::{DeviceId, Place, ZoneIndex, ZoneOffset};

const ZONE_BYTES: u64 = 1024 * 1024;
const OBJECT_BYTES: usize = 60_000;
/// More than a zone holds.
const OBJECTS: usize = 24;
const SECOND: Duration = Duration::from_secs(1);

async fn put(store: &LogStore, name: &str) {
    let content = Bytes::from(vec![7; OBJECT_BYTES]);
    store.put(&key(name), attributes(&content), smallvec![content], Condition::None).await.unwrap();
}

async fn all_are_there(store: &LogStore) {
    for index in 0..OBJECTS {
        let found = store.open(&key(&format!("key-{index}"))).await.unwrap();
        assert!(matches!(found.content, Content::Whole(bytes) if bytes.len() == OBJECT_BYTES), "key-{index}");
    }
}

fn places_of(store: &LogStore, name: &str) -> Vec<Place> {
    let hash = LogStore::object_hash(&key(name));
    store.inner.shard(&hash).lock().index().newest(&hash).expect("it is known").places.as_slice().to_vec()
}

fn zone(store: &LogStore, at: (DeviceId, ZoneIndex)) -> ZoneInfo {
    store.inner.targets.device(at.0).unwrap().zones()[at.1.0 as usize]
}

/// Objects that a checkpoint has, and where the first one stands.
async fn rig_with_objects(seed: u64, below_free_percent: u8) -> (Rig, Vec<Place>) {
    let mut rig = Rig::new(seed, 3, 40, ZONE_BYTES).await;
    rig.config.collect_below_free_percent = 0;
    let store = rig.open().await;
    for index in 0..OBJECTS {
        put(&store, &format!("key-{index}")).await;
    }
    store.inner.checkpoint().await.unwrap();
    let places = places_of(&store, "key-0");
    store.close().await;
    drop(store);
    rig.restart();
    rig.config.collect_below_free_percent = below_free_percent;
    (rig, places)
}

/// Makes the log grow beyond every zone that is there.
async fn cover(store: &LogStore) {
    for _ in 0..2 {
        put(store, "other").await;
        store.inner.checkpoint().await.unwrap();
    }
}

/// Opens the store when nothing of one zone's beginning can be read any more; where it is.
async fn open_with_lost_zone(rig: &Rig, place: Place) -> (LogStore, (DeviceId, ZoneIndex)) {
    let start = on_disk(Place { offset: ZoneOffset(0), ..place }, ZONE_BYTES);
    let never = FaultRule::always_in(start..start + 4 * BLOCK_BYTES as u64, Operation::Read, Fault::Fail);
    rig.disks[place.device.0 as usize - 1].add_rule(never);
    let store = rig.open().await;
    let at = (place.device, place.zone);
    assert_eq!((zone(&store, at).state, zone(&store, at).stream), (Some(ZoneState::Finished), None));
    (store, at)
}

/// Caught: it was tried in every round, and that takes a look at everything.
#[test]
fn a_lost_zone_that_could_not_be_emptied_is_left_alone_for_longer_and_longer() {
    simulate(async {
        for (below_free_percent, longest) in [(0, 3600), (100, 64)] {
            let (rig, places) = rig_with_objects(1, below_free_percent).await;
            let (store, at) = open_with_lost_zone(&rig, places[0]).await;
            store.inner.background.stop().await;
            cover(&store).await;
            let is_chosen = || store.inner.chosen().contains(&at);
            let set_back = || store.inner.targets.note_setback(at.0, at.1, Duration::ZERO, rig.env.now());
            assert!(is_chosen());
            set_back();
            assert!(!is_chosen());
            rig.env.sleep(2 * SECOND).await;
            assert!(is_chosen());
            (0..40).for_each(|_| set_back());
            rig.env.sleep((longest - 1) * SECOND).await;
            assert!(!is_chosen(), "of a device with {below_free_percent}");
            rig.env.sleep(SECOND).await;
            assert!(is_chosen(), "of a device with {below_free_percent}");
            // Caught: a try of minutes that was made every minute.
            store.inner.targets.note_setback(at.0, at.1, 1000 * SECOND, rig.env.now());
            rig.env.sleep(3999 * SECOND).await;
            assert!(!is_chosen());
            rig.env.sleep(SECOND).await;
            assert!(is_chosen());
        }
    });
}

#[test]
fn lost_zones_are_tried_one_at_a_time() {
    simulate(async {
        let (rig, places) = rig_with_objects(2, 0).await;
        for place in &places[..2] {
            let start = on_disk(Place { offset: ZoneOffset(0), ..*place }, ZONE_BYTES);
            for header in (start..start + ZONE_DATA_START).step_by(BLOCK_BYTES) {
                (0..8).for_each(|_| rig.disks[place.device.0 as usize - 1].corrupt_at_rest(header, 16));
            }
        }
        let store = rig.open().await;
        // Nothing else has run yet.
        let lost: Vec<_> = places[..2].iter().map(|place| (place.device, place.zone)).collect();
        let is_lost = |at| zone(&store, at).state == Some(ZoneState::Finished) && zone(&store, at).stream.is_none();
        assert!(lost.iter().all(|at| is_lost(*at)));
        assert_eq!(store.inner.chosen().len(), 1);
        rig.env.sleep(10 * SECOND).await;
        assert!(!lost.iter().any(|at| is_lost(*at)));
        all_are_there(&store).await;
    });
}

/// Something may be staged there. Caught: it was tried twice a second, each time with a look at everything, and what it held was copied all the same.
#[test]
fn a_lost_zone_that_must_stay_is_tried_ever_more_rarely() {
    simulate(async {
        let (rig, places) = rig_with_objects(3, 0).await;
        let (store, at) = open_with_lost_zone(&rig, places[0]).await;
        let name = key("large");
        let mut staged = store.stage(&name, None);
        store.stage_chunk(&mut staged, Bytes::from(vec![7; OBJECT_BYTES])).await.unwrap();
        cover(&store).await;
        rig.env.sleep(60 * SECOND).await;
        let tries = store.inner.targets.setbacks(at.0, at.1);
        assert!((3..=6).contains(&tries), "{tries}");
        assert_eq!(places_of(&store, "key-0"), places);
        drop(staged);
        rig.env.sleep(60 * SECOND).await;
        assert_ne!(zone(&store, at).state, Some(ZoneState::Finished));
        all_are_there(&store).await;
    });
}

/// Caught: one that is full of what is live was never given up, as if to copy that gained nothing.
#[test]
fn a_lost_zone_that_is_full_is_given_up() {
    simulate(async {
        let (mut rig, places) = rig_with_objects(4, 0).await;
        let (store, at) = open_with_lost_zone(&rig, places[0]).await;
        store.inner.background.stop().await;
        cover(&store).await;
        assert!(store.inner.targets.live_bytes(at.0, at.1) * 10 > ZONE_BYTES * 9, "otherwise this tests nothing");
        store.inner.collect().await.unwrap();
        assert_ne!(zone(&store, at).state, Some(ZoneState::Finished));
        all_are_there(&store).await;
        drop(store);
        rig.restart();
        all_are_there(&rig.open().await).await;
    });
}
