//! What happened, in order, folded into one number: two runs of one seed must leave the same.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::Display;
use std::hash::Hasher;

/// Events kept to be shown with a failure.
const SHOWN_EVENTS: usize = 80;

/// The trace of a run.
#[derive(Default)]
pub struct Trace {
    state: Mutex<State>,
    /// Events are told as they happen.
    is_told: bool,
}

#[derive(Default)]
struct State {
    events: u64,
    hash: Fold,
    last: VecDeque<String>,
}

/// The length of a trace and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub events: u64,
    pub hash: u64,
}

/// FNV-1a (Fowler, Noll, Vo): the same on every machine, unlike the standard library's hashers.
struct Fold(u64);

impl Default for Fold {
    fn default() -> Fold {
        Fold(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl Trace {
    /// A trace that prints its events.
    pub fn told() -> Trace {
        Trace { is_told: true, ..Trace::default() }
    }

    /// Something happened that a reader of a failure wants to see.
    pub fn note(&self, at: std::time::Duration, what: &dyn Display) {
        let line = format!("{:>14} us  {what}", at.as_micros());
        if self.is_told {
            println!("{line}");
        }
        let mut state = self.state.lock();
        state.events += 1;
        state.hash.write(line.as_bytes());
        if state.last.len() == SHOWN_EVENTS {
            state.last.pop_front();
        }
        state.last.push_back(line);
    }

    /// A disk was asked for something: too many to show.
    pub fn fold(&self, what: [u64; 4]) {
        let mut state = self.state.lock();
        state.events += 1;
        for part in what {
            state.hash.write(&part.to_le_bytes());
        }
    }

    pub fn fingerprint(&self) -> Fingerprint {
        let state = self.state.lock();
        Fingerprint { events: state.events, hash: state.hash.finish() }
    }

    /// The last events, one a line.
    pub fn last(&self) -> String {
        self.state.lock().last.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}
