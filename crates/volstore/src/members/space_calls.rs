//! A group that finds its device full has the others give back what they need no more.
//!
//! Rounds of asking do not overlap. A caller takes the outcome of any round that began after its call.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Group, Members};

/// The rounds of a node.
#[derive(Default)]
pub struct SpaceCalls {
    /// Held over a round.
    turn: tokio::sync::Mutex<()>,
    begun: AtomicU64,
}

impl Members {
    /// Has the groups that are served here, and whose copy stands on the same device, give space back. Returns when they have.
    pub async fn ask_space_back(&self, of: &Group) {
        let known = self.calls.begun.load(Ordering::Acquire);
        let _turn = self.calls.turn.lock().await;
        if self.calls.begun.load(Ordering::Acquire) > known {
            return;
        }
        self.calls.begun.fetch_add(1, Ordering::AcqRel);
        let device = of.volume.device();
        for group in self.groups().into_iter().filter(|group| group.number != of.number && group.volume.device() == device) {
            let Some(office) = group.office() else { continue };
            if let Err(error) = office.store.give_space_back().await {
                tracing::debug!(%error, group = group.number, "a placement group gave no space back");
            }
        }
    }
}
