//! Uploads that a gateway can't look at for the moment: it doesn't judge what it doesn't see.

use super::cell_rig::CellRig;
use super::gate::Rule;
use super::support::{BUCKET, Rig, key, simulate};
use bytes::Bytes;
use disk::{Fault, FaultRule, Operation};
use engine::{CompletePart, Condition, EngineError, EngineFuture, ObjectEngine, PartContent, PartInfo, UploadRef};
use format::record::EntryName;
use std::time::Duration;
use types::DeviceId;

/// Longer than any lease that was granted.
const LEASE_ENDS: Duration = Duration::from_secs(7200);

async fn upload_at(store: &dyn ObjectEngine) -> UploadRef {
    let id = store.create_upload(&key("joined"), Default::default()).await.unwrap();
    UploadRef { key: key("joined"), upload: id }
}

fn put_part<'a>(store: &'a dyn ObjectEngine, upload: &'a UploadRef) -> EngineFuture<'a, PartInfo> {
    let content = PartContent::Whole(std::iter::once(Bytes::from_static(b"a part")).collect());
    store.put_part(upload, 1, Default::default(), content)
}

async fn complete(store: &dyn ObjectEngine, upload: &UploadRef, part: &PartInfo) -> Result<(), EngineError> {
    let parts = vec![CompletePart { number: part.number, order: part.order }];
    store.complete(upload, parts, Default::default(), Condition::None).await.map(|_| ())
}

/// Caught: a Complete that calls a part invalid because it can't read it at the moment. The client would give up what it has uploaded.
#[test]
fn a_part_that_cant_be_read_is_not_called_invalid() {
    simulate(async {
        let rig = Rig::new(1, 1, 40, 1024 * 1024).await;
        let store = rig.open().await;
        let upload = upload_at(&store).await;
        let part = put_part(&store, &upload).await.unwrap();
        rig.disks[0].add_rule(FaultRule::always_in(0..u64::MAX, Operation::Read, Fault::Fail));
        let refused = complete(&store, &upload, &part).await;
        assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{refused:?}");
        rig.disks[0].clear_faults();
        complete(&store, &upload, &part).await.unwrap();
    });
}

/// The object of a Complete is deleted already, and its client asks once more how it ended. Caught: an upload that is said to be none because its
/// tombstone, which remembers the outcome, can't be read at the moment.
#[test]
fn an_outcome_that_cant_be_read_is_not_forgotten() {
    simulate(async {
        let rig = Rig::new(3, 1, 40, 1024 * 1024).await;
        let store = rig.open().await;
        let upload = upload_at(&store).await;
        let part = put_part(&store, &upload).await.unwrap();
        complete(&store, &upload, &part).await.unwrap();
        store.delete(&key("joined"), Condition::None).await.unwrap();
        rig.disks[0].add_rule(FaultRule::always_in(0..u64::MAX, Operation::Read, Fault::Fail));
        let refused = complete(&store, &upload, &part).await;
        assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{refused:?}");
        rig.disks[0].clear_faults();
        complete(&store, &upload, &part).await.unwrap();
    });
}

/// Caught: a part that is dropped, and its upload said to be none, because the upload can't be looked up after the part was written.
#[test]
fn an_upload_that_cant_be_looked_up_is_not_said_to_have_ended() {
    simulate(async {
        let rig = CellRig::new(2, 1).await;
        let store = rig.gateways().remove(0);
        let upload = upload_at(&store).await;
        let devices = [1, 2, 3].map(DeviceId);
        devices.iter().for_each(|device| rig.gates.set(&store, *device, Some(Rule::Mute)));
        rig.lend_for(Duration::from_secs(1));
        rig.env.sleep(LEASE_ENDS).await;
        let (at, to) = (store.clone(), upload.clone());
        let putting = rig.env.spawn(async move { put_part(&at, &to).await });
        rig.env.sleep(Duration::from_millis(100)).await;
        rig.lend_for(Duration::ZERO);
        rig.env.sleep(Duration::from_secs(2)).await;
        devices.iter().for_each(|device| rig.gates.set(&store, *device, None));
        rig.gates.land(store.inner.me).await;
        let refused = putting.await.unwrap();
        assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{refused:?}");
        rig.lend_for(Duration::from_secs(3600));
        let parts = store.parts(&upload, 0, 10).await.unwrap();
        complete(&store, &upload, &parts[0]).await.unwrap();
    });
}

/// An upload has ended, and its parts can't be dropped: which ones there are can't be read. Caught: a round that gives its checkpoint up for that, and a
/// checkpoint that does.
#[test]
fn an_upload_that_cant_be_tidied_up_holds_up_no_checkpoint() {
    simulate(async {
        let mut rig = Rig::new(4, 1, 40, 1024 * 1024).await;
        rig.config.checkpoint_interval = Duration::from_secs(30);
        let store = rig.open().await;
        let upload = upload_at(&store).await;
        put_part(&store, &upload).await.unwrap();
        store.inner.checkpoint().await.unwrap();
        rig.disks[0].add_rule(FaultRule::always_in(0..u64::MAX, Operation::Read, Fault::Fail));
        store.abort(&upload).await.unwrap();
        let before = store.stats().checkpoints.get();
        store.put(&key("small"), Default::default(), Default::default(), Condition::None).await.unwrap();
        rig.env.sleep(3 * rig.config.checkpoint_interval).await;
        assert!(store.stats().checkpoints.get() > before, "in the background");
        store.inner.checkpoint().await.unwrap();
        rig.disks[0].clear_faults();
        rig.env.sleep(3 * rig.config.checkpoint_interval).await;
        let part = EntryName::part(BUCKET, b"joined", upload.upload, 1).hash();
        assert!(
            !store.inner.shard(&part).lock().index().newest(&part).is_some_and(|known| known.is_live()),
            "dropped in the end"
        );
    });
}

/// Who founds a cell has no lease yet. Caught: one that waited for one, 5 s for each open upload of a key with a large object, before it served anybody.
#[test]
fn a_founder_does_not_wait_for_a_lease() {
    simulate(async {
        let rig = CellRig::new(5, 1).await;
        let store = rig.gateways().remove(0);
        let done = upload_at(&store).await;
        let part = put_part(&store, &done).await.unwrap();
        complete(&store, &done, &part).await.unwrap();
        let open = upload_at(&store).await;
        drop(store);
        let began = rig.env.now();
        let founder = rig.restart_all().await;
        assert!(rig.env.now() - began < Duration::from_secs(1), "{:?}", rig.env.now() - began);
        let part = put_part(&founder, &open).await.unwrap();
        complete(&founder, &open, &part).await.unwrap();
    });
}
