//! What the model of epochs found: each loses something or brings something back without its rule.

use super::super::gate::Rule;
use super::{A_WHILE, CellRig, all_read, checkpoint, devices_of, get, put, put_if, removing};
use crate::checkpoint::CheckpointState;
use crate::tests::support::{MemoryManifests, key, simulate};
use crate::watched::Watched;
use crate::{LogStore, Manifests};
use device::LogVector;
use engine::{Condition, EngineError, EngineFuture, ObjectEngine};
use format::manifest::Manifest;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::task::JoinHandle;
use types::{Epoch, Position};

/// A leader has announced an epoch two ahead and is followed by another one while the member drains. Caught: a member that goes on with it in
/// the new view. Then the new leader's epoch has begun there before its positions were read.
#[test]
fn an_epoch_of_an_older_view_is_not_begun() {
    simulate(async {
        let rig = CellRig::new(131, 3).await;
        let gateways = rig.gateways();
        let member = gateways[2].inner.clone();
        let (view, present) = (member.member.as_ref().unwrap().view().number(), member.epochs.present());
        let first = member.epochs.enter();
        let late = rig.env.spawn({
            let member = member.clone();
            async move { member.begin_epoch(view, Epoch(present.0 + 2)).await }
        });
        rig.env.sleep(A_WHILE).await;
        let second = member.epochs.enter();
        assert_eq!((first, second), (present, Epoch(present.0 + 1)));
        rig.write_to(&[1, 2, 3]).await;
        rig.env.sleep(A_WHILE).await;
        member.epochs.leave(first);
        rig.env.sleep(A_WHILE).await;
        put(&gateways[2], "key", "acknowledged").await.unwrap();
        let checkpoint = checkpoint(&rig, &gateways[0]);
        rig.env.sleep(A_WHILE).await;
        member.epochs.leave(second);
        checkpoint.await.unwrap().unwrap();
        late.await.unwrap();
        all_read(&rig, "key", Some("acknowledged")).await;
    });
}

/// A leader has begun an epoch that it has not announced, acknowledges a write in it and dies. Caught: a leader that counts from the epochs
/// that gateways have begun, and not from the entries that it has. Then its checkpoint passes the record and leaves the entry to the next.
#[test]
fn an_epoch_is_beyond_what_a_dead_leader_has_written() {
    simulate(async {
        let rig = CellRig::new(161, 3).await;
        let gateways = rig.gateways();
        let leader = gateways[0].inner.clone();
        let (view, present) = (leader.member.as_ref().unwrap().view().number(), leader.epochs.present());
        let under_way = leader.epochs.enter();
        assert_eq!(under_way, present);
        let begun = rig.env.spawn({
            let leader = leader.clone();
            async move { leader.begin_epoch(view, Epoch(present.0 + 1)).await }
        });
        rig.env.sleep(A_WHILE).await;
        put(&gateways[0], "key", "acknowledged").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        begun.abort();
        rig.kill(&gateways[0]);
        rig.remove(&[0]).await;
        all_read(&rig, "key", Some("acknowledged")).await;
    });
}

/// Caught: a leader that announces an epoch while it moves copies in the one before: a member may begin without having heard of the move, the
/// checkpoint covers it, and if the leader dies nobody tells it again.
#[test]
fn a_leader_announces_an_epoch_behind_its_own_moves() {
    simulate(async {
        let rig = CellRig::new(141, 3).await;
        let gateways = rig.gateways();
        let (leader, member) = (gateways[0].inner.clone(), gateways[1].inner.clone());
        let move_under_way = leader.epochs.enter();
        let before = member.epochs.present();
        let checkpoint = checkpoint(&rig, &gateways[0]);
        rig.env.sleep(A_WHILE).await;
        assert_eq!(member.epochs.present(), before, "what the leader has to tell of this epoch is not told");
        leader.epochs.leave(move_under_way);
        checkpoint.await.unwrap().unwrap();
        assert_eq!(member.epochs.present(), Epoch(before.0 + 1));
    });
}

