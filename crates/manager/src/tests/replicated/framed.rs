//! The same over `net`: one listener, one connection to each peer, two services behind it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use consensus::{FramedTransport, LogPlace, Node, NodeId, TaggedTransport, Transport};
use env::Env;
use net::{Identity, Network, Router, ServiceTag, SimulatedNetwork, TcpNetwork, serve};
use types::{CellId, ClusterId, NodeIdentity};

use super::cluster::new_place;
use crate::tests::shell::fill;
use crate::{MANAGER_GROUP, Manager, ReplicatedOptions, Snapshot};

const IDENTITY: Identity = Identity { cluster: ClusterId([7; 16]), node: NodeIdentity([1; 16]) };

#[tokio::test(start_paused = true)]
async fn three_managers_over_framed_calls() {
    let env = Env::simulated(61);
    let network: Arc<dyn Network> = Arc::new(SimulatedNetwork::new(&env));
    let members: BTreeMap<NodeId, String> = (1..=3).map(|id| (NodeId(id), format!("host-{id}"))).collect();
    let mut running: Vec<(Node, Manager)> = Vec::new();
    for (id, address) in &members {
        let framed: Arc<dyn Transport> = Arc::new(FramedTransport::new(&env, Arc::clone(&network), IDENTITY));
        let to = |tag| -> Arc<dyn Transport> { Arc::new(TaggedTransport::new(Arc::clone(&framed), tag)) };
        let node = Node::open(&env, *id, &new_place(&env), to(ServiceTag::CONSENSUS)).await.unwrap();
        let options = ReplicatedOptions { group: MANAGER_GROUP, transport: to(ServiceTag::MANAGER) };
        let manager = Manager::open_replicated(&env, &node, options).await.unwrap();
        let router = Router::new().with(ServiceTag::CONSENSUS, node.service()).with(ServiceTag::MANAGER, manager.service());
        let listener = network.listen(address).await.unwrap();
        env.spawn(serve(env.clone(), listener, Arc::new(router), IDENTITY));
        running.push((node, manager));
    }
    running[0].1.form(&members).await.unwrap();
    let mut starts = 0;
    for _ in 0..10 {
        for (_, manager) in &running {
            starts += 1;
            assert_eq!(manager.begin_start(CellId(0)).await.unwrap(), starts);
        }
    }
    for (_, manager) in &running {
        manager.fresh().await.unwrap();
        assert_eq!(manager.snapshot().starts(CellId(0)), starts);
    }
    for (node, _) in &running {
        node.shut_down().await;
    }
}

async fn open_in_folder(env: &Env, folder: &Path) -> (Node, Manager) {
    let place = LogPlace::in_folder(env, folder).await.unwrap();
    let transport: Arc<dyn Transport> = Arc::new(FramedTransport::new(env, Arc::new(TcpNetwork), IDENTITY));
    let node = Node::open(env, NodeId(1), &place, Arc::clone(&transport)).await.unwrap();
    let options = ReplicatedOptions { group: MANAGER_GROUP, transport };
    let manager = Manager::open_replicated(env, &node, options).await.unwrap();
    (node, manager)
}

#[tokio::test]
async fn a_folder_holds_a_member_across_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("managers");
    let env = Env::real();
    let (node, manager) = open_in_folder(&env, &folder).await;
    manager.form(&[(NodeId(1), "127.0.0.1:1".to_owned())].into()).await.unwrap();
    fill(&manager).await;
    let before = Snapshot::clone(&manager.snapshot());
    node.shut_down().await;
    drop((node, manager));
    let (node, manager) = open_in_folder(&env, &folder).await;
    manager.fresh().await.unwrap();
    assert_eq!(*manager.snapshot(), before);
    assert_eq!(manager.begin_start(CellId(9)).await.unwrap(), 1);
    node.shut_down().await;
}
