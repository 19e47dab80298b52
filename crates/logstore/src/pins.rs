//! Who may still need what garbage collection moved away (zstore.md, decisions 12 and 15).
//!
//! A pin is taken by whoever holds the places of chunks for longer than one read: a reader, or a Complete between looking its parts up
//! and publishing the object over them. A zone whose live records have been copied away is reset only when every pin that
//! was taken before the copying ended is gone. Staged chunks that no record names yet need none: see `large::staging`.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A moment in the order of pins and resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

/// The pins that are held.
#[derive(Clone, Default)]
pub(crate) struct Pins(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    next: u64,
    count_by_stamp: BTreeMap<u64, usize>,
}

/// Held by who holds places of chunks; dropping it lets go.
pub(crate) struct Pin {
    pins: Pins,
    stamp: u64,
}

impl Pins {
    pub fn pin(&self) -> Pin {
        let mut held = self.0.lock();
        let stamp = held.next;
        *held.count_by_stamp.entry(stamp).or_default() += 1;
        Pin { pins: self.clone(), stamp }
    }

    /// Marks the present: every pin taken so far is older, every later one younger.
    pub fn mark(&self) -> Stamp {
        let mut held = self.0.lock();
        held.next += 1;
        Stamp(held.next)
    }

    /// Whether all pins taken before the mark are gone.
    pub fn released_before(&self, mark: Stamp) -> bool {
        self.0.lock().count_by_stamp.range(..mark.0).next().is_none()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut held = self.pins.0.lock();
        let count = held.count_by_stamp.get_mut(&self.stamp).expect("a pin is counted until it is dropped");
        *count -= 1;
        if *count == 0 {
            held.count_by_stamp.remove(&self.stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pins;

    #[test]
    fn a_mark_waits_for_older_pins_only() {
        let pins = Pins::default();
        let older = pins.pin();
        let mark = pins.mark();
        let younger = pins.pin();
        assert!(!pins.released_before(mark));
        drop(older);
        assert!(pins.released_before(mark));
        let second = pins.mark();
        assert!(!pins.released_before(second));
        drop(younger);
        assert!(pins.released_before(second));
    }
}
