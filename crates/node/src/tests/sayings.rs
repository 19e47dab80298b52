//! What nodes know of each other besides that they are there.

use super::cluster::Cluster;
use super::hanging::node;
use super::service::simulate;
use crate::CELL;
use crate::vitals::HeardOf;
use std::time::Duration;
use types::NodeId;

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// The number of the node whose gateway leads the cell, as one node has it.
fn leader(cluster: &Cluster, by: usize) -> usize {
    let state = node(cluster, by).manager().snapshot();
    let cell = state.cell(CELL).unwrap();
    let leader = cell.members[&cell.installed.as_ref().unwrap().leader].node;
    (0..3).find(|number| cluster.machines[*number].node.as_ref().is_some_and(|node| node.status().id == leader)).unwrap()
}

#[test]
fn every_node_knows_what_the_leader_has_left_to_repair() {
    simulate(async {
        let mut cluster = Cluster::start(77).await;
        let until = cluster.env.now() + LIMIT;
        while (0..3).any(|number| node(&cluster, number).repair_left() != Some(0)) {
            assert!(cluster.env.now() < until);
            cluster.env.sleep(PAUSE).await;
        }
        let lost = leader(&cluster, 0);
        let other = (lost + 1) % 3;
        cluster.kill(lost, false).await;
        let until = cluster.env.now() + LIMIT;
        while node(&cluster, other).repair_left().is_some() {
            assert!(cluster.env.now() < until, "it is not known of one that does not answer");
            cluster.env.sleep(Duration::from_millis(10)).await;
        }
        while node(&cluster, other).repair_left() != Some(0) {
            assert!(cluster.env.now() < until, "there is another leader");
            cluster.env.sleep(PAUSE).await;
        }
    });
}

#[test]
fn clocks_that_are_off_are_known_of_nodes_that_answer() {
    simulate(async {
        let cluster = Cluster::start(78).await;
        let of = node(&cluster, 0);
        cluster.env.sleep(LIMIT).await;
        assert!(of.clocks_off_ms().is_empty());
        let heard = of.inner.vitals.get().heard;
        assert_eq!(heard.len(), 2, "both others");
        assert!(heard.values().all(|heard| heard.clock_off_ms.abs() < 1_000), "{heard:?}");
        let [ahead, behind, silent] = [7, 8, 9].map(NodeId);
        of.inner.vitals.change(|present| {
            for (node, clock_off_ms) in [(ahead, 61_000), (behind, -7_200_000), (silent, 61_000)] {
                present.heard.insert(node, HeardOf { clock_off_ms, repair_left: 0 });
            }
            present.silent_nodes.insert(silent);
        });
        assert_eq!(of.clocks_off_ms().into_iter().collect::<Vec<_>>(), [(ahead, 61_000), (behind, -7_200_000)]);
    });
}
