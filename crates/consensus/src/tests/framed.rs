//! The same over `net`: framed calls in memory and over TCP, and requests that are not for this node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use net::{BoxFuture, Identity, Network, Refusal, Service, SimulatedNetwork, TcpNetwork, serve};
use types::{ClusterId, NodeIdentity};

use super::cluster::{GROUP, SEGMENTS, new_disk, place_on};
use super::store::{Command, Store};
use crate::group::{Group, ReadMode};
use crate::id::{GroupId, NodeId, Term};
use crate::message::{Ask, Request, decode, encode};
use crate::node::Node;
use crate::record::Vote;
use crate::transport::{FramedTransport, MAX_PEERS, Peer, Transport};

const IDENTITY: Identity = Identity { cluster: ClusterId([7; 16]), node: NodeIdentity([1; 16]) };

async fn three_over(env: &Env, network: Arc<dyn Network>, addresses: [&str; 3]) {
    let mut listeners = Vec::new();
    for address in addresses {
        listeners.push(network.listen(address).await.unwrap());
    }
    let members: BTreeMap<NodeId, String> =
        listeners.iter().zip(1..).map(|(listener, id)| (NodeId(id), listener.address())).collect();
    let mut nodes: Vec<(Node, Group<Store>)> = Vec::new();
    for (listener, id) in listeners.into_iter().zip(1..) {
        let transport = Arc::new(FramedTransport::new(env, Arc::clone(&network), IDENTITY));
        let place = place_on(&new_disk(env, SEGMENTS), SEGMENTS);
        let node = Node::open(env, NodeId(id), &place, transport).await.unwrap();
        let group = node.start_group(GROUP, Store::default()).await.unwrap();
        env.spawn(serve(env.clone(), listener, node.service(), IDENTITY));
        nodes.push((node, group));
    }
    nodes[0].1.initialize(&members).await.unwrap();
    let mut written = 0;
    while written < 20 {
        for (_, group) in &nodes {
            if group.propose(&Command::write(1, written)).await.is_ok() {
                assert_eq!(group.read(ReadMode::Lease, |store| store.registers[&1]).await, Ok(written));
                written += 1;
            }
        }
        env.sleep(Duration::from_millis(10)).await;
    }
    for (node, _) in &nodes {
        node.shut_down().await;
    }
}

#[tokio::test(start_paused = true)]
async fn three_nodes_over_framed_calls_in_memory() {
    let env = Env::simulated(61);
    three_over(&env, Arc::new(SimulatedNetwork::new(&env)), ["a", "b", "c"]).await;
}

#[tokio::test]
async fn three_nodes_over_tcp() {
    let env = Env::real();
    three_over(&env, Arc::new(TcpNetwork), ["127.0.0.1:0"; 3]).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_for_this_node_is_refused_with_a_reason() {
    let env = Env::simulated(62);
    let transport = Arc::new(FramedTransport::new(&env, Arc::new(SimulatedNetwork::new(&env)), IDENTITY));
    let node = Node::open(&env, NodeId(1), &place_on(&new_disk(&env, SEGMENTS), SEGMENTS), transport).await.unwrap();
    let service = node.service();
    let deadline = env.now() + Duration::from_secs(1);
    let ask = |from: u64, to: u64| {
        let vote = Vote { term: Term(9), node: NodeId(from), committed: false };
        let ask = Ask::PreVote { group: GroupId(5), vote, last: None };
        encode(&Request { from: NodeId(from), to: NodeId(to), ask })
    };
    let cases = [
        (ask(2, 3), "this is node 1, not node 3"),
        (ask(1, 1), "two nodes call themselves 1"),
        (ask(2, 1), "group 5 does not run on node 1"),
        (vec![9, 9, 9], "message version 9; this program speaks 1"),
        (vec![], "an empty message"),
    ];
    for (payload, expected) in cases {
        let refusal = service.handle(net::Request { payload: Bytes::from(payload), deadline }).await.unwrap_err();
        assert_eq!(refusal.reason, expected);
    }
    node.shut_down().await;
}

/// Caught: who had ever called [`MAX_PEERS`] addresses called no other one.
#[tokio::test(start_paused = true)]
async fn peers_that_nobody_calls_make_room_for_others() {
    let env = Env::simulated(63);
    let network = Arc::new(SimulatedNetwork::new(&env));
    let transport = FramedTransport::new(&env, network.clone(), IDENTITY);
    let call = async |number: usize| {
        let to = Peer { node: NodeId(number as u64), address: format!("peer-{number}") };
        transport.call(&to, Bytes::new(), env.now() + Duration::from_secs(1)).await
    };
    for number in 0..MAX_PEERS {
        assert!(call(number).await.is_err(), "nobody is there");
    }
    let listener = network.listen(&format!("peer-{MAX_PEERS}")).await.unwrap();
    env.spawn(serve(env.clone(), listener, Arc::new(Welcome), IDENTITY));
    assert_eq!(call(MAX_PEERS).await, Ok(Bytes::new()));
}

struct Welcome;

impl Service for Welcome {
    fn handle(&self, _: net::Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async { Ok(Bytes::new()) })
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_decoder_of_messages_panic(bytes: Vec<u8>) {
        if let Ok(request) = decode::<Request>(&bytes) {
            proptest::prop_assert_eq!(decode::<Request>(&encode(&request)), Ok(request));
        }
    }
}