/// A recovery's checkpoint begins an epoch beside the background's moves, and a member is slow to begin it. Caught: a copy that moves in the epoch that the
/// leader alone has begun. The member deleted the record in the one before: a merge of older runs forgot the delete, and the move stood above it.
#[test]
fn no_copy_moves_in_an_epoch_that_a_member_has_not_begun() {
    simulate(async {
        let rig = CellRig::new(152, 3).await;
        let [leader, member, _] = &rig.gateways()[..] else { panic!("three gateways") };
        leader.inner.background.stop().await;
        put(member, "key", "deleted").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        leader.inner.checkpoint().await.unwrap();
        rig.hold(leader, member, true);
        let recovery = checkpoint(&rig, leader);
        rig.env.sleep(A_WHILE).await;
        let moving = rig.env.spawn({
            let leader = leader.clone();
            async move { super::places::move_primary(&leader, "key").await }
        });
        rig.env.sleep(A_WHILE).await;
        member.delete(&key("key"), Condition::None).await.unwrap();
        rig.hold(leader, member, false);
        recovery.await.unwrap().unwrap();
        assert!(!moving.await.unwrap(), "it is deleted");
        for _ in 0..3 {
            leader.inner.checkpoint().await.unwrap();
        }
        let older: Vec<_> = leader.inner.names.layers().runs.into_iter().rev().take(2).rev().collect();
        leader.inner.merge(older, 1).await.unwrap();
        rig.env.sleep(A_WHILE).await;
        all_read(&rig, "key", None).await;
    });
}

/// A member can't read checkpoints for a while, and a gateway is removed: the walk begins where that member is. Caught: a recovery that
/// publishes a version which it finds there although its tombstone is forgotten.
#[test]
fn a_walk_for_a_member_that_lags_brings_nothing_back() {
    simulate(async {
        let rig = CellRig::new(151, 3).await;
        let gateways = rig.gateways();
        put(&gateways[2], "key", "deleted").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        let lagging = gateways[1].inner.clone();
        let no_checkpoints = lagging.checkpoints.lock().await;
        gateways[0].delete(&key("key"), Condition::None).await.unwrap();
        for _ in 0..5 {
            gateways[0].inner.checkpoint().await.unwrap();
        }
        let hash = LogStore::object_hash(&key("key"));
        assert!(gateways[0].inner.shard(&hash).lock().index().newest(&hash).is_none(), "the tombstone is forgotten");
        rig.kill(&gateways[2]);
        rig.remove(&[2]).await;
        drop(no_checkpoints);
        for gateway in &gateways[..2] {
            assert_eq!(get(gateway, "key").await, None, "at {}", gateway.inner.me);
        }
        all_read(&rig, "key", None).await;
    });
}

/// A leader's write is under way when its recovery makes the checkpoint and is given up. Caught: a checkpoint that is given up with it, after it had
/// begun an epoch. The next one did not wait for the write, and its start vector had passed the record.
#[test]
fn a_recovery_that_is_given_up_does_not_give_up_its_checkpoint() {
    simulate(async {
        let rig = Arc::new(CellRig::new(42, 3).await);
        let [leader, _, removed] = &rig.gateways()[..] else { panic!("three gateways") };
        // Its next checkpoint would make up for it.
        leader.inner.background.stop().await;
        let last = *devices_of(leader, "key").last().expect("it has devices");
        rig.gates.set(leader, last, Some(Rule::Mute));
        let write = rig.env.spawn(put_if(leader.clone(), "key", "acknowledged", Condition::None));
        rig.env.sleep(A_WHILE).await;
        rig.gates.set(leader, last, None);
        rig.kill(removed);
        let removal = removing(&rig, &[2]);
        rig.env.sleep(A_WHILE).await;
        assert!(leader.inner.checkpoints.try_lock().is_err(), "the checkpoint waits for the write");
        removal.abort();
        rig.write_to(&[1, 2, 3]).await;
        rig.env.sleep(A_WHILE).await;
        let checkpoint = checkpoint(&rig, leader);
        rig.env.sleep(A_WHILE).await;
        rig.gates.land(leader.inner.me).await;
        write.await.unwrap().unwrap();
        checkpoint.await.unwrap().unwrap();
        all_read(&rig, "key", Some("acknowledged")).await;
    });
}

