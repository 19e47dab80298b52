//! Members of which one has come further than another when gateways are removed: each loses something or brings something back without its rule.

use super::super::gate::Rule;
use super::epochs::joining_unreached;
use super::{A_WHILE, CellRig, all_read, checkpoint, devices_of, get, put, put_if, removing};
use crate::tests::support::{key, simulate};
use crate::{Consistency, LogStore};
use engine::{Condition, ObjectEngine};
use std::sync::Arc;
use std::time::Duration;
use types::Epoch;

/// Whether the index has nothing of this name, not even that it was deleted.
fn knows_nothing_of(gateway: &LogStore, name: &str) -> bool {
    let hash = LogStore::object_hash(&key(name));
    gateway.inner.shard(&hash).lock().index().newest(&hash).is_none()
}

/// Epochs that end without a checkpoint: a delete is forgotten by the first one that comes then.
async fn end_two_epochs(leader: &LogStore) {
    for _ in 0..2 {
        leader.inner.end_epochs().await.unwrap();
    }
}

/// A gateway deletes an object, another one does not hear how that ended, and checkpoints leave it behind.
async fn delete_unheard(rig: &CellRig, name: &'static str, leader: &LogStore, deleting: &LogStore, behind: &LogStore) {
    put(leader, name, "deleted").await.unwrap();
    rig.env.sleep(A_WHILE).await;
    deleting.delete(&key(name), Condition::None).await.unwrap();
    rig.hold(deleting, behind, true);
    end_two_epochs(leader).await;
    leader.inner.checkpoint().await.unwrap();
}

/// The leader's writes were deleted. It dies when one member has its checkpoint, and has forgotten the delete, and the other one has not. Caught: a recovery that
/// tells everything that it finds, though this gateway knows what replaced it.
#[test]
fn a_deleted_write_is_not_told_again_to_who_has_forgotten_the_delete() {
    simulate(async {
        let rig = CellRig::new(201, 3).await;
        let [leader, behind, ahead] = &rig.gateways()[..] else { panic!("three gateways") };
        leader.inner.background.stop().await;
        put(leader, "key", "deleted").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        ahead.delete(&key("key"), Condition::None).await.unwrap();
        rig.env.sleep(A_WHILE).await;
        end_two_epochs(leader).await;
        let begun = behind.inner.epochs.present();
        let checkpoint = checkpoint(&rig, leader);
        while behind.inner.epochs.present() == begun {
            rig.env.sleep(Duration::from_micros(1)).await;
        }
        rig.hold(leader, behind, true);
        checkpoint.await.unwrap().unwrap();
        rig.env.sleep(A_WHILE).await;
        assert!(knows_nothing_of(ahead, "key") && !knows_nothing_of(behind, "key"));
        rig.kill(leader);
        rig.remove(&[0]).await;
        all_read(&rig, "key", None).await;
    });
}

/// A gateway that is removed had deleted an object, and a member has not heard how the delete ended. Caught: a delete that is forgotten as soon as checkpoints have
/// left it behind, if the recovery passes over what its checkpoint covers and its index lacks.
#[test]
fn a_delete_is_remembered_until_every_member_has_heard_of_it() {
    simulate(async {
        let rig = CellRig::new(202, 4).await;
        let [leader, ahead, behind, deleting] = &rig.gateways()[..] else { panic!("four gateways") };
        leader.inner.background.stop().await;
        delete_unheard(&rig, "key", leader, deleting, behind).await;
        rig.env.sleep(A_WHILE).await;
        assert!(!knows_nothing_of(ahead, "key") && !knows_nothing_of(behind, "key"));
        [leader, deleting].into_iter().for_each(|gateway| rig.kill(gateway));
        rig.remove(&[0, 3]).await;
        all_read(&rig, "key", None).await;
    });
}

