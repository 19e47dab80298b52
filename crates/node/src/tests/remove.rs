//! Nodes that do not come back are removed.

use super::cluster::{Cluster, address};
use super::service::{get, put, simulate};
use crate::{CELL, Removed, Role, Roles};
use bytes::Bytes;
use consensus::NodeId as MemberId;
use engine::Condition;
use manager::DeviceState;
use net::{BoxFuture, Identity, Network, Refusal, RemoteCaller, Request, Router, Service, ServiceTag};
use std::sync::Arc;
use std::time::Duration;
use types::{ClusterId, DeviceId, NodeIdentity};

impl Cluster {
    /// Asks node `via` to remove node `number`.
    pub(super) async fn remove(&self, via: usize, name: &str, force: bool) -> Result<(), String> {
        self.remove_any(via, &Removed::Node(name.to_owned()), force).await
    }

    async fn remove_any(&self, via: usize, what: &Removed, force: bool) -> Result<(), String> {
        let identity = Identity { cluster: ClusterId([9; 16]), node: NodeIdentity::default() };
        let caller = RemoteCaller::new(&self.env, Arc::new(self.network.clone()), &address(via), identity);
        crate::remove(&self.env, &caller, what, force).await.unwrap()
    }

    /// Members of the manager.
    fn members(&self) -> usize {
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
        assert_eq!(cluster.members(), 3, "refused, nothing changed");

        cluster.kill(2, false).await;
        let until = cluster.env.now() + Duration::from_secs(30);
        while let Err(reason) = cluster.remove(0, "node-2", false).await {
            assert!(reason.contains("still serves") || reason.contains("being recovered"), "{reason}");
            assert!(cluster.env.now() < until, "{reason}");
            cluster.env.sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(cluster.members(), 2);
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
fn a_member_that_was_never_registered_is_removed_by_its_address() {
    simulate(async {
        let cluster = Cluster::start(45).await;
        let manager = cluster.machines[0].node.as_ref().unwrap().manager();
        assert_eq!(manager.unregistered_members(), []);
        let (lost, kept) = (address(7), address(8));
        for (number, at) in [(77, &lost), (78, &kept), (79, &lost)] {
            // It can't be reached: a learner is what it stays.
            manager.add_member(MemberId(number), at).await.unwrap_err();
        }
        let addresses = || manager.unregistered_members().into_iter().map(|member| member.address).collect::<Vec<_>>();
        assert_eq!(addresses(), [lost.as_str(), kept.as_str(), lost.as_str()]);
        cluster.remove(1, &lost, false).await.unwrap();
        manager.fresh().await.unwrap();
        assert_eq!(addresses(), [kept]);
        assert_eq!(cluster.members(), 4);
        let again = cluster.remove(1, &lost, false).await.unwrap_err();
        assert!(again.contains("never part of the cluster"), "{again}");
        // The address of a node that has a name is none of these.
        let named = cluster.remove(0, &address(2), true).await.unwrap_err();
        assert!(named.contains("never part of the cluster"), "{named}");
        assert_eq!(cluster.members(), 4);
    });
}

#[test]
fn a_member_that_is_joining_is_removed_only_by_force() {
    simulate(async {
        let cluster = Cluster::start(46).await;
        let manager = cluster.machines[0].node.as_ref().unwrap().manager();
        let identity = NodeIdentity([78; 16]);
        manager.add_member(manager::member_id(identity), &address(8)).await.unwrap_err();
        let own = Identity { cluster: ClusterId([9; 16]), node: identity };
        let listener = cluster.network.listen(&address(8)).await.unwrap();
        let here = Router::new().with(ServiceTag::PINGS, Arc::new(Answers(identity)));
        let listening = cluster.env.spawn(net::serve(cluster.env.clone(), listener, Arc::new(here), own));
        let refused = cluster.remove(0, &address(8), false).await.unwrap_err();
        assert!(refused.contains("is joining"), "{refused}");
        assert_eq!(cluster.members(), 4);
        cluster.remove(0, &address(8), true).await.unwrap();
        assert_eq!(cluster.members(), 3);
        listening.abort();
    });
}

/// A node that says who it is.
struct Answers(NodeIdentity);

impl Service for Answers {
    fn handle(&self, _: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async { Ok(Bytes::copy_from_slice(&self.0.0)) })
    }
}

/// What would be lost with these devices, after a while.
async fn lost_with(cluster: &Cluster, devices: &[u32]) -> u64 {
    cluster.env.sleep(Duration::from_secs(5)).await;
    let store = cluster.machines[0].node.as_ref().unwrap().store().unwrap();
    let loss = store.would_lose(&devices.iter().copied().map(DeviceId).collect()).await.unwrap();
    loss.records + loss.blocks
}

/// Everything has a copy on node 2's disk; then it has another disk.
async fn with_a_disk_replaced(seed: u64) -> Cluster {
    with_a_disk_of_replaced(seed, Roles::all()).await
}

/// The same; what node 2 does.
async fn with_a_disk_of_replaced(seed: u64, roles: Roles) -> Cluster {
    let mut cluster = Cluster::start_with(seed, vec![Roles::all(), Roles::all(), roles]).await;
    // More than one checkpoint.
    for index in 0..130 {
        put(&*cluster.engines()[index as usize % 2], &format!("key-{index}"), index, Condition::None).await.unwrap();
    }
    let served = cluster.remove_any(0, &Removed::Device(DeviceId(2)), false).await.unwrap_err();
    assert!(served.contains("serves it"), "{served}");
    assert_eq!(lost_with(&cluster, &[0, 1]).await, 0);
    cluster.kill(2, false).await;
    let env = cluster.env.clone();
    cluster.machines[2].replace_disk(&env);
    cluster.restart(2).await;
    cluster.all_serve().await;
    cluster
}

#[test]
fn copies_of_a_forgotten_device_are_made_again() {
    simulate(async {
        let mut cluster = with_a_disk_replaced(43).await;
        assert!(lost_with(&cluster, &[0, 1, 2]).await > 0, "nobody makes copies again of a disk that may come back");
        cluster.remove_any(1, &Removed::Device(DeviceId(2)), false).await.unwrap();
        assert_eq!(lost_with(&cluster, &[0, 1, 2]).await, 0, "copies are on the new disk");
        let again = cluster.remove_any(0, &Removed::Device(DeviceId(2)), false).await.unwrap_err();
        assert!(again.contains("has been forgotten"), "{again}");
        let alone = cluster.remove_any(0, &Removed::Device(DeviceId(9)), true).await.unwrap_err();
        assert!(alone.contains("never part"), "{alone}");
        for number in [0, 1] {
            cluster.kill(number, true).await;
        }
        cluster.restart_all(&[0, 1]).await;
        cluster.all_serve().await;
        for index in 0..130 {
            assert_eq!(get(&*cluster.engines()[2], &format!("key-{index}")).await.unwrap(), Some(index));
        }
    });
}

#[test]
fn a_replaced_device_is_forgotten_when_nothing_is_lost_with_it() {
    simulate(async {
        let cluster = with_a_disk_replaced(44).await;
        let manager = cluster.machines[1].node.as_ref().unwrap().manager().clone();
        manager.set_device_state(DeviceId(2), DeviceState::Replaced).await.unwrap();
        assert_eq!(lost_with(&cluster, &[0, 1, 2]).await, 0);
        assert!(cluster.machines[0].node.as_ref().unwrap().manager().snapshot().device(DeviceId(2)).is_none());
    });
}

/// Caught: only its own node looked after it, which can't tell what would be lost.
#[test]
fn a_replaced_device_of_a_node_without_a_gateway_is_forgotten() {
    simulate(async {
        let cluster = with_a_disk_of_replaced(47, Roles::from_iter([Role::Target])).await;
        let manager = cluster.machines[1].node.as_ref().unwrap().manager().clone();
        let unable = cluster.remove_any(2, &Removed::Device(DeviceId(0)), false).await.unwrap_err();
        assert!(unable.contains("ask another node"), "{unable}");
        manager.set_device_state(DeviceId(2), DeviceState::Replaced).await.unwrap();
        assert_eq!(lost_with(&cluster, &[0, 1, 2]).await, 0);
        manager.fresh().await.unwrap();
        assert!(manager.snapshot().device(DeviceId(2)).is_none());
    });
}

/// The disk was carried to another node, which had opened it before the node that it came from noted that another one is in its place.
#[test]
fn a_replaced_device_that_is_served_is_used_again() {
    simulate(async {
        let cluster = Cluster::start(49).await;
        let manager = cluster.machines[1].node.as_ref().unwrap().manager().clone();
        manager.set_device_state(DeviceId(2), DeviceState::Replaced).await.unwrap();
        cluster.env.sleep(Duration::from_secs(10)).await;
        assert_eq!(manager.snapshot().device(DeviceId(2)).unwrap().state, DeviceState::Active);
        cluster.all_serve().await;
    });
}

/// Its forgetting was begun, and the node that did it ended.
#[test]
fn a_device_that_is_half_forgotten_is_forgotten() {
    simulate(async {
        let cluster = with_a_disk_replaced(45).await;
        let manager = cluster.machines[1].node.as_ref().unwrap().manager().clone();
        manager.set_device_state(DeviceId(2), DeviceState::Failed).await.unwrap();
        assert_eq!(lost_with(&cluster, &[0, 1, 2]).await, 0);
        assert!(manager.snapshot().device(DeviceId(2)).is_none());
    });
}

/// Both targets are gone, and the table keeps the last one, for want of others. Caught: a device that counts as there because it is in the table.
#[test]
fn a_device_is_not_forgotten_while_the_only_other_copy_is_away() {
    simulate(async {
        let roles = [Roles::from_iter([Role::Manager, Role::Gateway]), Roles::from_iter([Role::Target])];
        let mut cluster = Cluster::start_with(51, vec![roles[0].clone(), roles[1].clone(), roles[1].clone()]).await;
        put(&*cluster.engines()[0], "key", 1, Condition::None).await.unwrap();
        let manager = cluster.machines[0].node.as_ref().unwrap().manager().clone();
        let table = || manager.snapshot().cell(CELL).unwrap().installed.as_ref().unwrap().table.devices().to_vec();
        let [first, last] = table()[..] else { panic!("two devices") };
        cluster.kill(1, false).await;
        while table() != [last] {
            cluster.env.sleep(Duration::from_millis(50)).await;
        }
        cluster.kill(2, false).await;
        cluster.env.sleep(Duration::from_secs(10)).await;
        assert_eq!(table(), [last]);
        let refused = cluster.remove_any(0, &Removed::Device(first), false).await.unwrap_err();
        assert!(refused.contains("is written to and does not answer"), "{refused}");
        cluster.restart_all(&[1, 2]).await;
        cluster.all_serve().await;
        assert_eq!(get(&*cluster.engines()[0], "key").await.unwrap(), Some(1));
    });
}

#[test]
fn a_node_that_serves_is_removed_by_force() {
    simulate(async {
        let cluster = Cluster::start(42).await;
        put(&*cluster.engines()[0], "key", 1, Condition::None).await.unwrap();
        cluster.remove(0, "node-2", true).await.unwrap();
        let cell = cluster.machines[0].node.as_ref().unwrap().manager().snapshot().cell(CELL).cloned().unwrap();
        assert_eq!((cell.view_members().len(), cluster.members()), (2, 2));
        put(&*cluster.engines()[1], "key", 2, Condition::None).await.unwrap();
        assert_eq!(get(&*cluster.engines()[0], "key").await.unwrap(), Some(2));
        assert!(get(&*cluster.engines()[2], "key").await.is_err(), "it is no part of the cluster any more");
    });
}

/// Nothing could be decided any more, whatever is started again.
#[test]
fn a_live_node_stays_while_another_voter_is_dead_though_it_is_forced() {
    simulate(async {
        let mut cluster = Cluster::start(47).await;
        cluster.kill(2, false).await;
        put(&*cluster.engines()[0], "key", 1, Condition::None).await.unwrap();
        let refused = cluster.remove(0, "node-1", true).await.unwrap_err();
        assert!(refused.contains("1 of the 2 voters that would be left answer"), "{refused}");
        assert_eq!(cluster.members(), 3);
        put(&*cluster.engines()[1], "key", 2, Condition::None).await.unwrap();
        assert_eq!(get(&*cluster.engines()[0], "key").await.unwrap(), Some(2));
    });
}

/// It has no part of the chunk store that would ask the manager anything.
#[test]
fn a_node_without_space_for_chunks_finds_out_that_it_was_removed() {
    simulate(async {
        let cluster = Cluster::start(48).await;
        // Longer than a node that was never removed would take to find out.
        cluster.env.sleep(Duration::from_secs(20)).await;
        env::keep_marks();
        cluster.remove(0, "node-2", true).await.unwrap();
        cluster.env.sleep(Duration::from_secs(15)).await;
        let marks = env::take_marks();
        assert_eq!(marks.get("node: found out that it was removed"), Some(&1), "{marks:?}");
    });
}
