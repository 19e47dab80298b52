//! Calls over `net`: one connection for each peer, shared by all groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, CallError, Caller, Identity, Network, RemoteCaller};
use parking_lot::Mutex;

use super::{Peer, Transport};

/// Peers of one process. The connections that nobody uses at the moment are ended when there is another one.
pub const MAX_PEERS: usize = 256;

/// Requests as framed calls over a network.
pub struct FramedTransport {
    env: Env,
    network: Arc<dyn Network>,
    identity: Identity,
    callers: Mutex<BTreeMap<String, Arc<RemoteCaller>>>,
}

impl FramedTransport {
    /// Calls peers of the cluster that `identity` names.
    pub fn new(env: &Env, network: Arc<dyn Network>, identity: Identity) -> Self {
        FramedTransport { env: env.clone(), network, identity, callers: Mutex::default() }
    }

    fn caller(&self, address: &str) -> Result<Arc<RemoteCaller>, CallError> {
        let mut callers = self.callers.lock();
        if let Some(caller) = callers.get(address) {
            return Ok(Arc::clone(caller));
        }
        if callers.len() >= MAX_PEERS {
            // Nodes that left, or moved.
            callers.retain(|_, caller| Arc::strong_count(caller) > 1);
        }
        if callers.len() >= MAX_PEERS {
            let reason = format!("{MAX_PEERS} peers are connected");
            return Err(CallError::NotSent { address: address.to_owned(), reason });
        }
        let caller = Arc::new(RemoteCaller::new(&self.env, Arc::clone(&self.network), address, self.identity));
        callers.insert(address.to_owned(), Arc::clone(&caller));
        Ok(caller)
    }
}

impl Transport for FramedTransport {
    fn call<'a>(&'a self, to: &'a Peer, request: Bytes, deadline: Instant) -> BoxFuture<'a, Result<Bytes, CallError>> {
        Box::pin(async move { self.caller(&to.address)?.call(request, deadline).await })
    }
}
