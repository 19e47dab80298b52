//! Members come and go.

use std::time::Duration;

use consensus::{LinkWeather, NodeId};
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
    cluster.manager(NodeId(2)).join(&peer(NodeId(1)), &peer(NodeId(2)).address, MemberRole::Voter).await.unwrap();
    // At the same time, one of them through a member that does not lead.
    let (three, four) = (peer(NodeId(3)), peer(NodeId(4)));
    let (via_leader, via_follower) = (peer(NodeId(1)), peer(NodeId(2)));
    let (one, other) = tokio::join!(
        cluster.manager(NodeId(3)).join(&via_leader, &three.address, MemberRole::Voter),
        cluster.manager(NodeId(4)).join(&via_follower, &four.address, MemberRole::Voter),
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
    cluster.manager(NodeId(4)).join(&via_follower, &four.address, MemberRole::Voter).await.unwrap();
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
async fn a_learner_that_stays_one_counts_for_nothing_and_does_the_rest() {
    let env = Env::simulated(36);
    let mut cluster = Cluster::new(&env, 3);
    cluster.start_all().await;
    cluster.form(1).await;
    let (one, three) = (peer(NodeId(1)), peer(NodeId(3)));
    cluster.manager(three.node).join(&one, &three.address, MemberRole::Learner).await.unwrap();
    assert_eq!(voters(cluster.manager(one.node)), [one.node]);
    let learner = cluster.manager(three.node).clone();
    assert!(!learner.replication().unwrap().has_vote);
    learner.set_config("by", Some("a learner")).await.unwrap();
    learner.fresh().await.unwrap();
    assert_eq!(learner.snapshot().config("by"), Some("a learner"));
    // Nobody needs it, and it is what it was when it is back.
    cluster.crash(three.node).await;
    cluster.manager(one.node).set_config("without", Some("it")).await.unwrap();
    cluster.start(three.node).await;
    let learner = cluster.manager(three.node).clone();
    wait_until(&env, "what it missed", || learner.snapshot().config("without") == Some("it")).await;
    assert!(!learner.replication().unwrap().has_vote);
    // It may get a vote, and does not lose it by asking for none.
    learner.join(&one, &three.address, MemberRole::Voter).await.unwrap();
    wait_until(&env, "a vote", || learner.replication().unwrap().has_vote).await;
    let refused = learner.join(&one, &three.address, MemberRole::Learner).await.unwrap_err();
    assert!(matches!(&refused, MembershipError::Refused { reason } if reason.contains("has a vote")), "{refused}");
    assert_eq!(voters(cluster.manager(one.node)), [one.node, three.node]);
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

/// Waits for what comes in less than two minutes.
async fn wait_until(env: &Env, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..120_000 {
        if is_so() {
            return;
        }
        env.sleep(Duration::from_millis(1)).await;
    }
    panic!("{what}: it did not come");
}

#[tokio::test(start_paused = true)]
async fn a_member_gets_its_vote_though_the_asker_has_gone() {
    let env = Env::simulated(33);
    let mut cluster = Cluster::new(&env, 4);
    cluster.start_all().await;
    cluster.form(3).await;
    let leader = cluster.leader().await;
    cluster.network.set_weather(LinkWeather { longest_delay: Duration::from_millis(20), ..LinkWeather::default() });
    let (manager, four) = (cluster.manager(leader).clone(), peer(NodeId(4)));
    let has_vote = |node| cluster.manager(node).replication().unwrap().has_vote;
    tokio::select! {
        biased;
        done = manager.add_member(four.node, &four.address) => panic!("too early: {done:?}"),
        () = wait_until(&env, "a learner", || manager.replication().unwrap().members.len() == 4) => {}
    }
    assert_eq!(voters(&manager).len(), 3);
    assert!(has_vote(leader) && !has_vote(four.node));
    wait_until(&env, "a voter", || has_vote(four.node)).await;
    assert_eq!(voters(&manager), cluster.ids());
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn members_change_after_a_leader_that_ended_in_the_middle() {
    let env = Env::simulated(34);
    let mut cluster = Cluster::new(&env, 4);
    cluster.start_all().await;
    cluster.form(3).await;
    let leader = cluster.leader().await;
    let others: Vec<NodeId> = (1..=3).map(NodeId).filter(|node| *node != leader).collect();
    cluster.network.set_weather(LinkWeather { longest_delay: Duration::from_millis(20), ..LinkWeather::default() });
    let (manager, removed) = (cluster.manager(leader).clone(), others[0]);
    let removal = env.spawn(async move { manager.remove_member(removed).await });
    let in_the_middle = |node: &NodeId| cluster.replicated(*node).status().voters.len() == 2;
    wait_until(&env, "the first step", || in_the_middle(&leader)).await;
    // It hears of nobody that this is in place.
    for other in &others {
        cluster.network.set_link(*other, leader, LinkWeather { is_cut: true, ..LinkWeather::default() });
    }
    wait_until(&env, "two sets of voters", || others.iter().all(in_the_middle)).await;
    assert!(!cluster.manager(removed).replication().unwrap().has_vote, "it is about to leave");
    removal.abort();
    cluster.crash(leader).await;
    cluster.network.heal();
    cluster.start(leader).await;
    let four = peer(NodeId(4));
    cluster.manager(four.node).join(&peer(others[1]), &four.address, MemberRole::Voter).await.unwrap();
    wait_until(&env, "a vote", || cluster.manager(four.node).replication().unwrap().has_vote).await;
    let members = cluster.manager(four.node).replication().unwrap().members;
    assert!(members.iter().all(|member| member.node != removed) && members.len() == 3, "{members:?}");
    assert_eq!(voters(cluster.manager(four.node)).len(), 3);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn who_was_not_heard_at_one_address_comes_from_another() {
    let env = Env::simulated(35);
    let mut cluster = Cluster::new(&env, 2);
    cluster.start(NodeId(1)).await;
    cluster.form(1).await;
    assert_eq!(cluster.leader().await, NodeId(1));
    let manager = cluster.manager(NodeId(1)).clone();
    let unheard = manager.add_member(NodeId(2), "elsewhere").await.unwrap_err();
    assert!(matches!(unheard, MembershipError::Unknown { .. }), "{unheard}");
    // It has no vote: one is enough.
    manager.take_token().await.unwrap();
    cluster.start(NodeId(2)).await;
    manager.add_member(NodeId(2), &peer(NodeId(2)).address).await.unwrap();
    assert_eq!(voters(&manager), cluster.ids());
    cluster.shut_down().await;
}

/// The exchange can't be taken back: the manager would decide nothing until the dead one is back, for ever if it is lost.
#[tokio::test(start_paused = true)]
async fn a_voter_stays_while_most_of_the_others_are_away() {
    let env = Env::simulated(37);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader().await;
    let [live, dead] = cluster.ids().into_iter().filter(|node| *node != leader).collect::<Vec<_>>()[..] else { panic!() };
    cluster.crash(dead).await;
    let manager = cluster.manager(leader).clone();
    for leaves in [live, leader] {
        let refused = manager.remove_member(leaves).await.unwrap_err();
        let says = "1 of the 2 voters that would be left answer";
        assert!(matches!(&refused, MembershipError::Refused { reason } if reason.contains(says)), "{refused}");
    }
    assert_eq!(voters(&manager), cluster.ids());
    manager.set_config("all", Some("goes on")).await.unwrap();
    // In the right order.
    manager.remove_member(dead).await.unwrap();
    manager.remove_member(live).await.unwrap();
    assert_eq!(voters(&manager), [leader]);
    cluster.shut_down().await;
}
