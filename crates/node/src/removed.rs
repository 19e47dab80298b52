//! A node that finds out that it was removed from its cluster while it ran: by force, or while it was cut off. It hears nothing of what the manager decides any more, and
//! would go on by what it knew last: its gateway ends, and its subsystems leave what they are members of, which others can't lead meanwhile.

use crate::inquiry::{is_denied, membership_question};
use crate::node::{Inner, Node};
use env::Instant;
use futures_util::future::join_all;
use net::{Caller, ServiceTag};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::NodeIdentity;

/// How often a node that does not hear the manager asks whether it was removed.
const LOOK: Duration = Duration::from_secs(2);
/// How long after the manager's leader has last answered a node is taken for one that it knows.
const KNOWN_FOR: Duration = Duration::from_secs(5);

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
        join_all(self.subsystems.iter().map(|subsystem| subsystem.leave())).await;
    }

    /// While the manager's leader knows it, and it hears what that decides, it was not. Else another member says so, who does.
    async fn was_removed(&self, identity: NodeIdentity, address: &str, began: Instant) -> bool {
        let known_at = self.vitals.get().known_at.unwrap_or(began);
        let is_known = self.env.now().saturating_duration_since(known_at) < KNOWN_FOR;
        if is_known && self.subsystems.iter().all(|subsystem| !subsystem.is_cut_off()) {
            return false;
        }
        let others = self.manager.other_members(address);
        let to = |address: &str| -> Arc<dyn Caller> { self.callers.to(address, ServiceTag::PINGS) };
        is_denied(&self.env, &others, membership_question(identity), &to).await
    }
}
