//! The lookup structure as a unit: the newest generation, the one writer that changes it, and its readers.
//!
//! The keyed side holds one and applies its own updates to it; a remote unit holds one that was read from a snapshot and applies
//! the updates that arrive. Both run the same code, so a unit that has applied all messages equals its origin bit for bit.
//!
//! Readers take no lock: they keep a pointer to a generation and run under its sequence lock. Only when it has been retired do
//! they take a lock, once, to copy the pointer to the next one. Immutable snapshots that are swapped at every change were
//! rejected, since a change touches some tens of bytes and the unit has a gigabyte.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::generation::{GROUP, Generation, Retired};
use crate::hash::Digest;
use crate::overlay::OVERLAY_CAPACITY;
use crate::shape::Shape;
use crate::table::ESCAPE;
use crate::update::{BucketChange, OverlayChange, Update};
use crate::value::{PackedValue, ValueWords, fits};
use crate::word::{Cell, Word};

/// A lookup structure over the machine's atomics.
pub type Lookup = LookupOf<AtomicU64>;
/// A reader of a [`Lookup`].
pub type Reader<V> = ReaderOf<V, AtomicU64>;

/// Where readers find the newest generation.
type Newest<W> = <W as Word>::Cell<Arc<Generation<W>>>;

/// A lookup structure and the right to change it.
#[derive(Debug)]
pub struct LookupOf<W: Word> {
    newest: Arc<Newest<W>>,
    current: Arc<Generation<W>>,
    /// The sequence that the next update of this generation must have.
    next_sequence: u64,
    overflow_used: u64,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Now,
    /// It had been applied before.
    Before,
}

/// Why an update was not applied. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The update is of another generation: an older one is of no interest, a newer one asks for its snapshot.
    Generation { expected: u64, found: u64 },
    /// Updates before this one are missing: they must come again, or a snapshot.
    Gap { expected: u64, found: u64 },
    /// The update does not fit this structure: named field.
    Invalid(&'static str),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generation { expected, found } => write!(f, "update of generation {found}, not {expected}"),
            Self::Gap { expected, found } => write!(f, "update {found} came when {expected} was next"),
            Self::Invalid(field) => write!(f, "the update's {field} does not fit"),
        }
    }
}

impl std::error::Error for ApplyError {}

/// What became of a conditional change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanged<V> {
    Done,
    /// The key has another value than the caller expected.
    Other(V),
    /// The fingerprint says that the key is not here.
    Absent,
}

/// The type is narrower than the structure's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueTooWide {
    /// Bits of the structure's values, or of the value that was to be stored.
    pub bits: u32,
    /// Bits that there are.
    pub limit: u32,
}

impl fmt::Display for ValueTooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bits do not fit into {}", self.bits, self.limit)
    }
}

impl std::error::Error for ValueTooWide {}

impl<W: Word> LookupOf<W> {
    pub(crate) fn of_generation(generation: Generation<W>, next_sequence: u64) -> Self {
        let current = Arc::new(generation);
        let overflow_used = current.table.overflow().entries().count() as u64;
        Self { newest: Arc::new(Cell::new(current.clone())), current, next_sequence, overflow_used }
    }

    pub(crate) fn current(&self) -> &Generation<W> {
        &self.current
    }

    /// Sizes.
    pub fn shape(&self) -> Shape {
        self.current.shape
    }

    /// Number of the generation; grows with every rebuild.
    pub fn generation(&self) -> u64 {
        self.current.number
    }

