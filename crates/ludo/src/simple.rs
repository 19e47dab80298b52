//! The twin with keys: a (2,4)-cuckoo table that holds full keys with their values.
//!
//! It is what the paper calls SmashSimple, the index to compare with: as flexible, exact about keys that are not present, and
//! larger by the keys: (8 · key bytes + 8 + l) / 0.95 bits a key.

use std::sync::atomic::AtomicU64;

use crate::bits::{BitArray, Field};
use crate::cuckoo::{Keys, Place, bucket_of};
use crate::hash::Hasher;
use crate::lookup::ValueTooWide;
use crate::maintenance::{ChangeError, Config, InsertError};
use crate::value::{PackedValue, ValueWords, fits};

/// A cuckoo table with keys. The fingerprint width of its shape is not used.
#[derive(Debug)]
pub struct Simple<V> {
    config: Config,
    hasher: Hasher,
    keys: Keys,
    values: BitArray<AtomicU64>,
    len: u64,
    value: std::marker::PhantomData<V>,
}

impl<V: PackedValue> Simple<V> {
    pub fn new(config: Config) -> Self {
        let keys = Keys::new(config.key_bytes, config.shape.buckets());
        let values = BitArray::new(u64::from(keys.places()) * u64::from(config.shape.value_bits()));
        Self { config, hasher: Hasher::new(config.seed), keys, values, len: 0, value: std::marker::PhantomData }
    }

    /// Keys that are present.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes() + self.values.memory_bytes()
    }

    pub fn get(&self, key: &[u8]) -> Option<V> {
        self.find(key).map(|place| V::from_words(self.value_at(place)))
    }

    /// Adds a key that is not present.
    pub fn insert(&mut self, key: &[u8], value: V) -> Result<(), InsertError> {
        let (expected, found) = (self.config.key_bytes, key.len());
        if expected != found {
            return Err(InsertError::KeyBytes { expected, found });
        }
        let words = self.checked(value)?;
        let count = self.config.shape.buckets();
        let digest = self.hasher.digest(key);
        let buckets = digest.buckets(count);
        if self.keys.find(key, digest.tag(), buckets).is_some() {
            return Err(InsertError::Present);
        }
        if self.len >= self.config.shape.capacity() {
            return Err(InsertError::Full);
        }
        let other = |place| {
            let [first, second] = self.hasher.digest(self.keys.key(place)).buckets(count);
            if bucket_of(place) == first { second } else { first }
        };
        let room = self.keys.room(buckets, other).ok_or(InsertError::NeedsRebuild)?;
        for (from, to) in room.moves {
            self.keys.shift(from, to);
            self.set_value(to, self.value_at(from));
        }
        self.keys.put(room.free, key, digest.tag());
        self.set_value(room.free, words);
        self.len += 1;
        Ok(())
    }

    /// Gives a key that is present another value.
    pub fn change(&mut self, key: &[u8], value: V) -> Result<(), ChangeError> {
        let words = self.checked(value)?;
        let place = self.find(key).ok_or(ChangeError::Absent)?;
        self.set_value(place, words);
        Ok(())
    }

    /// Removes a key; whether it was present.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some(place) = self.find(key) else { return false };
        self.keys.clear(place);
        self.len -= 1;
        true
    }

    fn checked(&self, value: V) -> Result<ValueWords, ValueTooWide> {
        let (words, limit) = (value.to_words(), self.config.shape.value_bits());
        if fits(&words, limit) { Ok(words) } else { Err(ValueTooWide { bits: V::MAX_BITS, limit }) }
    }

    fn find(&self, key: &[u8]) -> Option<Place> {
        if key.len() != self.config.key_bytes {
            return None;
        }
        let digest = self.hasher.digest(key);
        self.keys.find(key, digest.tag(), digest.buckets(self.config.shape.buckets()))
    }

    /// Pieces of a value: index of the word, its offset and its width.
    fn pieces(&self, place: Place) -> impl Iterator<Item = (usize, u64, u32)> + use<V> {
        let bits = self.config.shape.value_bits();
        let start = u64::from(place) * u64::from(bits);
        (0..bits).step_by(64).map(move |before| (before as usize / 64, start + u64::from(before), (bits - before).min(64)))
    }

    fn value_at(&self, place: Place) -> ValueWords {
        let mut words = ValueWords::default();
        for (index, offset, width) in self.pieces(place) {
            words[index] = self.values.field(self.values.position(offset), &Field::new(width));
        }
        words
    }

    fn set_value(&mut self, place: Place, words: ValueWords) {
        self.pieces(place).for_each(|(index, offset, width)| self.values.set_field(offset, width, words[index]));
    }
}

#[cfg(test)]
mod tests;
