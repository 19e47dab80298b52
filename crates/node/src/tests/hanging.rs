//! Disks that hang: their requests neither end nor fail.

use super::cluster::{Cluster, address};
use super::service::{get, put, simulate};
use crate::{Node, Role, Roles};
use engine::Condition;
use manager::overseer::FIRST_BACKOFF_MS;
use net::LinkWeather;
use std::sync::Arc;
use std::time::Duration;
use target::limits::{CALL_DEADLINE, CONTROL_DEADLINE, READ_DEADLINE};
use types::{DeviceId, NodeId, Token};

/// What a disk that hangs may cost a write.
const OUTAGE: Duration = Duration::from_secs(10);
/// How long a device that answers again may take to come back: the third time in a row it waits four times as long as the first.
const RETURN: Duration = Duration::from_millis(4 * FIRST_BACKOFF_MS + 10_000);
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn node(cluster: &Cluster, number: usize) -> &Arc<Node> {
    cluster.machines[number].node.as_ref().expect("it runs")
}

/// The devices that are written to, as one node knows it.
pub(super) fn table(cluster: &Cluster, number: usize) -> Vec<DeviceId> {
    let state = node(cluster, number).manager().snapshot();
    state.cell(crate::CELL).unwrap().installed.as_ref().unwrap().table.devices().to_vec()
}

/// Writes until it is acknowledged, as clients do.
pub(super) async fn write(cluster: &Cluster, by: usize, name: &str, value: u64) {
    let (env, engine, began) = (&cluster.env, node(cluster, by).engine(), cluster.env.now());
    let writing = async {
        while let Err(error) = put(&*engine, name, value, Condition::None).await {
            assert!(env.now() - began < OUTAGE, "{name} by node {by}: {error}");
            env.sleep(PAUSE).await;
        }
    };
    let outage = async {
        env.sleep(OUTAGE).await;
        panic!("{name} by node {by} is not answered; {:?}", table(cluster, by));
    };
    tokio::select! {
        biased;
        () = writing => {}
        () = outage => {}
    }
}

async fn is_back(cluster: &Cluster) {
    let until = cluster.env.now() + RETURN;
    while table(cluster, 0).len() < 3 {
        assert!(cluster.env.now() < until, "{:?}", table(cluster, 0));
        cluster.env.sleep(PAUSE).await;
    }
}

#[test]
fn writes_go_around_a_disk_that_hangs_until_it_answers() {
    simulate(async {
        let cluster = Cluster::start(61).await;
        env::keep_marks();
        for (round, by) in [(1, 0), (2, 1), (3, 2)] {
            let [before, meanwhile, after] = ["before", "meanwhile", "after"].map(|name| format!("{name}-{round}"));
            write(&cluster, by, &before, round).await;
            cluster.machines[2].hang_device();
            write(&cluster, by, &meanwhile, round).await;
            assert_eq!(table(&cluster, by).len(), 2, "the others are written to");
            // Those that were under way when it began to hang have ended too.
            for by in 0..3 {
                write(&cluster, by, &before, round + 10).await;
            }
            assert!(cluster.machines[2].let_device_go() > 0);
            is_back(&cluster).await;
            write(&cluster, by, &after, round).await;
            cluster.all_serve().await;
            for at in 0..3 {
                let engine = node(&cluster, at).engine();
                for (name, value) in [(&before, round + 10), (&meanwhile, round), (&after, round)] {
                    assert_eq!(get(&*engine, name).await.unwrap(), Some(value), "{name} at node {at}");
                }
            }
        }
        let marks = env::take_marks();
        for mark in ["node: a disk hangs", "node: a disk that hung answers again"] {
            assert_eq!(marks.get(mark), Some(&3), "{marks:?}");
        }
        assert!(marks.contains_key("target: an append of this process was given up"), "by the node itself: {marks:?}");
    });
}

#[test]
fn a_disk_that_is_slow_for_a_moment_stays() {
    simulate(async {
        let cluster = Cluster::start(62).await;
        let view = |cluster: &Cluster| node(cluster, 0).manager().snapshot().cell(crate::CELL).unwrap().view_number();
        let before = view(&cluster);
        cluster.machines[2].hang_device();
        let engine = node(&cluster, 0).engine();
        let slow = cluster.env.spawn(async move { put(&*engine, "key", 1, Condition::None).await });
        cluster.env.sleep(Duration::from_millis(1_500)).await;
        assert!(cluster.machines[2].let_device_go() > 0);
        slow.await.unwrap().unwrap();
        cluster.env.sleep(Duration::from_secs(5)).await;
        assert_eq!((view(&cluster), table(&cluster, 0).len()), (before, 3));
    });
}

