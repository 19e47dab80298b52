//! The index: where the newest record of each key stands.
//!
//! Two maps a shard, as in the paper (section 3.4): the *current* map holds what no checkpoint covers yet, with everything
//! that a checkpoint writes down; the *saved* map holds the rest, packed, in one of two forms ([`IndexForm`]). A lookup asks the current
//! map first. Only orders are compared, never places: relocation changes places and keeps the order.
//!
//! In the form without keys an answer may be *sealed*: right for a key that is present, and perhaps another one's record for one that is
//! not. Who has reason to doubt one finds out and refutes it (docs/rfd/0013-ludo-index.md).

mod dictionaries;
mod full;
mod gather;
mod ludo_map;
mod saved;
mod sealed;
mod table;

pub use dictionaries::Dictionaries;
pub use gather::{Gather, GatheredShard};
pub use saved::{IndexForm, LudoForm};
pub use sealed::{Parts, Sealed};

use saved::Saved;

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

/// Keys of one shard, by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexLen {
    pub unsaved: usize,
    /// Saved, with their hashes.
    pub exact: usize,
    /// Saved, without.
    pub sealed: usize,
}

/// The index of one shard of keys.
pub struct ShardIndex {
    current: hashbrown::HashMap<KeyHash, Entry, HashBits>,
    saved: Saved,
    /// Of this epoch and before, everything is saved that counts.
    covered: Epoch,
}

impl ShardIndex {
    /// An empty index for records of at most `copies` replicas.
    pub fn new(form: IndexForm, copies: usize) -> Self {
        let current = hashbrown::HashMap::with_hasher(HashBits);
        ShardIndex { current, saved: Saved::new(form, copies), covered: Epoch::default() }
    }

    /// The newest record of a key, tombstones included.
    pub fn newest(&self, hash: &KeyHash) -> Option<Located> {
        match self.current.get(hash) {
            Some(entry) => Some(Located::from(entry)),
            None => self.saved.get(hash),
        }
    }

    /// [`ShardIndex::newest`], if it stands there with its key: no answer of a sealed unit.
    pub fn newest_exact(&self, hash: &KeyHash) -> Option<Located> {
        match self.current.get(hash) {
            Some(entry) => Some(Located::from(entry)),
            None => self.saved.exact().get(hash),
        }
    }

    /// Whether [`ShardIndex::newest`] is this, and may be another key's.
    pub fn is_sealed_as(&self, hash: &KeyHash, located: &Located) -> bool {
        self.newest_exact(hash).is_none() && self.saved.sealed(hash).is_some_and(|sealed| sealed == *located)
    }

    /// Notes that this sealed answer is another key's: this one is not there. False if it is not the answer any more.
    pub fn refute(&mut self, hash: &KeyHash, located: &Located) -> bool {
        let is_answer = self.is_sealed_as(hash, located);
        if is_answer {
            self.saved.refute(hash);
        }
        is_answer
    }

    /// The epoch of a key's newest record, or of its last move, if no checkpoint that this gateway knows covers it.
    pub fn unsaved_epoch(&self, hash: &KeyHash) -> Option<Epoch> {
        self.current.get(hash).map(|entry| entry.epoch)
    }

    /// Takes an entry in if its order is newer than what is known; returns what it replaced. `Err` gives it back as stale. A sealed answer
    /// makes nothing stale: who publishes has seen to it that the entry is newer than what is saved of this very key. What it replaced
    /// then is a hint.
    pub fn publish(&mut self, entry: Entry) -> Result<Option<Located>, Entry> {
        if entry.epoch <= self.covered {
            return Err(entry);
        }
        let known = self.newest(&entry.hash);
        let is_stale = known.is_some_and(|known| known.order >= entry.order);
        if is_stale && self.newest_exact(&entry.hash).is_some() {
            return Err(entry);
        }
        self.current.insert(entry.hash, entry);
        // What is sealed and newer is another key's.
        Ok(known.filter(|_| !is_stale))
    }

    /// Changes a record's places if it is still the newest and still stands where it was (RFD 2, decision 10). `entry`
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

    /// Puts a record that a checkpoint covers straight among the saved ones: newer or equal orders win, so runs are loaded
    /// oldest first.
    pub fn load(&mut self, hash: &KeyHash, located: &Located) {
        if self.saved.exact().get(hash).is_none_or(|known| known.order <= located.order) {
            self.saved.insert(hash, located);
        }
    }

    /// As [`ShardIndex::load`], beside entries that have been published meanwhile: an older one of them is dropped.
    pub fn absorb(&mut self, hash: &KeyHash, located: &Located) {
        if self.current.get(hash).is_some_and(|known| known.order < located.order) {
            self.current.remove(hash);
        }
        self.load(hash, located);
    }

    /// All that a checkpoint of this epoch has is loaded, beside entries that have been published meanwhile. What it lacks of this epoch and before, or has
    /// otherwise, was replaced: by a delete that is forgotten, perhaps, and was told before these entries were.
    pub fn is_loaded_until(&mut self, epoch: Epoch) {
        self.covered = epoch;
        self.current.retain(|_, entry| entry.epoch > epoch);
    }

    /// Moves a record among the saved ones, now that a checkpoint covers it, unless something newer (or a relocation) came.
    pub fn settle(&mut self, saved: &Entry) {
        if self.current.get(&saved.hash).is_some_and(|known| known == saved) {
            self.saved.insert(&saved.hash, &Located::from(saved));
            self.current.remove(&saved.hash);
        }
    }

    /// Forgets a tombstone that nothing older can follow any more (RFD 2, decision 13).
    pub fn forget_tombstone(&mut self, hash: &KeyHash, order: Order) {
        let Some(known) = self.saved.exact().get(hash) else { return };
        if known.order == order && !known.is_live() && !self.current.contains_key(hash) {
            self.saved.forget(hash);
        }
    }

    /// Replaces what is saved by the same records, sealed.
    pub fn seal(&mut self, parts: Parts) {
        self.saved.seal(parts);
    }

    /// All newest records that stand with their keys, in no order that means anything. To those that are sealed the rows of the runs lead:
    /// whoever looks through all records calls `visit_records`.
    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, Located)> {
        let saved = self.saved.exact().iter().filter(|(hash, _)| !self.current.contains_key(hash));
        self.iter_unsaved().chain(saved)
    }

    /// What no checkpoint covers.
    pub fn iter_unsaved(&self) -> impl Iterator<Item = (KeyHash, Located)> {
        self.current.iter().map(|(hash, entry)| (*hash, Located::from(entry)))
    }

    /// How many keys there are in each of the maps; one that was overwritten since a checkpoint or a sealing counts twice.
    pub fn len(&self) -> IndexLen {
        let (exact, sealed) = self.saved.len();
        IndexLen { unsaved: self.current.len(), exact, sealed }
    }

    /// Bytes of memory of what is saved.
    pub fn saved_bytes(&self) -> usize {
        self.saved.memory_bytes()
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

#[cfg(test)]
mod tests;
