//! A table of the machine that is kept as rows: it knows which of its entries are not in the store as they are now.
//!
//! Invariants:
//! - An entry that is not among the changed ones stands in the store as it is here; a key that is neither here nor among them has no row.
//! - An entry that came and went since the last snapshot leaves nothing behind.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use consensus::{MachineError, RowChange};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pages::{Key, Pages};
use crate::ids::Ino;
use crate::meta::command::MetaSession;

/// A key as bytes, in the same order.
pub trait RowKey: Key {
    fn put(self, bytes: &mut Vec<u8>);

    fn of(bytes: &[u8]) -> Option<Self>;
}

/// `TABLE`: the first byte of its rows' keys.
#[derive(Clone, Debug)]
pub struct RowMap<const TABLE: u8, K, V> {
    entries: Pages<K, V>,
    /// What was changed since the last snapshot, and whether the store has a row of it.
    changed: BTreeMap<K, bool>,
}

impl<const TABLE: u8, K: Key, V> Default for RowMap<TABLE, K, V> {
    fn default() -> Self {
        RowMap { entries: Pages::default(), changed: BTreeMap::new() }
    }
}

impl<const TABLE: u8, K: RowKey, V: Serialize + DeserializeOwned> RowMap<TABLE, K, V> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// To be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let found = self.entries.get_mut(key);
        if found.is_some() {
            self.changed.entry(*key).or_insert(true);
        }
        found
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = self.entries.insert(key, value);
        self.changed.entry(key).or_insert(before.is_some());
        before
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let before = self.entries.remove(key)?;
        if !*self.changed.entry(*key).or_insert(true) {
            self.changed.remove(key);
        }
        Some(before)
    }

    pub fn range<R: RangeBounds<K>>(&self, range: R) -> impl Iterator<Item = (K, &V)> + use<'_, TABLE, K, V, R> {
        self.entries.range(range)
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries.iter()
    }

    /// All entries count as changed.
    #[cfg(test)]
    pub fn touch(&mut self) {
        self.changed = self.entries.iter().map(|(key, _)| (key, true)).collect();
    }

    /// Takes the rows that were changed since the last call, as they are now.
    pub fn take_changes(&mut self, rows: &mut Vec<RowChange>) {
        for key in std::mem::take(&mut self.changed).into_keys() {
            let value = self.entries.get(&key).map(encode);
            let mut bytes = vec![TABLE];
            key.put(&mut bytes);
            rows.push((bytes, value));
        }
    }

    /// Takes in a row of this table, whose key is given without the table; the key and the value.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(K, &V), MachineError> {
        let key = K::of(key).ok_or_else(|| MachineError(format!("a key of {} bytes in table {TABLE} of a tree", key.len())))?;
        let decoded = decode(value).map_err(|error| MachineError(format!("a row in table {TABLE} of a tree: {error}")))?;
        self.entries.insert(key, decoded);
        Ok((key, self.entries.get(&key).expect("it was put there")))
    }
}

/// A row's value.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("encoding into memory cannot fail")
}

pub fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes behind its end", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

impl Key for u64 {
    const LEAST: u64 = 0;
}

impl RowKey for u64 {
    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_be_bytes());
    }

    fn of(bytes: &[u8]) -> Option<u64> {
        bytes.try_into().ok().map(u64::from_be_bytes)
    }
}

/// Newtypes of numbers.
macro_rules! number_keys {
    ($($name:ident),*) => {
        $(
            impl Key for $name {
                const LEAST: $name = $name(0);
            }

            impl RowKey for $name {
                fn put(self, bytes: &mut Vec<u8>) {
                    self.0.put(bytes);
                }

                fn of(bytes: &[u8]) -> Option<$name> {
                    u64::of(bytes).map($name)
                }
            }
        )*
    };
}

number_keys!(Ino, MetaSession);

impl<A: Key, B: Key> Key for (A, B) {
    const LEAST: (A, B) = (A::LEAST, B::LEAST);
}

impl<A: RowKey, B: RowKey> RowKey for (A, B) {
    fn put(self, bytes: &mut Vec<u8>) {
        self.0.put(bytes);
        self.1.put(bytes);
    }

    /// Of two numbers.
    fn of(bytes: &[u8]) -> Option<(A, B)> {
        let (first, second) = bytes.split_at_checked(size_of::<u64>())?;
        Some((A::of(first)?, B::of(second)?))
    }
}
