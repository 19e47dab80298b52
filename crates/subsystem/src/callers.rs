//! Ways to the services of other nodes.
//!
//! Gateways and targets of two nodes share a connection: a write announces itself to a node and appends a copy there at the same moment,
//! and one message costs less than two. Services that must be heard whatever the load have a connection each.

use env::Env;
use manager::NodeRecord;
use net::{Caller, Identity, Network, RemoteCaller, ServiceTag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::NodeIdentity;

/// Connections that are kept. Nodes that left are forgotten when others take their place.
const MAX_CONNECTIONS: usize = 1024;

/// The service by which the connection is named that a service's requests go on.
fn shared_by(tag: ServiceTag) -> ServiceTag {
    if tag == ServiceTag::TARGETS { ServiceTag::GATEWAYS } else { tag }
}

/// Where, which service, and which node must be there.
type Way = (String, ServiceTag, Option<NodeIdentity>);
type Connections = BTreeMap<Way, Arc<RemoteCaller>>;

/// Makes callers.
#[derive(Clone)]
pub struct Callers {
    env: Env,
    network: Arc<dyn Network>,
    identity: Identity,
    connections: Arc<Mutex<Connections>>,
}

impl Callers {
    pub fn new(env: &Env, network: Arc<dyn Network>, identity: Identity) -> Callers {
        Callers { env: env.clone(), network, identity, connections: Arc::default() }
    }

    /// The way to a service at an address, whichever node is there.
    pub fn to(&self, address: &str, tag: ServiceTag) -> Arc<dyn Caller> {
        self.way(address, tag, None)
    }

    /// The way to a service of a node. Another node that has taken over its address is not called.
    pub fn to_node(&self, node: &NodeRecord, tag: ServiceTag) -> Arc<dyn Caller> {
        self.way(&node.address, tag, Some(node.identity))
    }

    /// The same, for who has no record of the node.
    pub fn to_place(&self, address: &str, node: NodeIdentity, tag: ServiceTag) -> Arc<dyn Caller> {
        self.way(address, tag, Some(node))
    }

    fn way(&self, address: &str, tag: ServiceTag, expected: Option<NodeIdentity>) -> Arc<dyn Caller> {
        let mut connections = self.connections.lock();
        if connections.len() >= MAX_CONNECTIONS {
            connections.clear();
        }
        let connect = || {
            let (env, network) = (&self.env, self.network.clone());
            Arc::new(match expected {
                Some(node) => RemoteCaller::of_node(env, network, address, self.identity, node),
                None => RemoteCaller::new(env, network, address, self.identity),
            })
        };
        let connection = connections.entry((address.to_owned(), shared_by(tag), expected)).or_insert_with(connect);
        Arc::new(connection.service(tag))
    }
}
