//! The index: where the newest record of each key stands.
//!
//! Two maps a shard, as in the paper (section 3.4): the *current* map holds what no checkpoint covers yet, with everything
//! that a checkpoint writes down; the *full* map holds the rest, packed. A lookup asks the current map first. Only orders are
//! compared, never places: relocation changes places and keeps the order.

mod full;
mod table;

use full::FullMap;

use format::entry::{Entry, EntryState, Places};
use types::{Epoch, KeyHash, Order};

/// What a lookup yields: enough to read the newest record, or to know that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    pub order: Order,
    pub places: Places,
    /// Bytes of the record's frame: one read of this length gets all of it.
    pub frame_bytes: u32,
    pub state: EntryState,
    /// The record is a descriptor: its payload names chunks.
    pub large: bool,
}

impl Located {
    /// Whether there is an object to read.
    pub fn is_live(&self) -> bool {
        self.state == EntryState::Live
    }
}

impl From<&Entry> for Located {
    fn from(entry: &Entry) -> Self {
        Located {
            order: entry.order,
            places: entry.places,
            frame_bytes: entry.frame_bytes,
            state: entry.state,
            large: entry.large,
        }
    }
}

/// The index of one shard of keys.
pub struct ShardIndex {
    current: hashbrown::HashMap<KeyHash, Entry, HashBits>,
    full: FullMap,
}

impl ShardIndex {
    /// An empty index for records of at most `copies` replicas.
    pub fn new(copies: usize) -> Self {
        ShardIndex { current: hashbrown::HashMap::with_hasher(HashBits), full: FullMap::new(copies) }
    }

    /// The newest record of a key, tombstones included.
    pub fn newest(&self, hash: &KeyHash) -> Option<Located> {
        match self.current.get(hash) {
            Some(entry) => Some(Located::from(entry)),
            None => self.full.get(hash),
        }
    }

    /// The epoch of a key's newest record, or of its last move, if no checkpoint that this gateway knows covers it.
    pub fn unsaved_epoch(&self, hash: &KeyHash) -> Option<Epoch> {
        self.current.get(hash).map(|entry| entry.epoch)
    }

    /// Takes an entry in if its order is newer than what is known; returns what it replaced. `Err` gives it back as stale.
    pub fn publish(&mut self, entry: Entry) -> Result<Option<Located>, Entry> {
        let known = self.newest(&entry.hash);
        if known.is_some_and(|known| known.order >= entry.order) {
            return Err(entry);
        }
        self.current.insert(entry.hash, entry);
        Ok(known)
    }

    /// Changes a record's places if it is still the newest and still stands where it was (zstore.md, decision 10). `entry`
    /// carries the new places; it becomes unsaved, so that the next checkpoint writes it down.
    pub fn relocate(&mut self, old_places: &Places, entry: Entry) -> bool {
        match self.newest(&entry.hash) {
            Some(known) if known.order == entry.order && known.places == *old_places => {
                self.current.insert(entry.hash, entry);
                true
            }
            _ => false,
        }
    }

    /// Puts a record that a checkpoint covers straight into the full map: newer or equal orders win, so runs are loaded
    /// oldest first.
    pub fn load(&mut self, hash: &KeyHash, located: &Located) {
        if self.full.get(hash).is_none_or(|known| known.order <= located.order) {
            self.full.insert(hash, located);
        }
    }

    /// As [`ShardIndex::load`], beside entries that have been published meanwhile: an older one of them is dropped.
    pub fn absorb(&mut self, hash: &KeyHash, located: &Located) {
        if self.current.get(hash).is_some_and(|known| known.order < located.order) {
            self.current.remove(hash);
        }
        self.load(hash, located);
    }

    /// Moves a record into the full map, now that a checkpoint covers it, unless something newer (or a relocation) came.
    pub fn settle(&mut self, saved: &Entry) {
        if self.current.get(&saved.hash).is_some_and(|known| known == saved) {
            self.full.insert(&saved.hash, &Located::from(saved));
            self.current.remove(&saved.hash);
        }
    }

    /// Forgets a tombstone that nothing older can follow any more (zstore.md, decision 13).
    pub fn forget_tombstone(&mut self, hash: &KeyHash, order: Order) {
        let Some(known) = self.full.get(hash) else { return };
        if known.order == order && !known.is_live() && !self.current.contains_key(hash) {
            self.full.remove(hash);
        }
    }

    /// All newest records, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, Located)> {
        let unsaved = self.current.iter().map(|(hash, entry)| (*hash, Located::from(entry)));
        let saved = self.full.iter().filter(|(hash, _)| !self.current.contains_key(hash));
        unsaved.chain(saved)
    }

    /// Keys of the current and of the full map; a key overwritten since the last checkpoint counts in both.
    pub fn len(&self) -> (usize, usize) {
        (self.current.len(), self.full.len())
    }

    /// Bytes of memory of the full map.
    pub fn full_map_bytes(&self) -> usize {
        self.full.memory_bytes()
    }

    /// Gives memory back that the current map held at its fullest.
    pub fn shrink(&mut self) {
        if self.current.capacity() > 4 * self.current.len().max(16) {
            self.current.shrink_to(2 * self.current.len());
        }
    }
}

/// Uses a key hash's own bits: they are uniform already.
#[derive(Clone, Copy, Default)]
pub struct HashBits;

impl std::hash::BuildHasher for HashBits {
    type Hasher = FirstBytes;

    fn build_hasher(&self) -> FirstBytes {
        FirstBytes(0)
    }
}

/// Keeps eight bytes of the one byte string that it is fed.
pub struct FirstBytes(u64);

impl std::hash::Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(bits) = bytes.get(..8) {
            self.0 = u64::from_le_bytes(bits.try_into().expect("eight bytes"));
        }
    }

    fn write_usize(&mut self, _length: usize) {}
}