/// Caught: a walk from the oldest manifest that is remembered, for a member that is further behind.
#[test]
fn a_walk_for_a_member_further_behind_than_is_remembered_begins_at_the_start() {
    let manifest = |epoch: u64| Manifest {
        epoch: Epoch(epoch),
        covered: Epoch(epoch),
        start: vec![(types::DeviceId(1), Position::default())],
        ..Manifest::default()
    };
    let former: VecDeque<Manifest> = (5..13).map(manifest).collect();
    let state = CheckpointState { former, ..CheckpointState::new(manifest(13)) };
    assert_eq!(state.as_of(Epoch(14)).epoch, Epoch(13));
    assert_eq!(state.as_of(Epoch(7)).epoch, Epoch(7));
    let behind = state.as_of(Epoch(4));
    assert_eq!((behind.epoch, behind.covered, behind.start), (Epoch(4), Epoch(4), Vec::new()));
}

/// A checkpoint has a write that this gateway knows to be in flight only: the writer's conclusion is on its way. Writer and leader die; this
/// gateway recovers them. Caught: a gateway that adopts the checkpoint when the writer is out of the view; its recovery took the write for
/// one that had been replaced, and answered with the version before.
#[test]
fn a_checkpoint_is_not_adopted_without_what_a_removed_gateway_concluded() {
    simulate(async {
        let rig = CellRig::new(37, 3).await;
        let gateways = rig.gateways();
        put(&gateways[2], "key", "old").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        put(&gateways[2], "key", "new").await.unwrap();
        rig.hold(&gateways[2], &gateways[1], true);
        gateways[0].inner.checkpoint().await.unwrap();
        rig.env.sleep(A_WHILE).await;
        rig.kill(&gateways[0]);
        rig.kill(&gateways[2]);
        rig.remove(&[0, 2]).await;
        assert_eq!(get(&gateways[1], "key").await.as_deref(), Some("new"));
    });
}

/// The leader makes a checkpoint and waits for a write of its own; the others are removed, and one of them had acknowledged a write in the epoch
/// that ends whose conclusion is on its way. Caught: a leader that waits for the members of the view that there is by then. There was nobody
/// left, the checkpoint covered the write and lacked its entry, and the recovery took the write for one that had been replaced.
#[test]
fn a_checkpoint_waits_for_the_members_of_the_view_in_which_it_began() {
    simulate(async {
        let rig = Arc::new(CellRig::new(39, 3).await);
        let gateways = rig.gateways();
        put(&gateways[1], "key", "old").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        put(&gateways[1], "key", "new").await.unwrap();
        rig.hold(&gateways[1], &gateways[0], true);
        let leader = gateways[0].inner.clone();
        let under_way = leader.epochs.enter();
        let checkpoint = checkpoint(&rig, &gateways[0]);
        rig.env.sleep(A_WHILE).await;
        rig.kill(&gateways[1]);
        rig.kill(&gateways[2]);
        let removal = removing(&rig, &[1, 2]);
        rig.env.sleep(A_WHILE).await;
        leader.epochs.leave(under_way);
        let outcome = checkpoint.await.unwrap();
        assert!(matches!(outcome, Err(EngineError::Unavailable { .. })), "{outcome:?}");
        removal.await.unwrap();
        all_read(&rig, "key", Some("new")).await;
    });
}

