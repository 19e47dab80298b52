//! Writes that nobody waits for any more. What each test has been seen to catch stands above it.

use super::cell::get;
use super::cell_rig::CellRig;
use super::gate::Rule;
use super::support::{attributes, key, simulate};
use crate::LogStore;
use bytes::Bytes;
use engine::{CompletePart, Condition, EngineError, ObjectEngine, PartContent, UploadRef, Waiter};
use std::time::Duration;
use tokio::task::JoinHandle;
use types::DeviceId;

/// Long enough for everything that is not held up.
const A_WHILE: Duration = Duration::from_secs(1);
/// Longer than any write is tried again and again.
const LONG: Duration = Duration::from_secs(30);

async fn put(store: LogStore, content: &'static str, condition: Condition) -> Result<(), EngineError> {
    let payload = std::iter::once(Bytes::from_static(content.as_bytes())).collect();
    store.put(&key("key"), attributes(content.as_bytes()), payload, condition).await.map(|_| ())
}

/// A write as a request makes it, and who waits for it.
fn begin(
    rig: &CellRig,
    store: &LogStore,
    content: &'static str,
    condition: Condition,
) -> (JoinHandle<Result<(), EngineError>>, Waiter) {
    let waiter = Waiter::new();
    let write = waiter.attend(Box::pin(put(store.clone(), content, condition)));
    (rig.env.spawn(write), waiter)
}

fn devices_of(store: &LogStore) -> Vec<DeviceId> {
    store.inner.targets.table().set_of(&LogStore::object_hash(&key("key"))).devices().to_vec()
}

async fn all_read(rig: &CellRig, expected: &str) {
    for gateway in rig.gateways() {
        assert_eq!(get(&gateway, "key").await.as_deref(), Some(expected.as_bytes()), "{}", gateway.inner.me);
    }
}

/// Each try fails, for want of one copy, until another gateway's write is acknowledged. Caught: `write_with_patience` that tries again whoever waits: the
/// acknowledged write was gone. A write that somebody waits for is tried again, above the other one.
#[test]
fn a_write_that_nobody_waits_for_is_not_tried_again() {
    simulate(async {
        for leaves in [true, false] {
            let rig = CellRig::new(61, 3).await;
            let gateways = rig.gateways();
            let secondary = devices_of(&gateways[1])[1];
            rig.gates.set(&gateways[1], secondary, Some(Rule::Away));
            let (first, waiter) = begin(&rig, &gateways[1], "first", Condition::None);
            rig.env.sleep(A_WHILE).await;
            if leaves {
                waiter.leave();
            }
            put(gateways[2].clone(), "second", Condition::None).await.unwrap();
            rig.gates.set(&gateways[1], secondary, None);
            rig.env.sleep(LONG).await;
            assert_eq!(first.await.unwrap().is_err(), leaves);
            all_read(&rig, if leaves { "second" } else { "first" }).await;
        }
    });
}

/// Writes wait behind one whose append is under way. Caught: an `attempt` that does not hear that its waiter leaves: they were written, above what was
/// acknowledged elsewhere; and a turn, or a freeze, that is not ended.
#[test]
fn a_queued_write_that_nobody_waits_for_is_not_begun() {
    simulate(async {
        for condition in [Condition::None, Condition::Match(engine::ETagMatch::Any)] {
            let rig = CellRig::new(62, 3).await;
            let gateways = rig.gateways();
            let primary = devices_of(&gateways[1])[0];
            rig.gates.set(&gateways[1], primary, Some(Rule::Hold));
            let (first, _) = begin(&rig, &gateways[1], "first", Condition::None);
            let (second, waiter) = begin(&rig, &gateways[1], "second", condition.clone());
            rig.env.sleep(A_WHILE).await;
            waiter.leave();
            rig.env.sleep(A_WHILE).await;
            assert!(second.is_finished(), "it waits for its turn");
            let outcome = second.await.unwrap();
            assert!(matches!(outcome, Err(EngineError::Unavailable { .. })), "{outcome:?}");
            rig.gates.set(&gateways[1], primary, None);
            rig.gates.land(gateways[1].inner.me).await;
            first.await.unwrap().unwrap();
            rig.env.sleep(LONG).await;
            all_read(&rig, "first").await;
            put(gateways[1].clone(), "third", Condition::Match(engine::ETagMatch::Any)).await.unwrap();
            put(gateways[2].clone(), "fourth", Condition::None).await.unwrap();
            all_read(&rig, "fourth").await;
        }
    });
}

/// What is under way when its client goes ends as it would have, and its key is free again.
#[test]
fn a_write_under_way_that_nobody_waits_for_comes_to_an_end() {
    simulate(async {
        let rig = CellRig::new(63, 3).await;
        let gateways = rig.gateways();
        let primary = devices_of(&gateways[1])[0];
        for condition in [Condition::Absent, Condition::Match(engine::ETagMatch::Any)] {
            rig.gates.set(&gateways[1], primary, Some(Rule::Hold));
            let (first, waiter) = begin(&rig, &gateways[1], "first", condition);
            rig.env.sleep(A_WHILE).await;
            waiter.leave();
            rig.env.sleep(A_WHILE).await;
            assert!(!first.is_finished(), "its append is under way");
            rig.gates.set(&gateways[1], primary, None);
            rig.gates.land(gateways[1].inner.me).await;
            first.await.unwrap().unwrap();
            all_read(&rig, "first").await;
            put(gateways[2].clone(), "second", Condition::Match(engine::ETagMatch::Any)).await.unwrap();
            all_read(&rig, "second").await;
        }
    });
}

/// A Complete runs in a task of its own. Caught: one that does not know who waits for it.
#[test]
fn a_complete_that_nobody_waits_for_makes_no_object_anew() {
    simulate(async {
        let rig = CellRig::new(64, 3).await;
        let gateways = rig.gateways();
        let upload = gateways[1].create_upload(&key("key"), attributes(b"")).await.unwrap();
        let upload = UploadRef { key: key("key"), upload };
        let content = PartContent::Whole(std::iter::once(Bytes::from_static(b"part")).collect());
        let part = gateways[1].put_part(&upload, 1, attributes(b"part"), content).await.unwrap();
        let parts = vec![CompletePart { number: 1, order: part.order }];
        for device in 1..=3 {
            rig.gates.set(&gateways[1], DeviceId(device), Some(Rule::Full));
        }
        let waiter = Waiter::new();
        let (store, of) = (gateways[1].clone(), upload.clone());
        let complete =
            waiter.attend(Box::pin(async move { store.complete(&of, parts, attributes(b"part"), Condition::None).await }));
        let complete = rig.env.spawn(complete);
        rig.env.sleep(A_WHILE).await;
        waiter.leave();
        put(gateways[2].clone(), "second", Condition::None).await.unwrap();
        for device in 1..=3 {
            rig.gates.set(&gateways[1], DeviceId(device), None);
        }
        rig.env.sleep(LONG).await;
        complete.await.unwrap().unwrap_err();
        all_read(&rig, "second").await;
        gateways[2].abort(&upload).await.unwrap();
    });
}
