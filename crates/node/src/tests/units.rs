//! Maintenance units of nodes that are removed, or stop, while they lead them.

use super::cluster::Cluster;
use super::service::simulate;
use crate::{Node, Roles};
use bytes::Bytes;
use chunkstore::Chunks;
use std::sync::Arc;
use std::time::Duration;

/// Until another one leads: the removed one's contact, its question, the manager's monitor, an exchange of members.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
const CONTENT: Bytes = Bytes::from_static(b"content");

fn chunks(node: &Node) -> &Chunks {
    node.subsystem().expect("every node runs it")
}

fn node(cluster: &Cluster, number: usize) -> &Arc<Node> {
    cluster.machines[number].node.as_ref().expect("it runs")
}

/// Waits until a unit is led by one of these.
async fn led_by(cluster: &Cluster, numbers: &[usize]) -> usize {
    let leads = |number: &usize| chunks(node(cluster, *number)).units().counts().0 > 0;
    let until = cluster.env.now() + PATIENCE;
    loop {
        if let Some(leader) = numbers.iter().copied().find(leads) {
            return leader;
        }
        assert!(cluster.env.now() < until, "none of {numbers:?} leads");
        cluster.env.sleep(PAUSE).await;
    }
}

/// Removes the node that leads the only unit, of so many nodes.
async fn remove_the_leader(seed: u64, nodes: usize) {
    let cluster = Cluster::start_with_chunks(seed, vec![Roles::all(); nodes], 8).await;
    env::keep_marks();
    let all: Vec<usize> = (0..nodes).collect();
    let removed = led_by(&cluster, &all).await;
    let others: Vec<usize> = all.into_iter().filter(|number| *number != removed).collect();
    let copies = nodes.min(3) as u8;
    let before = chunks(node(&cluster, removed)).client.put(CONTENT, copies).await.expect("there is space");
    cluster.remove(others[0], &format!("node-{removed}"), true).await.expect("by force");
    led_by(&cluster, &others).await;
    for number in others.iter().copied() {
        let client = &chunks(node(&cluster, number)).client;
        assert_eq!(client.get(before).await.expect("it was put"), CONTENT);
        let id = client.put(CONTENT, others.len() as u8).await.expect("there is space");
        assert_eq!(client.get(id).await.expect("it was put"), CONTENT);
    }
    let until = cluster.env.now() + PATIENCE;
    while chunks(node(&cluster, removed)).units().counts() != (0, 0) {
        assert!(cluster.env.now() < until, "the removed one is still a member");
        cluster.env.sleep(PAUSE).await;
    }
    let marks = env::take_marks();
    for mark in ["node: found out that it was removed", "groups: a group handed over by a removed node"] {
        assert!(marks.contains_key(mark), "{mark}: {marks:?}");
    }
}

/// It went on leading until its process ended, and nobody found it.
#[test]
fn a_node_that_is_removed_by_force_leads_no_unit_any_more() {
    simulate(remove_the_leader(71, 3));
}

/// And another one takes its place among the members.
#[test]
fn a_member_that_is_removed_by_force_is_replaced() {
    simulate(remove_the_leader(72, 4));
}

/// Nobody else has what the unit knows: it is handed over before the node leaves.
#[test]
fn the_only_member_of_a_unit_hands_it_over_when_it_is_removed_by_force() {
    simulate(remove_the_leader(73, 2));
}

/// The others missed it first, and elected one of them then.
#[test]
fn a_node_that_stops_lets_others_lead_its_units() {
    simulate(async {
        let mut cluster = Cluster::start_with_chunks(74, vec![Roles::all(); 3], 8).await;
        env::keep_marks();
        let stops = led_by(&cluster, &[0, 1, 2]).await;
        let others: Vec<usize> = (0..3).filter(|number| *number != stops).collect();
        let id = chunks(node(&cluster, stops)).client.put(CONTENT, 3).await.expect("there is space");
        tokio::time::timeout(PATIENCE, cluster.machines[stops].close()).await.expect("it ends");
        let leads = |number: &usize| chunks(node(&cluster, *number)).units().counts().0 > 0;
        let leader = others.iter().find(|number| leads(number));
        let marks = env::take_marks();
        assert_eq!(marks.get("groups: a group handed over by a node that stops"), Some(&1), "{marks:?}");
        assert!(leader.is_some(), "one of them leads when it has stopped");
        assert_eq!(chunks(node(&cluster, others[0])).client.get(id).await.expect("it was put"), CONTENT);
    });
}