/// A gateway joins a cell that has lived for long. Caught: an epoch after the other, each with a memtable in front of the others: it was silent for so long
/// that it was removed, and came again.
#[test]
fn who_joins_begins_in_the_epoch_of_an_old_cell() {
    simulate(async {
        let rig = CellRig::new(181, 1).await;
        let founder = rig.gateways().remove(0);
        let (view, present) = (founder.member_status().unwrap().view, founder.inner.epochs.present());
        for epochs in [20_000, 20_001] {
            founder.inner.begin_epoch(view, Epoch(present.0 + epochs)).await;
        }
        put(&founder, "key", "old").await.unwrap();
        let joined = rig.join().await;
        assert_eq!(joined.inner.epochs.present(), founder.inner.epochs.present());
        for gateway in rig.gateways() {
            let memtables = gateway.inner.names.layers().memtables.len();
            assert!(memtables <= 4, "{memtables} memtables at {}", gateway.inner.me);
        }
        put(&joined, "other", "new").await.unwrap();
        founder.inner.checkpoint().await.unwrap();
        assert_eq!(get(&joined, "key").await.as_deref(), Some("old"));
        all_read(&rig, "other", Some("new")).await;
    });
}

/// The manager of a gateway that can't ask it yet.
pub(super) struct Unreached {
    manager: Arc<MemoryManifests>,
    pub is_reached: Watched<bool>,
}

/// A gateway that joins, and does not reach the manager until it is told that it does.
pub(super) fn joining_unreached(rig: &Arc<CellRig>) -> (Arc<Unreached>, JoinHandle<Result<LogStore, EngineError>>) {
    let manifests = Arc::new(Unreached { manager: rig.manifests.clone(), is_reached: Watched::default() });
    let joining = rig.env.spawn({
        let (rig, manifests) = (rig.clone(), manifests.clone());
        async move { rig.join_by(manifests).await }
    });
    (manifests, joining)
}

/// Checkpoints, and a merge, after which the leader knows nothing of deletes before them.
async fn forget_deletes(rig: &CellRig, leader: &LogStore) {
    for _ in 0..4 {
        put(leader, "other", "of no account").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        leader.inner.checkpoint().await.unwrap();
    }
    leader.inner.merge(leader.inner.names.layers().runs, 1).await.unwrap();
    rig.env.sleep(A_WHILE).await;
}

impl Manifests for Unreached {
    fn load(&self) -> Option<Vec<u8>> {
        self.manager.load()
    }

    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        self.manager.install(expected, epoch, manifest)
    }

    fn reach(&self) -> EngineFuture<'_, ()> {
        Box::pin(async {
            self.is_reached.wait_for(|is_reached| *is_reached).await;
            Ok(())
        })
    }

    fn incarnation(&self) -> EngineFuture<'_, u64> {
        self.manager.incarnation()
    }
}

/// A gateway that joins reads its checkpoint's runs while a newer one is made, and a member is removed that told the leader alone of what that has. Caught: one that
/// says that it has none until it has joined. Nobody told it of the write, and it reads no other checkpoint.
#[test]
fn who_joins_with_an_older_checkpoint_is_told_what_that_lacks() {
    simulate(async {
        let rig = Arc::new(CellRig::new(183, 2).await);
        let [leader, second] = &rig.gateways()[..] else { panic!("two gateways") };
        put(second, "old", "old").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        leader.inner.checkpoint().await.unwrap();
        let (manifests, joining) = joining_unreached(&rig);
        rig.env.sleep(A_WHILE).await;
        let third = rig.gateways()[2].clone();
        let reading = third.inner.checkpoints.lock().await;
        manifests.is_reached.change(|is_reached| *is_reached = true);
        rig.env.sleep(A_WHILE).await;
        put(second, "key", "covered").await.unwrap();
        rig.hold(second, &third, true);
        rig.env.sleep(A_WHILE).await;
        leader.inner.checkpoint().await.unwrap();
        rig.kill(second);
        let removal = removing(&rig, &[1]);
        rig.env.sleep(A_WHILE).await;
        assert!(!joining.is_finished());
        drop(reading);
        joining.await.unwrap().unwrap();
        removal.await.unwrap();
        for gateway in rig.gateways() {
            assert_eq!(get(&gateway, "key").await.as_deref(), Some("covered"), "at {}", gateway.inner.me);
        }
    });
}

