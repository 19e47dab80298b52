//! Exchanges of voters whose callers, or leaders, go away in the middle.

use std::collections::BTreeSet;
use std::time::Duration;

use env::Env;

use super::cluster::{Cluster, GROUP, SEGMENTS, address};
use super::store::{Command, Store};
use crate::error::MemberError;
use crate::group::Group;
use crate::id::NodeId;
use crate::transport::LinkWeather;

const ENDED: &str = "consensus: an exchange of voters ended for its leader";

/// The nodes whose numbers are up to `count`, without one of them.
fn all_but(count: u64, one: NodeId) -> BTreeSet<NodeId> {
    (1..=count).map(NodeId).filter(|node| *node != one).collect()
}

/// Waits for what comes in less than a minute.
async fn wait_until(env: &Env, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        env.sleep(Duration::from_millis(1)).await;
    }
    panic!("{what}: it did not come");
}

fn in_the_middle(group: &Group<Store>) -> bool {
    group.status().voters.len() == 2
}

/// Nodes 1 to 3 are voters, 4 is a learner; messages take a while.
async fn three_and_a_learner(env: &Env) -> (Cluster, NodeId) {
    let mut cluster = Cluster::new(env, 5, SEGMENTS);
    cluster.start_all(&[GROUP]).await;
    cluster.initialize(GROUP, 3).await;
    cluster.network.set_weather(LinkWeather { longest_delay: Duration::from_millis(20), ..LinkWeather::default() });
    let leader = cluster.leader(GROUP).await;
    cluster.group(leader, GROUP).add_learner(NodeId(4), &address(NodeId(4))).await.unwrap();
    (cluster, leader)
}

/// The leader begins to exchange itself for node 4, and loses power before it can take the second step. Answers who leads then.
async fn leader_goes_in_the_middle(cluster: &mut Cluster, leader: NodeId) -> NodeId {
    let others = all_but(4, leader);
    for other in &others {
        cluster.network.set_link(*other, leader, LinkWeather { is_cut: true, ..LinkWeather::default() });
    }
    let (group, wanted) = (cluster.group(leader, GROUP).clone(), others.clone());
    let exchange = cluster.env.spawn(async move { group.set_voters(&wanted).await });
    wait_until(&cluster.env, "two sets of voters", || others.iter().all(|other| in_the_middle(cluster.group(*other, GROUP))))
        .await;
    cluster.crash(leader).await;
    let ended = exchange.await.unwrap().unwrap_err();
    assert!(matches!(ended, MemberError::Unknown { .. }), "{ended}");
    cluster.network.heal();
    cluster.leader(GROUP).await
}

#[tokio::test(start_paused = true)]
async fn an_exchange_goes_on_when_nobody_waits_for_it() {
    env::keep_marks();
    let env = Env::simulated(61);
    let (mut cluster, leader) = three_and_a_learner(&env).await;
    let group = cluster.group(leader, GROUP).clone();
    tokio::select! {
        biased;
        done = group.add_voter(NodeId(4)) => panic!("too early: {done:?}"),
        () = wait_until(&env, "two sets of voters", || in_the_middle(&group)) => {}
    }
    wait_until(&env, "one set of voters", || !in_the_middle(&group)).await;
    assert_eq!(group.status().voters, [all_but(4, NodeId(0))]);
    assert!(!env::take_marks().contains_key(ENDED), "nobody had to end it");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_ends_what_the_one_before_it_left_in_the_middle() {
    env::keep_marks();
    let env = Env::simulated(62);
    let (mut cluster, former) = three_and_a_learner(&env).await;
    let leader = leader_goes_in_the_middle(&mut cluster, former).await;
    let group = cluster.group(leader, GROUP).clone();
    wait_until(&env, "one set of voters", || !in_the_middle(&group)).await;
    let status = group.status();
    assert_eq!((status.voters, status.learners), (vec![all_but(4, former)], BTreeSet::new()));
    assert!(env::take_marks().contains_key(ENDED));
    // The former leader comes back, and counts for nothing.
    cluster.start(former, &[]).await.unwrap();
    let mut left = all_but(4, former).into_iter().filter(|node| *node != leader);
    cluster.crash(left.next().unwrap()).await;
    cluster.group(leader, GROUP).propose(&Command::write(1, 1)).await.unwrap();
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_first_what_it_finds_in_the_middle() {
    env::keep_marks();
    let env = Env::simulated(63);
    let (mut cluster, former) = three_and_a_learner(&env).await;
    let leader = leader_goes_in_the_middle(&mut cluster, former).await;
    let group = cluster.group(leader, GROUP).clone();
    assert!(in_the_middle(&group), "it was not looked after yet");
    group.add_learner(NodeId(5), &address(NodeId(5))).await.unwrap();
    let status = group.status();
    assert_eq!((status.voters, status.learners), (vec![all_but(4, former)], [NodeId(5)].into()));
    assert!(env::take_marks().contains_key(ENDED));
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn who_can_not_be_heard_does_not_catch_up() {
    let env = Env::simulated(64);
    let mut cluster = Cluster::new(&env, 2, SEGMENTS);
    cluster.start(NodeId(1), &[GROUP]).await.unwrap();
    cluster.initialize(GROUP, 1).await;
    assert_eq!(cluster.leader(GROUP).await, NodeId(1));
    let group = cluster.group(NodeId(1), GROUP).clone();
    let silent = group.add_learner(NodeId(2), &address(NodeId(2))).await.unwrap_err();
    assert!(silent.to_string().contains("has not caught up within 60s"), "{silent}");
    // It has no vote: one is enough.
    group.propose(&Command::write(1, 1)).await.unwrap();
    assert_eq!(group.status().learners, [NodeId(2)].into());
    cluster.start(NodeId(2), &[GROUP]).await.unwrap();
    group.add_learner(NodeId(2), &address(NodeId(2))).await.unwrap();
    assert_eq!(cluster.settled(GROUP).await.registers.len(), 1);
    cluster.shut_down().await;
}
