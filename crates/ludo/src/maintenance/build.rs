//! Building from many entries at once, and rebuilding.
//!
//! First every key finds its bucket, its value lying in the slot of its position; then every bucket gets its seed and its
//! values their slots; then the classifier is solved and the forest linked. Keys come in any order, so that the first step is
//! one miss after the other; they are taken in groups, and what a group needs is asked for together. The other steps go through
//! the buckets in their order.
//!
//! Keys sorted by their first bucket were rejected: their second buckets lie anywhere, and a copy of all entries is needed.
//! A hash seed that fails (no room, no seed, or no acyclic classifier) is
//! replaced: with 100,000 keys and more that is not seen in practice, with a handful of keys it happens.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::renew::derived_seed;
use super::{Config, Maintenance, Place, bucket_of, choice_of, empty_generation};
use crate::classifier::Classifier;
use crate::cuckoo::Keys;
use crate::forest::{Ends, Forest};
use crate::generation::{GROUP, Generation};
use crate::hash::{Digest, Hasher};
use crate::lookup::{Lookup, ValueTooWide};
use crate::peel::Peeling;
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
        Self {
            config,
            keys: Keys::new(config.key_bytes, shape.buckets()),
            len: 0,
            lookup: Lookup::of_generation(generation, 0),
            forest: Forest::of_shape(&shape),
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
        let (building, classifier) = building.complete(&config, &mut seeds_used)?;
        let forest = building.forest(&classifier);
        let (keys, len) = (building.keys, building.len);
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
        let (building, classifier) = building.complete(&self.config, &mut seeds_used)?;
        let forest = building.forest(&classifier);
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

impl Lookup {
    /// A lookup structure of entries, whose keys differ, that stay what they are: no keyed side is kept, so it takes no updates of one.
    pub fn build<V: PackedValue, K: AsRef<[u8]>>(
        config: Config,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, BuildError> {
        let mut seeds_used = 0;
        let building = Building::fill(&config, config.shape, &mut seeds_used, entries.into_iter())?;
        let (building, classifier) = building.complete(&config, &mut seeds_used)?;
        let generation = Generation::new(0, building.shape, building.hasher, classifier, Arc::new(building.table));
        Ok(Self::of_generation(generation, 0))
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
        let mut entries = entries.fuse();
        loop {
            let group: Vec<(K, V)> = entries.by_ref().take(GROUP).collect();
            if group.is_empty() {
                break;
            }
            building.warm(group.iter().map(|(key, _)| key.as_ref()));
            for (key, value) in group {
                building = building.with_entry(config, seeds_used, key.as_ref(), value)?;
            }
        }
        Ok(building)
    }

    /// Asks for the memory that placing some keys will touch.
    fn warm<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        let mut wanted = [[0; 2]; GROUP];
        let mut count = 0;
        for (buckets, key) in wanted.iter_mut().zip(keys) {
            *buckets = self.hasher.digest(key).buckets(self.shape.buckets());
            buckets.iter().for_each(|bucket| self.keys.touch_tags(*bucket));
            count += 1;
        }
        for buckets in &wanted[..count] {
            let emptier = self.keys.emptier(*buckets);
            self.keys.touch_keys(emptier);
            self.table.touch(emptier);
        }
    }

    /// With one more entry, if need be under another hash seed.
    fn with_entry<V: PackedValue>(
        mut self,
        config: &Config,
        seeds_used: &mut u64,
        key: &[u8],
        value: V,
    ) -> Result<Self, BuildError> {
        let (value, entry) = (value.to_words(), self.len);
        if key.len() != config.key_bytes {
            return Err(BuildError::KeyBytes { entry, expected: config.key_bytes, found: key.len() });
        }
        if !fits(&value, self.shape.value_bits()) {
            let error = ValueTooWide { bits: V::MAX_BITS, limit: self.shape.value_bits() };
            return Err(BuildError::Value { entry, error });
        }
        if self.len == self.shape.capacity() {
            return Err(BuildError::Full { capacity: self.shape.capacity() });
        }
        loop {
            match self.place(key, value) {
                Ok(()) => return Ok(self),
                Err(Misplaced::Present) => return Err(BuildError::Duplicate { entry }),
                Err(Misplaced::NoRoom) => self = self.reseeded(config, seeds_used)?,
            }
        }
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
    fn complete(mut self, config: &Config, seeds_used: &mut u64) -> Result<(Self, Classifier<AtomicU64>), BuildError> {
        for _ in 0..HASH_SEEDS_MAX {
            if self.assign_seeds()
                && let Some(classifier) = self.classify(config, seeds_used)
            {
                return Ok((self, classifier));
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

    fn classify(&self, config: &Config, seeds_used: &mut u64) -> Option<Classifier<AtomicU64>> {
        for _ in 0..CLASSIFIER_SEEDS_MAX {
            *seeds_used += 1;
            let classifier = Classifier::new(&self.shape, derived_seed(config.seed, *seeds_used));
            let mut peeling = Peeling::new(self.shape.side_a() + self.shape.side_b());
            for place in self.keys.all() {
                let digest = self.digest_at(place);
                peeling.add(ends(&classifier, digest), choice_of(digest, place, self.shape.buckets()));
            }
            if peeling.solve(&classifier) {
                return Some(classifier);
            }
        }
        None
    }

    /// The forest of a solved classifier.
    fn forest(&self, classifier: &Classifier<AtomicU64>) -> Forest {
        let mut forest = Forest::of_shape(&self.shape);
        for place in self.keys.all() {
            forest.link(place, ends(classifier, self.digest_at(place)));
        }
        forest
    }
}

fn ends(classifier: &Classifier<AtomicU64>, digest: Digest) -> Ends {
    classifier.nodes(digest).map(|node| node as u32)
}
