//! How fast a client sends or takes bytes while we wait for it.
//!
//! Silence alone says too little: a client that moves one byte now and then is never silent for long. Time is counted in the
//! clockwork's ticks, and only in those that find us waiting for the client, so that a body that we do not ask for (the engine
//! is slow) and an answer that we do not have yet are nobody's slowness.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::config::{MinimumPace, Timeouts};

/// One direction of a connection. Only the connection's own core touches it, so loads and stores suffice.
#[derive(Debug, Default)]
pub struct Pace {
    /// Bytes since the window began.
    bytes: AtomicU64,
    /// Ticks of the window that found us waiting.
    waited: AtomicU32,
}

impl Pace {
    /// Begins a window.
    pub fn restart(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
    }

    /// Bytes came or went.
    pub fn moved(&self, bytes: usize) {
        let before = self.bytes.load(Ordering::Relaxed);
        self.bytes.store(before.saturating_add(bytes as u64), Ordering::Relaxed);
    }

    /// A tick found us waiting for the client. Whether a window ends with it in which too few bytes moved.
    pub fn is_too_slow(&self, minimum: &MinimumPace) -> bool {
        let ticks = self.waited.load(Ordering::Relaxed) + 1;
        let waited = Timeouts::TICK * ticks;
        if waited < minimum.window {
            self.waited.store(ticks, Ordering::Relaxed);
            return false;
        }
        let least = u128::from(minimum.bytes_per_second) * waited.as_millis() / 1000;
        let is_slow = u128::from(self.bytes.load(Ordering::Relaxed)) < least;
        self.restart();
        is_slow
    }
}
