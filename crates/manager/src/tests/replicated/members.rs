//! Members come and go.

use consensus::NodeId;
use env::Env;
use types::CellId;

use super::cluster::{Cluster, peer};
use crate::{Manager, MemberRole, MembershipError};

fn voters(manager: &Manager) -> Vec<NodeId> {
    let members = manager.replication().unwrap().members;
    assert!(members.iter().all(|member| member.address == peer(member.node).address));
    members.iter().filter(|member| member.role == MemberRole::Voter).map(|member| member.node).collect()
}

#[tokio::test(start_paused = true)]
async fn one_grows_to_four_by_joins_and_loses_its_first() {
    let env = Env::simulated(31);
    let mut cluster = Cluster::new(&env, 4);
    cluster.start_all().await;
    cluster.form(1).await;
    cluster.manager(NodeId(1)).set_config("first", Some("here")).await.unwrap();
    cluster.manager(NodeId(2)).join(&peer(NodeId(1)), &peer(NodeId(2)).address).await.unwrap();
    // At the same time, one of them through a member that does not lead.
    let (three, four) = (peer(NodeId(3)), peer(NodeId(4)));
    let (via_leader, via_follower) = (peer(NodeId(1)), peer(NodeId(2)));
    let (one, other) = tokio::join!(
        cluster.manager(NodeId(3)).join(&via_leader, &three.address),
        cluster.manager(NodeId(4)).join(&via_follower, &four.address),
    );
    one.unwrap();
    other.unwrap();
    assert_eq!(voters(cluster.manager(NodeId(1))), cluster.ids());
    for manager in cluster.managers() {
        manager.fresh().await.unwrap();
        assert_eq!(manager.snapshot().config("first"), Some("here"));
        manager.begin_start(CellId(1)).await.unwrap();
    }
    assert_eq!(cluster.settled().await.starts(CellId(1)), 4);
    // Again: nothing changes.
    cluster.manager(NodeId(4)).join(&via_follower, &four.address).await.unwrap();
    // The leader goes, asked of another.
    cluster.manager(NodeId(3)).remove_member(NodeId(1)).await.unwrap();
    cluster.crash(NodeId(1)).await;
    let leader = cluster.leader().await;
    assert_ne!(leader, NodeId(1));
    assert_eq!(voters(cluster.manager(leader)), [NodeId(2), NodeId(3), NodeId(4)]);
    assert_eq!(cluster.manager(NodeId(2)).begin_start(CellId(1)).await.unwrap(), 5);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused_with_a_reason() {
    let env = Env::simulated(32);
    let mut cluster = Cluster::of_three(&env).await;
    let follower = cluster.manager(cluster.follower().await).clone();
    let refused = |outcome: Result<(), MembershipError>| match outcome.unwrap_err() {
        MembershipError::Refused { reason } => reason,
        other => panic!("{other}"),
    };
    assert_eq!(refused(follower.transfer_leader(NodeId(9)).await), "node 9 has no vote");
    assert_eq!(refused(follower.add_member(NodeId(9), &"x".repeat(1000)).await), "an address of 1000 bytes");
    assert_eq!(refused(follower.add_member(NodeId(1), "elsewhere").await), "node 1 is a member at another address");
    let formed = cluster.manager(NodeId(1)).form(&[(NodeId(1), "a".to_owned())].into()).await;
    assert_eq!(refused(formed), "group 1 has members already");
    follower.remove_member(NodeId(9)).await.unwrap();
    let alone = Manager::open_in_memory(&env).await.unwrap();
    assert_eq!(alone.add_member(NodeId(2), "b").await, Err(MembershipError::Alone));
    assert!(alone.is_leader() && alone.leader().is_none() && alone.replication().is_none());
    alone.fresh().await.unwrap();
    cluster.shut_down().await;
}
