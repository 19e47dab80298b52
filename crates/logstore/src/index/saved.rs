//! The forms in which a gateway keeps where saved records stand.

use super::Located;
use super::full::FullMap;
use super::ludo_map::LudoMap;
use super::sealed::Parts;
use types::KeyHash;

/// Fingerprints of sealed keys: of the keys that are not there one in 4,096 is answered with another one's record.
const FINGERPRINT_BITS: u32 = 12;
/// Fewer records with their keys than this are not worth a sealing.
const SEAL_ENTRIES: usize = 64 * 1024;

/// How saved records are kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexForm {
    /// Each with its key's hash.
    Full,
    /// In lookup units without keys: a quarter of the memory. For a gateway that is alone.
    Ludo(LudoForm),
}

/// How records are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LudoForm {
    /// 0 to 16.
    pub fingerprint_bits: u32,
    /// Records with their keys from which on a sealing may be due.
    pub seal_entries: usize,
}

impl Default for LudoForm {
    fn default() -> Self {
        LudoForm { fingerprint_bits: FINGERPRINT_BITS, seal_entries: SEAL_ENTRIES }
    }
}

/// The saved records of one shard.
pub(super) enum Saved {
    Full(FullMap),
    Ludo(Box<LudoMap>),
}

impl Saved {
    pub fn new(form: IndexForm, copies: usize) -> Self {
        match form {
            IndexForm::Full => Saved::Full(FullMap::new(copies)),
            IndexForm::Ludo(_) => Saved::Ludo(Box::new(LudoMap::new(copies))),
        }
    }

    pub fn get(&self, hash: &KeyHash) -> Option<Located> {
        match self {
            Saved::Full(map) => map.get(hash),
            Saved::Ludo(map) => map.get(hash),
        }
    }

    /// The records that are kept with their keys.
    pub fn exact(&self) -> &FullMap {
        match self {
            Saved::Full(map) => map,
            Saved::Ludo(map) => map.exact(),
        }
    }

    /// What is said of a key that is kept without it.
    pub fn sealed(&self, hash: &KeyHash) -> Option<Located> {
        match self {
            Saved::Full(_) => None,
            Saved::Ludo(map) => map.sealed(hash),
        }
    }

    pub fn insert(&mut self, hash: &KeyHash, located: &Located) {
        match self {
            Saved::Full(map) => map.insert(hash, located),
            Saved::Ludo(map) => map.insert(hash, located),
        }
    }

    pub fn forget(&mut self, hash: &KeyHash) {
        match self {
            Saved::Full(map) => drop(map.remove(hash)),
            Saved::Ludo(map) => map.forget(hash),
        }
    }

    pub fn refute(&mut self, hash: &KeyHash) {
        match self {
            Saved::Full(_) => panic!("what stands with its key can't be refuted"),
            Saved::Ludo(map) => map.refute(hash),
        }
    }

    pub fn seal(&mut self, parts: Parts) {
        match self {
            Saved::Full(_) => panic!("the full form seals nothing"),
            Saved::Ludo(map) => map.seal(parts),
        }
    }

    /// Records with their keys, and without.
    pub fn len(&self) -> (usize, usize) {
        match self {
            Saved::Full(map) => (map.len(), 0),
            Saved::Ludo(map) => map.len(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        match self {
            Saved::Full(map) => map.memory_bytes(),
            Saved::Ludo(map) => map.memory_bytes(),
        }
    }
}
