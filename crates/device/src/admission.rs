//! Who is inside: tickets for what was admitted, so that a fence can wait until everything admitted before it has ended.
//!
//! Two counters, used in turn. A drain turns new entrants to the other counter and waits for its own to fall to zero. An
//! entrant counts itself first and then looks again whether its counter still is the one in use, so that a drain either sees it
//! or it sees what was changed before the drain: whoever raises a fence, then drains, knows that whatever entered afterwards
//! has seen the fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, Notify};

/// The door of one device.
#[derive(Default)]
pub struct Admissions {
    inner: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    turn: AtomicUsize,
    inside: [AtomicUsize; 2],
    emptied: Notify,
    /// One drain at a time.
    drain: Mutex<()>,
}

/// Proof of admission; dropping it is leaving.
pub struct Ticket {
    shared: Arc<Shared>,
    counter: usize,
}

impl Admissions {
    /// Enters. What the caller checks after this, a drain that started later waits for.
    pub fn enter(&self) -> Ticket {
        let shared = &self.inner;
        loop {
            let counter = shared.turn.load(Ordering::SeqCst) % 2;
            shared.inside[counter].fetch_add(1, Ordering::SeqCst);
            let ticket = Ticket { shared: shared.clone(), counter };
            if shared.turn.load(Ordering::SeqCst) % 2 == counter {
                return ticket;
            }
        }
    }

    /// Waits until everything that had entered before this call has left. A drain may be dropped: the next one waits for all the same.
    pub async fn drain(&self) {
        let shared = &self.inner;
        let _one_at_a_time = shared.drain.lock().await;
        // Empty, unless the drain before this one was dropped while it waited.
        shared.wait_for((shared.turn.load(Ordering::SeqCst) + 1) % 2).await;
        let counter = shared.turn.fetch_add(1, Ordering::SeqCst) % 2;
        shared.wait_for(counter).await;
    }

    /// How many are inside.
    pub fn inside(&self) -> usize {
        self.inner.inside.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Shared {
    /// Waits until nobody is inside by this counter.
    async fn wait_for(&self, counter: usize) {
        loop {
            let emptied = self.emptied.notified();
            if self.inside[counter].load(Ordering::SeqCst) == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.shared.inside[self.counter].fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shared.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
