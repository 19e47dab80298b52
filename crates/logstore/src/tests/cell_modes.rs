//! The two modes of a cell, and what each costs: counted, not timed.

use super::cell_rig::CellRig;
use super::support::{attributes, key, simulate};
use crate::{Consistency, LogStore};
use bytes::Bytes;
use engine::conformance::run_all_but_monotonic_reads;
use engine::{Condition, ObjectEngine};
use std::sync::Arc;
use std::time::Duration;

/// Rounds of one write at one gateway while the others read its key.
const ROUNDS: usize = 40;
/// Longer than anything that follows an acknowledgement.
const SETTLING: Duration = Duration::from_millis(100);

async fn put(store: &LogStore, name: &str, content: &[u8]) {
    let payload = std::iter::once(Bytes::copy_from_slice(content)).collect();
    store.put(&key(name), attributes(content), payload, Condition::None).await.unwrap();
}

/// What a GET sees: the round whose content it gets.
async fn get(store: &LogStore, name: &str) -> Option<usize> {
    let found = store.open(&key(name)).await.ok()?;
    let engine::Content::Whole(bytes) = found.content else { panic!("small objects only") };
    Some(usize::from_le_bytes(bytes[..8].try_into().unwrap()))
}

fn slow_reads(gateways: &[LogStore]) -> u64 {
    gateways.iter().map(|gateway| gateway.stats().slow_reads.get()).sum()
}

/// Writes one key round after round at the first gateway while both others read it all the time. Every read must see what was acknowledged
/// before it began. The slow lookups of all.
async fn read_while_written(rig: &CellRig) -> u64 {
    let gateways = rig.gateways();
    put(&gateways[0], "key", &0usize.to_le_bytes()).await;
    let before = slow_reads(&gateways);
    for round in 1..=ROUNDS {
        let writer = gateways[0].clone();
        let writing = rig.env.spawn(async move { put(&writer, "key", &round.to_le_bytes()).await });
        let mut reads = 0;
        while !writing.is_finished() {
            for reader in &gateways[1..] {
                let seen = get(reader, "key").await;
                assert!(seen == Some(round) || seen == Some(round - 1), "round {round} reads {seen:?}");
                reads += 1;
            }
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        assert!(reads > 0, "nobody read in round {round}");
        for reader in &gateways {
            assert_eq!(get(reader, "key").await, Some(round), "after the acknowledgement");
        }
    }
    slow_reads(&gateways) - before
}

#[test]
fn a_key_in_flight_elsewhere_takes_the_slow_path_in_one_mode_only() {
    simulate(async {
        let strong = read_while_written(&CellRig::new(21, 3).await).await;
        assert!(strong > ROUNDS as u64 / 2, "only {strong} slow lookups");
        let weak = read_while_written(&CellRig::writing(21, 3, Consistency::ReadAfterWrite).await).await;
        assert_eq!(weak, 0, "slow lookups in read-after-write mode");
    });
}

#[test]
fn a_cell_in_read_after_write_mode_conforms() {
    simulate(async {
        let weaker = async || Arc::new(CellRig::prompt_writing(22, 3, Consistency::ReadAfterWrite).await.round_robin());
        run_all_but_monotonic_reads(weaker).await;
    });
}

#[test]
fn a_gateway_that_dies_in_read_after_write_mode_loses_nothing_that_it_acknowledged() {
    simulate(async {
        let rig = CellRig::writing(23, 3, Consistency::ReadAfterWrite).await;
        let gateways = rig.gateways();
        for index in 0..30usize {
            put(&gateways[index % 3], &format!("key-{index}"), &index.to_le_bytes()).await;
        }
        // One that the others never hear of: its copies stand, and nobody acknowledged it.
        rig.cut(gateways[2].clone());
        let late = gateways[2].clone();
        let unheard = rig.env.spawn(async move { put(&late, "key-0", &99usize.to_le_bytes()).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!unheard.is_finished(), "acknowledged before the others have published it");
        assert_eq!(get(&gateways[2], "key-0").await, Some(99), "the writer publishes first");
        assert_eq!(get(&gateways[0], "key-0").await, Some(0), "the others have not heard of it");
        rig.kill(&gateways[2]);
        drop(unheard);
        rig.remove(&[2]).await;
        for gateway in &gateways[..2] {
            assert_eq!(get(gateway, "key-0").await, Some(99), "the recovery finds it for all");
            for index in 1..30 {
                assert_eq!(get(gateway, &format!("key-{index}")).await, Some(index));
            }
        }
        put(&gateways[0], "key-0", &7usize.to_le_bytes()).await;
        let back = rig.join().await;
        assert_eq!(get(&back, "key-0").await, Some(7));
    });
}

/// What a cell sends for so many writes of one gateway, in the items that its streams carry.
async fn items_of_writes(rig: &CellRig, writes: usize) -> u64 {
    let gateways = rig.gateways();
    let items = || gateways.iter().map(|gateway| gateway.stats().peer_items.get()).sum::<u64>();
    put(&gateways[1], "first", b"12345678").await;
    tokio::time::sleep(SETTLING).await;
    let before = items();
    for index in 0..writes {
        put(&gateways[1], &format!("key-{index}"), &index.to_le_bytes()).await;
    }
    tokio::time::sleep(SETTLING).await;
    items() - before
}

#[test]
fn a_write_sends_two_notices_to_each_member_or_one() {
    simulate(async {
        // Announce and Conclude to each of two members: that they hold the first the answer to its batch says.
        assert_eq!(items_of_writes(&CellRig::new(24, 3).await, 20).await, 20 * 2 * 2);
        // Publish alone.
        let weak = CellRig::writing(24, 3, Consistency::ReadAfterWrite).await;
        assert_eq!(items_of_writes(&weak, 20).await, 20 * 2);
    });
}
