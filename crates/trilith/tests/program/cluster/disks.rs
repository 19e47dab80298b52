//! Disks that are lost: another one takes the place, and what the lost one held has as many copies as before.

use super::NODES;
use super::fixture::{Cluster, await_some};
use crate::http::Connection;
use crate::server::{program, text};
use std::time::Duration;

const BUCKET: &str = "kept";
const SMALL: usize = 60;
/// Of several chunks each.
const LARGE: usize = 4;
/// Until copies are made again, beside everything else that tests do.
const REPAIR_PATIENCE: Duration = Duration::from_secs(90);
/// Until every gateway knows that a device is gone.
const NEWS: Duration = Duration::from_secs(1);

fn path(index: usize) -> String {
    format!("/{BUCKET}/object-{index}")
}

fn content(index: usize) -> Vec<u8> {
    let bytes = if index < SMALL { 1000 } else { 700_000 };
    (0..bytes).map(|at| (at * 31 + index * 7) as u8).collect()
}

fn check_objects(cluster: &Cluster, node: usize) {
    let mut connection = Connection::open(&cluster.s3(node)).unwrap();
    for index in 0..SMALL + LARGE {
        let answer = connection.get(&path(index)).unwrap();
        assert_eq!(answer.status, 200, "{index} at node {node}: {}", answer.text());
        assert!(answer.body == content(index), "{index} at node {node}");
    }
}

/// Parts of the index that are still looked through for what lacks copies, of all nodes.
fn repair_left(cluster: &Cluster) -> Option<f64> {
    (0..NODES)
        .map(|node| {
            let metrics = Connection::open(&cluster.admin(node)).ok()?.get("/metrics").ok()?.text();
            let line = metrics.lines().find(|line| line.starts_with("trilith_gateway_repair_left"))?.to_owned();
            line.rsplit(' ').next()?.parse::<f64>().ok()
        })
        .sum()
}

fn devices(cluster: &Cluster) -> Vec<u64> {
    let status = cluster.status(0).unwrap();
    status["cell"]["devices"].as_array().unwrap().iter().map(|device| device["device"].as_u64().unwrap()).collect()
}

/// In the end no byte stands on a disk that it was written to.
#[test]
fn all_disks_are_replaced_one_after_the_other() {
    let mut cluster = Cluster::of_three();
    cluster.make_open_bucket(BUCKET);
    for index in 0..SMALL + LARGE {
        let mut connection = Connection::open(&cluster.s3(index % NODES)).unwrap();
        let answer = connection.ask("PUT", &path(index), &[], &content(index)).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let before = devices(&cluster);
    for node in 0..NODES {
        cluster.kill(node);
        std::fs::remove_file(cluster.data(node).join("device-0.trilith")).unwrap();
        cluster.format(node);
        cluster.spawn(node);
        // As many devices as nodes: the lost one is forgotten.
        cluster.settle();
        std::thread::sleep(NEWS);
        await_some(REPAIR_PATIENCE, "copies on the new disk", || (repair_left(&cluster)? == 0.0).then_some(()));
        check_objects(&cluster, node);
    }
    let after = devices(&cluster);
    assert!(after.len() == NODES && after.iter().all(|device| !before.contains(device)), "{before:?}, {after:?}");
    for node in 0..NODES {
        check_objects(&cluster, node);
    }
    let forget = |device: u64| {
        let output = program().args(["device", "forget", &device.to_string(), "--data"]).arg(cluster.data(0)).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    assert!(forget(before[0]).contains("has been forgotten"));
    assert!(forget(after[1]).contains("its node serves it"));
}
