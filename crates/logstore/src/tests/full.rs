//! A full pool, and gateways that are lost while it is: recovery's checkpoint finds room, and so does what deletes (RFD 2, decision
//! 22).

use super::cell_rig::CellRig;
use super::healing::{Rot, rot};
use super::support::{Rig, attributes, key, simulate};
use crate::LogStore;
use bytes::Bytes;
use engine::{Condition, EngineError, ObjectEngine};
use smallvec::smallvec;
use std::time::Duration;
use types::DeviceId;

const GATEWAYS: usize = 5;
const OBJECT_BYTES: usize = 60_000;
/// The longest life of a cell that is lost again and again.
const LIFE_US: u64 = 400_000;
/// A full cell takes a delete that soon after its start.
const PATIENCE: Duration = Duration::from_secs(10);

async fn put(store: &LogStore, name: &str) -> Result<(), EngineError> {
    let content = Bytes::from(vec![7; OBJECT_BYTES]);
    store.put(&key(name), attributes(&content), smallvec![content], Condition::None).await.map(drop)
}

/// Puts objects until no more are taken; how many.
async fn fill(cell: &CellRig, round: usize) -> usize {
    for index in 0.. {
        let gateways = cell.gateways();
        match put(&gateways[index % gateways.len()], &format!("key-{round}-{index}")).await {
            Ok(()) => {}
            Err(EngineError::Full) => return index,
            Err(error) => panic!("round {round}, object {index}: {error}"),
        }
    }
    unreachable!("devices are finite")
}

/// Gateways are lost one right after the other, again and again: nothing is collected in between, because everything is live.
#[test]
fn a_full_cell_goes_on_when_gateways_are_lost() {
    simulate(async {
        let cell = CellRig::with_zones(9, GATEWAYS, 16, 256 * 1024).await;
        let mut written = Vec::new();
        for round in 0..3 {
            written.push(fill(&cell, round).await);
            for _ in 1..GATEWAYS {
                let lost = cell.gateways().remove(0);
                cell.kill(&lost);
                drop(lost);
                cell.remove(&[0]).await;
                // What is left of the room is tried for.
                let last = cell.gateways().remove(0);
                let refused = put(&last, "more").await;
                assert!(matches!(refused, Ok(()) | Err(EngineError::Full)), "{refused:?}");
            }
            for _ in 1..GATEWAYS {
                cell.join().await;
            }
        }
        assert!(written[0] > 20, "{written:?}");
        let gateway = cell.gateways()[0].clone();
        for (round, count) in written.iter().enumerate() {
            for index in 0..*count {
                gateway.delete(&key(&format!("key-{round}-{index}")), Condition::None).await.unwrap();
            }
        }
        put(&gateway, "after").await.unwrap();
    });
}

/// A founder without room for its checkpoint says so, for as long as nobody could take over from it, and makes it as soon as there is room.
#[test]
fn a_founder_without_room_says_that_it_has_not_settled() {
    simulate(async {
        let cell = CellRig::with_zones(10, 1, 16, 256 * 1024).await;
        let gateway = cell.gateways()[0].clone();
        put(&gateway, "key").await.unwrap();
        assert!(gateway.has_settled());
        drop(gateway);
        // The file systems under the devices are full.
        let used = format::superblock::FIRST_REGION_BYTE + 256 * 1024;
        cell.limit_space(Some(used));
        let founder = cell.restart_all().await;
        assert!(!founder.has_settled());
        assert_eq!(founder.info(&key("key")).await.unwrap().length, OBJECT_BYTES as u64);
        cell.env.sleep(Duration::from_secs(10)).await;
        assert!(!founder.has_settled());
        cell.limit_space(None);
        cell.env.sleep(Duration::from_secs(10)).await;
        assert!(founder.has_settled(), "nobody writes, and it is made all the same");
    });
}

/// A start has no room to write down what it decided, and the next one may decide otherwise. Caught: a delete of what this one passed over that left no record.
#[test]
fn a_delete_leaves_a_record_where_a_start_had_no_room_for_its_checkpoint() {
    simulate(async {
        const ZONE_BYTES: u64 = 1024 * 1024;
        let is_recorded = async |store: &LogStore| {
            store.delete(&key("absent"), Condition::None).await.unwrap();
            let hash = LogStore::object_hash(&key("absent"));
            store.inner.shard(&hash).lock().index().newest(&hash).is_some()
        };
        let mut rig = Rig::new(12, 3, 32, ZONE_BYTES).await;
        let store = rig.open().await;
        put(&store, "key").await.unwrap();
        assert!(!is_recorded(&store).await);
        let hash = LogStore::object_hash(&key("key"));
        let damaged = store.inner.shard(&hash).lock().index().newest(&hash).unwrap().places.as_slice()[0];
        drop(store);
        rig.crash();
        // What stood there is not known: the start passes it over.
        rot(&rig, (damaged, 0), Rot::Header, ZONE_BYTES);
        rig.disks.iter().for_each(|disk| disk.set_space_limit(Some(format::superblock::FIRST_REGION_BYTE + ZONE_BYTES)));
        let store = rig.open().await;
        assert!(!store.has_settled());
        rig.disks.iter().for_each(|disk| disk.set_space_limit(None));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(is_recorded(&store).await);
    });
}

