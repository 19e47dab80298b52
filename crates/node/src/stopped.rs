//! A node whose part of the manager has stopped: its log could not be written. Nothing but another start mends that; until then the node would go on by what it
//! knew last.

use crate::node::{Inner, Node};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often it is looked at. Less than a lease.
const LOOK: Duration = Duration::from_millis(500);

impl Inner {
    /// Returns when this node's part of the manager has stopped, with the reason.
    async fn manager_stops(&self) -> String {
        loop {
            if let Some(reason) = self.manager.replication().and_then(|replication| replication.stopped) {
                return reason;
            }
            self.env.sleep(LOOK).await;
        }
    }

    /// Ends the gateway with the manager's part.
    pub(crate) async fn end_with_manager(self: Arc<Self>) {
        let reason = self.manager_stops().await;
        tracing::error!(reason, "this node's part of the manager has stopped: its gateway ends");
        self.end_gateway();
    }

    /// It answers nobody from here on, and no other takes its place.
    pub(crate) fn end_gateway(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
        self.engine.clear();
        if let Some(store) = self.vitals.get().store {
            store.depose();
        }
    }
}

impl Node {
    /// Returns when this node's part of the manager has stopped, with the reason. Its gateway has ended then, or does; the process is to be started again.
    pub async fn stopped(&self) -> String {
        self.inner.manager_stops().await
    }
}
