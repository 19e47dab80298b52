//! Whether a client keeps up.

use crate::limits::{PACE_BYTES, TICK};
use std::time::Duration;

/// One direction of a connection. Counts ticks in which the client was due and did not move enough.
#[derive(Debug, Default)]
pub struct Stall {
    ticks: u32,
    moved_bytes: usize,
}

impl Stall {
    /// Bytes have moved.
    pub fn moved(&mut self, bytes: usize) {
        self.moved_bytes += bytes;
        if self.moved_bytes >= PACE_BYTES {
            *self = Stall::default();
        }
    }

    /// All that was due has moved.
    pub fn settled(&mut self) {
        *self = Stall::default();
    }

    /// A tick has passed; whether the client is due for too long.
    pub fn tick(&mut self, is_due: bool, limit: Duration) -> bool {
        self.ticks = if is_due { self.ticks + 1 } else { 0 };
        // The first tick may come at once.
        self.ticks > 1 && TICK * (self.ticks - 1) >= limit
    }
}