/// A member has not heard how a delete ended, and answers a freeze with the version before. Caught: a delete that is forgotten as soon as checkpoints have left it
/// behind. Nobody knew better then, and a condition was held against an object that was gone.
#[test]
fn a_condition_beside_a_member_that_has_not_heard_of_a_delete() {
    simulate(async {
        let rig = CellRig::new(204, 3).await;
        let [leader, deleting, behind] = &rig.gateways()[..] else { panic!("three gateways") };
        leader.inner.background.stop().await;
        let cell = leader.inner.member.as_ref().unwrap().view().clone();
        let is_home = |name: &&str| cell.home(&LogStore::object_hash(&key(name))) == leader.inner.me;
        let name = ["one", "two", "three", "four", "five", "six"].into_iter().find(is_home).expect("one in three");
        delete_unheard(&rig, name, leader, deleting, behind).await;
        put_if(leader.clone(), name, "new", Condition::Absent).await.unwrap();
        rig.hold(deleting, behind, false);
        for gateway in rig.gateways() {
            assert_eq!(get(&gateway, name).await.as_deref(), Some("new"));
        }
        // All hear of this one, and it is forgotten.
        deleting.delete(&key(name), Condition::None).await.unwrap();
        rig.env.sleep(A_WHILE).await;
        for _ in 0..4 {
            leader.inner.checkpoint().await.unwrap();
            rig.env.sleep(A_WHILE).await;
        }
        assert!(rig.gateways().iter().all(|gateway| knows_nothing_of(gateway, name)));
    });
}

/// A write is acknowledged, its gateway dies, and one in read-after-write mode follows it, of which the leader hears before another member does. Caught: a member that
/// says at once that it holds what was recovered. The leader told nobody of the first write, and this member read what was before both.
#[test]
fn a_member_that_has_not_heard_what_followed_the_write_of_a_removed_gateway() {
    simulate(async {
        use Consistency::{Linearizable, ReadAfterWrite};
        let rig = Arc::new(CellRig::mixed(205, &[Linearizable, ReadAfterWrite, Linearizable, Linearizable]).await);
        let [leader, follows, behind, removed] = &rig.gateways()[..] else { panic!("four gateways") };
        put(leader, "key", "before").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        let last = *devices_of(removed, "key").last().unwrap();
        rig.gates.set(removed, last, Some(Rule::Mute));
        let write = rig.env.spawn(put_if(removed.clone(), "key", "acknowledged", Condition::None));
        rig.env.sleep(A_WHILE).await;
        // It is announced to all, and nobody hears how it ends.
        [leader, follows, behind].into_iter().for_each(|gateway| rig.hold(removed, gateway, true));
        rig.gates.set(removed, last, None);
        rig.gates.land(removed.inner.me).await;
        write.await.unwrap().unwrap();
        rig.hold(follows, behind, true);
        let following = rig.env.spawn(put_if(follows.clone(), "key", "follows", Condition::None));
        rig.env.sleep(A_WHILE).await;
        rig.kill(removed);
        let removal = removing(&rig, &[3]);
        rig.env.sleep(A_WHILE).await;
        let behind = behind.clone();
        let read = rig.env.spawn(async move { get(&behind, "key").await });
        rig.env.sleep(A_WHILE).await;
        assert!(!read.is_finished() && !removal.is_finished(), "it has not heard of what followed");
        let [_, follows, behind] = &rig.gateways()[..] else { panic!("three gateways") };
        rig.hold(follows, behind, false);
        removal.await.unwrap();
        assert_eq!(read.await.unwrap().as_deref(), Some("follows"));
        following.await.unwrap().unwrap();
        all_read(&rig, "key", Some("follows")).await;
    });
}

