//! The requests under way: a machine without I/O.
//!
//! ```text
//!            admit                      finish
//!  (unknown) ─────► under way ────────────────────► (unknown)
//!                    │     ▲ admit again: the kernel sent it a second time, and
//!                    │     │ waits for the answer where it sent it last
//!                    └─────┘
//! ```

use std::collections::HashMap;

use crate::ids::RequestId;

/// Where the answer to a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReturnAddress {
    /// The number that the kernel waits for: with the mark of a second sending, if there was one.
    pub(super) unique: u64,
    /// The device that it was read from last.
    pub(super) device: usize,
}

#[derive(Debug)]
struct UnderWay {
    to: ReturnAddress,
    waits: bool,
    interrupted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Hand it to the file system.
    New,
    /// The same, when others are answered: as many are under way as may be.
    NewWhenThereIsRoom,
    /// It is under way here already.
    Again,
    /// Too many wait for locks; it is not under way.
    TooManyWait,
}

#[derive(Debug)]
pub(super) struct InFlight {
    requests: HashMap<RequestId, UnderWay>,
    waiting: usize,
    limit: usize,
    waiting_limit: usize,
}

impl InFlight {
    /// At most `limit` requests, beside those that wait for room, and `waiting_limit` of them that wait for locks.
    pub(super) fn new(limit: usize, waiting_limit: usize) -> Self {
        InFlight { requests: HashMap::new(), waiting: 0, limit, waiting_limit }
    }

    /// A request was read. `waits` says that it may wait for as long as another caller likes.
    ///
    /// One that waits for room is known from here on: an interrupt finds it.
    pub(super) fn admit(&mut self, id: RequestId, to: ReturnAddress, waits: bool) -> Admission {
        if let Some(known) = self.requests.get_mut(&id) {
            known.to = to;
            return Admission::Again;
        }
        if waits && self.waiting == self.waiting_limit {
            return Admission::TooManyWait;
        }
        self.waiting += usize::from(waits);
        self.requests.insert(id, UnderWay { to, waits, interrupted: false });
        if self.has_room() { Admission::New } else { Admission::NewWhenThereIsRoom }
    }

    /// Whether a request that was admitted need not wait.
    pub(super) fn has_room(&self) -> bool {
        self.requests.len() <= self.limit
    }

    /// Marks a request as interrupted. False where it is not known here.
    pub(super) fn interrupt(&mut self, id: RequestId) -> bool {
        self.requests.get_mut(&id).map(|request| request.interrupted = true).is_some()
    }

    pub(super) fn is_interrupted(&self, id: RequestId) -> bool {
        self.requests.get(&id).is_some_and(|request| request.interrupted)
    }

    /// The request is being answered: where to. None where it is not under way.
    pub(super) fn finish(&mut self, id: RequestId) -> Option<ReturnAddress> {
        let request = self.requests.remove(&id)?;
        self.waiting -= usize::from(request.waits);
        Some(request.to)
    }

    /// Forgets all requests; how many they are.
    pub(super) fn clear(&mut self) -> usize {
        self.waiting = 0;
        self.requests.drain().count()
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }
}

#[cfg(test)]
mod tests;
