//! Gateways that are removed while they hold, write or know something.

use super::super::gate::Rule;
use super::{A_WHILE, CellRig, all_read, devices_of, get, names, put, put_if, removing};
use crate::LogStore;
use crate::machine::Message;
use crate::peers::{Batch, Item};
use crate::tests::support::{key, simulate};
use device::AppendError;
use engine::{Condition, EngineError, ObjectEngine};
use format::name_entry::NameEntry;
use std::sync::Arc;
use std::time::Duration;
use types::ViewNumber;

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

/// Deletes a key, and makes checkpoints until nothing is known of it.
async fn delete_and_forget(rig: &CellRig, name: &str, gateways: &[LogStore]) {
    gateways[0].delete(&key(name), Condition::None).await.unwrap();
    rig.env.sleep(A_WHILE).await;
    for _ in 0..4 {
        gateways[0].inner.checkpoint().await.unwrap();
        rig.env.sleep(A_WHILE).await;
    }
    let hash = LogStore::object_hash(&key(name));
    for gateway in gateways {
        assert_eq!(gateway.inner.shard(&hash).lock().index().newest(&hash), None, "its tombstone is forgotten");
    }
}

/// The gateway that came last stands still with the conclusion of a write, is removed, and goes on before it knows that. Caught: streams that are ended by
/// the numbers of the present members alone: the last gateway's number is greater than theirs, as of one that comes later. The object came back.
#[test]
fn a_removed_gateway_concludes_what_was_deleted_since() {
    simulate(async {
        for leaving in [1, 2] {
            let rig = CellRig::new(52, 3).await;
            let mut rest = rig.gateways();
            let removed = rest.remove(leaving);
            put(&removed, "key", "deleted").await.unwrap();
            rest.iter().for_each(|other| rig.hold(&removed, other, true));
            rig.env.sleep(A_WHILE).await;
            rig.remove(if leaving == 1 { &[1] } else { &[2] }).await;
            assert_eq!(get(&rest[0], "key").await.as_deref(), Some("deleted"), "recovered");
            delete_and_forget(&rig, "key", &rest).await;
            rest.iter().for_each(|other| rig.hold(&removed, other, false));
            rig.env.sleep(A_WHILE).await;
            rig.kill(&removed);
            all_read(&rig, "key", None).await;
        }
    });
}

/// A batch waits at its receiver when its sender leaves. Caught: a sender that is looked at when its batch comes, and not before each item.
#[test]
fn a_batch_of_a_removed_gateway_that_was_waiting_concludes_nothing() {
    simulate(async {
        let rig = CellRig::new(53, 3).await;
        let mut rest = rig.gateways();
        let removed = rest.remove(2);
        put(&removed, "key", "deleted").await.unwrap();
        rest.iter().for_each(|other| rig.hold(&removed, other, true));
        let name = own_name(&removed, "key");
        let conclusion =
            Message::Conclude { hash: name.entry.hash, write: name.entry.write, entry: Some(name.entry), freeze: None };
        // Behind something that waits for a view after the next one.
        let view = ViewNumber(removed.member_status().unwrap().view.0 + 2);
        let hello = Item::Hello { view, epoch: name.entry.epoch, installed: Some(name.entry.epoch) };
        let waiting =
            hear_next(&rig, &rest[1], &removed, vec![hello, Item::Key { message: conclusion, name: Some(Box::new(name)) }]);
        let waiting = waiting.await;
        rig.remove(&[2]).await;
        delete_and_forget(&rig, "key", &rest).await;
        let next = rig.view_of_the_same();
        for gateway in &rest {
            gateway.install(next.clone()).await;
        }
        waiting.await.unwrap().unwrap();
        rig.kill(&removed);
        all_read(&rig, "key", None).await;
    });
}

/// What a gateway's list says of a write of its own that no checkpoint has.
fn own_name(gateway: &LogStore, name: &str) -> NameEntry {
    let hash = LogStore::object_hash(&key(name));
    let memtables = gateway.inner.names.layers().memtables;
    memtables.iter().find_map(|memtable| memtable.read().values().find(|name| name.entry.hash == hash).cloned()).unwrap()
}

/// The next batch of the stream between two gateways, which has to wait.
async fn hear_next(
    rig: &CellRig,
    to: &LogStore,
    from: &LogStore,
    items: Vec<Item>,
) -> tokio::task::JoinHandle<Result<(), String>> {
    for number in (1..100).rev() {
        let batch = Batch { from: from.inner.me, to: to.inner.me, number, items: items.clone() }.encode();
        let store = to.clone();
        let hearing = rig.env.spawn(async move { store.hear(&batch).await.map(drop).map_err(|error| error.to_string()) });
        rig.env.sleep(Duration::from_millis(1)).await;
        if !hearing.is_finished() {
            return hearing;
        }
        assert_eq!(hearing.await.unwrap().unwrap_err(), "something before this batch is missing");
    }
    panic!("the stream is longer");
}

/// The view in which it joined was over when it heard of it. Caught: its shards did not know that the other one was not decided, held nothing of what its
/// recovery found, and its checkpoint covered that.
#[test]
fn who_joins_and_is_left_alone_at_once_recovers_the_others() {
    simulate(async {
        let rig = CellRig::new(91, 1).await;
        let leader = rig.gateways()[0].clone();
        put(&leader, "covered", "old").await.unwrap();
        leader.inner.checkpoint().await.unwrap();
        leader.inner.background.stop().await;
        for name in ["covered", "key"] {
            put(&leader, name, "new").await.unwrap();
        }
        let joined = rig.join_and_stay_alone().await;
        for name in ["covered", "key"] {
            assert_eq!(get(&joined, name).await.as_deref(), Some("new"), "{name}");
        }
        rig.kill(&joined);
        rig.restart_all().await;
        for name in ["covered", "key"] {
            all_read(&rig, name, Some("new")).await;
        }
    });
}
