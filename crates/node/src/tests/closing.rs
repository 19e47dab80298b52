//! Nodes that are told to stop.

use super::cluster::Cluster;
use super::hanging::{node, write};
use super::service::{get, simulate};
use manager::{Manager, member_id};
use std::time::Duration;

/// A device that hangs is left out of it, and the others are waited for.
const LIMIT: Duration = Duration::from_secs(20);

/// Lets the node of a manager lead.
pub(super) async fn lead_by(cluster: &Cluster, manager: &Manager) {
    let me = manager.replication().expect("a cluster").node;
    let until = cluster.env.now() + LIMIT;
    while !manager.is_leader() {
        assert!(cluster.env.now() < until, "{:?}", manager.replication());
        if let Err(error) = node(cluster, 0).manager().transfer_leader(me).await {
            eprintln!("not yet: {error}");
        }
        cluster.env.sleep(Duration::from_millis(500)).await;
    }
}

#[test]
fn a_node_that_stops_lets_another_lead_and_does_not_wait_for_a_disk_that_hangs() {
    simulate(async {
        let mut cluster = Cluster::start(66).await;
        env::keep_marks();
        lead_by(&cluster, node(&cluster, 2).manager()).await;
        write(&cluster, 0, "before", 1).await;
        cluster.machines[2].hang_device();
        write(&cluster, 0, "meanwhile", 2).await;
        assert!(node(&cluster, 2).manager().is_leader());
        let member = member_id(cluster.machines[2].options(&cluster.network).register.identity);
        let closing = cluster.env.spawn(cluster.machines[2].close());
        // Each is acknowledged in the time that a write may take when a node ends.
        for round in 0..5 {
            write(&cluster, 0, &format!("after-{round}"), round).await;
            write(&cluster, 1, &format!("after-{round}"), round + 10).await;
        }
        tokio::time::timeout(LIMIT, closing).await.expect("it ends beside a disk that hangs").unwrap();
        for at in 0..2 {
            assert_ne!(node(&cluster, at).manager().leader().expect("somebody leads").node, member);
            let engine = node(&cluster, at).engine();
            assert_eq!(get(&*engine, "meanwhile").await.unwrap(), Some(2));
            assert_eq!(get(&*engine, "after-4").await.unwrap(), Some(14));
        }
        let marks = env::take_marks();
        assert_eq!(marks.get("node: the manager's lead was handed over"), Some(&1), "{marks:?}");
        cluster.machines[2].let_device_go();
    });
}

#[test]
fn a_node_that_stops_seals_its_device() {
    simulate(async {
        let mut cluster = Cluster::start(67).await;
        write(&cluster, 0, "key", 1).await;
        let device = cluster.machines[0].device().clone();
        tokio::time::timeout(LIMIT, cluster.machines[0].close()).await.expect("it ends");
        let is_open = |zone: &device::ZoneInfo| zone.state == Some(device::ZoneState::Open);
        assert!(!device.zones().iter().any(is_open), "{:?}", device.zones());
        write(&cluster, 1, "key", 2).await;
    });
}

/// They waited until it was missed: each write has a copy on its device.
#[test]
fn writes_go_on_while_a_node_stops() {
    simulate(async {
        let mut cluster = Cluster::start(70).await;
        write(&cluster, 0, "before", 1).await;
        let closing = cluster.env.spawn(cluster.machines[2].close());
        let until = cluster.env.now() + Duration::from_secs(6);
        let (start, mut slow) = (cluster.env.now(), Vec::new());
        for round in 0.. {
            let began = cluster.env.now();
            write(&cluster, round % 2, &format!("key-{}", round % 50), round as u64).await;
            let waited = cluster.env.now() - began;
            if waited > Duration::from_millis(700) {
                slow.push((began - start, waited));
            }
            if cluster.env.now() > until {
                break;
            }
            cluster.env.sleep(Duration::from_millis(5)).await;
        }
        tokio::time::timeout(LIMIT, closing).await.expect("it ends").unwrap();
        assert!(slow.is_empty(), "writes waited, and when they began: {slow:?}");
        cluster.restart(2).await;
        cluster.all_serve().await;
    });
}

/// What is written to one device alone is not there when the others start without it.
#[test]
fn the_devices_of_the_last_two_stay_in_the_table_when_all_stop() {
    simulate(async {
        let mut cluster = Cluster::start(71).await;
        write(&cluster, 0, "before", 1).await;
        let closing: Vec<_> = cluster.machines.iter_mut().map(|machine| cluster.env.spawn(machine.close())).collect();
        for closing in closing {
            tokio::time::timeout(LIMIT, closing).await.expect("it ends").unwrap();
        }
        cluster.restart_all(&[0, 1]).await;
        cluster.all_serve().await;
        for at in 0..2 {
            assert_eq!(get(&*node(&cluster, at).engine(), "before").await.unwrap(), Some(1));
        }
        assert!(node(&cluster, 0).store().unwrap().waits_for().is_empty());
    });
}
