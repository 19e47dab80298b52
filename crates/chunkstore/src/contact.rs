//! Whether a node is in contact with the manager: its leave to answer about its blocks (docs/rfd/0012, leases).
//!
//! A device that the manager has forgotten may be one whose node is only cut off, and whose copies are behind by now. So a node answers only while
//! the manager has lately said that all it had decided until then is known here; whoever takes a device for lost waits until that leave must have
//! ended.

use std::sync::atomic::{AtomicU64, Ordering};

use env::Instant;

use crate::limits::CONTACT_LEASE;

/// When a node was surely in contact last.
#[derive(Debug, Default)]
pub struct Contact {
    /// Nanoseconds of this machine's clock at which the question began that was answered; 0 for never.
    confirmed: AtomicU64,
}

impl Contact {
    /// A question that began then was answered by the manager's leader, with all that it had decided.
    pub fn confirm(&self, began: Instant) {
        self.confirmed.fetch_max(began.as_nanos(), Ordering::AcqRel);
    }

    pub fn is_held(&self, now: Instant) -> bool {
        let confirmed = self.confirmed.load(Ordering::Acquire);
        confirmed > 0 && u128::from(now.as_nanos().saturating_sub(confirmed)) < CONTACT_LEASE.as_nanos()
    }
}

#[cfg(test)]
mod tests;
