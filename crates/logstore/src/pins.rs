//! Who may still need what garbage collection moved away (RFD 2, decisions 12 and 15).
//!
//! A pin is taken by whoever holds the places of chunks for longer than one read: a reader, or a Complete between looking its parts up
//! and publishing the object over them. A zone whose live records have been copied away is reset only when every pin that
//! was taken before the copying ended is gone. A reader says whose chunks it reads: a zone in which there are none of that object need not wait for it.
//! Staged chunks that no record names yet need none: see `large::staging`.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::KeyHash;

/// A moment in the order of pins and resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

/// The pins that are held.
#[derive(Clone, Default)]
pub(crate) struct Pins(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    next: u64,
    count_by_stamp: BTreeMap<u64, BTreeMap<Whose, usize>>,
}

/// Whose chunks a pin holds: those that were written for one object, or, without it, any.
type Whose = Option<KeyHash>;

/// Held by who holds places of chunks; dropping it lets go.
pub(crate) struct Pin {
    pins: Pins,
    stamp: u64,
    whose: Whose,
}

impl Pins {
    /// Of chunks of any object.
    pub fn pin(&self) -> Pin {
        self.pin_those(None)
    }

    /// Of those chunks and nodes alone that were written for this object.
    pub fn pin_of(&self, owner: KeyHash) -> Pin {
        self.pin_those(Some(owner))
    }

    fn pin_those(&self, whose: Whose) -> Pin {
        let mut held = self.0.lock();
        let stamp = held.next;
        *held.count_by_stamp.entry(stamp).or_default().entry(whose).or_default() += 1;
        Pin { pins: self.clone(), stamp, whose }
    }

    /// Marks the present: every pin taken so far is older, every later one younger.
    pub fn mark(&self) -> Stamp {
        let mut held = self.0.lock();
        held.next += 1;
        Stamp(held.next)
    }

    /// Whether those pins taken before the mark are gone that may hold chunks of these objects; without objects, all of them.
    pub fn released(&self, owners: Option<&BTreeSet<KeyHash>>, mark: Stamp) -> bool {
        let held = self.0.lock();
        let may_hold = |whose: &Whose| match (whose, owners) {
            (Some(owner), Some(owners)) => owners.contains(owner),
            _ => true,
        };
        !held.count_by_stamp.range(..mark.0).flat_map(|(_, pins)| pins.keys()).any(may_hold)
    }
}

impl Pin {
    /// Another one of the same moment, of chunks of this object alone.
    pub fn again_of(&self, owner: KeyHash) -> Pin {
        let mut held = self.pins.0.lock();
        *held.count_by_stamp.entry(self.stamp).or_default().entry(Some(owner)).or_default() += 1;
        Pin { pins: self.pins.clone(), stamp: self.stamp, whose: Some(owner) }
    }

    /// Holds what `other` holds of this object, too: whatever a later pin holds, an earlier one does.
    pub fn hold_as_long_as(&mut self, other: &Pin, owner: KeyHash) {
        if other.stamp < self.stamp {
            *self = other.again_of(owner);
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut held = self.pins.0.lock();
        let pins = held.count_by_stamp.get_mut(&self.stamp).expect("a pin is counted until it is dropped");
        let count = pins.get_mut(&self.whose).expect("with its object");
        *count -= 1;
        if *count == 0 {
            pins.remove(&self.whose);
        }
        if pins.is_empty() {
            held.count_by_stamp.remove(&self.stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pins;
    use bytes::Bytes;
    use format::record::EntryName;
    use types::BucketId;

    #[test]
    fn a_mark_waits_for_older_pins_only() {
        let pins = Pins::default();
        let older = pins.pin();
        let mark = pins.mark();
        let younger = pins.pin();
        assert!(!pins.released(None, mark));
        drop(older);
        assert!(pins.released(None, mark));
        let second = pins.mark();
        assert!(!pins.released(None, second));
        drop(younger);
        assert!(pins.released(None, second));
    }

    #[test]
    fn of_two_pins_of_an_object_the_earlier_one_is_held_on() {
        let pins = Pins::default();
        let owner = EntryName::object(BucketId(1), Bytes::from_static(b"a")).hash();
        let earlier = pins.pin_of(owner);
        let mark = pins.mark();
        let later = pins.pin_of(owner);
        let mut kept = later.again_of(owner);
        kept.hold_as_long_as(&earlier, owner);
        drop((earlier, later));
        assert!(!pins.released(None, mark));
        let latest = pins.pin_of(owner);
        kept.hold_as_long_as(&latest, owner);
        drop(latest);
        assert!(!pins.released(None, mark));
        drop(kept);
        assert!(pins.released(None, mark));
    }

    #[test]
    fn a_mark_waits_for_pins_of_its_objects_and_of_any() {
        let pins = Pins::default();
        let owner = |name: &'static [u8]| EntryName::object(BucketId(1), Bytes::from_static(name)).hash();
        let of = |names: &[&'static [u8]]| Some(names.iter().map(|name| owner(name)).collect());
        let held = [pins.pin_of(owner(b"a")), pins.pin_of(owner(b"a"))];
        let mark = pins.mark();
        let younger = pins.pin_of(owner(b"b"));
        assert!(!pins.released(of(&[b"a", b"b"]).as_ref(), mark));
        assert!(pins.released(of(&[b"b", b"c"]).as_ref(), mark), "nobody holds chunks of these");
        let [first, second] = held;
        drop(first);
        assert!(!pins.released(of(&[b"a"]).as_ref(), mark), "another one holds them");
        drop(second);
        assert!(pins.released(of(&[b"a"]).as_ref(), mark));
        let any = pins.pin();
        let mark = pins.mark();
        assert!(!pins.released(of(&[]).as_ref(), mark) && !pins.released(of(&[b"c"]).as_ref(), mark));
        drop((any, younger));
        assert!(pins.released(None, mark));
    }
}
