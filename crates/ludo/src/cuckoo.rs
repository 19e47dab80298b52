//! The keyed half of a (2,4)-cuckoo table: which key lies in which bucket, and how room is made for another.
//!
//! A key lies in one of its two buckets at any of four positions. The position is not the slot of the lookup structure, which
//! the bucket's seed decides: so a new seed moves values, but no key.

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

#[derive(Debug)]
pub struct Keys {
    key_bytes: usize,
    keys: Vec<u8>,
    /// Four bits a bucket are used: which positions hold a key.
    occupied: Vec<u8>,
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
        Self { key_bytes, keys: vec![0; buckets * SLOTS * key_bytes], occupied: vec![0; buckets] }
    }

    pub fn memory_bytes(&self) -> usize {
        self.keys.len() + self.occupied.len()
    }

    pub fn places(&self) -> u32 {
        (self.occupied.len() * SLOTS) as u32
    }

    #[inline]
    pub fn key(&self, place: Place) -> &[u8] {
        &self.keys[place as usize * self.key_bytes..][..self.key_bytes]
    }

    #[inline]
    pub fn holds(&self, place: Place) -> bool {
        self.occupied[place as usize / SLOTS] >> (place as usize % SLOTS) & 1 == 1
    }

    /// Places of a bucket that hold keys.
    #[inline]
    pub fn in_bucket(&self, bucket: u64) -> impl Iterator<Item = Place> + use<> {
        let occupied = self.occupied[bucket as usize];
        (0..SLOTS).filter(move |position| occupied >> position & 1 == 1).map(move |position| place(bucket, position))
    }

    /// All places that hold keys.
    pub fn all(&self) -> impl Iterator<Item = Place> + '_ {
        (0..self.occupied.len() as u64).flat_map(|bucket| self.in_bucket(bucket))
    }

    pub fn find(&self, key: &[u8], buckets: [u64; 2]) -> Option<Place> {
        buckets.into_iter().find_map(|bucket| self.in_bucket(bucket).find(|place| self.key(*place) == key))
    }

    pub fn put(&mut self, place: Place, key: &[u8]) {
        assert!(!self.holds(place), "a place holds one key");
        self.keys[place as usize * self.key_bytes..][..self.key_bytes].copy_from_slice(key);
        self.occupied[place as usize / SLOTS] |= 1 << (place as usize % SLOTS);
    }

    pub fn clear(&mut self, place: Place) {
        assert!(self.holds(place), "only what is there can be removed");
        self.occupied[place as usize / SLOTS] &= !(1 << (place as usize % SLOTS));
    }

    pub fn shift(&mut self, from: Place, to: Place) {
        assert!(self.holds(from) && !self.holds(to), "a key moves to a free place");
        let start = from as usize * self.key_bytes;
        self.keys.copy_within(start..start + self.key_bytes, to as usize * self.key_bytes);
        self.clear(from);
        self.occupied[to as usize / SLOTS] |= 1 << (to as usize % SLOTS);
    }

    fn free_place(&self, bucket: u64) -> Option<Place> {
        let position = (!self.occupied[bucket as usize]).trailing_zeros() as usize;
        (position < SLOTS).then(|| place(bucket, position))
    }

    fn load(&self, bucket: u64) -> u32 {
        self.occupied[bucket as usize].count_ones()
    }

    /// Finds room for a key of two buckets: the emptier of them, or the shortest chain of moves. `other_bucket` tells the other
    /// bucket of the key at a place.
    pub fn room(&self, buckets: [u64; 2], other_bucket: impl Fn(Place) -> u64) -> Option<Room> {
        let [first, second] = buckets;
        let emptier = if self.load(second) < self.load(first) { second } else { first };
        if let Some(free) = self.free_place(emptier) {
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
