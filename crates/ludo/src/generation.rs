//! One generation of a lookup structure: a classifier over the table of buckets, under one sequence lock.
//!
//! A generation's classifier seed never changes; when the classifier must be built anew, a new generation takes the table over
//! and this one is retired. Readers of a retired generation are sent on (see [`crate::lookup`]).

use std::sync::Arc;

use crate::bits::Position;
use crate::classifier::Classifier;
use crate::hash::{Digest, Hasher};
use crate::sequence::{Look, Sequence};
use crate::shape::Shape;
use crate::table::{ESCAPE, Table};
use crate::value::PackedValue;
use crate::word::Word;

/// Keys whose memory accesses overlap in a batched lookup. More than a core keeps in flight gains nothing.
pub const GROUP: usize = 16;

#[derive(Debug)]
pub struct Generation<W> {
    pub number: u64,
    pub shape: Shape,
    pub hasher: Hasher,
    pub sequence: Sequence<W>,
    pub classifier: Classifier<W>,
    /// Shared with the generations before and after that differ in the classifier alone.
    pub table: Arc<Table<W>>,
    buckets: u64,
}

/// The generation has been replaced.
#[derive(Debug)]
pub struct Retired;

impl<W: Word> Generation<W> {
    pub fn new(number: u64, shape: Shape, hasher: Hasher, classifier: Classifier<W>, table: Arc<Table<W>>) -> Self {
        Self { number, shape, hasher, sequence: Sequence::new(), classifier, table, buckets: shape.buckets() }
    }

    /// Runs `read` until no change came between.
    #[inline(always)]
    fn stable<R>(&self, mut read: impl FnMut() -> R) -> Result<R, Retired> {
        let mut round = 0;
        loop {
            match self.sequence.look() {
                Look::Stable(number) => {
                    let result = read();
                    if self.sequence.unchanged(number) {
                        return Ok(result);
                    }
                }
                Look::Changing => {}
                Look::Retired => return Err(Retired),
            }
            W::pause(round);
            round = round.saturating_add(1);
        }
    }

    /// The place of a key, as far as the structure knows: bucket and slot.
    #[inline(always)]
    pub fn locate(&self, digest: Digest) -> (u64, usize) {
        let bucket = digest.bucket(self.classifier.choice(digest), self.buckets);
        (bucket, digest.slot(self.table.seed(bucket)))
    }

    #[inline(always)]
    fn read<V: PackedValue>(&self, digest: Digest, slot: Position) -> Option<V> {
        let value = self.table.value_at(slot);
        let bits = self.shape.fingerprint_bits();
        if bits > 0 && self.table.fingerprint_at(slot) != digest.fingerprint(bits) {
            return None;
        }
        Some(value)
    }

    /// One lookup, unless a change is in its way.
    #[inline(always)]
    pub fn get_at_once<V: PackedValue>(&self, digest: Digest) -> Option<Option<V>> {
        // It stands in line: a core overlaps the misses of as many lookups as its window has room for, so every instruction counts.
        let Look::Stable(number) = self.sequence.look() else { return None };
        let found = self.read(digest, self.slot(digest, self.bucket_at_once(digest)));
        self.sequence.unchanged(number).then_some(found)
    }

    /// Where the key's bucket begins. The seeds of both buckets are asked for before the classifier has told which, so that a
    /// lookup waits once and not twice. That is a line more to fetch, which pays for a lookup that waits, and not for a group of
    /// them.
    ///
    /// The two loads are of no use but that. To read both seeds at once and take the right one was slower from 1 M keys on:
    /// what needs a word that is not there yet fills the core's queue, and later lookups don't get in.
    #[inline(always)]
    fn bucket_at_once(&self, digest: Digest) -> Position {
        let buckets = digest.buckets(self.buckets).map(|bucket| self.table.position(bucket));
        buckets.iter().for_each(|bucket| self.table.touch_seed(*bucket));
        Position::one_of(buckets, self.classifier.choice(digest))
    }

    /// Where the key's slot in its bucket begins.
    #[inline(always)]
    fn slot(&self, digest: Digest, bucket: Position) -> Position {
        let seed = self.table.seed_at(bucket);
        if seed == ESCAPE { self.slot_by_number(digest) } else { self.table.slot_position(bucket, digest.slot_of_short(seed)) }
    }

    /// The same, by the bucket's number, which finds its seed in the overflow table. It is worked out once more, because the
    /// other 96% have no use for it.
    #[cold]
    fn slot_by_number(&self, digest: Digest) -> Position {
        let (bucket, slot) = self.locate(digest);
        self.table.slot_position(self.table.position(bucket), slot)
    }

    /// One lookup, as often as changes are in its way.
    #[cold]
    #[inline(never)]
    pub fn get<V: PackedValue>(&self, digest: Digest) -> Result<Option<V>, Retired> {
        self.stable(|| self.read(digest, self.slot_by_number(digest)))
    }

    /// Up to [`GROUP`] lookups at once, stage by stage, so that the cache misses of a stage overlap.
    #[inline(always)]
    pub fn get_group<V: PackedValue>(&self, digests: &[Digest], found: &mut [Option<V>]) -> Result<(), Retired> {
        assert!(digests.len() <= GROUP && digests.len() == found.len(), "a group of lookups and as many places");
        self.stable(|| {
            let mut places = [Position::default(); GROUP];
            for (place, digest) in places.iter_mut().zip(digests) {
                *place = self.table.position(digest.bucket(self.classifier.choice(*digest), self.buckets));
            }
            for (place, digest) in places.iter_mut().zip(digests) {
                *place = self.slot(*digest, *place);
            }
            for ((found, digest), place) in found.iter_mut().zip(digests).zip(&places) {
                *found = self.read(*digest, *place);
            }
        })
    }

    pub fn memory_bytes(&self) -> usize {
        self.classifier.memory_bytes() + self.table.memory_bytes()
    }
}
