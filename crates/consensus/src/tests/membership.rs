//! Members come and go while clients write.

use std::collections::BTreeSet;
use std::time::Duration;

use env::Env;

use super::cluster::{Cluster, GROUP, SEGMENTS, address};
use super::store::Command;
use crate::error::MemberError;
use crate::group::ReadMode;
use crate::id::NodeId;
use crate::limits::MAX_MEMBERS;

fn nodes(ids: &[u64]) -> BTreeSet<NodeId> {
    ids.iter().map(|id| NodeId(*id)).collect()
}

#[tokio::test(start_paused = true)]
async fn all_three_voters_are_exchanged_under_load() {
    let env = Env::simulated(31);
    let mut cluster = Cluster::new(&env, 6, SEGMENTS);
    cluster.start_all(&[GROUP]).await;
    cluster.initialize(GROUP, 3).await;
    let mut written = 0;
    for round in 4..=6 {
        let leader = cluster.leader(GROUP).await;
        let group = cluster.group(leader, GROUP).clone();
        let load = async {
            let mut acknowledged = Vec::new();
            for value in written..written + 40 {
                if group.propose(&Command::write(value, value)).await.is_ok() {
                    acknowledged.push(value);
                }
                env.sleep(Duration::from_millis(5)).await;
            }
            acknowledged
        };
        let change = async {
            group.add_learner(NodeId(round), &address(NodeId(round))).await.unwrap();
            assert!(group.status().learners.contains(&NodeId(round)));
            group.set_voters(&nodes(&[round - 2, round - 1, round])).await.unwrap();
        };
        let (acknowledged, ()) = tokio::join!(load, change);
        assert!(acknowledged.len() >= 30, "{} of 40 writes during a change", acknowledged.len());
        written += 40;
        cluster.host_mut(NodeId(round - 3)).groups.remove(&GROUP);
        let leader = cluster.leader(GROUP).await;
        let group = cluster.group(leader, GROUP);
        assert_eq!(group.status().voters, vec![nodes(&[round - 2, round - 1, round])]);
        let found = group.read(ReadMode::Confirmed, |store| store.registers.clone()).await.unwrap();
        assert!(acknowledged.iter().all(|value| found.contains_key(value)));
    }
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused() {
    let env = Env::simulated(32);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader(GROUP).await;
    let group = cluster.group(leader, GROUP).clone();
    let again = group.initialize(&[(NodeId(1), address(NodeId(1)))].into()).await.unwrap_err();
    assert!(matches!(again, MemberError::Initialized { .. }), "{again}");
    let unknown = group.set_voters(&nodes(&[1, 2, 9])).await.unwrap_err();
    assert!(matches!(unknown, MemberError::Refused { .. }), "{unknown}");
    let none = group.set_voters(&nodes(&[])).await.unwrap_err();
    assert!(matches!(none, MemberError::Refused { .. }), "{none}");
    let many = (1..=MAX_MEMBERS as u64 + 1).map(|id| (NodeId(id), String::new())).collect();
    assert!(matches!(group.initialize(&many).await, Err(MemberError::TooMany { .. })));
    let long = group.add_learner(NodeId(4), &"x".repeat(1000)).await.unwrap_err();
    assert!(matches!(long, MemberError::Address { found: 1000 }), "{long}");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn leadership_is_handed_over_without_a_wait() {
    let env = Env::simulated(33);
    let mut cluster = Cluster::of_three(&env).await;
    for value in 0..6 {
        let leader = cluster.leader(GROUP).await;
        cluster.group(leader, GROUP).propose(&Command::write(1, value)).await.unwrap();
        let to = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
        let began = env.now();
        cluster.group(leader, GROUP).transfer_leader(to).await.unwrap();
        assert_eq!(cluster.leader(GROUP).await, to);
        assert!(env.now() - began < Duration::from_millis(200), "{:?}", env.now() - began);
        let found = cluster.group(to, GROUP).read(ReadMode::Lease, |store| store.registers[&1]).await.unwrap();
        assert_eq!(found, value);
    }
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn voters_come_and_go_one_by_one() {
    let env = Env::simulated(34);
    let mut cluster = Cluster::new(&env, 3, SEGMENTS);
    cluster.start_all(&[GROUP]).await;
    cluster.initialize(GROUP, 1).await;
    let leader = cluster.leader(GROUP).await;
    let group = cluster.group(leader, GROUP).clone();
    for id in [2, 3] {
        group.add_learner(NodeId(id), &address(NodeId(id))).await.unwrap();
        group.add_voter(NodeId(id)).await.unwrap();
    }
    assert_eq!(group.status().voters, vec![nodes(&[1, 2, 3])]);
    assert_eq!(group.status().addresses, (1..=3).map(|id| (NodeId(id), address(NodeId(id)))).collect());
    group.propose(&Command::write(1, 1)).await.unwrap();
    group.remove_voter(NodeId(2)).await.unwrap();
    assert_eq!(group.status().voters, vec![nodes(&[1, 3])]);
    assert!(group.status().learners.is_empty());
    // The leader itself.
    group.remove_voter(NodeId(1)).await.unwrap();
    cluster.host_mut(NodeId(1)).groups.remove(&GROUP);
    cluster.host_mut(NodeId(2)).groups.remove(&GROUP);
    assert_eq!(cluster.leader(GROUP).await, NodeId(3));
    assert_eq!(cluster.group(NodeId(3), GROUP).status().voters, vec![nodes(&[3])]);
    cluster.shut_down().await;
}
