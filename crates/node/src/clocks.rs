//! Wall clocks of nodes that differ from that of the manager's leader: its log names them.
//!
//! Nothing is refused for it: which of the two clocks is wrong the leader can't tell. Clients' signatures are judged by the clock of the node that they ask.

use manager::Snapshot;
use std::collections::BTreeSet;
use std::time::Duration;
use types::NodeId;

/// How far a node's clock may be off before that is said.
pub(crate) const SKEW: Duration = Duration::from_secs(60);

/// Nodes whose clocks are off, as far as that was said.
#[derive(Default)]
pub(crate) struct Clocks(BTreeSet<NodeId>);

impl Clocks {
    /// Takes in what a node's clock said a moment ago, by the leader's. Whether that was news.
    pub fn note(&mut self, state: &Snapshot, node: NodeId, theirs_ms: u64, ours_ms: u64) -> bool {
        let Some(record) = state.node(node) else { return false };
        let (offset, name) = (Duration::from_millis(theirs_ms.abs_diff(ours_ms)), &record.name);
        let is_news = if offset > SKEW { self.0.insert(node) } else { self.0.remove(&node) };
        if !is_news {
            return false;
        }
        let (seconds, way) = (offset.as_secs(), if theirs_ms > ours_ms { "ahead of" } else { "behind" });
        if offset > SKEW {
            env::mark("node: a clock that is off");
            tracing::warn!(
                name,
                "the clock of this node is {seconds} seconds {way} that of the manager's leader: one of the two is wrong. Set it, best with NTP on all nodes; \
                 where it is off by 15 minutes clients are refused"
            );
        } else {
            tracing::info!(name, "the clock of this node agrees with that of the manager's leader again");
        }
        true
    }
}

#[cfg(test)]
mod tests;
