//! Fences that nodes load for their devices.

use super::cluster::Cluster;
use super::service::{put, simulate};
use crate::fences::writer;
use engine::Condition;
use std::time::Duration;
use types::{NodeId, Token};

const NODES_THAT_WERE: u32 = 300;

/// A device without all fences does not come back into the cell: were a failed one waited for, those beside it never would.
#[test]
fn a_failed_device_does_not_keep_fences_from_the_others() {
    simulate(async {
        let mut cluster = Cluster::start(5).await;
        let node = cluster.machines[2].node.clone().unwrap();
        cluster.machines[2].fail_device();
        put(&*cluster.engines()[0], "key", 1, Condition::None).await.unwrap();
        cluster.kill(1, false).await;
        let begin = cluster.env.now();
        loop {
            let state = node.manager().snapshot();
            let cell = state.cell(crate::CELL).unwrap();
            if cell.view_members().len() == 2 && node.status().fences == cell.view_number() {
                break;
            }
            assert!(cluster.env.now() - begin < Duration::from_secs(60), "{:?} of {cell:?}", node.status());
            cluster.env.sleep(Duration::from_millis(100)).await;
        }
    });
}

/// A founding wrote, drained and sealed once for each of them, at each device.
#[test]
fn a_device_is_fenced_once_for_all_nodes_that_ever_were() {
    simulate(async {
        let cluster = Cluster::start(6).await;
        let inner = &cluster.machines[0].node.as_ref().unwrap().inner;
        let fences: Vec<_> = (0..NODES_THAT_WERE).map(|node| writer(NodeId(1_000 + node), Token(7))).collect();
        for number in 0..2 {
            let machine = &cluster.machines[number];
            let before = machine.disk_stats().0.durable_writes;
            inner.fence_and_drain(machine.device().id(), &fences).await.unwrap();
            let writes = machine.disk_stats().0.durable_writes - before;
            // Over the network they are durable together that wait together, and a simulated disk lets nobody wait.
            assert!(number > 0 || (1..=10).contains(&writes), "{writes} writes on the disk of node {number}");
            let target = &machine.node.as_ref().unwrap().inner.targets[0];
            assert!(fences.iter().all(|fence| target.fence(fence.key) == Some(Token(7))), "node {number}");
            inner.fence_and_drain(machine.device().id(), &[]).await.unwrap();
            let older = [fences[0], writer(NodeId(1_001), Token(6))];
            inner.fence_and_drain(machine.device().id(), &older).await.expect_err("somebody has raised it higher");
        }
    });
}
