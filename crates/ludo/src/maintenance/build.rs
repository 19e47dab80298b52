//! Building from many entries at once, and rebuilding.
//!
//! First every key finds its bucket, its value lying in the slot of its position; then every bucket gets its seed and its
//! values their slots; then the classifier is made. A hash seed that fails (no room, no seed, or no acyclic classifier) is
//! replaced: with 100,000 keys and more that is not seen in practice, with a handful of keys it happens.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::renew::{Places, Renewing, derived_seed};
use super::{Config, Maintenance, Place, bucket_of, empty_generation};
use crate::cuckoo::Keys;
use crate::generation::Generation;
use crate::hash::{Digest, Hasher};
use crate::lookup::{Lookup, ValueTooWide};
use crate::seeds;
use crate::shape::{SLOTS, Shape};
use crate::table::{ESCAPE, Slot, Table};
use crate::value::{PackedValue, ValueWords, fits};

/// Hash seeds that one build may use up.
const HASH_SEEDS_MAX: u64 = 64;
/// Classifier seeds tried for one hash seed: each fails with probability 1/2 at most.
const CLASSIFIER_SEEDS_MAX: u32 = 64;

/// Why a structure could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The entry with this index has a key of another length.
    KeyBytes { entry: u64, expected: usize, found: usize },
    /// The value of the entry with this index does not fit.
    Value { entry: u64, error: ValueTooWide },
    /// The key of the entry with this index came before.
    Duplicate { entry: u64 },
    /// There are more entries than the structure is made for.
    Full { capacity: u64 },
    /// No seed served. Chance does not do this: the seed is known to whoever made the keys.
    Seeds,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyBytes { entry, expected, found } => write!(f, "entry {entry}: key of {found} bytes, not {expected}"),
            Self::Value { entry, error } => write!(f, "entry {entry}: {error}"),
            Self::Duplicate { entry } => write!(f, "entry {entry}: the key came before"),
            Self::Full { capacity } => write!(f, "more than {capacity} entries"),
            Self::Seeds => f.write_str("no seed serves these keys"),
        }
    }
}

impl std::error::Error for BuildError {}

/// Keys and values that have found their buckets; nobody reads yet.
struct Building {
    shape: Shape,
    hasher: Hasher,
    keys: Keys,
    table: Table<AtomicU64>,
    len: u64,
    /// Buckets below this one have their seeds.
    seeded: u64,
}

/// Why a key did not find a bucket.
enum Misplaced {
    Present,
    NoRoom,
}

impl<V: PackedValue> Maintenance<V> {
    /// A structure without keys.
    pub fn new(config: Config) -> Self {
        let shape = config.shape;
        let generation = empty_generation(&shape, 0, derived_seed(config.seed, 1), derived_seed(config.seed, 2));
        let (_, forest) = Renewing::new(&shape, 0, 0).finish();
        Self {
            config,
            keys: Keys::new(config.key_bytes, shape.buckets()),
            len: 0,
            lookup: Lookup::of_generation(generation, 0),
            forest,
            renewal: None,
            follows: None,
            seeds_used: 2,
            value: std::marker::PhantomData,
        }
    }

    /// A structure of all entries, whose keys differ. Expected time O(n).
    pub fn build<K: AsRef<[u8]>>(config: Config, entries: impl IntoIterator<Item = (K, V)>) -> Result<Self, BuildError> {
        let mut seeds_used = 0;
        let building = Building::fill(&config, config.shape, &mut seeds_used, entries.into_iter())?;
        let (building, renewing) = building.complete(&config, &mut seeds_used)?;
        let (keys, len) = (building.keys, building.len);
        let (classifier, forest) = renewing.finish();
        let generation = Generation::new(0, building.shape, building.hasher, classifier, Arc::new(building.table));
        let lookup = Lookup::of_generation(generation, 0);
        let value = std::marker::PhantomData;
        Ok(Self { config, keys, len, lookup, forest, renewal: None, follows: None, seeds_used, value })
    }

    /// Builds everything anew, under another hash seed and with other sizes. Readers go on with the old generation until the
    /// new one is complete; lookup units elsewhere need a snapshot. Takes as much memory again while it runs. If it fails,
    /// everything stays as it was.
    pub fn rebuild(&mut self, shape: Shape) -> Result<(), BuildError> {
        let mut seeds_used = self.seeds_used;
        let building = Building::fill(&self.config, shape, &mut seeds_used, self.iter())?;
        let (building, renewing) = building.complete(&self.config, &mut seeds_used)?;
        let (classifier, forest) = renewing.finish();
        let number = self.lookup.generation() + 1;
        self.lookup.replace(Generation::new(number, shape, building.hasher, classifier, Arc::new(building.table)));
        self.config.shape = shape;
        self.keys = building.keys;
        self.forest = forest;
        self.renewal = None;
        self.follows = None;
        self.seeds_used = seeds_used;
        Ok(())
    }
}

impl Building {
    fn new(key_bytes: usize, shape: Shape, hash_seed: u64) -> Self {
        let keys = Keys::new(key_bytes, shape.buckets());
        Self { shape, hasher: Hasher::new(hash_seed), keys, table: Table::new(&shape), len: 0, seeded: 0 }
    }

