//! Numbered streams that survive reconnects (RFD 2, decision 19): every item sent on one stream arrives once and in order, as
//! long as both ends live, however often the connection between them is lost.
//!
//! ```text
//!   Outgoing ── number 7, item ──► connection ──► Incoming: next? take it, else drop it
//!      ▲ keeps 5, 6, 7                               │
//!      └──────────── taken through 5 ◄───────────────┘        after a reconnect: 6 and 7 again
//! ```
//!
//! State machines without I/O. Invariants:
//! - Items that are not acknowledged are kept, at most `window` of them; then the sender waits.
//! - The receiver takes exactly the number that follows the last one taken. Duplicates and what comes after a gap are dropped:
//!   the sender still has them.

use std::collections::VecDeque;

/// An item's number on its stream, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamNumber(pub u64);

/// The sending end.
#[derive(Clone, Debug)]
pub struct Outgoing<T> {
    /// Not acknowledged; the first has number `acknowledged + 1`.
    kept: VecDeque<T>,
    acknowledged: u64,
    window: usize,
}

/// The window is full: wait for an acknowledgement. Gives the item back.
#[derive(Debug, thiserror::Error)]
#[error("{window} items are not acknowledged yet")]
pub struct WindowFull<T> {
    pub item: T,
    pub window: usize,
}

/// The peer acknowledges what was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("acknowledged through {found:?}, but only {sent:?} were sent")]
pub struct NeverSent {
    pub found: StreamNumber,
    pub sent: StreamNumber,
}

impl<T> Outgoing<T> {
    /// A stream that keeps at most `window` items.
    pub fn new(window: usize) -> Self {
        assert!(window > 0, "a window has room for one item");
        Outgoing { kept: VecDeque::new(), acknowledged: 0, window }
    }

    /// Numbers an item and keeps it. The caller sends it.
    pub fn push(&mut self, item: T) -> Result<StreamNumber, WindowFull<T>> {
        if self.is_full() {
            return Err(WindowFull { item, window: self.window });
        }
        self.kept.push_back(item);
        Ok(self.sent())
    }

    pub fn is_full(&self) -> bool {
        self.kept.len() == self.window
    }

    /// The number of the last item.
    pub fn sent(&self) -> StreamNumber {
        StreamNumber(self.acknowledged + self.kept.len() as u64)
    }

    /// The peer has taken everything up to `through`. Older acknowledgements come late and change nothing.
    pub fn acknowledge(&mut self, through: StreamNumber) -> Result<(), NeverSent> {
        if through > self.sent() {
            return Err(NeverSent { found: through, sent: self.sent() });
        }
        let newly = through.0.saturating_sub(self.acknowledged);
        self.kept.drain(..newly as usize);
        self.acknowledged += newly;
        Ok(())
    }

    /// Everything that is not acknowledged, in order: what is sent again after a reconnect.
    pub fn unacknowledged(&self) -> impl Iterator<Item = (StreamNumber, &T)> {
        self.kept.iter().enumerate().map(|(index, item)| (StreamNumber(self.acknowledged + 1 + index as u64), item))
    }
}

/// The receiving end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    taken: u64,
}

/// What to do with an item that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Take it.
    Next,
    /// Taken before: drop it, and acknowledge again, because the first acknowledgement may be lost.
    Duplicate,
    /// Something before it is missing: drop it; it comes again.
    Gap,
}

impl Incoming {
    /// Judges an arriving item; `Next` counts it as taken.
    pub fn arrived(&mut self, number: StreamNumber) -> Arrival {
        if number.0 <= self.taken {
            return Arrival::Duplicate;
        }
        if number.0 != self.taken + 1 {
            return Arrival::Gap;
        }
        self.taken += 1;
        Arrival::Next
    }

    /// What to acknowledge.
    pub fn taken(&self) -> StreamNumber {
        StreamNumber(self.taken)
    }
}

#[cfg(test)]
mod tests;
