//! A node that finds out that it was removed from its cluster while it ran: by force, or while it was cut off. It hears nothing of what the manager decides any more, and
//! would go on by what it knew last: its gateway ends, and it leaves the units of the chunk store that it is a member of, which others can't lead while it does.

use crate::PINGS;
use crate::inquiry::{is_denied, membership_question, other_members};
use crate::node::{Inner, Node};
use bytes::Bytes;
use chunkstore::limits::{CONTACT_LEASE, MAP_PATIENCE};
use chunkstore::map_service::FRESH;
use chunkstore::protocol::{ChunkMap, MAPS};
use chunkstore::wire;
use env::Instant;
use net::{BoxFuture, Caller};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::NodeIdentity;

/// How often a node that does not hear the manager asks whether it was removed.
const LOOK: Duration = Duration::from_secs(2);

impl Node {
    /// Whether this node has found out that it was removed from its cluster.
    pub fn was_removed(&self) -> bool {
        self.inner.was_removed.load(Ordering::SeqCst)
    }
}

impl Inner {
    /// Waits until this node is no part of the cluster any more, and takes it out of what goes on.
    pub(crate) async fn notice_removal(self: Arc<Self>, identity: NodeIdentity, address: String) {
        let began = self.env.now();
        while !self.was_removed(identity, &address, began).await {
            self.env.sleep(LOOK).await;
        }
        tracing::error!(
            "this node was removed from its cluster: its gateway ends, and it leaves what it is a member of. Stop it; to use the machine again, join an empty node"
        );
        env::mark("node: found out that it was removed");
        self.was_removed.store(true, Ordering::SeqCst);
        self.end_gateway();
        let look = || -> BoxFuture<'static, Option<ChunkMap>> {
            let (node, address) = (self.clone(), address.clone());
            Box::pin(async move { node.ask_for_map(&address).await })
        };
        self.chunks.units().leave(look).await;
    }

    /// While the manager's leader knows it, and it hears what that decides, it was not. Else another member says so, who does.
    async fn was_removed(&self, identity: NodeIdentity, address: &str, began: Instant) -> bool {
        let known_at = self.vitals.get().known_at.unwrap_or(began);
        let is_known = self.env.now().saturating_duration_since(known_at) < CONTACT_LEASE;
        if is_known && !self.chunks.is_cut_off(self.env.now()) {
            return false;
        }
        let others = other_members(&self.manager, address);
        let to = |address: &str| -> Arc<dyn Caller> { self.callers.to(address, PINGS) };
        is_denied(&self.env, &others, membership_question(identity), &to).await
    }

    /// Where everything is by now, as one of the other members says.
    async fn ask_for_map(&self, address: &str) -> Option<ChunkMap> {
        for other in other_members(&self.manager, address) {
            let caller = self.callers.to(&other, MAPS);
            let Ok(answer) = caller.call(Bytes::from_static(FRESH), self.env.now() + MAP_PATIENCE).await else { continue };
            if let Ok(map) = wire::decode(&answer) {
                return Some(map);
            }
        }
        None
    }
}