    /// The sequence that the next update must have.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.current.memory_bytes()
    }

    /// Keys in the overlay.
    pub fn overlay_len(&self) -> usize {
        self.current.classifier.overlay().len()
    }

    /// Buckets whose seed stands in the overflow table.
    pub fn overflow_len(&self) -> u64 {
        self.overflow_used
    }

    /// Whether `more` further buckets can have long seeds.
    pub(crate) fn has_overflow_room(&self, more: u64) -> bool {
        // One place stays free, so that every search ends.
        self.overflow_used + more < self.current.shape.overflow_places()
    }

    /// The value of a key, for who holds the structure: nobody replaces its generation meanwhile. As with a reader, a key that was never
    /// inserted yields any value, or none where a fingerprint tells.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<ValueWords> {
        let generation = &*self.current;
        let digest = generation.hasher.digest(key);
        let found = generation.get_at_once(digest).map_or_else(|| generation.get(digest), Ok);
        found.unwrap_or_else(|Retired| unreachable!("its holder alone retires a generation"))
    }

    /// A reader for another thread, or this one.
    pub fn reader<V: PackedValue>(&self) -> Result<ReaderOf<V, W>, ValueTooWide> {
        let bits = self.current.shape.value_bits();
        if bits > V::MAX_BITS {
            return Err(ValueTooWide { bits, limit: V::MAX_BITS });
        }
        let current = self.current.clone();
        Ok(ReaderOf { newest: self.newest.clone(), current, value: std::marker::PhantomData })
    }

    /// Applies an update, whole or not at all. Updates may come more than once; none may be missing.
    pub fn apply(&mut self, update: &Update) -> Result<Applied, ApplyError> {
        let expected = self.current.number;
        if update.generation != expected {
            return Err(ApplyError::Generation { expected, found: update.generation });
        }
        let expected = self.next_sequence;
        if update.sequence != expected {
            let found = update.sequence;
            return if found < expected { Ok(Applied::Before) } else { Err(ApplyError::Gap { expected, found }) };
        }
        self.check(update)?;
        let generation = &*self.current;
        let mut grown = 0;
        generation.sequence.change(|| {
            let classifier = &generation.classifier;
            update.flips.iter().for_each(|node| classifier.array().flip(u64::from(*node)));
            for change in &update.buckets {
                grown += generation.change_bucket(change);
            }
            for change in &update.overlay {
                match change {
                    OverlayChange::Put(digest, choice) => classifier.overlay().put(*digest, *choice),
                    OverlayChange::Remove(digest) => classifier.overlay().remove(*digest),
                }
            }
        });
        self.overflow_used = self.overflow_used.checked_add_signed(grown).expect("no more is removed than was there");
        self.next_sequence += 1;
        Ok(Applied::Now)
    }

    fn check(&self, update: &Update) -> Result<(), ApplyError> {
        let shape = &self.current.shape;
        let nodes = shape.side_a() + shape.side_b();
        if update.flips.iter().any(|node| u64::from(*node) >= nodes) {
            return Err(ApplyError::Invalid("classifier node"));
        }
        for change in &update.buckets {
            if u64::from(change.bucket) >= shape.buckets() {
                return Err(ApplyError::Invalid("bucket"));
            }
            if let Some((slot, content)) = &change.write {
                let fingerprint_fits = u32::from(content.fingerprint) >> shape.fingerprint_bits() == 0;
                if *slot >= 4 || !fingerprint_fits || !fits(&content.value, shape.value_bits()) {
                    return Err(ApplyError::Invalid("slot"));
                }
            }
        }
        let escapes = update.buckets.iter().filter(|change| change.seed.is_some_and(|seed| seed >= ESCAPE)).count();
        if escapes > 0 && !self.has_overflow_room(escapes as u64) {
            return Err(ApplyError::Invalid("seeds: the overflow table is full"));
        }
        if self.overlay_len() + self.overlay_growth(update) > OVERLAY_CAPACITY {
            return Err(ApplyError::Invalid("overlay: it is full"));
        }
        Ok(())
    }

    /// Entries of the overlay that an update adds at most: a key that is moved has its own already.
    fn overlay_growth(&self, update: &Update) -> usize {
        let overlay = self.current.classifier.overlay();
        let is_new =
            |change: &&OverlayChange| matches!(change, OverlayChange::Put(digest, _) if overlay.choice(*digest).is_none());
        update.overlay.iter().filter(is_new).count()
    }

    /// Changes the value of a key if it still is what the caller expects: how a unit without its keyed side moves a key's
    /// value. It takes no sequence, and all copies of the unit must be told.
    ///
    /// The key must be one that was inserted: the structure cannot know, and would change another key's value.
    pub fn exchange<V: PackedValue>(&mut self, key: &[u8], expected: V, new: V) -> Result<Exchanged<V>, ValueTooWide> {
        let generation = &*self.current;
        let bits = generation.shape.value_bits();
        if bits > V::MAX_BITS || !fits(&new.to_words(), bits) {
            return Err(ValueTooWide { bits: V::MAX_BITS.max(bits), limit: V::MAX_BITS.min(bits) });
        }
        let digest = generation.hasher.digest(key);
        let (bucket, slot) = generation.locate(digest);
        let mut content = generation.table.slot(bucket, slot);
        if content.fingerprint != digest.fingerprint(generation.shape.fingerprint_bits()) {
            return Ok(Exchanged::Absent);
        }
        let found = V::from_words(content.value);
        if found != expected {
            return Ok(Exchanged::Other(found));
        }
        content.value = new.to_words();
        generation.sequence.change(|| generation.table.set_slot(bucket, slot, content));
        Ok(Exchanged::Done)
    }

    /// Makes `next` the newest generation: readers that begin now find it, and those of the old one are sent on.
    pub(crate) fn replace(&mut self, next: Generation<W>) {
        let overflow_used = next.table.overflow().entries().count() as u64;
        let next = Arc::new(next);
        self.newest.replace(next.clone());
        // Retired only now: a reader that is sent on finds the next one in place.
        self.current.sequence.retire();
        self.current = next;
        self.next_sequence = 0;
        self.overflow_used = overflow_used;
    }
}

