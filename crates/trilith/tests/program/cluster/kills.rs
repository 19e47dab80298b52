//! Nodes that are killed under load, alone and together: what was acknowledged is there, and histories are linearizable.

use super::NODES;
use super::fixture::Cluster;
use super::traffic::{SOME_ANSWERS, Traffic};
use crate::http::Connection;
use crate::linear::falsify;
use crate::linear::record::By;

/// Rounds of a long run.
const SOAK_ROUNDS: usize = 15;
/// Times that all nodes are killed at once.
const KILLS_OF_ALL: usize = 2;

fn rounds(few: usize) -> usize {
    if std::env::var_os("TRILITH_SOAK").is_some() { SOAK_ROUNDS } else { few }
}

#[test]
fn each_node_killed_in_turn_under_load_loses_nothing() {
    let mut cluster = Cluster::of_three();
    let (mut traffic, nodes) = (Traffic::at(&cluster), cluster.all_s3());
    for _ in 0..rounds(1) {
        for node in 0..NODES {
            traffic.during(&nodes, |load| {
                load.await_more(SOME_ANSWERS);
                cluster.kill(node);
                cluster.await_away(&[node]);
                load.await_more(SOME_ANSWERS);
                cluster.spawn(node);
                cluster.settle();
                load.await_more(SOME_ANSWERS);
            });
            cluster.settle();
            traffic.look(&nodes);
        }
    }
    traffic.judge();
    // The same history with one answer changed has no explanation: the verdict above could have been another.
    let falsified = falsify::stale_reads(&traffic.record, By::Get);
    assert!(falsified.len() >= 10, "{} answers could be falsified", falsified.len());
    for lie in falsified.into_iter().take(20) {
        assert!(lie.judge().is_err(), "a read of an overwritten value was explained");
    }
}

#[test]
fn all_nodes_killed_at_once_lose_nothing() {
    let mut cluster = Cluster::of_three();
    let (mut traffic, nodes) = (Traffic::at(&cluster), cluster.all_s3());
    for round in 0..rounds(KILLS_OF_ALL) {
        traffic.during(&nodes, |load| {
            load.await_more(SOME_ANSWERS);
            cluster.kill_all(&[0, 1, 2]);
            // In another order each time.
            (0..NODES).for_each(|node| cluster.spawn((node + round) % NODES));
            cluster.settle();
            load.await_more(SOME_ANSWERS);
        });
        cluster.settle();
        traffic.look(&nodes);
    }
    traffic.judge();
}

/// Without a majority nobody serves; with one again, all that was acknowledged is there.
#[test]
fn two_of_three_killed_is_an_outage_and_no_loss() {
    let mut cluster = Cluster::of_three();
    let (mut traffic, nodes) = (Traffic::at(&cluster), cluster.all_s3());
    traffic.during(&nodes, |load| {
        load.await_more(SOME_ANSWERS);
        cluster.kill_all(&[0, 1]);
        await_refusal(&cluster, 2);
    });
    // Nobody can have decided anything: it stays like this. What is written stays out of the record: a copy of it may stand.
    std::thread::scope(|scope| {
        // At once: each waits for a majority as long as a server does.
        for (method, key) in [("GET", "hot/key-0"), ("PUT", "beside"), ("DELETE", "beside")] {
            let mut connection = Connection::open(&cluster.s3(2)).unwrap();
            scope.spawn(move || {
                let answer = connection.ask(method, &format!("/linear/{key}"), &[], b"").unwrap();
                assert_eq!(answer.status, 503, "{method}: {}", answer.text());
            });
        }
    });
    traffic.during(&nodes, |load| {
        cluster.spawn(1);
        load.await_more(SOME_ANSWERS);
        cluster.spawn(0);
        cluster.settle();
        load.await_more(SOME_ANSWERS);
    });
    cluster.settle();
    traffic.look(&nodes);
    traffic.judge();
}

/// Until a node has noticed that it may not serve.
fn await_refusal(cluster: &Cluster, node: usize) {
    super::fixture::await_some(crate::server::PATIENCE, "a refusal", || {
        let answer = Connection::open(&cluster.s3(node)).ok()?.get("/linear/hot/key-0").ok()?;
        (answer.status == 503).then_some(())
    });
}
