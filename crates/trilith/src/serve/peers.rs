//! The service's peers are the other nodes of its cluster; what they drain here is the service's.

use manager::CommandIndex;
use net::BoxFuture;
use node::{Drain, Node};
use object::{ObjectService, Peers, Settling, Unsettled};
use std::sync::{Arc, Weak};
use types::BucketId;

/// The other nodes, as this one asks them.
pub struct OtherNodes(pub Weak<Node>);

impl Peers for OtherNodes {
    fn settle(&self, applied: CommandIndex, drained: Option<BucketId>) -> Settling<'_> {
        Box::pin(async move {
            let node = self.0.upgrade().ok_or_else(|| Unsettled { reason: "this node ends".to_owned() })?;
            node.settle(applied, drained).await.map_err(|unsettled| Unsettled { reason: unsettled.to_string() })
        })
    }
}

/// The writes of this node's clients.
pub struct ClientsWrites(pub Weak<ObjectService>);

impl Drain for ClientsWrites {
    fn drain(&self, bucket: BucketId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let service: Option<Arc<ObjectService>> = self.0.upgrade();
            if let Some(service) = service {
                service.drain(bucket).await;
            }
        })
    }
}
