//! A node that does not come back is removed, and the others are a cluster without it. What is changed at one node holds at all.

use super::NODES;
use super::fixture::{Cluster, await_some};
use crate::http::Connection;
use crate::server::{program, text};
use std::process::Output;
use std::time::Duration;

const BUCKET: &str = "kept";
const OBJECTS: usize = 30;
/// Until what a lost node left is recovered.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(60);

fn path(index: usize) -> String {
    format!("/{BUCKET}/object-{index}")
}

/// Asks the server of a node to remove another one.
fn remove(cluster: &Cluster, node: usize, name: &str) -> Output {
    program().args(["cluster", "remove", name, "--data"]).arg(cluster.data(node)).output().unwrap()
}

fn complaint(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

fn check_objects(cluster: &Cluster, node: usize) {
    let mut connection = Connection::open(&cluster.s3(node)).unwrap();
    for index in 0..OBJECTS {
        let answer = connection.get(&path(index)).unwrap();
        assert_eq!((answer.status, answer.text()), (200, format!("content {index}")), "node {node}");
    }
}

#[test]
fn a_node_that_does_not_come_back_is_removed() {
    let mut cluster = Cluster::of_three();
    cluster.make_open_bucket(BUCKET);
    for index in 0..OBJECTS {
        let mut connection = Connection::open(&cluster.s3(index % NODES)).unwrap();
        let answer = connection.ask("PUT", &path(index), &[], format!("content {index}").as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    policies_hold_at_once(&cluster);

    let lost = cluster.at(2);
    assert!(complaint(remove(&cluster, 0, &lost)).contains("still serves"));
    assert!(complaint(remove(&cluster, 2, &lost)).contains("ask another one"));
    assert!(complaint(remove(&cluster, 0, "nobody")).contains("there is no node nobody"));
    cluster.kill(2);
    assert!(complaint(remove(&cluster, 2, &lost)).contains("does not answer"), "the server of that folder is gone");
    await_some(RECOVERY_PATIENCE, "the removal of the lost node", || {
        let output = remove(&cluster, 0, &lost);
        let reason = text(&output.stderr);
        let is_in_between =
            reason.contains("still serves") || reason.contains("recovered") || reason.contains("does not serve");
        assert!(output.status.success() || is_in_between, "{reason}");
        output.status.success().then_some(())
    });
    for node in 0..2 {
        await_some(RECOVERY_PATIENCE, "a cluster of two", || {
            let cell = cluster.status(node)?["cell"].clone();
            let count = |list: &str| cell[list].as_array().map(Vec::len);
            (count("nodes") == Some(2) && count("devices") == Some(2) && cell["gateways"] == 2).then_some(())
        });
        check_objects(&cluster, node);
    }
    cluster.run(0, &["cluster", "status", "--admin", &cluster.admin(0)]);

    // Its machine comes back with an empty folder, under the same name and address.
    std::fs::remove_dir_all(cluster.data(2)).unwrap();
    cluster.join_and_spawn(2);
    cluster.settle();
    check_objects(&cluster, 2);
}

/// The answer to a change comes when all nodes go by it.
fn policies_hold_at_once(cluster: &Cluster) {
    for round in 0..5 {
        cluster.run(round % NODES, &["bucket", "policy", "rm", BUCKET]);
        for node in 0..NODES {
            let answer = Connection::open(&cluster.s3(node)).unwrap().get(&path(0)).unwrap();
            assert_eq!(answer.status, 403, "round {round}, node {node}");
        }
        cluster.run(round % NODES, &["bucket", "policy", "set", BUCKET, "public-read-write"]);
        for node in 0..NODES {
            let answer = Connection::open(&cluster.s3(node)).unwrap().get(&path(0)).unwrap();
            assert_eq!(answer.status, 200, "round {round}, node {node}");
        }
    }
}
