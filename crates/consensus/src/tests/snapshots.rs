//! Followers far behind, and snapshots in pieces.

use std::time::Duration;

use env::Env;

use super::cluster::{Cluster, GROUP};
use super::store::Command;
use crate::id::NodeId;
use crate::limits::SNAPSHOT_PIECE_BYTES;
use crate::transport::LinkWeather;

/// Makes a follower miss so much that only a snapshot helps, of more than `pieces` pieces.
async fn left_behind(cluster: &mut Cluster, pieces: usize) -> NodeId {
    let leader = cluster.leader(GROUP).await;
    let behind = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    cluster.crash(behind).await;
    for _ in 0..pieces * 4 {
        cluster.propose(GROUP, &Command::Ballast(vec![7; SNAPSHOT_PIECE_BYTES / 4])).await;
    }
    let leader = cluster.leader(GROUP).await;
    let group = cluster.group(leader, GROUP);
    group.make_snapshot().await;
    while group.status().snapshot.is_none() {
        cluster.env.sleep(Duration::from_millis(10)).await;
    }
    let covered = group.status().snapshot.unwrap();
    group.core.purge(covered.index).await;
    while group.status().purged != Some(covered) {
        cluster.env.sleep(Duration::from_millis(10)).await;
    }
    for value in 0..10 {
        cluster.propose(GROUP, &Command::write(value, value)).await;
    }
    behind
}

#[tokio::test(start_paused = true)]
async fn a_follower_far_behind_gets_a_snapshot_in_pieces() {
    let env = Env::simulated(21);
    let mut cluster = Cluster::of_three(&env).await;
    let behind = left_behind(&mut cluster, 5).await;
    cluster.start(behind, &[]).await.unwrap();
    let state = cluster.settled(GROUP).await;
    assert_eq!(state.registers.len(), 10);
    assert!(state.ballast.len() >= 5 * SNAPSHOT_PIECE_BYTES);
    assert!(cluster.group(behind, GROUP).status().snapshot.is_some());
    // It stands in the log: it is there after a power cut.
    cluster.crash(behind).await;
    let leader = cluster.leader(GROUP).await;
    cluster.network.isolate(leader);
    cluster.start(behind, &[]).await.unwrap();
    assert!(cluster.group(behind, GROUP).look(|store| store.ballast.len()) >= 5 * SNAPSHOT_PIECE_BYTES);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_breaks_goes_on_where_it_was() {
    let env = Env::simulated(22);
    let mut cluster = Cluster::of_three(&env).await;
    let behind = left_behind(&mut cluster, 12).await;
    let leader = cluster.leader(GROUP).await;
    // Each piece takes a while, and the link goes down in between.
    let slow = LinkWeather { longest_delay: Duration::from_millis(100), ..LinkWeather::default() };
    cluster.network.set_link(leader, behind, slow);
    cluster.start(behind, &[]).await.unwrap();
    let before = cluster.network.carried(leader, behind);
    for _ in 0..4 {
        env.sleep(Duration::from_millis(300)).await;
        cluster.network.set_link(leader, behind, LinkWeather { is_cut: true, ..slow });
        env.sleep(Duration::from_millis(50)).await;
        cluster.network.set_link(leader, behind, slow);
    }
    assert_eq!(cluster.settled(GROUP).await.registers.len(), 10);
    assert!(cluster.group(behind, GROUP).status().snapshot.is_some(), "it came by a snapshot");
    assert!(cluster.network.carried(leader, behind) > before);
    cluster.shut_down().await;
}
