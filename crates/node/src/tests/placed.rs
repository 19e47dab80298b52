//! Disks that come to a node while another one serves them, or has served them.

use super::cluster::Cluster;
use super::service::{get, put, simulate};
use crate::{CELL, Node, NodeError, Role, Roles};
use engine::Condition;
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

#[test]
fn a_gateway_that_runs_on_writes_to_disks_that_were_carried_to_other_nodes() {
    simulate(async {
        let only_target = Roles::from_iter([Role::Target]);
        let mut cluster = Cluster::start_with(70, vec![Roles::all(), Roles::all(), Roles::all(), only_target]).await;
        let stays = cluster.machines[0].node.clone().unwrap();
        let engine = stays.engine();
        for index in 0..30 {
            put(&*engine, &format!("key-{index}"), index, Condition::None).await.unwrap();
        }
        let gateway = || {
            let state = stays.manager().snapshot();
            let members = &state.cell(CELL).unwrap().members;
            members.iter().find(|(_, member)| member.node == stays.status().id).map(|(gateway, _)| *gateway)
        };
        let before = gateway();
        cluster.kill(3, false).await;
        cluster.kill(2, false).await;
        cluster.swap_disks(2, 3);
        cluster.restart_all(&[2, 3]).await;
        cluster.all_serve().await;
        assert_eq!(gateway(), before, "it has its holds from before");
        for index in 0..30 {
            put(&*engine, &format!("later-{index}"), index, Condition::None).await.unwrap();
            assert_eq!(get(&*engine, &format!("key-{index}")).await.unwrap(), Some(index));
        }
    });
}
