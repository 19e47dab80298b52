//! One group of three: writing, reading, failing over, restarting.

use std::time::Duration;

use env::Env;

use super::cluster::{Cluster, GROUP};
use super::store::Command;
use crate::error::{ProposeError, ReadError};
use crate::group::ReadMode;
use crate::limits::HEARTBEAT_INTERVAL;

#[tokio::test(start_paused = true)]
async fn what_is_written_is_read_in_both_modes_and_only_at_the_leader() {
    let env = Env::simulated(1);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader(GROUP).await;
    let group = cluster.group(leader, GROUP).clone();
    for value in 1..=20 {
        group.propose(&Command::write(7, value)).await.unwrap();
        for mode in [ReadMode::Lease, ReadMode::Confirmed] {
            let found = group.read(mode, |store| store.registers[&7]).await.unwrap();
            assert_eq!(found, value);
        }
    }
    let other = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    let refused = cluster.group(other, GROUP).propose(&Command::write(7, 99)).await.unwrap_err();
    let ProposeError::NotLeader(hint) = refused else { panic!("{refused}") };
    assert_eq!(hint.leader.map(|peer| peer.node), Some(leader));
    let refused = cluster.group(other, GROUP).read(ReadMode::Lease, |_| ()).await.unwrap_err();
    assert!(matches!(refused, ReadError::NotLeader(_)), "{refused}");
    assert_eq!(cluster.settled(GROUP).await.registers[&7], 20);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_read_sends_nothing() {
    let env = Env::simulated(2);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader(GROUP).await;
    let group = cluster.group(leader, GROUP).clone();
    group.propose(&Command::write(1, 1)).await.unwrap();
    // Between two ticks.
    env.sleep(2 * HEARTBEAT_INTERVAL + HEARTBEAT_INTERVAL / 2).await;
    let before = cluster.host(leader).node.as_ref().unwrap().counters();
    for _ in 0..100 {
        group.read(ReadMode::Lease, |_| ()).await.unwrap();
    }
    let after = cluster.host(leader).node.as_ref().unwrap().counters();
    assert_eq!(before, after);
    group.read(ReadMode::Confirmed, |_| ()).await.unwrap();
    let asked = cluster.host(leader).node.as_ref().unwrap().counters();
    assert!(asked.heartbeat_messages > after.heartbeat_messages, "a confirmed read asks");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn another_leads_within_five_seconds_and_nothing_acknowledged_is_lost() {
    let env = Env::simulated(3);
    let mut cluster = Cluster::of_three(&env).await;
    for round in 0..6 {
        let leader = cluster.leader(GROUP).await;
        cluster.group(leader, GROUP).propose(&Command::write(round, round)).await.unwrap();
        cluster.crash(leader).await;
        let down_at = env.now();
        let next = cluster.leader(GROUP).await;
        assert!(env.now() - down_at < Duration::from_secs(5), "{:?}", env.now() - down_at);
        let found = cluster.group(next, GROUP).read(ReadMode::Confirmed, |store| store.registers.clone()).await.unwrap();
        assert_eq!(found, (0..=round).map(|value| (value, value)).collect());
        cluster.start(leader, &[]).await.unwrap();
    }
    assert_eq!(cluster.settled(GROUP).await.registers.len(), 6);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn all_go_down_at_once_and_come_back() {
    let env = Env::simulated(4);
    let mut cluster = Cluster::of_three(&env).await;
    for value in 0..50 {
        cluster.propose(GROUP, &Command::write(value, value)).await;
    }
    for id in cluster.ids() {
        cluster.crash(id).await;
    }
    cluster.start_all(&[]).await;
    let leader = cluster.leader(GROUP).await;
    let found = cluster.group(leader, GROUP).read(ReadMode::Lease, |store| store.registers.clone()).await.unwrap();
    assert_eq!(found, (0..50).map(|value| (value, value)).collect());
    cluster.shut_down().await;
}
