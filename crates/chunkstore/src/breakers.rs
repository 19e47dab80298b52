//! Nodes that did not answer lately are passed by where others will do: a circuit breaker for each (M. Nygard, Release It!, chapter 5).
//!
//! ```text
//!   closed ── no answer ──► open: passed by ── BREAKER_WAIT ──► half open ── one is asked, others pass by ──► closed, or open again
//! ```
//!
//! A call to a node that is away takes as long as its caller is patient. Of three copies' nodes one that is away would take that from every third read.

use std::collections::BTreeMap;

use env::{Env, Instant};
use parking_lot::Mutex;
use types::NodeId;

use crate::limits::BREAKER_WAIT;

/// What one process knows of nodes that did not answer it.
pub struct Breakers {
    env: Env,
    /// Until when each is passed by.
    open: Mutex<BTreeMap<NodeId, Instant>>,
}

impl Breakers {
    pub fn new(env: &Env) -> Breakers {
        Breakers { env: env.clone(), open: Mutex::default() }
    }

    /// Whether another node is to be asked, if there is one.
    pub fn is_open(&self, node: NodeId) -> bool {
        let now = self.env.now();
        self.open.lock().get(&node).is_some_and(|until| now < *until)
    }

    /// All nodes that are passed by.
    pub fn open_nodes(&self) -> Vec<NodeId> {
        let now = self.env.now();
        self.open.lock().iter().filter(|(_, until)| now < **until).map(|(node, _)| *node).collect()
    }

    /// Asks a node, and notes whether it answered.
    pub async fn watch<T>(&self, node: NodeId, call: impl Future<Output = Option<T>>) -> Option<T> {
        self.begin(node);
        let answer = call.await;
        match answer.is_some() {
            true => _ = self.open.lock().remove(&node),
            false => _ = self.open.lock().insert(node, self.env.now() + BREAKER_WAIT),
        }
        answer
    }

    /// Nobody else tries a node that did not answer while one does.
    fn begin(&self, node: NodeId) {
        if let Some(until) = self.open.lock().get_mut(&node) {
            *until = self.env.now() + BREAKER_WAIT;
        }
    }
}

#[cfg(test)]
mod tests;
