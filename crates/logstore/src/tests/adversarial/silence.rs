//! A device has gone silent, and the leader waits for it under the checkpoints' lock when a gateway is removed, and the device with it: the
//! recovery, and with it who reads an undecided key, must not wait for what never comes.

use super::super::gate::Rule;
use super::{A_WHILE, CellRig, checkpoint, devices_of, get, put, put_if, removing};
use crate::LogStore;
use crate::tests::support::{attributes, key, simulate};
use bytes::Bytes;
use engine::{Condition, EngineError, ObjectEngine, PartContent, UploadRef};
use std::sync::Arc;
use tokio::task::JoinHandle;
use types::DeviceId;

const SILENT: DeviceId = DeviceId(1);

/// Keys of which one has its first copy elsewhere, for readers.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The leader waits; the third gateway is removed with a write under way, which is decided. The removal, which the recovery's checkpoint ends.
async fn decides_all_the_same(rig: Arc<CellRig>) -> JoinHandle<()> {
    let [leader, other, removed] = &rig.gateways()[..] else { panic!("three gateways") };
    assert!(leader.inner.checkpoints.try_lock().is_err(), "the leader waits under the lock");
    let name = *NAMES.iter().find(|name| devices_of(leader, name)[0] != SILENT).expect("one of six");
    rig.gates.set(removed, devices_of(leader, name)[2], Some(Rule::Mute));
    let write = rig.env.spawn(put_if(removed.clone(), name, "undecided", Condition::None));
    rig.env.sleep(A_WHILE).await;
    rig.kill(removed);
    write.await.unwrap().unwrap_err();
    let read = rig.env.spawn({
        let other = other.clone();
        async move { get(&other, name).await }
    });
    rig.env.sleep(A_WHILE).await;
    assert!(!read.is_finished(), "it may have been acknowledged");
    rig.change_table(&[2, 3]);
    let removal = removing(&rig, &[2]);
    rig.env.sleep(A_WHILE).await;
    assert!(read.is_finished(), "the recovery waits for what the leader waits for");
    assert_eq!(read.await.unwrap().as_deref(), Some("undecided"));
    removal
}

async fn recovers_all_the_same(rig: Arc<CellRig>) {
    let removal = decides_all_the_same(rig).await;
    assert!(removal.is_finished(), "and its checkpoint");
    removal.await.unwrap();
}

/// Caught: a look at a zone that seems dead that goes on when the view has changed (`reset_at_once`). A run over network namespaces found it.
#[test]
fn a_recovery_does_not_wait_for_the_look_at_a_dead_zone() {
    simulate(async {
        let rig = Arc::new(CellRig::greedy(181, 3).await);
        let leader = rig.gateways()[0].clone();
        for index in 0..100u32 {
            let payload = std::iter::once(Bytes::from(vec![index as u8; 8 * 1024])).collect();
            leader.put(&key("churn"), attributes(&index.to_le_bytes()), payload, Condition::None).await.unwrap();
        }
        rig.silence(1);
        // Until now there was nothing to collect: nothing was covered.
        leader.inner.checkpoint().await.unwrap();
        rig.env.sleep(A_WHILE).await;
        let setbacks = || -> u32 {
            let zones = leader.inner.targets.device(SILENT).expect("it is held").zones();
            zones.iter().map(|zone| leader.inner.targets.setbacks(SILENT, zone.zone)).sum()
        };
        let before = setbacks();
        recovers_all_the_same(rig).await;
        assert_eq!(setbacks(), before, "nothing is known of the zone");
    });
}

/// Until a run has its first copy on the device that will be silent. `make` makes one of what was written; where its first copy is.
async fn until_one_is_there(leader: &LogStore, make: impl AsyncFn() -> DeviceId) {
    for name in NAMES.iter().cycle().take(60) {
        put(leader, name, "content").await.unwrap();
        if make().await == SILENT {
            return;
        }
    }
    panic!("no run of sixty has its first copy there")
}

/// Caught: a merge that reads on when the view has changed.
#[test]
fn a_recovery_does_not_wait_for_a_merge() {
    simulate(async {
        let rig = Arc::new(CellRig::new(182, 3).await);
        let leader = rig.gateways()[0].clone();
        let newest = || leader.inner.names.layers().runs[0].clone();
        until_one_is_there(&leader, async || {
            leader.inner.checkpoint().await.unwrap();
            newest().frames().next().expect("it has a block").0.primary().device
        })
        .await;
        rig.gates.set(&leader, SILENT, Some(Rule::Silent));
        let merge = rig.env.spawn({
            let (inner, run) = (leader.inner.clone(), newest());
            async move { inner.merge(vec![run.clone()], run.level()).await }
        });
        rig.env.sleep(A_WHILE).await;
        recovers_all_the_same(rig).await;
        ends_with_the_view(merge).await;
    });
}

