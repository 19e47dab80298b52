//! Whether other nodes can be reached from here: what heartbeats report of them.

use crate::PINGS;
use crate::node::Inner;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::NodeId;

/// How often a node is asked.
const PING_INTERVAL: Duration = Duration::from_millis(250);
/// How long its answer may take.
const PING_PATIENCE: Duration = Duration::from_millis(500);
/// Answers in a row that must be missing before a node counts as silent.
const MISSED_BOUND: u32 = 2;

impl Inner {
    /// Asks all other nodes, for as long as this one lives.
    pub(crate) async fn ping_others(self: Arc<Self>) {
        let mut missed: BTreeMap<NodeId, u32> = BTreeMap::new();
        loop {
            let state = self.manager.snapshot();
            let others: Vec<_> = state.nodes().filter(|node| node.id != self.id).cloned().collect();
            let mut asking = tokio::task::JoinSet::new();
            for node in others {
                let (caller, until) = (self.callers.to_node(&node, PINGS), self.env.now() + PING_PATIENCE);
                let asked = async move { (node.id, caller.call(Bytes::new(), until).await.is_ok()) };
                asking.spawn(self.env.within(asked));
            }
            while let Some(asked) = asking.join_next().await {
                let Ok((node, answered)) = asked else { continue };
                let count = missed.entry(node).or_default();
                *count = if answered { 0 } else { count.saturating_add(1) };
            }
            let silent = missed.iter().filter(|(_, count)| **count >= MISSED_BOUND).map(|(node, _)| *node).collect();
            self.vitals.change(|present| present.silent_nodes = silent);
            self.env.sleep(PING_INTERVAL).await;
        }
    }
}
