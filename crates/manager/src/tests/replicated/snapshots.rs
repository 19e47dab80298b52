//! Members that were away too long for entries.

use std::time::Duration;

use consensus::{LinkWeather, NodeId};
use env::Env;
use types::CellId;

use super::cluster::Cluster;
use crate::limits::PROPOSE_DEADLINE;
use crate::{Manager, ManagerError, ProposeError};

/// More commands than a leader keeps entries behind a snapshot.
const MANY: u64 = 2 * consensus::limits::KEPT_ENTRIES;

/// Has the leader carry out many commands and give up the entries before them.
async fn move_on(cluster: &Cluster, leader: NodeId) {
    let manager = cluster.manager(leader);
    let began_at = cluster.replicated(leader).status().last.unwrap();
    for round in 0..MANY {
        manager.set_config("round", Some(&round.to_string())).await.unwrap();
    }
    manager.persist().await.unwrap();
    while cluster.replicated(leader).status().purged.is_none_or(|purged| purged.index <= began_at) {
        cluster.env.sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_for_round(manager: &Manager) {
    let last = (MANY - 1).to_string();
    let mut changes = manager.changes();
    while manager.snapshot().config("round") != Some(&last) {
        changes.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_away_long_gets_a_snapshot_and_wakes_its_readers() {
    let env = Env::simulated(21);
    let mut cluster = Cluster::of_three(&env).await;
    let away = cluster.follower().await;
    cluster.crash(away).await;
    let leader = cluster.leader().await;
    move_on(&cluster, leader).await;
    cluster.start(away).await;
    wait_for_round(cluster.manager(away)).await;
    assert!(cluster.replicated(away).status().snapshot.is_some(), "it came by a snapshot");
    assert_eq!(cluster.settled().await, *cluster.manager(leader).snapshot());
    assert_eq!(cluster.manager(away).begin_start(CellId(0)).await.unwrap(), 1);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_proposal_whose_effect_comes_with_a_snapshot_does_not_hang() {
    let env = Env::simulated(22);
    let mut cluster = Cluster::of_three(&env).await;
    let (leader, deaf) = (cluster.leader().await, cluster.follower().await);
    // It can ask, and hears nothing.
    cluster.network.set_link(leader, deaf, LinkWeather { is_cut: true, ..LinkWeather::default() });
    let began = env.now();
    let manager = cluster.manager(deaf).clone();
    let proposal = env.spawn(async move { manager.begin_start(CellId(3)).await });
    while cluster.manager(leader).snapshot().starts(CellId(3)) == 0 {
        env.sleep(Duration::from_millis(1)).await;
    }
    move_on(&cluster, leader).await;
    assert!(env.now() - began < PROPOSE_DEADLINE / 2, "there is time left");
    assert!(!proposal.is_finished());
    cluster.network.heal();
    wait_for_round(cluster.manager(deaf)).await;
    let failed = proposal.await.unwrap().unwrap_err();
    let ManagerError::Failed(ProposeError::Unknown { reason }) = failed else { panic!("{failed}") };
    assert!(reason.contains("snapshot"), "{reason}");
    assert!(env.now() - began < PROPOSE_DEADLINE, "{:?}", env.now() - began);
    assert_eq!(cluster.settled().await.starts(CellId(3)), 1, "it was carried out once");
    cluster.shut_down().await;
}
