//! States that are kept as rows: snapshots of what has changed, cuts at every write, and rows in pieces for members far behind.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use kv::{Kv, KvRead, MemoryKv};

use super::cluster::{Cluster, GROUP};
use super::store::{Command, Store};
use crate::id::{GroupId, NodeId};
use crate::limits::{GIVEN_UP_ROWS, KEPT_ENTRIES_BESIDE_ROWS, SNAPSHOT_PIECE_BYTES};
use crate::rows::groups;
use crate::transport::LinkWeather;

fn rows_of(kv: &dyn KvRead) -> usize {
    let mut count = 0;
    kv.scan_prefix(&[], &mut |_, _| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    count
}

/// Makes a snapshot at a member, and gives up the entries that it covers.
async fn covered(cluster: &Cluster, id: NodeId) {
    let group = cluster.group(id, GROUP);
    let applied = group.status().applied;
    group.make_snapshot().await;
    while group.status().snapshot < applied {
        cluster.env.sleep(Duration::from_millis(10)).await;
    }
    let covered = group.status().snapshot.unwrap();
    group.core.purge(covered.index).await;
    while group.status().purged < Some(covered) {
        cluster.env.sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_writes_what_has_changed_and_a_start_goes_on_from_there() {
    let env = Env::simulated(31);
    let mut cluster = Cluster::keeping(&env, 1, true).await;
    let own = NodeId(1);
    for value in 0..1000 {
        cluster.propose(GROUP, &Command::write(value, value)).await;
    }
    covered(&cluster, own).await;
    // The header, the totals and the registers.
    assert_eq!(rows_of(cluster.host(own).rows.as_ref()), 1002);
    cluster.propose(GROUP, &Command::write(7, 70)).await;
    cluster.propose(GROUP, &Command::Write { register: 8, value: None }).await;
    covered(&cluster, own).await;
    assert_eq!(rows_of(cluster.host(own).rows.as_ref()), 1001);
    cluster.propose(GROUP, &Command::write(9, 90)).await;
    let before = cluster.group(own, GROUP).look(Store::clone);
    cluster.crash(own).await;
    cluster.start(own, &[]).await.unwrap();
    cluster.leader(GROUP).await;
    let after = cluster.group(own, GROUP).look(Store::clone);
    assert_eq!(after, before);
    assert_eq!((after.registers.len(), after.registers[&7], after.registers[&9]), (999, 70, 90));
    cluster.shut_down().await;
}

/// A power cut between any two writes, of the log and of the rows: what was acknowledged is there.
#[tokio::test(start_paused = true)]
async fn a_power_cut_at_every_write_loses_nothing() {
    for cut in 0..60 {
        let env = Env::simulated(3200 + cut);
        let mut cluster = Cluster::keeping(&env, 1, true).await;
        let own = NodeId(1);
        let group = cluster.group(own, GROUP).clone();
        let mut acknowledged = 0;
        cluster.host(own).disk.power_cut_after(cut);
        for value in 0..40_u64 {
            if group.propose(&Command::write(value % 8, value)).await.is_err() {
                break;
            }
            acknowledged = value + 1;
            if value % 5 == 4 {
                group.make_snapshot().await;
                env.sleep(Duration::from_millis(5)).await;
                if let Some(covered) = group.status().snapshot {
                    group.core.purge(covered.index).await;
                }
            }
        }
        cluster.crash(own).await;
        cluster.start(own, &[]).await.unwrap();
        cluster.leader(GROUP).await;
        let state = cluster.group(own, GROUP).look(Store::clone);
        for register in 0..8.min(acknowledged) {
            let last = (0..acknowledged).rev().find(|value| value % 8 == register).unwrap();
            let found = state.registers[&register];
            assert!(
                found == last || found >= acknowledged,
                "cut {cut}: register {register} has {found}, {last} was acknowledged"
            );
        }
        cluster.shut_down().await;
    }
}

/// Makes a member miss so much that only a snapshot helps, of more than `pieces` pieces.
async fn left_behind(cluster: &mut Cluster, pieces: usize) -> NodeId {
    let leader = cluster.leader(GROUP).await;
    let behind = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    cluster.crash(behind).await;
    for _ in 0..pieces * 4 {
        cluster.propose(GROUP, &Command::Ballast(vec![7; SNAPSHOT_PIECE_BYTES / 4])).await;
    }
    let leader = cluster.leader(GROUP).await;
    covered(cluster, leader).await;
    for value in 0..10 {
        cluster.propose(GROUP, &Command::write(value, value)).await;
    }
    behind
}

#[tokio::test(start_paused = true)]
async fn a_follower_far_behind_gets_rows_in_pieces_and_keeps_them() {
    let env = Env::simulated(33);
    let mut cluster = Cluster::keeping(&env, 3, true).await;
    let behind = left_behind(&mut cluster, 5).await;
    cluster.start(behind, &[]).await.unwrap();
    let state = cluster.settled(GROUP).await;
    assert_eq!(state.registers.len(), 10);
    assert!(state.ballast.len() >= 5 * SNAPSHOT_PIECE_BYTES);
    let before = rows_of(cluster.host(behind).rows.as_ref());
    cluster.crash(behind).await;
    let leader = cluster.leader(GROUP).await;
    cluster.network.isolate(leader);
    cluster.start(behind, &[]).await.unwrap();
    assert!(cluster.group(behind, GROUP).look(|store| store.ballast.len()) >= 5 * SNAPSHOT_PIECE_BYTES);
    assert!(rows_of(cluster.host(behind).rows.as_ref()) <= before, "nothing of another generation is left");
    cluster.shut_down().await;
}

/// The follower's power goes again and again while rows come in, at every one of its writes; then the link breaks, and what has come is not sent again.
#[tokio::test(start_paused = true)]
async fn rows_that_come_in_survive_broken_links_and_power_cuts() {
    let env = Env::simulated(34);
    let mut cluster = Cluster::keeping(&env, 3, true).await;
    let behind = left_behind(&mut cluster, 6).await;
    let leader = cluster.leader(GROUP).await;
    let slow = LinkWeather { longest_delay: Duration::from_millis(40), ..LinkWeather::default() };
    cluster.network.set_link(leader, behind, slow);
    for cut in 0..12 {
        cluster.start(behind, &[]).await.unwrap();
        cluster.host(behind).disk.power_cut_after(cut);
        env.sleep(Duration::from_millis(100 + 40 * cut)).await;
        cluster.crash(behind).await;
    }
    cluster.start(behind, &[]).await.unwrap();
    for _ in 0..4 {
        env.sleep(Duration::from_millis(120)).await;
        cluster.network.set_link(leader, behind, LinkWeather { is_cut: true, ..slow });
        env.sleep(Duration::from_millis(50)).await;
        cluster.network.set_link(leader, behind, slow);
    }
    let state = cluster.settled(GROUP).await;
    assert_eq!(state.registers.len(), 10);
    assert!(state.ballast.len() >= 6 * SNAPSHOT_PIECE_BYTES);
    cluster.shut_down().await;
}

/// While a member gets rows, others' commands are carried out, and it gets these as entries: no second snapshot is needed.
#[tokio::test(start_paused = true)]
async fn commands_go_on_while_rows_are_sent() {
    let env = Env::simulated(35);
    let mut cluster = Cluster::keeping(&env, 3, true).await;
    let behind = left_behind(&mut cluster, 8).await;
    let leader = cluster.leader(GROUP).await;
    cluster.network.set_link(
        leader,
        behind,
        LinkWeather { longest_delay: Duration::from_millis(200), ..LinkWeather::default() },
    );
    cluster.start(behind, &[]).await.unwrap();
    for value in 0..50 {
        let began = env.now();
        cluster.propose(GROUP, &Command::write(100 + value, value)).await;
        assert!(env.now() - began < Duration::from_millis(500), "a command waits for a member that is behind");
    }
    assert_eq!(cluster.settled(GROUP).await.registers.len(), 60);
    cluster.shut_down().await;
}

/// A full file system: snapshots wait, commands go on as long as the log has room.
#[tokio::test(start_paused = true)]
async fn snapshots_wait_for_room_for_rows() {
    let env = Env::simulated(38);
    let mut cluster = Cluster::keeping(&env, 1, true).await;
    let own = NodeId(1);
    cluster.host(own).rows.set_full(true);
    let group = cluster.group(own, GROUP).clone();
    group.propose(&Command::write(1, 1)).await.unwrap();
    group.make_snapshot().await;
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!((group.status().snapshot, rows_of(cluster.host(own).rows.as_ref())), (None, 0));
    group.propose(&Command::write(2, 2)).await.unwrap();
    cluster.host(own).rows.set_full(false);
    env.sleep(Duration::from_secs(2)).await;
    assert!(group.status().snapshot.is_some());
    cluster.shut_down().await;
}

/// Entries stay for a member that was away for a while: it needs no snapshot.
#[tokio::test(start_paused = true)]
async fn a_member_that_was_away_for_a_while_gets_entries() {
    let env = Env::simulated(36);
    let mut cluster = Cluster::keeping(&env, 3, true).await;
    let leader = cluster.leader(GROUP).await;
    let away = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    cluster.crash(away).await;
    for value in 0..crate::limits::SNAPSHOT_AFTER_ENTRIES + 500 {
        cluster.propose(GROUP, &Command::write(value % 10, value)).await;
    }
    env.sleep(Duration::from_secs(3)).await;
    let status = cluster.group(cluster.leader(GROUP).await, GROUP).status();
    assert!(status.snapshot.is_some(), "one was made by itself");
    assert_eq!(status.purged, None, "there are fewer than {KEPT_ENTRIES_BESIDE_ROWS} entries");
    cluster.start(away, &[]).await.unwrap();
    cluster.settled(GROUP).await;
    assert_eq!(cluster.group(away, GROUP).status().purged, None);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rows_that_are_gone_are_missed_and_a_group_takes_its_rows_along() {
    let env = Env::simulated(37);
    let mut cluster = Cluster::keeping(&env, 1, true).await;
    let own = NodeId(1);
    let rows = 2 * GIVEN_UP_ROWS as u64 + 7;
    for value in 0..rows {
        cluster.propose(GROUP, &Command::write(value, value)).await;
    }
    covered(&cluster, own).await;
    let kept = cluster.host(own).rows.clone();
    // Of a group that the log does not know: its removal was cut off.
    let mut other = kv::Batch::new();
    other.put([&99_u64.to_be_bytes()[..], &1_u64.to_be_bytes(), b"row"].concat(), *b"value");
    kept.commit(other).unwrap();
    kept.persist().unwrap();
    assert_eq!(groups(kept.as_ref()).unwrap(), [GROUP, GroupId(99)]);
    cluster.crash(own).await;
    let survived = std::mem::replace(&mut cluster.host_mut(own).rows, Arc::new(MemoryKv::new()));
    let refused = cluster.try_start(own).await.unwrap_err();
    assert!(refused.contains("rows were lost"), "{refused}");
    cluster.crash(own).await;
    cluster.host_mut(own).rows = survived;
    cluster.start(own, &[]).await.unwrap();
    let host = cluster.host(own);
    assert_eq!(groups(host.rows.as_ref()).unwrap(), [GROUP]);
    host.node.as_ref().unwrap().remove_group(GROUP).await.unwrap();
    assert_eq!(rows_of(host.rows.as_ref()), 0);
    cluster.shut_down().await;
}
