//! Ways to the services of other nodes: one connection to each address, shared by all services.

use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, CallError, Caller, Identity, Network, RemoteCaller, ServiceTag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Addresses that connections are kept to. Nodes that left are forgotten when others take their place.
const MAX_ADDRESSES: usize = 1024;

type ByAddress = BTreeMap<(String, ServiceTag), Arc<dyn Caller>>;

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

    /// The way to a service at an address. Each service has a connection of its own: a long batch of one does not hold up another.
    pub fn to(&self, address: &str, tag: ServiceTag) -> Arc<dyn Caller> {
        let mut by_address = self.by_address.lock();
        if by_address.len() >= MAX_ADDRESSES {
            by_address.clear();
        }
        let connect = || -> Arc<dyn Caller> {
            let caller = RemoteCaller::new(&self.env, self.network.clone(), address, self.identity);
            Arc::new(Marked { tag, caller })
        };
        by_address.entry((address.to_owned(), tag)).or_insert_with(connect).clone()
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