/// A start that misses a device looks for no copies that are lacking but those that it could not make. Caught: they were made when all devices were there.
#[test]
fn a_copy_that_a_start_had_no_room_for_is_made_when_there_is() {
    simulate(async {
        const ZONE_BYTES: u64 = 1024 * 1024;
        let (two, three) = (DeviceId(2), DeviceId(3));
        let mut rig = Rig::new(11, 3, 32, ZONE_BYTES).await;
        let store = rig.open().await;
        put(&store, "key").await.unwrap();
        let hash = LogStore::object_hash(&key("key"));
        let places = |store: &LogStore| store.inner.shard(&hash).lock().index().newest(&hash).unwrap().places;
        let damaged = places(&store).as_slice().iter().copied().find(|place| place.device == two).unwrap();
        drop(store);
        rig.crash();
        rot(&rig, (damaged, 0), Rot::Header, ZONE_BYTES);
        rig.disks[1].set_space_limit(Some(format::superblock::FIRST_REGION_BYTE + ZONE_BYTES));
        let store = rig.open_without(&[three]).await;
        let has_copy = |store: &LogStore| places(store).as_slice().iter().any(|place| place.device == two);
        assert!(!has_copy(&store));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!has_copy(&store) && store.size().repair_left > 0);
        rig.disks[1].set_space_limit(None);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(has_copy(&store));
        assert_eq!(store.size().repair_left, 0);
    });
}

/// Everything is lost again and again, soon after it has come back. Each start makes a run, and each of these would keep a zone for itself until it is
/// merged: they are written anew in one zone.
#[test]
fn a_full_cell_goes_on_when_everything_is_lost_again_and_again() {
    let mut moved = 0;
    for seed in 0..4 {
        env::keep_marks();
        simulate(async move {
            let cell = CellRig::with_zones(seed, 1, 12 + seed % 8, 256 * 1024).await;
            let keys = fill(&cell, 0).await;
            assert!(keys > 20, "{keys}");
            for _ in 0..20 {
                let life = Duration::from_micros(cell.env.random_below(LIFE_US));
                let living = async {
                    let gateway = cell.restart_all().await;
                    loop {
                        let name = format!("key-0-{}", cell.env.random_below(keys as u64));
                        let written = match cell.env.random_below(3) {
                            0 => gateway.delete(&key(&name), Condition::None).await.map(drop),
                            _ => put(&gateway, &name).await,
                        };
                        cell.env.sleep(Duration::from_millis(1)).await;
                        assert!(matches!(written, Ok(()) | Err(EngineError::Full)), "{written:?}");
                    }
                };
                tokio::select! {
                    biased;
                    () = living => {}
                    () = cell.env.sleep(life) => {}
                }
            }
            let gateway = cell.restart_all().await;
            for index in 0..keys {
                gateway.delete(&key(&format!("key-0-{index}")), Condition::None).await.unwrap();
            }
            put(&gateway, "after").await.unwrap();
        });
        moved += env::take_marks().get("engine: a run is written anew to empty a zone").copied().unwrap_or(0);
    }
    assert!(moved > 0);
}

/// A full cell is lost right after each delete, before anything else is done. Caught: each start took zones of its own, until none was left for what makes room.
#[test]
fn a_full_cell_takes_deletes_however_often_it_was_lost() {
    for seed in 0..3 {
        simulate(async move {
            let cell = CellRig::with_zones(seed, 1, 24, 256 * 1024).await;
            let keys = fill(&cell, 0).await;
            assert!(keys > 40, "{keys}");
            for index in 0..keys {
                let gateway = cell.restart_all().await;
                let deleting = async {
                    while let Err(error) = gateway.delete(&key(&format!("key-0-{index}")), Condition::None).await {
                        assert!(matches!(error, EngineError::Full), "seed {seed}, key {index}: {error}");
                        cell.env.sleep(Duration::from_millis(250)).await;
                    }
                };
                let is_deleted = tokio::time::timeout(PATIENCE, deleting).await.is_ok();
                assert!(is_deleted, "seed {seed}: key {index} of {keys} is refused");
                cell.env.sleep(Duration::from_micros(cell.env.random_below(LIFE_US))).await;
            }
            put(&cell.gateways()[0], "after").await.unwrap();
        });
    }
}
