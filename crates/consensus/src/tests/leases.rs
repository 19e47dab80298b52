//! Reads that rely on the leader's lease: restarts, partitions, and a leader that stands still.

use std::time::Duration;

use env::Env;
use futures_util::FutureExt as _;

use super::cluster::{Cluster, GROUP};
use super::store::Command;
use crate::error::ReadError;
use crate::group::ReadMode;
use crate::limits::{ELECTION_TIMEOUT_MAX, LEADER_LEASE};

/// The leader hears of one follower only. That follower acknowledges it, goes down, comes back at once, and hears of the other only, which
/// has heard of no leader for long. They must not elect another leader while the first relies on the acknowledgement.
#[tokio::test(start_paused = true)]
async fn a_restart_breaks_no_lease() {
    let mut ended_leases = 0;
    for seed in 0..12 {
        let env = Env::simulated(1000 + seed);
        let mut cluster = Cluster::of_three(&env).await;
        let leader = cluster.leader(GROUP).await;
        let mut others = cluster.ids().into_iter().filter(|id| *id != leader);
        let (witness, stranger) = (others.next().unwrap(), others.next().unwrap());
        cluster.propose(GROUP, &Command::write(1, 1)).await;
        cluster.settled(GROUP).await;
        // The stranger wants to lead as soon as anybody lets it.
        cluster.network.isolate(stranger);
        env.sleep(LEADER_LEASE + ELECTION_TIMEOUT_MAX + Duration::from_millis(seed * 13)).await;
        let group = cluster.group(leader, GROUP).clone();
        group.read(ReadMode::Confirmed, |_| ()).await.unwrap();
        cluster.network.heal();
        cluster.network.isolate(leader);
        cluster.crash(witness).await;
        cluster.start(witness, &[]).await.unwrap();
        // Somebody may lead now and write; as long as the old leader answers from its lease, nobody has.
        let rivals = [cluster.group(stranger, GROUP).clone(), cluster.group(witness, GROUP).clone()];
        for _ in 0..1000 {
            env.sleep(Duration::from_millis(10)).await;
            let mut written = false;
            for rival in &rivals {
                written |= rival.status().is_leader && rival.propose(&Command::write(1, 2)).await.is_ok();
            }
            let held =
                tokio::time::timeout(Duration::from_millis(1), group.read(ReadMode::Lease, |store| store.registers[&1])).await;
            if let Ok(Ok(found)) = held {
                assert!(!written || found == 2, "seed {seed}: the old leader answers {found} after 2 was written");
            }
            if written {
                ended_leases += 1;
                break;
            }
        }
        cluster.shut_down().await;
    }
    assert!(ended_leases >= 6, "only {ended_leases} rivals came to lead: nothing was tested");
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_answers_until_its_lease_ends_and_not_after() {
    let env = Env::simulated(51);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader(GROUP).await;
    let group = cluster.group(leader, GROUP).clone();
    group.read(ReadMode::Confirmed, |_| ()).await.unwrap();
    cluster.network.isolate(leader);
    let cut_at = env.now();
    let mut answered = 0;
    let refused = loop {
        let asked_at = env.now();
        match group.read(ReadMode::Lease, |_| ()).await {
            Ok(()) => {
                assert!(asked_at - cut_at < LEADER_LEASE);
                answered += 1;
            }
            Err(error) => break error,
        }
        env.sleep(Duration::from_millis(20)).await;
    };
    assert!(answered > 20, "the lease lasts a while: {answered} answers");
    assert!(matches!(refused, ReadError::NoQuorum { .. } | ReadError::NotLeader(_)), "{refused}");
    cluster.shut_down().await;
}

/// A leader that knows that it leads asks no task: the first poll answers.
#[tokio::test(start_paused = true)]
async fn a_read_within_the_lease_is_answered_at_once() {
    for nodes in [1, 3] {
        let env = Env::simulated(52);
        let mut cluster = Cluster::of(&env, nodes).await;
        let group = cluster.group(cluster.leader(GROUP).await, GROUP).clone();
        cluster.propose(GROUP, &Command::write(1, 7)).await;
        let found = group.read(ReadMode::Lease, |store| store.registers[&1]).now_or_never();
        assert!(matches!(found, Some(Ok(7))), "{nodes} nodes: {found:?}");
        let confirmed = group.read(ReadMode::Confirmed, |_| ()).now_or_never();
        assert_eq!(confirmed.is_some(), nodes == 1, "a quorum is asked where others vote");
        cluster.shut_down().await;
    }
}

/// A lease is over as soon as the leader asks another to lead: that one is elected within it.
#[tokio::test(start_paused = true)]
async fn a_leader_that_asked_another_to_lead_relies_on_no_lease() {
    let env = Env::simulated(53);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader(GROUP).await;
    let to = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    let (old, new) = (cluster.group(leader, GROUP).clone(), cluster.group(to, GROUP).clone());
    cluster.propose(GROUP, &Command::write(1, 1)).await;
    cluster.settled(GROUP).await;
    old.transfer_leader(to).await.unwrap();
    // The old leader's task does not hear of what follows.
    let asked_at = env.now();
    let first = old.read(ReadMode::Lease, |_| ()).now_or_never();
    assert!(first.is_none_or(|answer| answer.is_err()), "it answers from a lease that it gave away");
    while !(new.status().is_leader && new.propose(&Command::write(1, 2)).await.is_ok()) {
        env.sleep(Duration::from_millis(1)).await;
    }
    assert!(env.now() - asked_at < LEADER_LEASE, "the lease had ended anyway: nothing was tested");
    cluster.shut_down().await;
}

/// Each node on a thread of its own, with real clocks; the leader's thread stands still beyond its lease.
#[test]
fn a_leader_that_stood_still_does_not_answer_from_its_lease() {
    let runtimes: Vec<_> =
        (0..3).map(|_| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()).collect();
    let env = Env::real();
    let mut cluster = Cluster::new(&env, 3, super::cluster::SEGMENTS);
    for (runtime, id) in runtimes.iter().zip(cluster.ids()) {
        runtime.block_on(cluster.start(id, &[GROUP])).unwrap();
    }
    let control = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    control.block_on(async {
        cluster.initialize(GROUP, 3).await;
        cluster.propose(GROUP, &Command::write(1, 1)).await;
    });
    let leader = control.block_on(cluster.leader(GROUP));
    let group = cluster.group(leader, GROUP).clone();
    let stand_still = 2 * LEADER_LEASE + 2 * ELECTION_TIMEOUT_MAX;
    let (frozen, is_frozen) = std::sync::mpsc::sync_channel(1);
    let old = group.clone();
    // The only thread of the leader's runtime sleeps within a task; the read is the next thing that it does.
    let answer = runtimes[leader.0 as usize - 1].spawn(async move {
        frozen.send(()).unwrap();
        std::thread::sleep(stand_still);
        old.read(ReadMode::Lease, |store| store.registers[&1]).await
    });
    is_frozen.recv().unwrap();
    let written = control.block_on(async {
        for _ in 0..200 {
            for other in cluster.ids().into_iter().filter(|id| *id != leader) {
                let rival = cluster.group(other, GROUP);
                if rival.status().is_leader && rival.propose(&Command::write(1, 2)).await.is_ok() {
                    return true;
                }
            }
            env.sleep(Duration::from_millis(20)).await;
        }
        false
    });
    assert!(written, "another leads while the old leader stands still");
    assert!(!answer.is_finished(), "the old leader still stands still");
    let found = control.block_on(answer).unwrap();
    assert!(matches!(found, Err(_) | Ok(2)), "{found:?}");
    for (runtime, id) in runtimes.iter().zip(cluster.ids()) {
        runtime.block_on(cluster.host(id).node.as_ref().unwrap().shut_down());
    }
    for runtime in runtimes {
        runtime.shutdown_background();
    }
}
