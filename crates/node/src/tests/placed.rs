//! Disks that come to a node while another one serves them, or has served them.

use super::cluster::Cluster;
use super::service::simulate;
use crate::{Node, NodeError};
use types::DeviceUuid;

#[test]
fn a_device_that_another_node_serves_is_refused_and_one_that_was_carried_over_is_not() {
    simulate(async {
        let mut cluster = Cluster::start(69).await;
        let uuids: Vec<DeviceUuid> = cluster.machines.iter().map(|machine| machine.device().uuid()).collect();
        cluster.kill(2, false).await;
        let comes = Node::open(&cluster.env, cluster.machines[2].options(&cluster.network)).await.unwrap();
        comes.manager().fresh().await.unwrap();
        let refused = comes.refuse_served(&uuids).await.unwrap_err();
        assert!(matches!(&refused, NodeError::Served { node, .. } if node == "node-0"), "{refused}");
        comes.refuse_served(&uuids[2..]).await.expect("its own");
        // Its node runs, without it.
        cluster.kill(0, false).await;
        cluster.restart_without_device(0).await;
        comes.refuse_served(&uuids[..1]).await.expect("carried over");
        cluster.kill(1, false).await;
        comes.refuse_served(&uuids[1..2]).await.expect("carried over from a node that is gone");
    });
}
