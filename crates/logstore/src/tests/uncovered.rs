//! Tables that came with views, and whose writes no checkpoint covers: what a founding, or a recovery, can't decide without their devices.

use super::cell_rig::CellRig;
use super::support::{attributes, key, simulate};
use crate::{LogStore, Loss, devices_to_wait_for};
use bytes::Bytes;
use engine::{Condition, Content, EngineError, ObjectEngine};
use format::manifest::Manifest;
use smallvec::smallvec;
use std::collections::BTreeSet;
use std::time::Duration;
use topology::{ReplicaTable, Site};
use types::{DeviceId, Generation, NodeId};

async fn put(store: &LogStore, name: &str, content: &str) {
    let payload = smallvec![Bytes::copy_from_slice(content.as_bytes())];
    store.put(&key(name), attributes(content.as_bytes()), payload, Condition::None).await.unwrap();
}

async fn get(store: &LogStore, name: &str) -> Result<String, EngineError> {
    let Content::Whole(bytes) = store.open(&key(name)).await?.content else { panic!("small objects are whole") };
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

/// The newest version went to a table of one device, which is away when the cell is founded anew.
#[test]
fn a_founding_without_a_former_tables_device_answers_nothing_old() {
    simulate(async {
        let cell = CellRig::new(5, 2).await;
        put(&cell.gateways()[0], "key", "old").await;
        cell.gateways()[0].inner.checkpoint().await.unwrap();
        cell.write_to(&[1]).await;
        put(&cell.gateways()[1], "key", "new").await;
        // Twice: a founding that can't decide leaves the next one no wiser.
        for _ in 0..2 {
            let founder = cell.restart_all_without(&[1]).await;
            assert_eq!(founder.waits_for(), [DeviceId(1)]);
            let error = get(&founder, "key").await.unwrap_err();
            assert!(matches!(error, EngineError::DeviceMissing { .. }), "{error}");
            put(&founder, "other", "now").await;
            assert_eq!(get(&founder, "other").await.unwrap(), "now");
        }
        let founder = cell.restart_all().await;
        assert!(founder.waits_for().is_empty());
        assert_eq!((get(&founder, "key").await.unwrap(), get(&founder, "other").await.unwrap()), ("new".into(), "now".into()));
    });
}

/// What stands in the manifest about tables is true of the moment at which the epoch ended, not of that of the installation.
#[test]
fn a_table_that_comes_while_a_checkpoint_is_written_is_not_covered_by_it() {
    simulate(async {
        // Nothing waits for time, so that this test has its turn between the steps of the checkpoint.
        let cell = CellRig::prompt(6, 2).await;
        let leader = cell.gateways()[0].clone();
        for index in 0..50 {
            put(&leader, &format!("key-{index}"), "content").await;
        }
        let member = leader.inner.member.as_ref().unwrap();
        let before = leader.inner.targets.table().generation();
        // As if no epoch had ended under this view yet: it says when the checkpoint's has.
        member.heard.lock().in_step = None;
        let writer = leader.inner.clone();
        let written = cell.env.spawn(async move { writer.checkpoint().await });
        while member.heard.lock().in_step.is_none() {
            tokio::task::yield_now().await;
        }
        cell.write_to(&[1, 2]).await;
        assert!(!written.is_finished() && leader.inner.targets.table().generation() > before);
        written.await.unwrap().unwrap();
        let manifest = Manifest::decode(&leader.inner.remembered.load().unwrap()).unwrap();
        assert_eq!((manifest.covered, manifest.generation), (manifest.epoch, before));
    });
}

/// Copies on a device that is gone count no more, and others are made.
#[test]
fn what_had_copies_on_a_device_that_is_gone_gets_others() {
    simulate(async {
        let cell = CellRig::new(7, 2).await;
        let leader = cell.gateways()[0].clone();
        cell.write_to(&[1]).await;
        put(&leader, "lonely", "content").await;
        let first = BTreeSet::from([DeviceId(1)]);
        assert_eq!(leader.would_lose(&first).await.unwrap(), Loss { records: 1, blocks: 0 });
        cell.write_to(&[1, 2]).await;
        put(&leader, "paired", "content").await;
        cell.env.sleep(Duration::from_secs(5)).await;
        assert_eq!(leader.would_lose(&first).await.unwrap(), Loss::default(), "its second copy has been made");
        let both = (1..=2).map(DeviceId).collect();
        assert_eq!(leader.would_lose(&both).await.unwrap().records, 2);

        cell.write_to(&[2, 3]).await;
        for gateway in cell.gateways() {
            gateway.set_devices((2..=3).map(DeviceId).collect());
        }
        cell.env.sleep(Duration::from_secs(5)).await;
        let second = BTreeSet::from([DeviceId(2)]);
        assert_eq!(leader.would_lose(&second).await.unwrap(), Loss::default(), "blocks of runs have others too");
        cell.lose(&[1, 2]);
        for gateway in cell.gateways() {
            for name in ["lonely", "paired"] {
                assert_eq!(get(&gateway, name).await.unwrap(), "content");
            }
        }
    });
}

/// Its only chunk was on a device that was given up while it was uploaded: no record named the chunk when it was asked what would be lost.
#[test]
fn what_was_staged_on_a_device_that_is_gone_is_not_acknowledged() {
    simulate(async {
        let cell = CellRig::new(13, 2).await;
        let gateway = cell.gateways()[0].clone();
        cell.write_to(&[1]).await;
        let mut staged = [gateway.stage(&key("kept"), None), gateway.stage(&key("lost"), None)];
        for staged in &mut staged {
            gateway.stage_chunk(staged, Bytes::from(vec![7; 100_000])).await.unwrap();
        }
        let [kept, lost] = staged;
        cell.write_to(&[2, 3]).await;
        gateway.commit(&key("kept"), kept, Default::default(), Condition::None).await.unwrap();
        for gateway in cell.gateways() {
            gateway.set_devices((2..=3).map(DeviceId).collect());
        }
        let refused = gateway.commit(&key("lost"), lost, Default::default(), Condition::None).await.unwrap_err();
        assert!(matches!(&refused, EngineError::Unavailable { reason } if reason.contains("given up")), "{refused}");
        assert!(matches!(gateway.info(&key("lost")).await, Err(EngineError::NotFound)));
    });
}

/// Whoever is asked may not make the checkpoint itself that an answer needs.
#[test]
fn a_follower_says_that_nothing_is_lost_when_a_checkpoint_has_it() {
    simulate(async {
        let cell = CellRig::new(12, 2).await;
        cell.write_to(&[1]).await;
        cell.env.sleep(Duration::from_secs(5)).await;
        let (leader, follower) = (cell.gateways()[0].clone(), cell.gateways()[1].clone());
        put(&leader, "lonely", "content").await;
        cell.write_to(&[1, 2]).await;
        let hash = LogStore::object_hash(&key("lonely"));
        let copies = || follower.inner.shard(&hash).lock().index().newest(&hash).map_or(0, |known| known.places.len());
        while copies() < 2 {
            cell.env.sleep(Duration::from_micros(10)).await;
        }
        let first = BTreeSet::from([DeviceId(1)]);
        while !follower.would_lose(&first).await.unwrap().is_nothing() {
            cell.env.sleep(Duration::from_millis(1)).await;
        }
        let founder = cell.restart_all_forgetting(&[1]).await;
        assert_eq!(get(&founder, "lonely").await.unwrap(), "content");
    });
}

/// Another device is in the place of one that alone has an object. Caught: copies on devices that are away, taken for good ones; and missing copies that
/// are made only when the device can be given up.
#[test]
fn what_had_copies_on_a_device_that_was_replaced_gets_others_though_it_is_waited_for() {
    simulate(async {
        let cell = CellRig::new(8, 2).await;
        let leader = cell.gateways()[0].clone();
        cell.write_to(&[1, 2]).await;
        put(&leader, "paired", "content").await;
        cell.write_to(&[1]).await;
        put(&leader, "lonely", "content").await;
        cell.lose(&[1]);
        cell.write_to(&[2, 3]).await;
        let (first, second) = (BTreeSet::from([DeviceId(1)]), BTreeSet::from([DeviceId(2)]));
        assert_eq!(
            leader.would_lose(&second).await.unwrap().records,
            1,
            "the first device is away, and what it alone has is not the second one's"
        );
        for gateway in cell.gateways() {
            gateway.set_replaced(first.clone());
        }
        cell.env.sleep(Duration::from_secs(90)).await;
        assert_eq!(leader.would_lose(&first).await.unwrap().records, 1);
        assert_eq!(leader.would_lose(&second).await.unwrap(), Loss::default());
        cell.lose(&[2]);
        for gateway in cell.gateways() {
            assert_eq!(get(&gateway, "paired").await.unwrap(), "content");
        }
    });
}

/// Caught: a device that comes later, in which nothing seemed live, so that collection copied all of it.
#[test]
fn what_is_live_on_a_device_that_comes_later_is_known() {
    const OBJECTS: usize = 20;
    const BYTES: usize = 10_000;
    simulate(async {
        let cell = CellRig::new(9, 2).await;
        let content = "x".repeat(BYTES);
        for index in 0..OBJECTS {
            put(&cell.gateways()[0], &format!("key-{index}"), &content).await;
        }
        let large = key("large");
        let store = cell.gateways()[0].clone();
        let mut staged = store.stage(&large, None);
        for _ in 0..3 {
            store.stage_chunk(&mut staged, Bytes::from(vec![7; 1 << 20])).await.unwrap();
        }
        store.commit(&large, staged, attributes(b"large"), Condition::None).await.unwrap();
        cell.gateways()[0].inner.checkpoint().await.unwrap();
        let founder = cell.restart_all_without(&[3]).await;
        founder.delete(&key("key-0"), Condition::None).await.unwrap();
        cell.bring(&founder, 3);
        let targets = &founder.inner.targets;
        let zones = targets.device(DeviceId(3)).unwrap().zones();
        let live: u64 = zones.iter().map(|zone| targets.live_bytes(DeviceId(3), zone.zone)).sum();
        let chunks: u64 = zones.iter().map(|zone| targets.live_chunk_bytes(DeviceId(3), zone.zone)).sum();
        // The shares are rounded.
        assert!(chunks > 3_000_000 && chunks < 4 << 20, "{chunks}");
        let records = live - chunks;
        assert!(records > ((OBJECTS - 1) * BYTES) as u64 && records < (OBJECTS * BYTES) as u64, "{records}");
    });
}

fn devices(numbers: &[u32]) -> Vec<DeviceId> {
    numbers.iter().copied().map(DeviceId).collect()
}

/// Devices 0 and 1 on the first host, 2 and 3 on the second, and so on.
fn in_pairs(hosts: u32) -> ReplicaTable {
    let site =
        |device: u32| Site::new(DeviceId(device), 1 << 30, Some(NodeId(device)), [&format!("host-{}", device / 2), "", ""]);
    ReplicaTable::placed(Generation(1), (0..2 * hosts).map(site).collect()).unwrap()
}

/// Where the copies of a key are depends on what fails together. Without sites other sets would be judged.
#[test]
fn what_can_be_decided_depends_on_failure_domains() {
    let dealt = ReplicaTable::new(Generation(1), (0..6).map(DeviceId).collect()).unwrap();
    let three_hosts = in_pairs(3);
    // A whole host and a half: each key has a copy on the third host.
    let (missing, there) = (devices(&[0, 1, 2]), devices(&[3, 4, 5]));
    assert_eq!(devices_to_wait_for(std::slice::from_ref(&three_hosts), &there, &missing), []);
    assert_eq!(devices_to_wait_for(&[dealt], &there, &missing), missing);
    // On two hosts there are two copies, and one device of each may have both.
    let (two_hosts, four) = (in_pairs(2), ReplicaTable::new(Generation(1), (0..4).map(DeviceId).collect()).unwrap());
    let (missing, there) = (devices(&[0, 2]), devices(&[1, 3]));
    assert_eq!(devices_to_wait_for(std::slice::from_ref(&two_hosts), &there, &missing), missing);
    assert_eq!(devices_to_wait_for(&[four], &there, &missing), []);
    // Nobody waits for what is gone for good.
    assert_eq!(devices_to_wait_for(&[two_hosts], &there, &[]), []);
}