impl<W: Word> Generation<W> {
    /// Applies one bucket's change; by how many entries the overflow table grew.
    fn change_bucket(&self, change: &BucketChange) -> i64 {
        let bucket = u64::from(change.bucket);
        if change.order != crate::update::ORDER_KEPT {
            let before = self.table.slots(bucket);
            for slot in 0..before.len() {
                let source = change.source(slot);
                if source != slot {
                    self.table.set_slot(bucket, slot, before[source]);
                }
            }
        }
        let grown = change.seed.map_or(0, |seed| self.table.set_seed(bucket, seed));
        if let Some((slot, content)) = change.write {
            self.table.set_slot(bucket, usize::from(slot), content);
        }
        grown
    }
}

/// Looks keys up while a writer changes the structure. Cheap to clone; one for each thread.
///
/// A key that is present, before and after, is always found with a value that it had at some time during the call. A key that
/// was never inserted, or was removed, yields any value, or none where a fingerprint tells: whoever uses the value must find
/// out, from the key that stands beside the data.
#[derive(Debug)]
pub struct ReaderOf<V, W: Word> {
    newest: Arc<Newest<W>>,
    current: Arc<Generation<W>>,
    value: std::marker::PhantomData<V>,
}

impl<V, W: Word> Clone for ReaderOf<V, W> {
    fn clone(&self) -> Self {
        Self { newest: self.newest.clone(), current: self.current.clone(), value: std::marker::PhantomData }
    }
}

impl<V: PackedValue, W: Word> ReaderOf<V, W> {
    /// The value of a key.
    #[inline(always)]
    pub fn get(&mut self, key: &[u8]) -> Option<V> {
        match self.current.get_at_once(self.current.hasher.digest(key)) {
            Some(found) => found,
            None => self.get_again(key),
        }
    }

    /// The same, beside changes and from generation to generation.
    #[cold]
    #[inline(never)]
    fn get_again(&mut self, key: &[u8]) -> Option<V> {
        loop {
            if let Ok(found) = self.current.get(self.current.hasher.digest(key)) {
                return found;
            }
            self.refresh();
        }
    }

    /// The values of many keys, in their order: several times the rate of [`get`](Self::get) when the structure exceeds the
    /// caches. Each value is right on its own; values of different keys may be of different times.
    pub fn get_many<K: AsRef<[u8]>>(&mut self, keys: &[K], found: &mut [Option<V>]) {
        assert!(keys.len() == found.len(), "as many places as keys");
        for (keys, found) in keys.chunks(GROUP).zip(found.chunks_mut(GROUP)) {
            self.get_group(keys, found);
        }
    }

    #[inline(always)]
    fn get_group<K: AsRef<[u8]>>(&mut self, keys: &[K], found: &mut [Option<V>]) {
        loop {
            let mut digests = [Digest::default(); GROUP];
            let digests = &mut digests[..keys.len()];
            digests.iter_mut().zip(keys).for_each(|(digest, key)| *digest = self.current.hasher.digest(key.as_ref()));
            if self.current.get_group(digests, found).is_ok() {
                return;
            }
            self.refresh();
        }
    }

    /// Goes to the newest generation, and lets the memory of an older one go. Lookups do it by themselves; a reader that rests
    /// for long keeps the classifier of its generation alive.
    #[cold]
    pub fn refresh(&mut self) {
        self.current = self.newest.copy();
    }
}
