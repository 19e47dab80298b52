//! Nodes that stop in order, and nodes that stand still for a while and do not know it.

use super::fixture::{Cluster, await_some};
use super::traffic::{SOME_ANSWERS, Traffic};
use crate::http::Connection;
use crate::linear::BUCKET;
use crate::server::PATIENCE;

/// A node that was paused for longer than its lease and than its absence takes to be noticed answers nothing old: the others have served
/// writes meanwhile.
#[test]
fn a_paused_node_does_not_answer_from_the_past() {
    let cluster = Cluster::of_three();
    let (mut traffic, nodes) = (Traffic::at(&cluster), cluster.all_s3());
    traffic.during(&nodes, |load| {
        load.await_more(SOME_ANSWERS);
        let path = format!("/{BUCKET}/paused");
        let mut others = Connection::open(&nodes[0]).unwrap();
        assert_eq!(others.ask("PUT", &path, &[], b"before").unwrap().status, 200);
        // Sent to the paused node, which finds it when it goes on: before it hears of anything else.
        let mut paused = Connection::open(&nodes[2]).unwrap();
        assert_eq!(paused.get(&path).unwrap().text(), "before");
        cluster.pause(2);
        paused.send_head("GET", &path, &[], 0).unwrap();
        cluster.await_away(&[2]);
        assert_eq!(others.ask("PUT", &path, &[], b"after").unwrap().status, 200);
        load.await_more(SOME_ANSWERS);
        cluster.go_on(2);
        // The request above was sent before the second PUT, and may be answered as of then. What follows may not.
        let _ = paused.answer(false).unwrap();
        for _ in 0..SOME_ANSWERS {
            let answer = paused.get(&path).unwrap();
            assert!(answer.status == 503 || answer.text() == "after", "{} {}", answer.status, answer.text());
        }
        cluster.settle();
        load.await_more(SOME_ANSWERS);
    });
    cluster.settle();
    traffic.look(&nodes);
    traffic.judge();
}

/// Whoever sends requests to nodes that are ready sends none to one that is out of its cell.
#[test]
fn a_node_that_is_out_of_its_cell_is_not_ready() {
    let cluster = Cluster::of_three();
    let is_ready = || Some(Connection::open(&cluster.admin(2)).ok()?.get("/health/ready").ok()?.status == 200);
    assert_eq!(is_ready(), Some(true));
    cluster.pause(2);
    cluster.await_away(&[2]);
    cluster.go_on(2);
    await_some(PATIENCE, "node 2 to say that it is out", || (!is_ready()?).then_some(()));
    cluster.settle();
    assert_eq!(is_ready(), Some(true));
}

/// A node that is told to stop leaves its cell: nobody waits for its lease, and nobody has to notice that it is away.
#[test]
fn a_node_that_stops_in_order_is_not_missed() {
    let mut cluster = Cluster::of_three();
    let (mut traffic, nodes) = (Traffic::at(&cluster), cluster.all_s3());
    for node in [2, 0] {
        traffic.during(&nodes, |load| {
            load.await_more(SOME_ANSWERS);
            cluster.stop(node);
            cluster.await_away(&[node]);
            load.await_more(SOME_ANSWERS);
            cluster.spawn(node);
            cluster.settle();
        });
        cluster.settle();
        traffic.look(&nodes);
    }
    traffic.judge();
    for node in 0..super::NODES {
        let log = cluster.log(node);
        for missed in ["the others wait for its lease", "were not heard of"] {
            assert!(!log.contains(missed), "{log}");
        }
    }
}
