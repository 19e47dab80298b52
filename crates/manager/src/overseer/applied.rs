//! Which commands the leader had applied when: a gateway whose node has not applied them for long goes by what was decided before.

use std::collections::VecDeque;

use topology::ClockReading;

use super::{BEHIND_MS, elapsed_ms};
use crate::CommandIndex;

/// What was applied lately.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// In the order of time; of those that are older than [`BEHIND_MS`] the newest alone.
    noted: VecDeque<(ClockReading, CommandIndex)>,
}

impl Applied {
    pub(super) fn note(&mut self, applied: CommandIndex, now: ClockReading) {
        if self.noted.back().is_none_or(|(_, last)| *last != applied) {
            self.noted.push_back((now, applied));
        }
        while self.noted.get(1).is_some_and(|(at, _)| elapsed_ms(*at, now) >= BEHIND_MS) {
            self.noted.pop_front();
        }
    }

    /// Whether a node that has applied up to here lacks what was applied long ago.
    pub(super) fn is_behind(&self, applied: CommandIndex, now: ClockReading) -> bool {
        self.noted.front().is_some_and(|(at, index)| elapsed_ms(*at, now) >= BEHIND_MS && applied < *index)
    }
}
