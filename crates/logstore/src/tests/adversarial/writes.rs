//! Writes that fail, or whose gateway dies, at each point.

use super::super::gate::Rule;
use super::{A_WHILE, CellRig, all_read, devices_of, get, put, put_if};
use crate::LogStore;
use crate::tests::support::{attributes, key, simulate};
use crate::write::WriteOp;
use engine::{Condition, EngineError, ObjectEngine};
use format::record::WriteId;
use types::Sequence;

/// Caught: the turn ends while the append is on its way (`give_up` instead of `give_up_when_settled`). Then the other gateway's write
/// is acknowledged, the append lands above it, and the next start gives its content, which was to be written only if nothing was there.
#[test]
fn primary_append_of_unknown_outcome() {
    simulate(async {
        let rig = CellRig::new(21, 3).await;
        let gateways = rig.gateways();
        let primary = devices_of(&gateways[1], "key")[0];
        rig.gates.set(&gateways[1], primary, Some(Rule::Straggle));
        let first = rig.env.spawn(put_if(gateways[1].clone(), "key", "first", Condition::Absent));
        rig.env.sleep(A_WHILE).await;
        let second = rig.env.spawn(put_if(gateways[2].clone(), "key", "second", Condition::Absent));
        rig.env.sleep(A_WHILE).await;
        assert!(!second.is_finished(), "nobody knows yet whether the first write has landed");
        assert_eq!(get(&gateways[0], "key").await, None);
        // The target answers again, and refuses what it has not seen before.
        rig.gates.set(&gateways[1], primary, None);
        rig.env.sleep(A_WHILE).await;
        rig.gates.land(gateways[1].inner.me).await;
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        assert!(first.is_ok() != second.is_ok(), "one of two writes finds nothing: {first:?}, {second:?}");
        let refused = if first.is_ok() { second } else { first.clone() };
        assert!(matches!(refused, Err(EngineError::PreconditionFailed)), "{refused:?}");
        all_read(&rig, "key", Some(if first.is_ok() { "first" } else { "second" })).await;
    });
}

/// The same when the target never answers again: it leaves the table, and what it has kept is of an older generation. Caught: a wait
/// that another table does not end.
#[test]
fn primary_append_of_unknown_outcome_on_a_target_that_leaves() {
    simulate(async {
        let rig = CellRig::new(22, 3).await;
        let gateways = rig.gateways();
        let devices = devices_of(&gateways[1], "key");
        rig.gates.set(&gateways[1], devices[0], Some(Rule::Straggle));
        let first = rig.env.spawn(put_if(gateways[1].clone(), "key", "first", Condition::None));
        rig.env.sleep(A_WHILE).await;
        rig.write_to(&[devices[1].0, devices[2].0]).await;
        first.await.unwrap().unwrap();
        put(&gateways[2], "key", "second").await.unwrap();
        rig.gates.land(gateways[1].inner.me).await;
        all_read(&rig, "key", Some("second")).await;
    });
}

/// The append to the primary has landed, another one fails, and a member has not said that it has the table. Caught: a turn that ends all the
/// same: that member could write by the table before, below what has landed.
#[test]
fn a_failed_write_keeps_its_turn_until_all_have_its_table() {
    simulate(async {
        let rig = CellRig::new(23, 3).await;
        let gateways = rig.gateways();
        let devices = devices_of(&gateways[1], "key");
        rig.gates.set(&gateways[1], devices[0], Some(Rule::Mute));
        rig.gates.set(&gateways[1], devices[1], Some(Rule::Straggle));
        let first = rig.env.spawn(put_if(gateways[1].clone(), "key", "first", Condition::Absent));
        rig.env.sleep(A_WHILE).await;
        rig.hold(&gateways[2], &gateways[1], true);
        rig.write_to(&[1, 2, 3]).await;
        rig.gates.set(&gateways[1], devices[0], None);
        rig.gates.land(gateways[1].inner.me).await;
        rig.gates.set(&gateways[2], devices[0], Some(Rule::Hold));
        let second = rig.env.spawn(put_if(gateways[2].clone(), "key", "second", Condition::None));
        rig.env.sleep(A_WHILE).await;
        let begun = rig.gates.land(gateways[2].inner.me).await;
        assert!(begun.is_empty(), "the other gateway has begun, perhaps by its old table, below what has landed");
        rig.gates.set(&gateways[1], devices[1], None);
        rig.gates.set(&gateways[2], devices[0], None);
        rig.hold(&gateways[2], &gateways[1], false);
        let first = first.await.unwrap();
        assert!(matches!(first, Ok(()) | Err(EngineError::PreconditionFailed)), "{first:?}");
        second.await.unwrap().unwrap();
        all_read(&rig, "key", Some("second")).await;
    });
}

