//! Gateways that are removed while they hold, write or know something.

use super::super::gate::Rule;
use super::{A_WHILE, CellRig, all_read, devices_of, names, put, put_if, removing};
use crate::tests::support::simulate;
use device::AppendError;
use engine::{Condition, EngineError};
use std::sync::Arc;

/// Caught: targets that are not fenced (`CellRig::fence` left out). Then the append lands behind the walk, nobody reads it, and the next
/// start gives it.
#[test]
fn deposed_gateway_appending_during_a_walk() {
    simulate(async {
        let rig = Arc::new(CellRig::new(51, 3).await);
        let gateways = rig.gateways();
        put(&gateways[0], "key", "old").await.unwrap();
        rig.gates.set(&gateways[2], devices_of(&gateways[2], "key")[0], Some(Rule::Hold));
        // It does not know that it is deposed.
        let write = rig.env.spawn(put_if(gateways[2].clone(), "key", "new", Condition::None));
        rig.env.sleep(A_WHILE).await;
        // The leader has fenced it and does not walk before it has heard of the other one.
        rig.hold(&gateways[1], &gateways[0], true);
        let removal = removing(&rig, &[2]);
        rig.env.sleep(A_WHILE).await;
        let outcomes = rig.gates.land(gateways[2].inner.me).await;
        assert!(matches!(outcomes[..], [Err(AppendError::Refused { .. })]), "after its fence: {outcomes:?}");
        rig.hold(&gateways[1], &gateways[0], false);
        removal.await.unwrap();
        write.abort();
        rig.kill(&gateways[2]);
        all_read(&rig, "key", Some("old")).await;
    });
}

/// Caught: a new view that forgets freezes, with writes that start beside an undecided one (`Shard::must_wait` that never waits): each
/// alone is made up for by the other.
#[test]
fn freeze_holder_dying() {
    simulate(async {
        for has_landed in [true, false] {
            let rig = CellRig::new(61, 3).await;
            let gateways = rig.gateways();
            let rule = if has_landed { Rule::Mute } else { Rule::Hold };
            rig.gates.set(&gateways[2], devices_of(&gateways[2], "key")[0], Some(rule));
            let holder = rig.env.spawn(put_if(gateways[2].clone(), "key", "holder", Condition::Absent));
            rig.env.sleep(A_WHILE).await;
            let next = rig.env.spawn(put_if(gateways[1].clone(), "key", "next", Condition::Absent));
            let blind = rig.env.spawn(put_if(gateways[0].clone(), "other", "blind", Condition::None));
            rig.env.sleep(A_WHILE).await;
            assert!(!next.is_finished(), "the key is frozen");
            blind.await.unwrap().unwrap();
            rig.kill(&gateways[2]);
            rig.env.sleep(A_WHILE).await;
            assert!(!next.is_finished(), "the holder's write may stand");
            assert!(holder.await.unwrap().is_err());
            rig.remove(&[2]).await;
            let next = next.await.unwrap();
            match has_landed {
                true => assert!(matches!(next, Err(EngineError::PreconditionFailed)), "{next:?}"),
                false => next.unwrap(),
            }
            all_read(&rig, "key", Some(if has_landed { "holder" } else { "next" })).await;
        }
    });
}

/// Caught: a list that asks nobody (`hear_all_names` that returns at once).
#[test]
fn gateway_down_during_listing() {
    simulate(async {
        let rig = CellRig::new(71, 3).await;
        let gateways = rig.gateways();
        put(&gateways[0], "a", "a").await.unwrap();
        put(&gateways[2], "b", "b").await.unwrap();
        // It is acknowledged, and nobody else has heard.
        rig.cut(gateways[2].clone());
        let lister = gateways[1].clone();
        let list = rig.env.spawn(async move { names(&lister).await });
        rig.env.sleep(A_WHILE).await;
        rig.kill(&gateways[2]);
        rig.env.sleep(A_WHILE).await;
        assert!(!list.is_finished(), "a list without what the dead gateway acknowledged");
        rig.remove(&[2]).await;
        assert_eq!(list.await.unwrap(), ["a", "b"]);
        assert_eq!(names(&gateways[0]).await, ["a", "b"]);
        all_read(&rig, "b", Some("b")).await;
    });
}

/// A write ends while the leader changes, and its conclusion comes late: the next leader's checkpoint waits for it. Caught: a leader that does
/// not wait for the others (`heard_all_of` that returns at once). Then its checkpoint passes the record and lacks the entry.
#[test]
fn straggler_phase_2_across_a_leader_change() {
    simulate(async {
        let rig = Arc::new(CellRig::new(81, 3).await);
        let gateways = rig.gateways();
        let last = *devices_of(&gateways[2], "key").last().unwrap();
        rig.gates.set(&gateways[2], last, Some(Rule::Mute));
        let write = rig.env.spawn(put_if(gateways[2].clone(), "key", "late", Condition::None));
        rig.env.sleep(A_WHILE).await;
        rig.kill(&gateways[0]);
        let removal = removing(&rig, &[0]);
        rig.env.sleep(A_WHILE).await;
        assert!(!write.is_finished(), "its last copy is not known to be durable");
        rig.hold(&gateways[2], &gateways[1], true);
        rig.gates.set(&gateways[2], last, None);
        rig.gates.land(gateways[2].inner.me).await;
        rig.env.sleep(A_WHILE).await;
        write.await.unwrap().unwrap();
        rig.hold(&gateways[2], &gateways[1], false);
        removal.await.unwrap();
        all_read(&rig, "key", Some("late")).await;
    });
}