/// The leader dies, and the first one that is left joins, while one with a greater number has joined. Caught: a recovery by one that has no checkpoint beside one that has:
/// it lacks what the other was told of moves, and walks from a checkpoint that the other may have passed over.
#[test]
fn who_has_no_checkpoint_leaves_the_recovery_to_who_has_one() {
    simulate(async {
        let rig = Arc::new(CellRig::new(188, 2).await);
        let leader = rig.gateways().remove(0);
        put(&leader, "old", "covered").await.unwrap();
        for _ in 0..3 {
            leader.inner.checkpoint().await.unwrap();
        }
        let (_, joining) = joining_unreached(&rig);
        rig.env.sleep(A_WHILE).await;
        let joined = rig.join().await;
        let gateways = rig.gateways();
        let [first, second, joiner, _] = &gateways[..] else { panic!("four gateways") };
        put(&leader, "key", "acknowledged").await.unwrap();
        // Nobody has been told yet how it ended.
        [first, second].into_iter().for_each(|gateway| rig.kill(gateway));
        let (led_by, view) = rig.leave_out(&[0, 1], &[]).await;
        assert_eq!(led_by.inner.me, joiner.inner.me);
        led_by.recover(&view.undecided, view.table.devices()).await.unwrap_err();
        assert!(joining.await.unwrap().is_err(), "it joins anew");
        rig.kill(joiner);
        let undecided: Vec<_> = view.undecided.iter().copied().collect();
        rig.remove_beside(&[0], &undecided).await;
        assert_eq!(get(&joined, "key").await.as_deref(), Some("acknowledged"));
        all_read(&rig, "key", Some("acknowledged")).await;
    });
}

/// The leader that joins has chosen its checkpoint, and reads it while it is to recover. Caught: one that recovers before it has what it was told of.
#[test]
fn who_has_chosen_a_checkpoint_has_joined_before_it_recovers() {
    simulate(async {
        let rig = Arc::new(CellRig::new(203, 1).await);
        let leader = rig.gateways().remove(0);
        put(&leader, "key", "acknowledged").await.unwrap();
        leader.inner.checkpoint().await.unwrap();
        let joiner = rig.join().await;
        let chosen = joiner.inner.member.as_ref().unwrap();
        // As between its choice and the end of its reading.
        chosen.heard.lock().joining = true;
        put(&leader, "late", "acknowledged").await.unwrap();
        rig.kill(&leader);
        rig.gates.take_walks(joiner.inner.me);
        let removal = removing(&rig, &[0]);
        rig.env.sleep(A_WHILE).await;
        assert_eq!(rig.gates.take_walks(joiner.inner.me), [], "it waits for its own maps");
        chosen.heard.lock().joining = false;
        chosen.moved();
        removal.await.unwrap();
        for name in ["key", "late"] {
            assert_eq!(get(&joiner, name).await.as_deref(), Some("acknowledged"), "{name}");
        }
        all_read(&rig, "late", Some("acknowledged")).await;
    });
}

/// Two members are in two epochs, and the one that is behind overwrites what the other one has written. Who joins is told of both. Caught: one that takes what is
/// of the later epoch for the newer one.
#[test]
fn who_joins_takes_the_newer_write_though_it_is_of_an_older_epoch() {
    simulate(async {
        for is_deleted in [false, true] {
            let rig = CellRig::new(204, 2).await;
            let [first, second] = &rig.gateways()[..] else { panic!("two gateways") };
            first.inner.background.stop().await;
            let (view, present) = (first.inner.member.as_ref().unwrap().view().number(), first.inner.epochs.present());
            first.inner.begin_epoch(view, Epoch(present.0 + 1)).await;
            put(first, "key", "old").await.unwrap();
            rig.env.sleep(A_WHILE).await;
            assert!(second.inner.epochs.present() < first.inner.epochs.present());
            match is_deleted {
                true => second.delete(&key("key"), Condition::None).await.unwrap(),
                false => put(second, "key", "new").await.unwrap(),
            }
            rig.env.sleep(A_WHILE).await;
            rig.join().await;
            all_read(&rig, "key", (!is_deleted).then_some("new")).await;
        }
    });
}