#[test]
fn reads_beside_a_disk_that_hangs_go_to_other_copies() {
    simulate(async {
        let cluster = Cluster::start(65).await;
        write(&cluster, 0, "key", 1).await;
        cluster.machines[2].empty_page_cache();
        cluster.machines[2].hang_device();
        let timed = async || {
            let began = cluster.env.now();
            assert_eq!(get(&*node(&cluster, 2).engine(), "key").await.unwrap(), Some(1));
            cluster.env.now() - began
        };
        let waited = timed().await;
        assert!(waited >= READ_DEADLINE && waited < 2 * READ_DEADLINE, "{waited:?}");
        // From then on it is the last to be asked.
        let asked = cluster.machines[2].disk_stats().0;
        for _ in 0..3 {
            let waited = timed().await;
            assert!(waited < Duration::from_millis(100), "{waited:?}");
        }
        assert_eq!(cluster.machines[2].disk_stats().0.reads, asked.reads);
        // Whoever did not write: there is no request under way but the read.
        assert_eq!(table(&cluster, 0).len(), 2);
    });
}

#[test]
fn what_a_dead_gateway_left_is_recovered_beside_a_disk_that_hangs() {
    simulate(async {
        let mut cluster = Cluster::start(63).await;
        write(&cluster, 1, "key", 1).await;
        cluster.machines[2].hang_device();
        write(&cluster, 0, "other", 1).await;
        cluster.kill(1, false).await;
        write(&cluster, 0, "key", 2).await;
        write(&cluster, 2, "other", 2).await;
        let until = cluster.env.now() + OUTAGE;
        while !node(&cluster, 0).manager().snapshot().cell(crate::CELL).unwrap().undecided.is_empty() {
            assert!(cluster.env.now() < until, "the dead one is not recovered");
            cluster.env.sleep(PAUSE).await;
        }
        cluster.machines[2].let_device_go();
        cluster.restart(1).await;
        cluster.all_serve().await;
        for at in 0..3 {
            let engine = node(&cluster, at).engine();
            assert_eq!((get(&*engine, "key").await.unwrap(), get(&*engine, "other").await.unwrap()), (Some(2), Some(2)));
        }
    });
}

/// Who founds a cell, or recovers a gateway, does without it.
#[test]
fn a_fence_of_a_device_beside_it_is_not_waited_for_for_ever() {
    simulate(async {
        let cluster = Cluster::start(64).await;
        let inner = &node(&cluster, 2).inner;
        let device = inner.targets[0].device().id();
        // Of nobody who is there.
        let fences = [crate::fences::writer(NodeId(99), Token(7))];
        inner.fence_and_drain(device, &fences).await.unwrap();
        cluster.machines[2].hang_device();
        let began = cluster.env.now();
        let fencing = inner.fence_and_drain(device, &fences);
        tokio::time::timeout(CONTROL_DEADLINE + Duration::from_secs(1), fencing)
            .await
            .expect("in time")
            .expect_err("its disk hangs");
        assert!(cluster.env.now() - began >= CONTROL_DEADLINE);
        cluster.machines[2].let_device_go();
        inner.fence_and_drain(device, &fences).await.unwrap();
    });
}

/// A cell with dead hosts was founded, or joined, only after each of their devices had been waited for, one after the other.
#[test]
fn devices_of_dead_hosts_are_asked_for_at_once() {
    simulate(async {
        let only_target = Roles::from_iter([Role::Target]);
        let roles = [vec![Roles::all(); 3], vec![only_target; 3]].concat();
        let cluster = Cluster::start_with(68, roles).await;
        let inner = &node(&cluster, 0).inner;
        let writer = crate::fences::writer(inner.id, inner.vitals.get().registered.unwrap().token);
        let (held, missing) = inner.hold_all(writer).await;
        assert_eq!((held.len(), missing.len()), (6, 0));
        for dead in 3..6 {
            cluster.network.set_link(&address(0), &address(dead), LinkWeather { is_cut: true, ..LinkWeather::default() });
            cluster.network.interrupt(&address(dead));
        }
        // The ends of connections are seen.
        cluster.env.sleep(PAUSE).await;
        let began = cluster.env.now();
        let (held, missing) = inner.hold_all(writer).await;
        assert_eq!((held.len(), missing.len()), (3, 3));
        let took = cluster.env.now() - began;
        assert!(took >= Duration::from_secs(1) && took <= Duration::from_secs(2), "as long as one of them: {took:?}");
    });
}

/// Nor are fences of disks that hang waited for one after the other.
#[test]
fn disks_that_hang_are_fenced_at_once() {
    simulate(async {
        let cluster = Cluster::start(67).await;
        let inner = &node(&cluster, 0).inner;
        let registered = inner.vitals.get().registered.unwrap();
        let (held, _) = inner.hold_all(crate::fences::writer(inner.id, registered.token)).await;
        let fences = [crate::fences::writer(NodeId(99), Token(7))];
        for hanging in [1, 2] {
            cluster.machines[hanging].hang_device();
        }
        let began = cluster.env.now();
        let (fenced, missing) = inner.fence_and_drain_all(held, &fences).await;
        let of_first = inner.targets[0].device().id();
        assert_eq!(fenced.iter().map(|target| target.id()).collect::<Vec<_>>(), [of_first]);
        assert_eq!(missing.len(), 2);
        let took = cluster.env.now() - began;
        assert!(took < CONTROL_DEADLINE + CALL_DEADLINE, "{took:?}");
        for hanging in [1, 2] {
            cluster.machines[hanging].let_device_go();
        }
    });
}