/// Caught: a checkpoint that goes on asking a device where its log may grow.
#[test]
fn a_recovery_does_not_wait_for_a_checkpoint_that_begins() {
    simulate(async {
        let rig = Arc::new(CellRig::new(183, 3).await);
        let leader = rig.gateways()[0].clone();
        rig.gates.set(&leader, SILENT, Some(Rule::Silent));
        let checkpoint = checkpoint(&rig, &leader);
        rig.env.sleep(A_WHILE).await;
        recovers_all_the_same(rig).await;
        ends_with_the_view(checkpoint).await;
    });
}

/// Caught: a checkpoint that goes on reading a run of which only the manager knew.
#[test]
fn a_recovery_does_not_wait_for_a_run_that_is_taken_over() {
    simulate(async {
        let rig = Arc::new(CellRig::new(184, 3).await);
        let [leader, other, _] = &rig.gateways()[..] else { panic!("three gateways") };
        rig.manifests.set_losing_answers(true);
        until_one_is_there(leader, async || {
            leader.inner.checkpoint().await.unwrap_err();
            let unknown = leader.inner.newest_manifest().unwrap().expect("it is installed");
            unknown.runs[0].index[0].places.primary().device
        })
        .await;
        rig.manifests.set_losing_answers(false);
        // The device answers until every epoch has ended.
        rig.hold(other, leader, true);
        let checkpoint = checkpoint(&rig, leader);
        rig.env.sleep(A_WHILE).await;
        rig.gates.set(leader, SILENT, Some(Rule::Silent));
        rig.hold(other, leader, false);
        rig.env.sleep(A_WHILE).await;
        // Its own checkpoint reads the same run, and here no read ever fails.
        decides_all_the_same(rig).await.abort();
        ends_with_the_view(checkpoint).await;
    });
}

/// A checkpoint drops the parts of an upload. The leader waits for the tombstone of the first when a gateway is removed that is writing the second.
/// Caught: a checkpoint that goes on in the new view. There the other tombstone had to wait for the decision, and the recovery for the lock, for
/// ever.
#[test]
fn a_recovery_does_not_wait_for_parts_that_wait_for_it() {
    simulate(async {
        let rig = Arc::new(CellRig::new(185, 3).await);
        let [leader, other, removed] = &rig.gateways()[..] else { panic!("three gateways") };
        // It would drop them without the lock.
        leader.inner.background.stop().await;
        let id = leader.create_upload(&key("large"), attributes(b"")).await.unwrap();
        let upload = UploadRef { key: key("large"), upload: id };
        put_part(leader.clone(), upload.clone(), 1).await.unwrap();
        put_part(leader.clone(), upload.clone(), 2).await.unwrap();
        rig.env.sleep(A_WHILE).await;
        // It tidies when every member has begun the next epoch.
        leader.inner.background.drop_parts(upload.clone());
        rig.hold(other, leader, true);
        let checkpoint = checkpoint(&rig, leader);
        rig.env.sleep(A_WHILE).await;
        all_devices().for_each(|device| rig.gates.set(removed, device, Some(Rule::Mute)));
        let part = rig.env.spawn(put_part(removed.clone(), upload, 2));
        rig.env.sleep(A_WHILE).await;
        all_devices().for_each(|device| rig.gates.set(leader, device, Some(Rule::Mute)));
        rig.hold(other, leader, false);
        rig.env.sleep(A_WHILE).await;
        rig.kill(removed);
        part.await.unwrap().unwrap_err();
        let removal = removing(&rig, &[2]);
        rig.env.sleep(A_WHILE).await;
        all_devices().for_each(|device| rig.gates.set(leader, device, None));
        rig.gates.land(leader.inner.me).await;
        rig.env.sleep(A_WHILE).await;
        assert!(removal.is_finished(), "the recovery waits for what waits for it");
        removal.await.unwrap();
        ends_with_the_view(checkpoint).await;
        let parts = leader.parts(&UploadRef { key: key("large"), upload: id }, 0, 10).await.unwrap();
        assert_eq!(parts.len(), 0, "the recovery's own checkpoint has dropped them");
    });
}

fn all_devices() -> impl Iterator<Item = DeviceId> {
    (1..=3).map(DeviceId)
}

async fn put_part(store: LogStore, upload: UploadRef, number: u16) -> Result<(), EngineError> {
    let content = PartContent::Whole(std::iter::once(Bytes::from_static(b"part")).collect());
    store.put_part(&upload, number, attributes(b"part"), content).await.map(drop)
}

async fn ends_with_the_view(work: JoinHandle<Result<(), EngineError>>) {
    let outcome = work.await.unwrap();
    assert!(matches!(outcome, Err(EngineError::Unavailable { .. })), "{outcome:?}");
}
