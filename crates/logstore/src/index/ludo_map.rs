//! The saved records of one shard, most of them without their keys (docs/rfd/0013-ludo-index.md).
//!
//! A key that is present is answered right. One that is not may be answered with another one's record: a *phantom*. Whoever acts on a
//! sealed answer finds out, as the table in the RFD says, and what was found out is noted here.

use super::full::FullMap;
use super::sealed::{Parts, Sealed};
use super::{HashBits, Located};
use types::KeyHash;

/// Keys of one shard that are noted as not being sealed; when there are more, all are forgotten and found out anew.
const MAX_ALIENS: usize = 1024;

pub struct LudoMap {
    /// What was saved since the last sealing, tombstones, and what could not be sealed.
    exact: FullMap,
    sealed: Option<Sealed>,
    /// Keys that the sealed units answer for, wrongly.
    aliens: hashbrown::HashSet<KeyHash, HashBits>,
    copies: usize,
}

impl LudoMap {
    pub fn new(copies: usize) -> Self {
        LudoMap { exact: FullMap::new(copies), sealed: None, aliens: hashbrown::HashSet::with_hasher(HashBits), copies }
    }

    pub fn get(&self, hash: &KeyHash) -> Option<Located> {
        self.exact.get(hash).or_else(|| self.sealed(hash))
    }

    /// The answer that no key stands beside.
    pub fn sealed(&self, hash: &KeyHash) -> Option<Located> {
        let found = self.sealed.as_ref()?.get(hash)?;
        (!self.aliens.contains(hash)).then_some(found)
    }

    pub fn exact(&self) -> &FullMap {
        &self.exact
    }

    pub fn insert(&mut self, hash: &KeyHash, located: &Located) {
        self.exact.insert(hash, located);
    }

    /// Forgets a tombstone, unless it may hide an older version that is sealed: then the next sealing does.
    pub fn forget(&mut self, hash: &KeyHash) {
        if self.sealed(hash).is_none() {
            self.exact.remove(hash);
        }
    }

    /// What the sealed units say of this key is another one's.
    pub fn refute(&mut self, hash: &KeyHash) {
        if self.aliens.len() >= MAX_ALIENS {
            self.aliens.clear();
        }
        self.aliens.insert(*hash);
    }

    /// Replaces all that is saved by the same records, sealed.
    pub fn seal(&mut self, parts: Parts) {
        let Parts { sealed, exact } = parts;
        self.exact = FullMap::new(self.copies);
        exact.iter().for_each(|(hash, located)| self.exact.insert(hash, located));
        self.sealed = Some(sealed);
        self.aliens = hashbrown::HashSet::with_hasher(HashBits);
    }

    /// Keys with their hashes, and without.
    pub fn len(&self) -> (usize, usize) {
        (self.exact.len(), self.sealed.as_ref().map_or(0, Sealed::keys))
    }

    pub fn memory_bytes(&self) -> usize {
        let aliens = self.aliens.capacity() * size_of::<KeyHash>();
        self.exact.memory_bytes() + aliens + self.sealed.as_ref().map_or(0, Sealed::memory_bytes)
    }
}
