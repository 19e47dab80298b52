//! What goes on at the beginnings of connections: beside each other, so that a peer that takes its time holds nobody up, and bounded, so that strangers
//! cost little (docs/rfd/0008).

use std::collections::VecDeque;
use tokio::task::{AbortHandle, JoinSet};

/// Handshakes under way at one listener. When there is one more, the oldest ends: a node of the cluster is done within a few round trips,
/// so whom it hits is a stranger who holds connections open.
pub const MAX_HANDSHAKES: usize = 64;

/// Handshakes at one listener, and what they end with.
pub(crate) struct Handshakes<T> {
    all: JoinSet<T>,
    /// Those under way, the oldest first; also some that have ended.
    oldest_first: VecDeque<AbortHandle>,
}

impl<T: Send + 'static> Handshakes<T> {
    pub fn new() -> Handshakes<T> {
        Handshakes { all: JoinSet::new(), oldest_first: VecDeque::new() }
    }

    pub fn begin(&mut self, address: &str, handshake: impl Future<Output = T> + Send + 'static) {
        self.oldest_first.retain(|handshake| !handshake.is_finished());
        if self.oldest_first.len() >= MAX_HANDSHAKES
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            tracing::info!(address, "{MAX_HANDSHAKES} handshakes are under way: the oldest is given up");
            oldest.abort();
        }
        self.oldest_first.push_back(self.all.spawn(handshake));
    }

    /// What the next one ended with; none while there are none. Nothing is lost when this is dropped: handshakes go on.
    pub async fn next(&mut self) -> Option<T> {
        loop {
            // One that was given up for another has nothing to say.
            if let Ok(ended) = self.all.join_next().await? {
                return Some(ended);
            }
        }
    }
}
