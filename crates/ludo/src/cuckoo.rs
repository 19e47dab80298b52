//! The keyed half of a (2,4)-cuckoo table: which key lies in which bucket, and how room is made for another.
//!
//! A key lies in one of its two buckets at any of four positions. The position is not the slot of the lookup structure, which
//! the bucket's seed decides: so a new seed moves values, but no key.
//!
//! A tag is a byte of the key's digest, or 0 where there is no key. It keeps the search for an absent key, which every insertion
//! makes, from fetching eight keys. Tags are an array of their own, a twentieth of the keys, so that which bucket is the emptier
//! is known soon: that is a branch that cannot be predicted, and behind it nothing overlaps. Beside the keys, in one record a
//! bucket, tags cost the twin with keys a third of its insertions.

use crate::bits::LINE_BYTES;
use crate::shape::SLOTS;

/// Buckets that one search for room looks at before it gives up. At 95% load a search that succeeds rarely needs a hundred.
const SEARCH_BUCKETS_MAX: usize = 2_000;

/// Number of a key's place: bucket · 4 + position.
pub type Place = u32;

pub fn bucket_of(place: Place) -> u64 {
    u64::from(place) / SLOTS as u64
}

fn place(bucket: u64, position: usize) -> Place {
    (bucket * SLOTS as u64) as Place + position as Place
}

/// What tells most keys of a bucket apart without looking at them; never [`FREE`].
pub type Tag = u8;
/// In place of a tag: no key.
pub const FREE: Tag = 0;

#[derive(Debug)]
pub struct Keys {
    key_bytes: usize,
    keys: Vec<u8>,
    tags: Vec<[Tag; SLOTS]>,
}

/// How room is made: the moves in their order, and the place that is then free for the new key.
#[derive(Debug, PartialEq, Eq)]
pub struct Room {
    pub moves: Vec<(Place, Place)>,
    pub free: Place,
}

/// A bucket that a search has reached, and the place whose key would move into it.
struct Reached {
    bucket: u64,
    parent: Option<(usize, Place)>,
}

impl Keys {
    pub fn new(key_bytes: usize, buckets: u64) -> Self {
        let buckets = usize::try_from(buckets).expect("the address space holds the keys");
        Self { key_bytes, keys: vec![0; buckets * SLOTS * key_bytes], tags: vec![[FREE; SLOTS]; buckets] }
    }

    pub fn memory_bytes(&self) -> usize {
        self.keys.len() + self.tags.len() * SLOTS
    }

    pub fn places(&self) -> u32 {
        (self.tags.len() * SLOTS) as u32
    }

    #[inline]
    fn tag(&self, place: Place) -> Tag {
        self.tags[place as usize / SLOTS][place as usize % SLOTS]
    }

    fn set_tag(&mut self, place: Place, tag: Tag) {
        self.tags[place as usize / SLOTS][place as usize % SLOTS] = tag;
    }

    #[inline]
    pub fn key(&self, place: Place) -> &[u8] {
        &self.keys[place as usize * self.key_bytes..][..self.key_bytes]
    }

    #[inline]
    pub fn holds(&self, place: Place) -> bool {
        self.tag(place) != FREE
    }

    /// Places of a bucket that hold keys.
    #[inline]
    pub fn in_bucket(&self, bucket: u64) -> impl Iterator<Item = Place> + use<> {
        let tags = self.tags[bucket as usize];
        (0..SLOTS).filter(move |position| tags[*position] != FREE).map(move |position| place(bucket, position))
    }

