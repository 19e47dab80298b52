//! A change that the manager keeps is known at every node that may answer when whoever made it is told so.

use super::cluster::{Cluster, address};
use super::service::simulate;
use crate::{CELL, Drain, Node};
use net::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use types::BucketId;

impl Cluster {
    fn node(&self, number: usize) -> &Arc<Node> {
        self.machines[number].node.as_ref().expect("it runs")
    }

    /// A change, made at node 0.
    async fn change(&self, value: &str) -> manager::CommandIndex {
        let manager = self.node(0).manager();
        manager.set_config("key", Some(value)).await.unwrap();
        manager.snapshot().applied()
    }
}

#[test]
fn who_is_told_that_a_change_is_settled_finds_it_everywhere() {
    simulate(async {
        let cluster = Cluster::start(31).await;
        for round in 0..20 {
            let value = round.to_string();
            let changed = cluster.change(&value).await;
            cluster.node(0).settle(changed, None).await.unwrap();
            for number in 1..3 {
                assert_eq!(cluster.node(number).manager().snapshot().config("key"), Some(value.as_str()), "node {number}");
            }
        }
    });
}

#[test]
fn a_node_that_does_not_answer_has_left_the_view_when_a_change_is_settled() {
    simulate(async {
        let cluster = Cluster::start(32).await;
        cluster.network.cut(&address(2));
        let changed = cluster.change("value").await;
        cluster.node(0).settle(changed, None).await.unwrap();
        let cell = cluster.node(0).manager().snapshot().cell(CELL).cloned().unwrap();
        let nodes: Vec<_> = cell.view_members().iter().map(|gateway| cell.members[gateway].node).collect();
        assert!(!nodes.contains(&cluster.node(2).status().id), "{nodes:?}");
        cluster.network.mend(&address(2));
        cluster.all_serve().await;
        assert_eq!(cluster.node(2).manager().snapshot().config("key"), Some("value"), "who joins knows of it");
    });
}

/// It served by what it knew last, under leases that were renewed as long as the view stayed.
#[test]
fn a_node_whose_part_of_the_manager_has_stopped_serves_nothing() {
    simulate(async {
        let mut cluster = Cluster::start(38).await;
        cluster.machines[2].fail_log();
        cluster.change("value").await;
        let stopped = tokio::time::timeout(Duration::from_secs(15), cluster.node(2).stopped()).await.expect("it stops");
        cluster.env.sleep(Duration::from_secs(2)).await;
        assert!(cluster.node(2).store().is_none(), "{stopped}");
        assert_ne!(cluster.node(2).manager().snapshot().config("key"), Some("value"));
        // So does its process.
        cluster.kill(2, false).await;
        let changed = cluster.change("another").await;
        cluster.node(0).settle(changed, None).await.unwrap();
    });
}

/// A write that has not ended.
#[derive(Default)]
struct Slow {
    ends: Notify,
    has_ended: AtomicBool,
}

impl Drain for Slow {
    fn drain(&self, bucket: BucketId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            assert_eq!(bucket, BucketId(7));
            if !self.has_ended.load(Ordering::Relaxed) {
                self.ends.notified().await;
                self.has_ended.store(true, Ordering::Relaxed);
            }
        })
    }
}

#[test]
fn other_nodes_are_drained_before_a_change_is_settled() {
    simulate(async {
        let cluster = Cluster::start(33).await;
        let slow = Arc::new(Slow::default());
        cluster.node(1).set_drain(slow.clone());
        let changed = cluster.change("value").await;
        let node = cluster.node(0).clone();
        let settling = cluster.env.spawn(async move { node.settle(changed, Some(BucketId(7))).await });
        cluster.env.sleep(Duration::from_secs(6)).await;
        assert!(!settling.is_finished(), "a write is under way at node 1");
        slow.ends.notify_waiters();
        settling.await.unwrap().unwrap();
        assert!(slow.has_ended.load(Ordering::Relaxed));
    });
}
