//! A node that starts, and leads the manager before it is through.

use super::closing::lead_by;
use super::cluster::Cluster;
use super::hanging::write;
use super::service::simulate;
use crate::Node;
use std::time::Duration;

/// Its devices open slowly, or for ever: whoever is there goes on without it, and without others.
#[test]
fn a_node_that_leads_before_it_has_started_oversees_the_cell() {
    simulate(async {
        let mut cluster = Cluster::start(68).await;
        cluster.kill(2, false).await;
        write(&cluster, 0, "before", 1).await;
        let starting = Node::open(&cluster.env, cluster.machines[2].options(&cluster.network)).await.unwrap();
        lead_by(&cluster, starting.manager()).await;
        for round in 0..5 {
            write(&cluster, 0, "key", round).await;
            write(&cluster, 1, "key", round).await;
            // Longer than a lease.
            cluster.env.sleep(Duration::from_secs(3)).await;
        }
        assert!(starting.manager().is_leader());
        cluster.kill(1, false).await;
        write(&cluster, 0, "after", 1).await;
        assert!(starting.manager().is_leader());
    });
}
