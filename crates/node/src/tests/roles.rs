//! Roles apart: managers, targets and gateways that are nodes of their own (docs/rfd/0017).

use super::cluster::{Cluster, address};
use super::service::{get, put, simulate};
use crate::{Node, Role, Roles};
use engine::Condition;
use net::LinkWeather;
use std::sync::Arc;
use std::time::Duration;

const MANAGERS: [usize; 3] = [0, 1, 2];
const TARGETS: [usize; 3] = [3, 4, 5];
const GATEWAYS: [usize; 2] = [6, 7];
/// What one failure may cost.
const OUTAGE: Duration = Duration::from_secs(5);

async fn start(seed: u64) -> Cluster {
    let only = |role: Role, count| std::iter::repeat_n(Roles::from_iter([role]), count);
    let managers = only(Role::Manager, MANAGERS.len());
    let roles = managers.chain(only(Role::Target, TARGETS.len())).chain(only(Role::Gateway, GATEWAYS.len()));
    Cluster::start_with(seed, roles.collect()).await
}

fn node(cluster: &Cluster, number: usize) -> &Arc<Node> {
    cluster.machines[number].node.as_ref().expect("it runs")
}

/// Writes through one gateway, and reads what was written at another.
async fn serves(cluster: &Cluster, name: &str, (by, at): (usize, usize)) {
    let began = cluster.env.now();
    put(&*node(cluster, by).engine(), name, 7, Condition::None).await.unwrap();
    let outage = cluster.env.now() - began;
    assert!(outage < OUTAGE, "{name}: a write waited {outage:?}");
    assert_eq!(get(&*node(cluster, at).engine(), name).await.unwrap(), Some(7), "{name}");
}

#[test]
fn managers_targets_and_gateways_apart_are_one_store() {
    simulate(async {
        let cluster = start(41).await;
        serves(&cluster, "in peace", (6, 7)).await;
        let replication = node(&cluster, 7).manager().replication().unwrap();
        let votes = |number: usize| node(&cluster, number).manager().replication().unwrap().has_vote;
        assert_eq!(replication.members.len(), 8, "all follow");
        assert!(MANAGERS.into_iter().all(votes) && !TARGETS.into_iter().chain(GATEWAYS).any(votes));
        let state = node(&cluster, 0).manager().snapshot();
        let cell = state.cell(crate::CELL).unwrap();
        assert_eq!(cell.members.len(), GATEWAYS.len(), "nobody else registers a gateway");
        assert_eq!(cell.installed.as_ref().unwrap().table.copies(), 3);
        for number in MANAGERS.into_iter().chain(TARGETS) {
            assert!(!node(&cluster, number).status().serves);
        }
    });
}

#[test]
fn one_node_of_each_role_dies_and_comes_back() {
    simulate(async {
        let mut cluster = start(42).await;
        let leads = |number: &usize| node(&cluster, *number).manager().replication().unwrap().is_leader;
        let leader = MANAGERS.into_iter().find(leads).unwrap();
        let follower = MANAGERS.into_iter().find(|number| *number != leader).unwrap();
        for (number, way) in [(leader, (6, 7)), (follower, (7, 6)), (3, (6, 7)), (5, (7, 6)), (6, (7, 7)), (7, (6, 6))] {
            cluster.kill(number, number % 2 == 0).await;
            serves(&cluster, &format!("without node {number}"), way).await;
            cluster.restart(number).await;
            cluster.all_serve().await;
            serves(&cluster, &format!("with node {number}"), (6, 7)).await;
        }
    });
}

/// Caught: its reports took the targets out of the table, and everybody wrote to the one that was left.
#[test]
fn a_gateway_that_does_not_reach_the_targets_leaves_and_they_stay() {
    simulate(async {
        let cluster = start(44).await;
        let cut = LinkWeather { is_cut: true, ..LinkWeather::default() };
        for target in [3, 4] {
            cluster.network.set_link(&address(7), &address(target), cut);
            cluster.network.set_link(&address(target), &address(7), cut);
        }
        cluster.env.sleep(Duration::from_secs(20)).await;
        let state = node(&cluster, 6).manager().snapshot();
        let installed = state.cell(crate::CELL).unwrap().installed.clone().unwrap();
        assert_eq!((installed.view.members().len(), installed.table.devices().len()), (1, TARGETS.len()));
        assert!(!node(&cluster, 7).status().serves);
        serves(&cluster, "beside it", (6, 6)).await;
        let view = installed.view.number();
        cluster.env.sleep(Duration::from_secs(30)).await;
        let later = node(&cluster, 6).manager().snapshot().cell(crate::CELL).unwrap().view_number();
        assert_eq!(later, view, "it does not come and go");
        cluster.network.clear_links();
        cluster.all_serve().await;
        serves(&cluster, "when it is back", (7, 6)).await;
    });
}

#[test]
fn a_node_of_any_role_that_does_not_come_back_is_removed() {
    simulate(async {
        let mut cluster = start(43).await;
        for number in [7, 2] {
            cluster.kill(number, true).await;
            // Until its gateway has left the view, and what it left is decided.
            tokio::time::sleep(Duration::from_secs(10)).await;
            cluster.remove(6, &format!("node-{number}"), false).await.unwrap();
            let members = node(&cluster, 0).manager().replication().unwrap().members;
            assert_eq!(members.len(), if number == 7 { 7 } else { 6 });
            serves(&cluster, &format!("after the removal of {number}"), (6, 6)).await;
        }
    });
}

/// It leaves S3 to others, and stayed ready for what it has.
#[test]
fn a_target_that_was_removed_finds_out_and_says_so() {
    simulate(async {
        let cluster = start(46).await;
        assert!(!node(&cluster, 5).was_removed());
        cluster.remove(6, "node-5", true).await.unwrap();
        let until = cluster.env.now() + Duration::from_secs(60);
        while !node(&cluster, 5).was_removed() {
            assert!(cluster.env.now() < until, "it does not find out");
            cluster.env.sleep(Duration::from_millis(100)).await;
        }
        assert!([0, 4, 6].into_iter().all(|number| !node(&cluster, number).was_removed()));
    });
}

/// On a full device each zone that is ended early is one of the reserve: cells that were founded again and again, while they could not be checkpointed, had
/// none left in the end, not even for deletes.
#[test]
fn a_founding_ends_no_zones() {
    simulate(async {
        let mut cluster = start(47).await;
        let finished = |cluster: &Cluster| {
            let zones = TARGETS.into_iter().flat_map(|number| cluster.machines[number].device().zones());
            zones.filter(|zone| zone.state == Some(device::ZoneState::Finished)).count()
        };
        let before = finished(&cluster);
        for founding in 0..4 {
            put(&*node(&cluster, 6).engine(), &format!("key {founding}"), 7, Condition::None).await.unwrap();
            for gateway in GATEWAYS {
                cluster.kill(gateway, true).await;
            }
            for gateway in GATEWAYS {
                cluster.restart(gateway).await;
            }
            cluster.all_serve().await;
            assert_eq!(get(&*node(&cluster, 7).engine(), &format!("key {founding}")).await.unwrap(), Some(7));
        }
        assert_eq!(finished(&cluster), before);
    });
}