/// In a view in which it has said that it has none, one that joins chooses no checkpoint before what a removed gateway had under way is decided: the leader
/// may install a newer one meanwhile, from which it walks.
#[test]
fn who_joins_chooses_no_checkpoint_in_a_view_that_it_has_not_waited_for() {
    simulate(async {
        let rig = Arc::new(CellRig::new(184, 2).await);
        let [leader, second] = &rig.gateways()[..] else { panic!("two gateways") };
        let (manifests, joining) = joining_unreached(&rig);
        rig.env.sleep(A_WHILE).await;
        let third = rig.gateways()[2].inner.clone();
        let member = third.member.as_ref().unwrap();
        let waited_for = member.view().number();
        // The leader does not come to decide anything.
        let recovers_later = leader.inner.checkpoints.lock().await;
        rig.kill(second);
        let removal = removing(&rig, &[1]);
        rig.env.sleep(A_WHILE).await;
        let present = member.view().number();
        assert!(present > waited_for && !member.heard.lock().undecided.is_empty());
        assert!(!member.choose_checkpoint(waited_for) && !member.choose_checkpoint(present));
        drop(recovers_later);
        removal.await.unwrap();
        manifests.is_reached.change(|is_reached| *is_reached = true);
        joining.await.unwrap().unwrap();
        assert!(member.has_chosen_checkpoint());
    });
}

/// The gateway that deleted an object can't tell one member, which keeps the object that no checkpoint has, as far as it knows; all others have forgotten the
/// deletion. Caught: one that joins, hears of the object from that member alone, and takes it for news.
#[test]
fn what_a_checkpoint_covers_is_no_news_to_who_joins() {
    simulate(async {
        let rig = CellRig::new(185, 3).await;
        let gateways = rig.gateways();
        let [leader, lagging, writer] = &gateways[..] else { panic!("three gateways") };
        put(leader, "key", "deleted").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        writer.delete(&key("key"), Condition::None).await.unwrap();
        rig.hold(writer, lagging, true);
        rig.env.sleep(A_WHILE).await;
        forget_deletes(&rig, leader).await;
        let joined = rig.join().await;
        rig.hold(writer, lagging, false);
        rig.env.sleep(A_WHILE).await;
        assert_eq!(get(&joined, "key").await, None);
        all_read(&rig, "key", None).await;
    });
}

/// A member passes a checkpoint over for want of what a removed gateway had concluded, and the recovery finds no room for its own. Caught: a recovery that leaves
/// the member there. It answered no question about places, so no zone was reset, and no room was made.
#[test]
fn who_passed_a_checkpoint_over_takes_it_in_after_the_decision() {
    simulate(async {
        let rig = Arc::new(CellRig::new(187, 3).await);
        let [leader, member, removed] = &rig.gateways()[..] else { panic!("three gateways") };
        leader.inner.background.stop().await;
        put(removed, "key", "content").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        rig.hold(removed, member, true);
        leader.inner.checkpoint().await.unwrap();
        rig.env.sleep(A_WHILE).await;
        let installed = leader.inner.remembered.epoch();
        assert!(member.inner.remembered.epoch() < installed, "it waits for the word of the one that dies");
        rig.kill(removed);
        rig.manifests.set_refusing(true);
        let removal = removing(&rig, &[2]);
        rig.env.sleep(A_WHILE).await;
        assert!(removal.await.is_err(), "its checkpoint could not be installed");
        assert!(leader.member_status().unwrap().decided.contains(&removed.inner.me));
        assert!(leader.inner.retire_places().await);
        assert_eq!(member.inner.remembered.epoch(), installed);
        rig.manifests.set_refusing(false);
        leader.inner.checkpoint().await.unwrap();
        all_read(&rig, "key", Some("content")).await;
    });
}

