//! Members die, messages are lost and doubled: every command takes effect once, or not at all.

use std::time::Duration;

use consensus::LinkWeather;
use env::Env;
use types::CellId;

use super::cluster::Cluster;
use crate::limits::PROPOSE_DEADLINE;
use crate::tests::shell::bucket;
use crate::{CommandIndex, Manager, ManagerError, ProposeError};

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_between_the_commit_and_its_answer() {
    let env = Env::simulated(41);
    let mut cluster = Cluster::of_three(&env).await;
    let (leader, proposer) = (cluster.leader().await, cluster.follower().await);
    cluster.network.set_link(leader, proposer, LinkWeather { is_cut: true, ..LinkWeather::default() });
    let manager = cluster.manager(proposer).clone();
    let proposals = env.spawn(async move {
        tokio::join!(manager.create_bucket(bucket("once", "alice")), manager.begin_start(CellId(1)), manager.take_token(),)
    });
    while cluster.manager(leader).snapshot().applied() < CommandIndex(3) {
        env.sleep(Duration::from_millis(1)).await;
    }
    assert!(!proposals.is_finished());
    assert_eq!(cluster.manager(proposer).snapshot().applied(), CommandIndex(0));
    // It did not hear of them, nor of an answer: it asks the next leader.
    cluster.crash(leader).await;
    cluster.network.heal();
    let (made, start, token) = proposals.await.unwrap();
    assert_eq!(made.unwrap(), cluster.manager(proposer).bucket("once").unwrap());
    assert_eq!(start.unwrap(), 1);
    assert!((1..=3).contains(&token.unwrap().0));
    let state = cluster.settled().await;
    assert_eq!((state.applied(), state.starts(CellId(1))), (CommandIndex(3), 1));
    cluster.start(leader).await;
    cluster.manager(leader).fresh().await.unwrap();
    assert_eq!(*cluster.manager(leader).snapshot(), state);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_come_twice_take_effect_once() {
    let env = Env::simulated(42);
    let mut cluster = Cluster::of_three(&env).await;
    let weather = LinkWeather { doubled_per_mille: 1000, longest_delay: Duration::from_millis(2), ..LinkWeather::default() };
    cluster.network.set_weather(weather);
    let leader = cluster.leader().await;
    let before = cluster.replicated(leader).status().last.unwrap();
    let proposer = cluster.follower().await;
    for number in 1..=30 {
        assert_eq!(cluster.manager(proposer).begin_start(CellId(1)).await.unwrap(), number);
    }
    // Twins may still be under way.
    env.sleep(Duration::from_secs(1)).await;
    let state = cluster.settled().await;
    assert_eq!((state.applied(), state.starts(CellId(1))), (CommandIndex(30), 30));
    let after = cluster.replicated(leader).status().last.unwrap();
    assert!(after.0 - before.0 > 30, "{} entries: some stand in the log twice", after.0 - before.0);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_a_proposal_ends_by_its_deadline() {
    let env = Env::simulated(43);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader().await;
    let others: Vec<_> = cluster.ids().into_iter().filter(|id| *id != leader).collect();
    cluster.crash(others[0]).await;
    cluster.manager(leader).take_token().await.unwrap();
    cluster.crash(others[1]).await;
    let began = env.now();
    let failed = cluster.manager(leader).take_token().await.unwrap_err();
    assert!(matches!(failed, ManagerError::Failed(ProposeError::Unknown { .. })), "{failed}");
    assert!(env.now() - began <= PROPOSE_DEADLINE, "{:?}", env.now() - began);
    assert!(cluster.manager(leader).fresh().await.is_err());
    // What nobody knew of may come true: it stands in the leader's log.
    cluster.start(others[0]).await;
    cluster.leader().await;
    let found = cluster.settled().await.applied();
    assert!((CommandIndex(1)..=CommandIndex(2)).contains(&found), "{found:?}");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_was_never_formed_takes_nothing_for_certain() {
    let env = Env::simulated(44);
    let mut cluster = Cluster::new(&env, 1);
    cluster.start_all().await;
    let manager = cluster.manager(cluster.ids()[0]).clone();
    let began = env.now();
    let failed = manager.take_token().await.unwrap_err();
    assert!(matches!(failed, ManagerError::Failed(ProposeError::NoLeader { .. })), "{failed}");
    assert!(env.now() - began <= PROPOSE_DEADLINE, "{:?}", env.now() - began);
    assert!(manager.leader().is_none() && !manager.is_leader());
    cluster.form(1).await;
    assert_eq!(manager.take_token().await.unwrap().0, 1, "nothing of the first attempt came later");
    cluster.shut_down().await;
}

/// One client at one member: starts of one cell, and what it was told.
#[derive(Default)]
struct Told {
    numbers: Vec<u64>,
    unknown: u64,
}

async fn work(env: Env, manager: Manager, rounds: u64) -> Told {
    let mut told = Told::default();
    for _ in 0..rounds {
        match manager.begin_start(CellId(5)).await {
            Ok(number) => told.numbers.push(number),
            Err(ManagerError::Failed(ProposeError::NoLeader { .. })) => {}
            Err(_) => told.unknown += 1,
        }
        env.sleep(Duration::from_millis(20)).await;
    }
    told
}

async fn storm(seed: u64) {
    let env = Env::simulated(seed);
    let mut cluster = Cluster::of_three(&env).await;
    cluster.network.set_weather(LinkWeather {
        lost_per_mille: 30,
        doubled_per_mille: 50,
        longest_delay: Duration::from_millis(10),
        is_cut: false,
    });
    let mut numbers = Vec::new();
    let mut unknown = 0;
    for _ in 0..4 {
        let clients: Vec<_> = cluster.managers().into_iter().map(|manager| env.spawn(work(env.clone(), manager, 40))).collect();
        env.sleep(Duration::from_millis(env.random_below(400))).await;
        let leader = cluster.managers().iter().zip(cluster.ids()).find(|(manager, _)| manager.is_leader()).map(|(_, id)| id);
        let victim = leader.unwrap_or(cluster.ids()[0]);
        match env.random_below(3) {
            0 => cluster.crash(victim).await,
            1 => cluster.network.isolate(victim),
            _ => cluster.network.set_link(
                victim,
                cluster.ids()[env.random_below(3) as usize],
                LinkWeather { is_cut: true, ..LinkWeather::default() },
            ),
        }
        env.sleep(Duration::from_millis(env.random_below(5000))).await;
        cluster.network.heal();
        if cluster.managers().len() < 3 {
            cluster.start(victim).await;
        }
        for client in clients {
            let told = client.await.unwrap();
            numbers.extend(told.numbers);
            unknown += told.unknown;
        }
    }
    cluster.network.set_weather(LinkWeather::default());
    cluster.leader().await;
    // Twins and retries that are still under way end.
    env.sleep(PROPOSE_DEADLINE).await;
    let starts = cluster.settled().await.starts(CellId(5));
    let told = numbers.len() as u64;
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, told, "seed {seed}: no number was given twice");
    assert!((told..=told + unknown).contains(&starts), "seed {seed}: {starts} starts, {told} told, {unknown} unknown");
    assert!(told > 200, "seed {seed}: {told} told, {unknown} unknown");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn storms_double_nothing() {
    let seeds = if std::env::var_os("TRILITH_SOAK").is_some() { 200 } else { 8 };
    for seed in 100..100 + seeds {
        storm(seed).await;
    }
}
