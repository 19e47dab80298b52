//! A transport to one of several services at an address ([`net::Router`]).

use std::sync::Arc;

use bytes::Bytes;
use env::Instant;
use net::{BoxFuture, CallError, ServiceTag};

use super::{Peer, Transport};

/// Marks requests with the service that they are for. Several of these may share one transport, and so its connections.
#[derive(Clone)]
pub struct TaggedTransport {
    transport: Arc<dyn Transport>,
    tag: ServiceTag,
}

impl TaggedTransport {
    pub fn new(transport: Arc<dyn Transport>, tag: ServiceTag) -> Self {
        TaggedTransport { transport, tag }
    }
}

impl Transport for TaggedTransport {
    fn call<'a>(&'a self, to: &'a Peer, request: Bytes, deadline: Instant) -> BoxFuture<'a, Result<Bytes, CallError>> {
        self.transport.call(to, self.tag.mark(&request), deadline)
    }
}