/// A write is concluded after one that replaced it and that was told before a gateway joined; before that one reads its checkpoint the latter, a delete, is
/// forgotten. Caught: one that joins and keeps what it hears of an epoch that its checkpoint covers.
#[test]
fn what_is_concluded_to_who_joins_counts_only_beyond_its_checkpoint() {
    simulate(async {
        let rig = Arc::new(CellRig::new(186, 3).await);
        let [leader, second, writer] = &rig.gateways()[..] else { panic!("three gateways") };
        leader.inner.background.stop().await;
        let last = *devices_of(writer, "key").last().expect("it has devices");
        rig.gates.set(writer, last, Some(Rule::Mute));
        let write = rig.env.spawn(put_if(writer.clone(), "key", "deleted", Condition::None));
        rig.env.sleep(A_WHILE).await;
        rig.gates.set(writer, last, None);
        second.delete(&key("key"), Condition::None).await.unwrap();
        let (manifests, joining) = joining_unreached(&rig);
        rig.env.sleep(A_WHILE).await;
        assert!(!write.is_finished() && !joining.is_finished());
        rig.gates.land(writer.inner.me).await;
        write.await.unwrap().unwrap();
        forget_deletes(&rig, leader).await;
        manifests.is_reached.change(|is_reached| *is_reached = true);
        let joined = joining.await.unwrap().unwrap();
        assert_eq!(get(&joined, "key").await, None);
        assert_eq!(super::names(&joined).await, ["other"]);
        all_read(&rig, "key", None).await;
    });
}

/// The leader dies while another one joins, which leads the recovery then. Caught: one that recovers in the epoch in which it was opened. What it had recovered
/// was dropped when it had read its checkpoint, and the recovery's own checkpoint passed over the records.
#[test]
fn what_a_gateway_that_joins_recovers_as_leader_is_kept() {
    simulate(async {
        let rig = Arc::new(CellRig::new(188, 1).await);
        let leader = rig.gateways().remove(0);
        put(&leader, "old", "covered").await.unwrap();
        for _ in 0..3 {
            leader.inner.checkpoint().await.unwrap();
        }
        let (manifests, joining) = joining_unreached(&rig);
        rig.env.sleep(A_WHILE).await;
        put(&leader, "key", "acknowledged").await.unwrap();
        // Nobody has been told yet how it ended.
        rig.kill(&leader);
        let removal = removing(&rig, &[0]);
        rig.env.sleep(A_WHILE).await;
        manifests.is_reached.change(|is_reached| *is_reached = true);
        removal.await.unwrap();
        let joiner = joining.await.unwrap().unwrap();
        assert_eq!(get(&joiner, "key").await.as_deref(), Some("acknowledged"));
        all_read(&rig, "key", Some("acknowledged")).await;
    });
}

/// A gateway is removed while another joins. Caught: one that joins and says that it has no checkpoint, as if it lagged. All logs were walked from their
/// starts, and everything that the removed gateway had ever written was told to all.
#[test]
fn a_recovery_beside_a_gateway_that_joins_walks_from_the_newest_checkpoint() {
    simulate(async {
        let rig = Arc::new(CellRig::new(182, 2).await);
        let [leader, second] = &rig.gateways()[..] else { panic!("two gateways") };
        put(second, "key", "covered").await.unwrap();
        rig.env.sleep(A_WHILE).await;
        leader.inner.checkpoint().await.unwrap();
        put(second, "other", "uncovered").await.unwrap();
        let (manifests, joining) = joining_unreached(&rig);
        rig.env.sleep(A_WHILE).await;
        rig.kill(second);
        rig.gates.take_walks(leader.inner.me);
        let removal = removing(&rig, &[1]);
        rig.env.sleep(A_WHILE).await;
        let walks = rig.gates.take_walks(leader.inner.me);
        assert!(!joining.is_finished() && walks.len() == 3, "{walks:?}");
        assert!(walks.iter().all(|(_, from)| *from != LogVector::START), "{walks:?}");
        manifests.is_reached.change(|is_reached| *is_reached = true);
        joining.await.unwrap().unwrap();
        removal.await.unwrap();
        for gateway in rig.gateways() {
            assert_eq!(get(&gateway, "key").await.as_deref(), Some("covered"), "at {}", gateway.inner.me);
        }
        all_read(&rig, "other", Some("uncovered")).await;
    });
}
