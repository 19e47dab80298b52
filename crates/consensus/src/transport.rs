//! How a node reaches others: a small trait, over `net`'s framed calls or in memory.

mod framed;
mod simulated;
mod tagged;

use bytes::Bytes;
use env::Instant;
use net::{BoxFuture, CallError};

pub use framed::{FramedTransport, MAX_PEERS};
pub use simulated::{LinkWeather, SimulatedTransport};
pub use tagged::TaggedTransport;

use crate::id::NodeId;

/// A node and where it listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    pub node: NodeId,
    pub address: String,
}

/// Carries requests to other nodes. Requests may be lost, doubled and overtaken; an answer belongs to its request.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request and waits for its answer, until `deadline` on this machine's clock.
    fn call<'a>(&'a self, to: &'a Peer, request: Bytes, deadline: Instant) -> BoxFuture<'a, Result<Bytes, CallError>>;
}
