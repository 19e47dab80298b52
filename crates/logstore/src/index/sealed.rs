//! The sealed records of one shard: two lookup units that hold no keys.
//!
//! Invariants:
//! - Every key that was sealed is answered with its own record. A moved key for which the plain unit has an answer is not sealed.
//! - A key that was not sealed is answered with nothing, or with the record of one that was.

use super::Located;
use super::dictionaries::{Dictionaries, Kind, Numbered};
use super::gather::GatheredShard;
use ludo::{Config, Lookup, Shape, ValueWords};
use std::sync::Arc;
use types::{KEY_HASH_BYTES, KeyHash};

/// Records without their keys.
pub struct Sealed {
    dictionaries: Arc<Dictionaries>,
    plain: Option<Lookup>,
    moved: Option<Lookup>,
    keys: usize,
}

/// A shard's saved records after a sealing.
pub struct Parts {
    pub sealed: Sealed,
    /// What stays with its keys.
    pub exact: Vec<(KeyHash, Located)>,
}

impl Sealed {
    /// Seals what was gathered. `seed` keeps others from choosing keys that collide.
    pub fn build(dictionaries: &Arc<Dictionaries>, gathered: GatheredShard, fingerprint_bits: u32, seed: u64) -> Parts {
        let GatheredShard { live, dead: mut exact, .. } = gathered;
        let (plain, moved): (Vec<_>, Vec<_>) = live.into_iter().partition(|(_, record, _)| record.kind() == Kind::Plain);
        let mut sealed = Sealed { dictionaries: dictionaries.clone(), plain: None, moved: None, keys: 0 };
        sealed.plain = sealed.unit(Kind::Plain, plain, fingerprint_bits, seed, &mut exact);
        let is_hidden = |(hash, _, _): &(KeyHash, Numbered, u32)| sealed.get(hash).is_some();
        let (hidden, moved): (Vec<_>, Vec<_>) = moved.into_iter().partition(is_hidden);
        exact.extend(hidden.iter().map(|(hash, record, _)| (*hash, dictionaries.gathered(record))));
        sealed.moved = sealed.unit(Kind::Moved, moved, fingerprint_bits, seed, &mut exact);
        Parts { sealed, exact }
    }

    /// A unit of these records; if no seed serves them they stay exact.
    fn unit(
        &mut self,
        kind: Kind,
        records: Vec<(KeyHash, Numbered, u32)>,
        fingerprint_bits: u32,
        seed: u64,
        exact: &mut Vec<(KeyHash, Located)>,
    ) -> Option<Lookup> {
        if records.is_empty() {
            return None;
        }
        let shape = Shape::new(records.len() as u64, self.dictionaries.value_bits(kind), fingerprint_bits);
        let shape = shape.expect("a value has a bit and fewer than 256, and a shard fewer than 2^30 keys");
        let config = Config { key_bytes: KEY_HASH_BYTES, shape, seed };
        let packed = |(hash, record, origin): &(KeyHash, Numbered, u32)| -> ([u8; KEY_HASH_BYTES], ValueWords) {
            (*hash.as_bytes(), self.dictionaries.pack(record, *origin))
        };
        match Lookup::build(config, records.iter().map(packed)) {
            Ok(unit) => {
                self.keys += records.len();
                Some(unit)
            }
            Err(error) => {
                tracing::warn!(%error, keys = records.len(), "no lookup unit can be built of these keys: they stay in the exact table");
                exact.extend(records.iter().map(|(hash, record, _)| (*hash, self.dictionaries.gathered(record))));
                None
            }
        }
    }

    #[inline]
    pub fn get(&self, hash: &KeyHash) -> Option<Located> {
        self.ask(&self.plain, Kind::Plain, hash).or_else(|| self.ask(&self.moved, Kind::Moved, hash))
    }

    #[inline]
    fn ask(&self, unit: &Option<Lookup>, kind: Kind, hash: &KeyHash) -> Option<Located> {
        let value = unit.as_ref()?.get(hash.as_bytes())?;
        self.dictionaries.unpack(&value, kind)
    }

    /// Keys that were sealed; those that have changed since are counted too.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Without the dictionaries, which shards share.
    pub fn memory_bytes(&self) -> usize {
        let of_unit = |unit: &Option<Lookup>| unit.as_ref().map_or(0, Lookup::memory_bytes);
        of_unit(&self.plain) + of_unit(&self.moved)
    }
}
