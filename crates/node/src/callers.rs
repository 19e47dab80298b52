//! Ways to the services of other nodes: one connection to each address, shared by all services.

use bytes::Bytes;
use env::{Env, Instant};
use manager::NodeRecord;
use net::{BoxFuture, CallError, Caller, Identity, Network, RemoteCaller, ServiceTag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::NodeIdentity;

/// Addresses that connections are kept to. Nodes that left are forgotten when others take their place.
const MAX_ADDRESSES: usize = 1024;

/// Where, which service, and which node must be there.
type Way = (String, ServiceTag, Option<NodeIdentity>);
type ByAddress = BTreeMap<Way, Arc<dyn Caller>>;

/// Makes callers.
#[derive(Clone)]
pub struct Callers {
    env: Env,
    network: Arc<dyn Network>,
    identity: Identity,
    by_address: Arc<Mutex<ByAddress>>,
}

impl Callers {
    pub fn new(env: &Env, network: Arc<dyn Network>, identity: Identity) -> Callers {
        Callers { env: env.clone(), network, identity, by_address: Arc::default() }
    }

    /// The way to a service at an address, whichever node is there. Each service has a connection of its own: a long batch of one does not
    /// hold up another.
    pub fn to(&self, address: &str, tag: ServiceTag) -> Arc<dyn Caller> {
        self.way(address, tag, None)
    }

    /// The way to a service of a node. Another node that has taken over its address is not called.
    pub fn to_node(&self, node: &NodeRecord, tag: ServiceTag) -> Arc<dyn Caller> {
        self.way(&node.address, tag, Some(node.identity))
    }

    fn way(&self, address: &str, tag: ServiceTag, expected: Option<NodeIdentity>) -> Arc<dyn Caller> {
        let mut by_address = self.by_address.lock();
        if by_address.len() >= MAX_ADDRESSES {
            by_address.clear();
        }
        let connect = || -> Arc<dyn Caller> {
            let (env, network) = (&self.env, self.network.clone());
            let caller = match expected {
                Some(node) => RemoteCaller::of_node(env, network, address, self.identity, node),
                None => RemoteCaller::new(env, network, address, self.identity),
            };
            Arc::new(Marked { tag, caller })
        };
        by_address.entry((address.to_owned(), tag, expected)).or_insert_with(connect).clone()
    }
}

/// A caller of one service.
struct Marked {
    tag: ServiceTag,
    caller: RemoteCaller,
}

impl Caller for Marked {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move { self.caller.call(self.tag.mark(&payload), deadline).await })
    }
}
