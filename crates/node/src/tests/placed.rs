//! Disks that come to a node while another one serves them, or has served them.

use super::cluster::Cluster;
use super::service::{get, put, simulate};
use crate::{CELL, Node, NodeError, Role, Roles};
use engine::Condition;
use std::time::Duration;
use types::DeviceUuid;

#[test]
fn a_device_that_another_node_serves_is_refused_and_one_that_was_carried_over_is_not() {
    simulate(async {
        let mut cluster = Cluster::start(69).await;
        let uuids: Vec<DeviceUuid> = cluster.machines.iter().map(|machine| machine.device().uuid()).collect();
        cluster.kill(2, false).await;
        let comes = Node::open(&cluster.env, cluster.machines[2].options(&cluster.network)).await.unwrap();
        comes.manager().fresh().await.unwrap();
        let refused = comes.claim(&uuids).await.unwrap_err();
        assert!(matches!(&refused, NodeError::Served { node, .. } if node == "node-0"), "{refused}");
        comes.claim(&uuids[2..]).await.expect("its own");
        // Its node runs, without it.
        cluster.kill(0, false).await;
        cluster.restart_without_device(0).await;
        comes.claim(&uuids[..1]).await.expect("carried over");
        cluster.kill(1, false).await;
        comes.claim(&uuids[1..2]).await.expect("carried over from a node that is gone");
    });
}

/// Each of them looked whether the other one served it, and neither did so far: both opened it, and took writes under one number.
#[test]
fn of_two_nodes_that_start_at_once_with_one_device_one_gets_it_at_most() {
    for seed in 0..8 {
        simulate(async move {
            let mut cluster = Cluster::start_with(170 + seed, vec![Roles::all(); 5]).await;
            let uuid = |number: usize| cluster.machines[number].device().uuid();
            let (of_third, of_fourth) = (uuid(2), uuid(3));
            cluster.kill(2, false).await;
            cluster.restart_without_device(2).await;
            for number in [3, 4] {
                cluster.kill(number, false).await;
            }
            let open = async |number: usize| {
                let opened = Node::open(&cluster.env, cluster.machines[number].options(&cluster.network)).await.unwrap();
                opened.manager().fresh().await.unwrap();
                opened
            };
            let (fourth, fifth) = futures_util::join!(open(3), open(4));
            let both = async |device| {
                let devices = [device];
                let pause = Duration::from_millis(cluster.env.random_below(20));
                let late = async {
                    cluster.env.sleep(pause).await;
                    fourth.claim(&devices).await
                };
                futures_util::join!(late, fifth.claim(&devices))
            };
            let owner = |device| {
                let state = fourth.manager().snapshot();
                state.devices().find(|record| record.uuid == device).unwrap().node
            };
            // That of the fourth node, unless the fifth one was far ahead.
            let (by_fourth, by_fifth) = both(of_fourth).await;
            assert!(by_fourth.is_err() || by_fifth.is_err(), "both got the fourth's");
            if by_fifth.is_err() {
                fourth.manager().fresh().await.unwrap();
                assert_eq!(owner(of_fourth), Some(fourth.id()), "{by_fifth:?}");
            }
            // One that was carried over, from a node that runs without it.
            let (by_fourth, by_fifth) = both(of_third).await;
            assert!(by_fourth.is_err() || by_fifth.is_err(), "both got what was carried over");
        });
    }
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
