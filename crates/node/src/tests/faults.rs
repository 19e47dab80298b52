//! Clients at all nodes while nodes die, lose power, and lose each other; histories are judged.

use super::cluster::{Cluster, address};
use super::histories::Histories;
use super::service::simulate;
use crate::Node;
use env::Env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Keys that all clients share.
const KEYS: usize = 4;
/// Clients.
const CLIENTS: usize = 5;
/// Faults of one run.
const FAULTS: usize = 6;

/// How long a client rests after a call that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How often a client looks whether its node is gone.
const GONE_LOOK: Duration = Duration::from_millis(50);

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    PowerCut,
    /// Others can't reach a node, which can reach them.
    CutOneWay,
    /// Two nodes at once: there is no quorum until one is back.
    KillTwo,
    PowerCutOfAll,
}

const ALL: [Fault; 5] = [Fault::Kill, Fault::PowerCut, Fault::CutOneWay, Fault::KillTwo, Fault::PowerCutOfAll];

async fn strike(cluster: &mut Cluster, fault: Fault) {
    let env = cluster.env.clone();
    let victim = env.random_below(3) as usize;
    let pause = Duration::from_millis(200 + env.random_below(6_000));
    match fault {
        Fault::Kill | Fault::PowerCut => {
            cluster.kill(victim, fault == Fault::PowerCut).await;
            env.sleep(pause).await;
            cluster.restart(victim).await;
        }
        Fault::CutOneWay => {
            cluster.network.cut(&address(victim));
            env.sleep(pause).await;
            cluster.network.mend(&address(victim));
        }
        Fault::KillTwo => {
            let other = (victim + 1) % 3;
            cluster.kill(victim, false).await;
            cluster.kill(other, true).await;
            env.sleep(pause).await;
            cluster.restart_all(&[victim, other]).await;
        }
        Fault::PowerCutOfAll => {
            for number in 0..3 {
                cluster.kill(number, true).await;
            }
            cluster.restart_all(&[0, 1, 2]).await;
        }
    }
}

/// Returns when a node's process has ended.
async fn gone(env: &Env, node: &Weak<Node>) {
    while node.strong_count() > 0 {
        env.sleep(GONE_LOOK).await;
    }
}

async fn run(seed: u64, fault: Option<Fault>) {
    let mut cluster = Cluster::start(seed).await;
    let histories = Histories::new(KEYS);
    let (stop, slots) = (Arc::new(AtomicBool::new(false)), Arc::new(cluster.slots()));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (env, histories, stop, slots) = (cluster.env.clone(), histories.clone(), stop.clone(), slots.clone());
        clients.spawn(async move {
            let mut seen = None;
            while !stop.load(Ordering::Relaxed) {
                env.sleep(Duration::from_millis(5 + env.random_below(60))).await;
                let slot = slots.lock()[env.random_below(3) as usize].clone();
                let node = slot.upgrade();
                // Who is refused at once has written nothing; a history of many writes of unknown outcome takes for ever to judge.
                let Some(engine) = node.filter(|node| node.status().serves).map(|node| node.engine()) else { continue };
                let is_answered = tokio::select! {
                    is_answered = histories.call(&env, &*engine, &mut seen) => is_answered,
                    // The process is gone, and the connection with it: what became of the call is not known.
                    () = gone(&env, &slot) => false,
                };
                if !is_answered {
                    env.sleep(AFTER_FAILURE).await;
                }
            }
        });
    }
    for _ in 0..FAULTS {
        cluster.env.sleep(Duration::from_millis(300 + cluster.env.random_below(1_500))).await;
        let next = fault.unwrap_or_else(|| ALL[cluster.env.random_below(ALL.len() as u64) as usize]);
        cluster.follow(&slots);
        strike(&mut cluster, next).await;
        cluster.follow(&slots);
    }
    cluster.all_serve().await;
    cluster.follow(&slots);
    cluster.env.sleep(Duration::from_secs(1)).await;
    stop.store(true, Ordering::Relaxed);
    clients.join_all().await;
    for engine in cluster.engines() {
        for key in 0..KEYS {
            histories.read(&*engine, key).await;
        }
    }
    histories.judge(seed);
    let answered = *histories.answered.lock();
    assert!(answered > 100, "seed {seed}: {answered} calls were answered");
}

fn soak() -> u64 {
    std::env::var("TRILITH_SOAK").map_or(1, |text| text.parse().expect("TRILITH_SOAK is a number"))
}

fn runs(first: u64, count: u64, fault: Option<Fault>) {
    for seed in first..first + count * soak() {
        eprintln!("seed {seed}");
        simulate(run(seed, fault));
    }
}

#[test]
fn nodes_that_are_killed() {
    runs(100, 3, Some(Fault::Kill));
}

#[test]
fn nodes_that_lose_power() {
    runs(200, 3, Some(Fault::PowerCut));
}

#[test]
fn nodes_that_cannot_be_reached() {
    runs(300, 3, Some(Fault::CutOneWay));
}

#[test]
fn two_nodes_at_once() {
    runs(400, 2, Some(Fault::KillTwo));
}

#[test]
fn all_nodes_at_once() {
    runs(500, 2, Some(Fault::PowerCutOfAll));
}

#[test]
fn everything_in_turn() {
    runs(1_000, 4, None);
}