    fn fill<K: AsRef<[u8]>, V: PackedValue>(
        config: &Config,
        shape: Shape,
        seeds_used: &mut u64,
        entries: impl Iterator<Item = (K, V)>,
    ) -> Result<Self, BuildError> {
        *seeds_used += 1;
        let mut building = Self::new(config.key_bytes, shape, derived_seed(config.seed, *seeds_used));
        for (key, value) in entries {
            let (key, value, entry) = (key.as_ref(), value.to_words(), building.len);
            if key.len() != config.key_bytes {
                return Err(BuildError::KeyBytes { entry, expected: config.key_bytes, found: key.len() });
            }
            if !fits(&value, shape.value_bits()) {
                let error = ValueTooWide { bits: V::MAX_BITS, limit: shape.value_bits() };
                return Err(BuildError::Value { entry, error });
            }
            if building.len == shape.capacity() {
                return Err(BuildError::Full { capacity: shape.capacity() });
            }
            loop {
                match building.place(key, value) {
                    Ok(()) => break,
                    Err(Misplaced::Present) => return Err(BuildError::Duplicate { entry }),
                    Err(Misplaced::NoRoom) => building = building.reseeded(config, seeds_used)?,
                }
            }
        }
        Ok(building)
    }

    fn digest_at(&self, place: Place) -> Digest {
        self.hasher.digest(self.keys.key(place))
    }

    fn place(&mut self, key: &[u8], value: ValueWords) -> Result<(), Misplaced> {
        let digest = self.hasher.digest(key);
        let count = self.shape.buckets();
        let buckets = digest.buckets(count);
        if self.keys.find(key, digest.tag(), buckets).is_some() {
            return Err(Misplaced::Present);
        }
        let other = |place| {
            let [first, second] = self.digest_at(place).buckets(count);
            if bucket_of(place) == first { second } else { first }
        };
        let room = self.keys.room(buckets, other).ok_or(Misplaced::NoRoom)?;
        for (from, to) in room.moves {
            self.keys.shift(from, to);
            self.set_provisional(to, self.provisional(from));
        }
        self.keys.put(room.free, key, digest.tag());
        self.set_provisional(room.free, Slot { value, fingerprint: digest.fingerprint(self.shape.fingerprint_bits()) });
        self.len += 1;
        Ok(())
    }

    /// The content of a place whose bucket has no seed yet.
    fn provisional(&self, place: Place) -> Slot {
        self.table.slot(bucket_of(place), place as usize % SLOTS)
    }

    fn set_provisional(&self, place: Place, content: Slot) {
        self.table.set_slot(bucket_of(place), place as usize % SLOTS, content);
    }

    fn content(&self, place: Place) -> Slot {
        let bucket = bucket_of(place);
        if bucket >= self.seeded {
            return self.provisional(place);
        }
        self.table.slot(bucket, self.digest_at(place).slot(self.table.seed(bucket)))
    }

    /// The same entries under the next hash seed that has room for them.
    fn reseeded(self, config: &Config, seeds_used: &mut u64) -> Result<Self, BuildError> {
        let entries: Vec<(Box<[u8]>, ValueWords)> =
            self.keys.all().map(|place| (self.keys.key(place).into(), self.content(place).value)).collect();
        let shape = self.shape;
        drop(self);
        for _ in 0..HASH_SEEDS_MAX {
            *seeds_used += 1;
            let mut building = Self::new(config.key_bytes, shape, derived_seed(config.seed, *seeds_used));
            if entries.iter().all(|(key, value)| building.place(key, *value).is_ok()) {
                return Ok(building);
            }
        }
        Err(BuildError::Seeds)
    }

    /// Seeds and classifier.
    fn complete(mut self, config: &Config, seeds_used: &mut u64) -> Result<(Self, Renewing), BuildError> {
        for _ in 0..HASH_SEEDS_MAX {
            if self.assign_seeds()
                && let Some(renewing) = self.classify(config, seeds_used)
            {
                return Ok((self, renewing));
            }
            self = self.reseeded(config, seeds_used)?;
        }
        Err(BuildError::Seeds)
    }

    /// Gives every bucket its seed; whether all found one.
    fn assign_seeds(&mut self) -> bool {
        let mut overflow_room = self.shape.overflow_places() - 1;
        for bucket in 0..self.shape.buckets() {
            let mut digests = [Digest::default(); SLOTS];
            let mut sources = [0; SLOTS];
            let mut count = 0;
            for place in self.keys.in_bucket(bucket) {
                (digests[count], sources[count]) = (self.digest_at(place), place as usize % SLOTS);
                count += 1;
            }
            let Some(seed) = seeds::find(0, &digests[..count]) else { return false };
            if seed >= ESCAPE {
                if overflow_room == 0 {
                    return false;
                }
                overflow_room -= 1;
            }
            let before = self.table.slots(bucket);
            for (digest, source) in digests.iter().zip(sources).take(count) {
                self.table.set_slot(bucket, digest.slot(seed), before[source]);
            }
            self.table.set_seed(bucket, seed);
            self.seeded = bucket + 1;
        }
        true
    }

    fn classify(&self, config: &Config, seeds_used: &mut u64) -> Option<Renewing> {
        let places = Places { keys: &self.keys, hasher: &self.hasher, buckets: self.shape.buckets() };
        for _ in 0..CLASSIFIER_SEEDS_MAX {
            *seeds_used += 1;
            let mut renewing = Renewing::new(&self.shape, derived_seed(config.seed, *seeds_used), 1);
            if renewing.advance(places, u64::MAX) {
                return Some(renewing);
            }
        }
        None
    }
}
