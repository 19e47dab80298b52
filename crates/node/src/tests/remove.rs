//! Nodes that do not come back are removed.

use super::cluster::{Cluster, address};
use super::service::{get, put, simulate};
use crate::CELL;
use engine::Condition;
use net::{Identity, RemoteCaller};
use std::sync::Arc;
use std::time::Duration;
use types::{ClusterId, NodeIdentity};

impl Cluster {
    /// Asks node `via` to remove node `number`.
    async fn remove(&self, via: usize, name: &str, force: bool) -> Result<(), String> {
        let identity = Identity { cluster: ClusterId([9; 16]), node: NodeIdentity::default() };
        let caller = RemoteCaller::new(&self.env, Arc::new(self.network.clone()), &address(via), identity);
        crate::remove(&self.env, &caller, name, force).await.unwrap()
    }

    fn voters(&self) -> usize {
        self.machines[0].node.as_ref().unwrap().manager().replication().unwrap().members.len()
    }
}

#[test]
fn a_dead_node_is_removed_and_counts_no_more() {
    simulate(async {
        let mut cluster = Cluster::start(41).await;
        for index in 0..40 {
            put(&*cluster.engines()[0], &format!("key-{index}"), index, Condition::None).await.unwrap();
        }
        let alive = cluster.remove(0, "node-2", false).await.unwrap_err();
        assert!(alive.contains("still serves"), "{alive}");
        let itself = cluster.remove(0, "node-0", true).await.unwrap_err();
        assert!(itself.contains("ask another one"), "{itself}");
        let nobody = cluster.remove(0, "node-7", true).await.unwrap_err();
        assert!(nobody.contains("there is no node node-7"), "{nobody}");
        assert_eq!(cluster.voters(), 3, "refused, nothing changed");

        cluster.kill(2, false).await;
        let until = cluster.env.now() + Duration::from_secs(30);
        while let Err(reason) = cluster.remove(0, "node-2", false).await {
            assert!(reason.contains("still serves") || reason.contains("being recovered"), "{reason}");
            assert!(cluster.env.now() < until, "{reason}");
            cluster.env.sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(cluster.voters(), 2);
        let state = cluster.machines[0].node.as_ref().unwrap().manager().snapshot();
        assert_eq!((state.nodes().count(), state.devices().count()), (2, 2));
        let again = cluster.remove(1, "node-2", false).await.unwrap_err();
        assert!(again.contains("has been removed"), "{again}");
        // Both that are left lose power: nobody waits for the third, nor for its device.
        for number in 0..2 {
            cluster.kill(number, true).await;
        }
        cluster.restart_all(&[0, 1]).await;
        cluster.all_serve().await;
        assert!(cluster.machines[0].node.as_ref().unwrap().store().unwrap().waits_for().is_empty());
        for index in 0..40 {
            assert_eq!(get(&*cluster.engines()[1], &format!("key-{index}")).await.unwrap(), Some(index));
        }
    });
}

#[test]
fn a_node_that_serves_is_removed_by_force() {
    simulate(async {
        let cluster = Cluster::start(42).await;
        put(&*cluster.engines()[0], "key", 1, Condition::None).await.unwrap();
        cluster.remove(0, "node-2", true).await.unwrap();
        let cell = cluster.machines[0].node.as_ref().unwrap().manager().snapshot().cell(CELL).cloned().unwrap();
        assert_eq!((cell.view_members().len(), cluster.voters()), (2, 2));
        put(&*cluster.engines()[1], "key", 2, Condition::None).await.unwrap();
        assert_eq!(get(&*cluster.engines()[0], "key").await.unwrap(), Some(2));
        assert!(get(&*cluster.engines()[2], "key").await.is_err(), "it is no part of the cluster any more");
    });
}
