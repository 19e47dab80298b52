//! Keeps writes out of a bucket while it is verified to be empty and removed.
//!
//! ```text
//!            close                 drained                removed
//!   open ─────────────▶ closing ─────────────▶ closed ─────────────▶ removed
//!     ◀───────────────────┴──────────────────────┘ dropped
//! ```
//!
//! Invariants
//! - While the gate is closed no write of this bucket is under way: a write that enters either is counted before the gate
//!   closes, and is waited for, or sees it closed, and waits for the outcome.
//! - Only the way to the engine is inside the gate, not the receiving of a body: a slow client does not hold up a removal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// One gate per bucket incarnation.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The number of writes inside, and the two flags.
    state: AtomicU64,
    changed: Notify,
}

const CLOSED: u64 = 1 << 63;
const REMOVED: u64 = 1 << 62;
const INSIDE: u64 = REMOVED - 1;

/// A write that is inside.
#[derive(Debug)]
pub(crate) struct Entered(Arc<Gate>);

/// The right to remove the bucket. Dropped without [`Closed::remove`], the gate opens again.
#[derive(Debug)]
pub(crate) struct Closed(Arc<Gate>);

/// The bucket is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removed;

/// Why a gate was not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseError {
    /// Somebody else has closed it.
    Busy,
    Removed,
}

impl Gate {
    /// Lets a write in; waits while the gate is closed.
    pub(crate) async fn enter(self: &Arc<Self>) -> Result<Entered, Removed> {
        loop {
            if let Some(entered) = self.try_enter()? {
                return Ok(entered);
            }
            let changed = self.changed.notified();
            // The notification is awaited from before the second look, so that an opening in between is not missed.
            if let Some(entered) = self.try_enter()? {
                return Ok(entered);
            }
            changed.await;
        }
    }

    /// Counts a write only while the gate is open: one that counted itself first and then went back would wake, by going, all
    /// who wait for the gate, itself included.
    fn try_enter(self: &Arc<Self>) -> Result<Option<Entered>, Removed> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if state & REMOVED != 0 {
                return Err(Removed);
            }
            if state & CLOSED != 0 {
                return Ok(None);
            }
            match self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Some(Entered(Arc::clone(self)))),
                Err(newer) => state = newer,
            }
        }
    }

    /// Stops new writes and waits for those inside.
    pub(crate) async fn close(self: &Arc<Self>) -> Result<Closed, CloseError> {
        let before = self.state.fetch_or(CLOSED, Ordering::AcqRel);
        if before & REMOVED != 0 {
            return Err(CloseError::Removed);
        }
        if before & CLOSED != 0 {
            return Err(CloseError::Busy);
        }
        let closed = Closed(Arc::clone(self));
        loop {
            let changed = self.changed.notified();
            if self.state.load(Ordering::Acquire) & INSIDE == 0 {
                return Ok(closed);
            }
            changed.await;
        }
    }

    /// Returns when no write is inside that began before. Who has closed the gate meanwhile is not waited for: two nodes that remove one
    /// bucket ask each other, each behind its own closed gate.
    pub(crate) async fn drain(self: &Arc<Self>) {
        while matches!(self.close().await, Err(CloseError::Busy)) {
            loop {
                let changed = self.changed.notified();
                let state = self.state.load(Ordering::Acquire);
                if state & INSIDE == 0 {
                    return;
                }
                if state & CLOSED == 0 {
                    break;
                }
                changed.await;
            }
        }
    }
}

impl Closed {
    /// The bucket is gone: the gate never opens again.
    pub(crate) fn remove(self) {
        self.0.state.fetch_or(REMOVED, Ordering::AcqRel);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.state.fetch_sub(1, Ordering::AcqRel);
        if before & INSIDE == 1 && before & CLOSED != 0 {
            self.0.changed.notify_waiters();
        }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let before = self.0.state.load(Ordering::Acquire);
        if before & REMOVED == 0 {
            self.0.state.fetch_and(!CLOSED, Ordering::AcqRel);
        }
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