/// Caught: `roll_on` that passes over a write of which copies are missing; copies that do not carry their write's order
/// (`append_others` without it) in the second kind.
#[test]
fn partial_replicas_of_each_kind() {
    simulate(async {
        for (kind, (lost, is_primary_lost)) in [(&[1usize, 2][..], false), (&[], true), (&[2], false)].into_iter().enumerate() {
            let rig = CellRig::new(30 + kind as u64, 3).await;
            let gateways = rig.gateways();
            put(&gateways[0], "key", "old").await.unwrap();
            let devices = devices_of(&gateways[2], "key");
            for (replica, device) in devices.iter().enumerate().skip(1) {
                let rule = if lost.contains(&replica) { Rule::Hold } else { Rule::Mute };
                rig.gates.set(&gateways[2], *device, Some(rule));
            }
            let write = rig.env.spawn(put_if(gateways[2].clone(), "key", "new", Condition::None));
            rig.env.sleep(A_WHILE).await;
            assert!(!write.is_finished(), "kind {kind}: not all copies are known to be durable");
            if is_primary_lost {
                rig.lose(&[devices[0].0]);
            }
            rig.kill(&gateways[2]);
            rig.remove(&[2]).await;
            for gateway in &gateways[..2] {
                assert_eq!(get(gateway, "key").await.as_deref(), Some("new"), "kind {kind}");
                let hash = crate::LogStore::object_hash(&crate::tests::support::key("key"));
                let copies = gateway.inner.shard(&hash).lock().index().newest(&hash).unwrap().places.len();
                assert_eq!(copies, 3, "kind {kind}: the missing copies are made again");
            }
            if !is_primary_lost {
                all_read(&rig, "key", Some("new")).await;
            }
        }
    });
}

/// Both gateways write, neither knows of the other's order; one dies with its write unfinished, together with the primary. Caught: copies that
/// do not carry their write's order.
#[test]
fn gateway_and_primary_lost_together_with_overlapping_writes() {
    simulate(async {
        for unfinished_first in [true, false] {
            let rig = CellRig::new(41, 3).await;
            let gateways = rig.gateways();
            let devices = devices_of(&gateways[2], "key");
            let survivor = || put_if(gateways[1].clone(), "key", "survivor", Condition::None);
            if !unfinished_first {
                survivor().await.unwrap();
            }
            for device in &devices[1..] {
                rig.gates.set(&gateways[2], *device, Some(Rule::Mute));
            }
            let unfinished = rig.env.spawn(put_if(gateways[2].clone(), "key", "unfinished", Condition::None));
            rig.env.sleep(A_WHILE).await;
            if unfinished_first {
                survivor().await.unwrap();
            }
            rig.lose(&[devices[0].0]);
            rig.kill(&gateways[2]);
            assert!(unfinished.await.unwrap().is_err());
            rig.remove(&[2]).await;
            let expected = if unfinished_first { "survivor" } else { "unfinished" };
            for gateway in &gateways[..2] {
                assert_eq!(get(gateway, "key").await.as_deref(), Some(expected));
            }
        }
    });
}

/// A gateway that has no peers yet writes as if it had: should one join while a write is under way, and the gateway die together with the
/// key's primary, the other copies tell the order. Caught: copies that are appended in parallel by a gateway without peers.
#[test]
fn a_gateway_without_peers_writes_the_order_into_its_copies() {
    simulate(async {
        let rig = CellRig::new(24, 1).await;
        let store = &rig.gateways()[0];
        put(store, "key", "content").await.unwrap();
        let hash = LogStore::object_hash(&key("key"));
        let newest = store.inner.shard(&hash).lock().index().newest(&hash).unwrap();
        for (index, place) in newest.places.as_slice().iter().enumerate() {
            let frame = store.inner.targets.read(place, newest.frame_bytes).await.unwrap();
            assert_eq!(frame.record.order, (index > 0).then_some(newest.order), "copy {index}");
        }
    });
}

/// A gateway leaves its cell between the step that grants a turn and the word of it. Caught: `decide` that takes any turn. The request went on, and
/// waited for ever for the end of its write.
#[test]
fn a_turn_that_comes_after_its_gateway_has_left_is_none() {
    simulate(async {
        let rig = CellRig::new(25, 2).await;
        let store = &rig.gateways()[1];
        let op = WriteOp::new(&store.inner, LogStore::object_draft(&key("key"), &attributes(b"late")), true);
        op.finish(Err(EngineError::Unavailable { reason: "it has left".to_owned() }));
        let write = WriteId { gateway: store.inner.me, sequence: Sequence(1) };
        op.dispatched(write, None);
        let turn = op.turn().await;
        assert!(matches!(turn, Err(EngineError::Unavailable { .. })), "{turn:?}");
    });
}

/// Clients ask again and again for what a gateway writes that does not answer. Caught: a read that stays with its key when nobody waits for it any more.
#[test]
fn reads_that_are_given_up_leave_nothing_behind() {
    simulate(async {
        let rig = CellRig::new(196, 3).await;
        let gateways = rig.gateways();
        let [reader, _, writer] = &gateways[..] else { panic!("three gateways") };
        rig.gates.set(writer, devices_of(writer, "key")[0], Some(Rule::Hold));
        let write = rig.env.spawn(put_if(writer.clone(), "key", "under way", Condition::None));
        rig.env.sleep(A_WHILE).await;
        rig.cut(writer.clone());
        let hash = LogStore::object_hash(&key("key"));
        let waiting = || reader.inner.shard(&hash).lock().waiting_reads(&hash);
        // One that waits to its end, and some whose clients go.
        let patient = rig.env.spawn({
            let reader = reader.clone();
            async move { reader.info(&key("key")).await }
        });
        for _ in 0..100 {
            let asked = key("key");
            let mut read = reader.info(&asked);
            assert!(futures_util::poll!(&mut read).is_pending());
        }
        rig.env.sleep(A_WHILE).await;
        assert_eq!(waiting(), 1);
        let told = patient.await.unwrap();
        assert!(matches!(told, Err(EngineError::Unavailable { .. })), "{told:?}");
        assert_eq!(waiting(), 0);
        write.abort();
    });
}
