//! A compact map from key hash to a fixed-size value: one shard of the full map.
//!
//! The paper's map spends 64 bytes on a key (section 3.7); the bound here is 64 bytes with one replica and 96 with three,
//! *including* the table's empty slots, so the table is a plain byte array without pointers, control bytes or padding.
//!
//! Layout: slots of `20 + value_bytes + 1` bytes; the last byte of a slot says whether it is occupied. A key's home slot is
//! `slot_bits * slots / 2^64`, which grows with the key. Collisions go to the right, and the occupied slots always stand in
//! ascending order of their hashes:
//!
//! ```text
//!   home order    |  a  |     |  b  |  c  |  d  |     |     |  e  | ... spill
//!   invariants    hash(a) < hash(b) < hash(c) < hash(d) < hash(e);  no gap between a key's home and its slot
//! ```
//!
//! So a search walks right from the home slot until it meets the key, a greater one or a gap, and there is no wrap-around:
//! spill slots follow the last home, as many as its cluster needs. The table grows by a quarter when it is 85% full, so that it is between 68% and 85% full for as long as it grows: 20 + value + 1 bytes become at most 1.47
//! times that a key.

use types::{KEY_HASH_BYTES, KeyHash};

/// A table grows when more than this share of its home slots is occupied, in percent.
const MAX_LOAD_PERCENT: usize = 85;
/// Growth, in percent of the present size.
const GROWTH_PERCENT: usize = 125;
/// Slots of a table that holds its first key.
const FIRST_SLOTS: usize = 16;
/// Slots added at a time beyond the last home, where the last cluster spills.
const SPILL_SLOTS: usize = 16;

/// A map of fixed-size byte values.
pub struct HashTable {
    bytes: Vec<u8>,
    /// Home slots; `bytes` holds some more.
    homes: usize,
    len: usize,
    value_bytes: usize,
}

impl HashTable {
    /// An empty table for values of this many bytes; allocates nothing yet.
    pub fn new(value_bytes: usize) -> Self {
        HashTable { bytes: Vec::new(), homes: 0, len: 0, value_bytes }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the table holds.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub fn get(&self, hash: &KeyHash) -> Option<&[u8]> {
        match self.search(hash) {
            Search::Found(slot) => Some(self.value(slot)),
            Search::Absent(_) => None,
        }
    }

    /// Sets a key's value.
    pub fn insert(&mut self, hash: &KeyHash, value: &[u8]) {
        assert_eq!(value.len(), self.value_bytes);
        loop {
            match self.search(hash) {
                Search::Found(slot) => {
                    let start = slot * self.stride() + KEY_HASH_BYTES;
                    self.bytes[start..start + value.len()].copy_from_slice(value);
                    return;
                }
                Search::Absent(slot) if (self.len + 1) * 100 <= self.homes * MAX_LOAD_PERCENT => {
                    self.open_gap(slot);
                    self.write(slot, hash, value);
                    self.len += 1;
                    return;
                }
                Search::Absent(_) => self.grow(),
            }
        }
    }

    /// Removes a key; says whether it was there.
    pub fn remove(&mut self, hash: &KeyHash) -> bool {
        let Search::Found(mut slot) = self.search(hash) else {
            return false;
        };
        // Pull the rest of the cluster left, up to the first key that stands in its home, so that no gap parts a key from it.
        let stride = self.stride();
        while slot + 1 < self.slots() && self.occupied(slot + 1) && self.home(&self.hash(slot + 1)) <= slot {
            self.bytes.copy_within((slot + 1) * stride..(slot + 2) * stride, slot * stride);
            slot += 1;
        }
        self.bytes[slot * stride..(slot + 1) * stride].fill(0);
        self.len -= 1;
        true
    }

    /// All keys and values, in ascending order of hashes.
    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, &[u8])> {
        (0..self.slots()).filter(|slot| self.occupied(*slot)).map(|slot| (self.hash(slot), self.value(slot)))
    }

    fn stride(&self) -> usize {
        KEY_HASH_BYTES + self.value_bytes + 1
    }

    fn slots(&self) -> usize {
        self.bytes.len() / self.stride()
    }

    fn home(&self, hash: &KeyHash) -> usize {
        ((sort_bits(hash) as u128 * self.homes as u128) >> 64) as usize
    }

    fn occupied(&self, slot: usize) -> bool {
        self.bytes[(slot + 1) * self.stride() - 1] != 0
    }

    fn hash(&self, slot: usize) -> KeyHash {
        let start = slot * self.stride();
        KeyHash::from_bytes(self.bytes[start..start + KEY_HASH_BYTES].try_into().expect("a slot starts with a hash"))
    }

    fn value(&self, slot: usize) -> &[u8] {
        let start = slot * self.stride() + KEY_HASH_BYTES;
        &self.bytes[start..start + self.value_bytes]
    }

    fn search(&self, hash: &KeyHash) -> Search {
        let mut slot = self.home(hash);
        while slot < self.slots() && self.occupied(slot) {
            let there = self.hash(slot);
            if there == *hash {
                return Search::Found(slot);
            }
            if sort_key(&there) > sort_key(hash) {
                break;
            }
            slot += 1;
        }
        Search::Absent(slot)
    }

    /// Moves the cluster that starts at `slot` one to the right.
    fn open_gap(&mut self, slot: usize) {
        let stride = self.stride();
        let mut end = slot;
        while end < self.slots() && self.occupied(end) {
            end += 1;
        }
        self.spill_to(end);
        self.bytes.copy_within(slot * stride..end * stride, (slot + 1) * stride);
    }

    /// Makes `slot` exist.
    fn spill_to(&mut self, slot: usize) {
        if slot >= self.slots() {
            let bytes = (slot + SPILL_SLOTS) * self.stride();
            self.bytes.reserve_exact(bytes - self.bytes.len());
            self.bytes.resize(bytes, 0);
        }
    }

    fn write(&mut self, slot: usize, hash: &KeyHash, value: &[u8]) {
        let start = slot * self.stride();
        self.bytes[start..start + KEY_HASH_BYTES].copy_from_slice(hash.as_bytes());
        self.bytes[start + KEY_HASH_BYTES..start + KEY_HASH_BYTES + value.len()].copy_from_slice(value);
        self.bytes[start + KEY_HASH_BYTES + value.len()] = 1;
    }

    /// Moves the keys to a table with a quarter more homes. They come in order, so each goes to its home or right behind its
    /// predecessor.
    fn grow(&mut self) {
        let homes = (self.homes * GROWTH_PERCENT / 100).max(FIRST_SLOTS);
        let mut table = HashTable { bytes: Vec::new(), homes, len: self.len, value_bytes: self.value_bytes };
        table.bytes = vec![0; (homes + SPILL_SLOTS) * self.stride()];
        let mut next = 0;
        for (hash, value) in self.iter() {
            let slot = table.home(&hash).max(next);
            table.spill_to(slot);
            table.write(slot, &hash, value);
            next = slot + 1;
        }
        *self = table;
    }
}

enum Search {
    Found(usize),
    /// The slot where the key would stand.
    Absent(usize),
}

/// The bits that choose the home: the first eight bytes, most significant first, so that they sort as the bytes do.
fn sort_bits(hash: &KeyHash) -> u64 {
    u64::from_be_bytes(hash.as_bytes()[..8].try_into().expect("eight of twenty bytes"))
}

fn sort_key(hash: &KeyHash) -> &[u8; KEY_HASH_BYTES] {
    hash.as_bytes()
}

#[cfg(test)]
mod tests;
