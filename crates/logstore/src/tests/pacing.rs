//! The share of bandwidth that collection and the repair of copies keep to, on the simulated clock (`background_rate`).

use super::cell_rig::CellRig;
use super::support::{Rig, attributes, key, simulate};
use crate::LogStore;
use bytes::Bytes;
use engine::{Condition, ObjectEngine};
use std::time::Duration;

const ZONE_BYTES: u64 = 256 * 1024;
const FAST: u64 = 1 << 40;
/// Four zones, which one cycle empties, take this a while.
const SLOW: u64 = 64 * 1024;
/// Longer than anything takes that is not held back, and shorter than what is.
const A_WHILE: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);

async fn put(store: &LogStore, name: &str, content: &[u8]) {
    let payload = std::iter::once(Bytes::copy_from_slice(content)).collect();
    store.put(&key(name), attributes(content), payload, Condition::None).await.unwrap();
}

/// A store with zones of which half is garbage, opened again to be collected at this rate.
async fn half_garbage(bytes_per_second: u64) -> (Rig, LogStore) {
    let mut rig = Rig::new(41, 1, 64, ZONE_BYTES).await;
    rig.config.collect_below_free_percent = 0;
    let store = rig.open().await;
    for round in 0..2u8 {
        for index in (0..240).filter(|index| round == 0 || index % 2 == 1) {
            put(&store, &format!("key-{index}"), &[round; 4000]).await;
        }
    }
    store.close().await;
    drop(store);
    rig.restart();
    rig.config.collect_below_free_percent = 100;
    rig.config.collect_bytes_per_second = bytes_per_second;
    let store = rig.open().await;
    (rig, store)
}

#[test]
fn collection_keeps_to_its_share() {
    simulate(async {
        let (_rig, store) = half_garbage(FAST).await;
        tokio::time::sleep(A_WHILE).await;
        assert!(store.stats().collected_zones.get() > 0, "not held back");
    });
    simulate(async {
        let (_rig, store) = half_garbage(SLOW).await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(store.stats().collected_zones.get(), 0, "four zones take {} s", 4 * ZONE_BYTES / SLOW);
        let copied = store.stats().relocated_bytes.get();
        let share = A_WHILE.as_secs() * SLOW;
        assert!(copied > 0 && copied <= share + ZONE_BYTES, "{copied} bytes copied, the share is {share}");
        tokio::time::sleep(LONG).await;
        assert!(store.stats().collected_zones.get() > 0, "it goes on");
    });
}

/// How many of the records that were written to two devices have three copies after a while, and after long.
async fn repaired(bytes_per_second: u64) -> (u64, u64) {
    let rig = CellRig::copying(42, 3, bytes_per_second).await;
    let gateways = rig.gateways();
    rig.write_to(&[1, 2]).await;
    for index in 0..100usize {
        put(&gateways[index % 3], &format!("key-{index}"), &[index as u8; 4000]).await;
    }
    rig.write_to(&[1, 2, 3]).await;
    let added = || gateways.iter().map(|gateway| gateway.stats().added_copies.get()).sum();
    tokio::time::sleep(A_WHILE).await;
    let early = added();
    tokio::time::sleep(LONG).await;
    (early, added())
}

#[test]
fn repair_keeps_to_its_share() {
    simulate(async {
        assert_eq!(repaired(FAST).await, (100, 100));
        let (early, all) = repaired(SLOW).await;
        // A record counts with what its header and padding take: at most 8 KiB.
        let share = A_WHILE.as_secs() * SLOW / 8192;
        assert!(early > 0 && early < 100 && early >= share / 2, "{early} copies in {A_WHILE:?}");
        assert_eq!(all, 100);
    });
}

/// Caught: moves that do not count for the next checkpoint. Where no client wrote, all moves of a repair stayed in the memory of every member, and each
/// told all of them again in a new view.
#[test]
fn a_repair_is_written_down_as_it_goes_on() {
    simulate(async {
        let rig = CellRig::copying(43, 3, 1024 * 1024).await;
        let gateways = rig.gateways();
        rig.write_to(&[1]).await;
        for index in 0..1000usize {
            put(&gateways[index % 3], &format!("key-{index}"), &[index as u8; 4000]).await;
        }
        rig.write_to(&[1, 2, 3]).await;
        tokio::time::sleep(A_WHILE).await;
        let (checkpoints, added) = (gateways[0].stats().checkpoints.get(), gateways[0].stats().added_copies.get());
        assert!(added < 1000, "most is to come");
        let told = || {
            let member = gateways[1].inner.member.as_ref().expect("it is a cell's");
            member.moves.lock().values().map(Vec::len).sum::<usize>()
        };
        let mut most = 0;
        for _ in 0..600 {
            most = most.max(told());
            tokio::time::sleep(LONG / 600).await;
        }
        assert_eq!(gateways[0].stats().added_copies.get(), 2000);
        assert!(most < 700, "{most} moves that no checkpoint covers");
        assert!(gateways[0].stats().checkpoints.get() > checkpoints + 2);
    });
}
