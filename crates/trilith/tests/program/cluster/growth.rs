//! A server on one machine grows to three while it keeps its data, and then survives the loss of its first disk.

use super::chunks::{devices, put, run};
use super::fixture::{Cluster, await_some};
use crate::http::Connection;
use std::time::Duration;

const BUCKET: &str = "grown";
const OBJECTS: usize = 20;
/// Until what was written alone has its other copies.
const PATIENCE: Duration = Duration::from_secs(120);

fn path(number: usize) -> String {
    format!("/{BUCKET}/{number}")
}

fn content(number: usize) -> Vec<u8> {
    vec![number as u8; 1000 * number + 1]
}

/// Copies that all gateways together have made of records that had too few.
fn added_copies(cluster: &Cluster, nodes: &[usize]) -> u64 {
    let of_node = |node: &usize| {
        let answer = Connection::open(&cluster.admin(*node)).ok()?.get("/metrics").ok()?;
        let text = answer.text();
        let line = text.lines().find(|line| line.starts_with("trilith_gateway_added_copies_total"))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    nodes.iter().filter_map(of_node).sum::<f64>() as u64
}

/// A lone node with so many disks that grows to three nodes: it may be lost with its disks when `copies` further copies of the objects were made.
fn grow_and_lose_the_first(disks: usize, copies: usize) {
    let mut cluster = Cluster::lone_with(disks);
    cluster.make_open_bucket(BUCKET);
    let mut first = Connection::open(&cluster.s3(0)).unwrap();
    for number in 0..OBJECTS {
        assert_eq!(first.ask("PUT", &path(number), &[], &content(number)).unwrap().status, 200);
    }
    let file = cluster.home.path("chunk");
    std::fs::write(&file, content(300)).unwrap();
    let id = put(&cluster, 0, file.to_str().unwrap());
    assert_eq!(devices(&cluster, &id).len(), 1, "there is one host");

    cluster.open();
    cluster.await_ready(0);
    let mut cluster = cluster.grown();
    await_some(PATIENCE, "three copies of a chunk", || (devices(&cluster, &id).len() == 3).then_some(()));
    await_some(PATIENCE, "copies of each object on other hosts", || {
        (added_copies(&cluster, &[0, 1, 2]) >= (copies * OBJECTS) as u64).then_some(())
    });

    cluster.kill(0);
    std::fs::remove_dir_all(cluster.data(0)).unwrap();
    cluster.await_away(&[0]);
    for number in 0..OBJECTS {
        let found = await_some(PATIENCE, "an object at another node", || {
            let answer = Connection::open(&cluster.s3(2)).ok()?.get(&path(number)).ok()?;
            (answer.status != 503).then_some(answer)
        });
        assert!(found.status == 200 && found.body == content(number), "object {number}: {}", found.status);
    }
    assert!(run(&cluster, 1, &["get", &id]) == content(300));
}

#[test]
fn a_lone_node_grows_to_three_and_its_first_disk_can_be_lost() {
    grow_and_lose_the_first(1, 2);
}

/// Caught: three copies on three disks of one machine, which counted as three when others had joined.
#[test]
fn a_server_with_three_disks_grows_to_three_nodes_and_can_be_lost() {
    grow_and_lose_the_first(3, 2);
}
