//! Up to which record all is done, and stands on the medium: for owners whose contents stand beside the log.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts by record numbers.
#[derive(Debug, Default)]
pub struct Settling {
    done_below: AtomicU64,
    settled_below: AtomicU64,
}

impl Settling {
    /// Records below this number are durable, and their contents are written.
    pub fn note_done(&self, below: u64) {
        self.done_below.store(below, Ordering::Release);
    }

    pub fn done_below(&self) -> u64 {
        self.done_below.load(Ordering::Acquire)
    }

    /// What was done before a flush began is settled when it has ended.
    pub fn note_flushed(&self, done_before: u64) {
        self.settled_below.fetch_max(done_before, Ordering::AcqRel);
    }

    /// Records below this number are durable, and so are their contents.
    pub fn settled_below(&self) -> u64 {
        self.settled_below.load(Ordering::Acquire)
    }
}