    /// All places that hold keys.
    pub fn all(&self) -> impl Iterator<Item = Place> + '_ {
        (0..self.tags.len() as u64).flat_map(|bucket| self.in_bucket(bucket))
    }

    pub fn find(&self, key: &[u8], tag: Tag, buckets: [u64; 2]) -> Option<Place> {
        for bucket in buckets {
            for (position, found) in self.tags[bucket as usize].into_iter().enumerate() {
                let place = place(bucket, position);
                if found == tag && self.key(place) == key {
                    return Some(place);
                }
            }
        }
        None
    }

    pub fn put(&mut self, place: Place, key: &[u8], tag: Tag) {
        assert!(!self.holds(place), "a place holds one key");
        assert!(tag != FREE, "a key's tag says that it is there");
        self.set_tag(place, tag);
        self.keys[place as usize * self.key_bytes..][..self.key_bytes].copy_from_slice(key);
    }

    pub fn clear(&mut self, place: Place) {
        assert!(self.holds(place), "only what is there can be removed");
        self.set_tag(place, FREE);
    }

    pub fn shift(&mut self, from: Place, to: Place) {
        assert!(self.holds(from) && !self.holds(to), "a key moves to a free place");
        let start = from as usize * self.key_bytes;
        self.keys.copy_within(start..start + self.key_bytes, to as usize * self.key_bytes);
        self.set_tag(to, self.tag(from));
        self.set_tag(from, FREE);
    }

    fn free_place(&self, bucket: u64) -> Option<Place> {
        let position = self.tags[bucket as usize].iter().position(|tag| *tag == FREE)?;
        Some(place(bucket, position))
    }

    fn load(&self, bucket: u64) -> usize {
        self.tags[bucket as usize].iter().filter(|tag| **tag != FREE).count()
    }

    /// The bucket of two that a key goes to if it has room: the emptier.
    pub fn emptier(&self, [first, second]: [u64; 2]) -> u64 {
        if self.load(second) < self.load(first) { second } else { first }
    }

    /// Asks for the cache line of a bucket's tags before anything needs it.
    pub fn touch_tags(&self, bucket: u64) {
        std::hint::black_box(self.tags[bucket as usize]);
    }

    /// Asks for the cache lines of a bucket's keys.
    pub fn touch_keys(&self, bucket: u64) {
        let start = bucket as usize * SLOTS * self.key_bytes;
        let end = start + SLOTS * self.key_bytes;
        for index in (start..end).step_by(LINE_BYTES).chain([end - 1]) {
            std::hint::black_box(self.keys[index]);
        }
    }

    /// Finds room for a key of two buckets: the emptier of them, or the shortest chain of moves. `other_bucket` tells the other
    /// bucket of the key at a place.
    pub fn room(&self, buckets: [u64; 2], other_bucket: impl Fn(Place) -> u64) -> Option<Room> {
        let [first, second] = buckets;
        if let Some(free) = self.free_place(self.emptier(buckets)) {
            return Some(Room { moves: Vec::new(), free });
        }
        let mut reached = vec![Reached { bucket: first, parent: None }];
        if second != first {
            reached.push(Reached { bucket: second, parent: None });
        }
        let mut next = 0;
        while next < reached.len() && next < SEARCH_BUCKETS_MAX {
            let bucket = reached[next].bucket;
            for from in self.in_bucket(bucket) {
                let other = other_bucket(from);
                if on_chain(&reached, next, other) {
                    continue;
                }
                reached.push(Reached { bucket: other, parent: Some((next, from)) });
                if let Some(free) = self.free_place(other) {
                    return Some(chain(&reached, free));
                }
            }
            next += 1;
        }
        None
    }
}

/// Whether a bucket lies on the chain that leads to `at`: its keys cannot move twice.
fn on_chain(reached: &[Reached], mut at: usize, bucket: u64) -> bool {
    loop {
        if reached[at].bucket == bucket {
            return true;
        }
        match reached[at].parent {
            Some((parent, _)) => at = parent,
            None => return false,
        }
    }
}

/// The chain to the last bucket reached, which has `free`: the last key moves first.
fn chain(reached: &[Reached], mut free: Place) -> Room {
    let mut moves = Vec::new();
    let mut at = reached.len() - 1;
    while let Some((parent, from)) = reached[at].parent {
        moves.push((from, free));
        free = from;
        at = parent;
    }
    Room { moves, free }
}

#[cfg(test)]
mod tests;
