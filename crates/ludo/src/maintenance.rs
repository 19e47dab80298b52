//! The maintenance structure: the keys, and everything that is needed to change the lookup structure in constant time.
//!
//! It owns a lookup structure of its own, in which the values stand, and applies its updates to it as any remote unit does.
//!
//! Invariants:
//! - Every key lies in one of its two buckets, and its bucket's seed sends it to a slot of its own.
//! - Every key's edge is in the forest, and the exclusive or of its two bits is its bucket choice; or the key is in the overlay.
//! - An operation that fails has changed nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::classifier::Classifier;
use crate::cuckoo::{Keys, Place, Room, bucket_of};
use crate::forest::{Ends, Forest, Ties};
use crate::generation::Generation;
use crate::hash::{Digest, Hasher};
use crate::lookup::{Lookup, ValueTooWide};
use crate::overlay::OVERLAY_CAPACITY;
use crate::seeds;
use crate::shape::{SLOTS, Shape};
use crate::table::{ESCAPE, Slot, Table};
use crate::update::{BucketChange, OverlayChange, Update};
use crate::value::{PackedValue, ValueWords, fits};

pub use build::BuildError;
pub use error::{ChangeError, InsertError};
pub use renew::Renewal;

mod build;
mod error;
mod renew;
mod warm;

/// What a structure is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of every key.
    pub key_bytes: usize,
    pub shape: Shape,
    /// Secret that the hashes are made from. Take it from a source of randomness when others choose the keys.
    pub seed: u64,
}

/// Keys with values, and the lookup structure that is kept in step with them.
#[derive(Debug)]
pub struct Maintenance<V> {
    config: Config,
    keys: Keys,
    len: u64,
    lookup: Lookup,
    forest: Forest,
    renewal: Option<renew::Renewing>,
    /// Where the generation before this one ended, if only the classifier was replaced.
    follows: Option<u64>,
    /// Classifier and hash seeds used up so far.
    seeds_used: u64,
    value: std::marker::PhantomData<V>,
}

impl<V: PackedValue> Maintenance<V> {
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Keys that are present.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The lookup structure: for readers in this process, and for snapshots.
    pub fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// Bytes of memory, the lookup structure included.
    pub fn memory_bytes(&self) -> usize {
        let renewal = self.renewal.as_ref().map_or(0, renew::Renewing::memory_bytes);
        self.keys.memory_bytes() + self.forest.memory_bytes() + self.lookup.memory_bytes() + renewal
    }

    /// The value of a key, or none: exact, unlike a lookup.
    pub fn get(&self, key: &[u8]) -> Option<V> {
        let place = self.find(key)?;
        Some(V::from_words(self.content(place).value))
    }

    /// All keys with their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], V)> {
        self.keys.all().map(|place| (self.keys.key(place), V::from_words(self.content(place).value)))
    }

    /// Adds a key that is not present.
    pub fn insert(&mut self, key: &[u8], value: V) -> Result<Update, InsertError> {
        self.check_key(key)?;
        let value = self.check_value(value)?;
        let digest = self.hasher().digest(key);
        self.warm_one(digest);
        let buckets = digest.buckets(self.config.shape.buckets());
        if self.keys.find(key, digest.tag(), buckets).is_some() {
            return Err(InsertError::Present);
        }
        if self.len >= self.config.shape.capacity() {
            return Err(InsertError::Full);
        }
        let room = self.keys.room(buckets, |place| self.other_bucket(place)).ok_or(InsertError::NeedsRebuild)?;
        let content = Slot { value, fingerprint: digest.fingerprint(self.config.shape.fingerprint_bits()) };
        let mut update = self.next_update();
        update.buckets = self.plan_buckets(&room, digest, content)?;
        let ties = self.plan_edge(digest, buckets)?;
        // Nothing fails from here on.
        for (from, to) in room.moves {
            self.move_key(from, to, &mut update);
        }
        self.keys.put(room.free, key, digest.tag());
        self.len += 1;
        let choice = choice_of(digest, room.free, self.config.shape.buckets());
        match ties {
            Ties::Joined => update.overlay.push(OverlayChange::Put(digest, choice)),
            Ties::Apart(nodes) => {
                if self.choice_after(self.ends(digest), &update.flips) != choice {
                    update.flips.extend(nodes);
                }
                self.forest.link(room.free, self.ends(digest));
            }
        }
        self.renew_inserted(room.free, digest, choice);
        self.apply(&update);
        Ok(update)
    }

    /// Removes a key. A lookup structure needs to know only if the key was in the overlay; the update has its sequence anyway.
    pub fn remove(&mut self, key: &[u8]) -> Option<Update> {
        let place = self.find(key)?;
        let digest = self.digest_at(place);
        let mut update = self.next_update();
        if self.in_overlay(digest) {
            update.overlay.push(OverlayChange::Remove(digest));
        } else {
            let ends = self.ends(digest);
            self.forest.unlink(place, ends);
        }
        self.renew_removed(place, digest);
        self.keys.clear(place);
        self.len -= 1;
        self.apply(&update);
        Some(update)
    }

    /// Gives a key that is present another value.
    pub fn change(&mut self, key: &[u8], value: V) -> Result<Update, ChangeError> {
        let value = self.check_value(value)?;
        let place = self.find(key).ok_or(ChangeError::Absent)?;
        let digest = self.digest_at(place);
        let bucket = bucket_of(place);
        let slot = digest.slot(self.lookup.current().table.seed(bucket));
        let fingerprint = digest.fingerprint(self.config.shape.fingerprint_bits());
        let mut update = self.next_update();
        let write = Some((slot as u8, Slot { value, fingerprint }));
        update.buckets.push(BucketChange { write, ..BucketChange::new(bucket) });
        self.apply(&update);
        Ok(update)
    }

    /// Where the generation before this one ended, while its lookup units need no more than the classifier.
    pub(crate) fn ended_before(&self) -> Option<u64> {
        if self.lookup.next_sequence() == 0 { self.follows } else { None }
    }

    fn check_key(&self, key: &[u8]) -> Result<(), InsertError> {
        let (expected, found) = (self.config.key_bytes, key.len());
        if expected == found { Ok(()) } else { Err(InsertError::KeyBytes { expected, found }) }
    }

    fn check_value(&self, value: V) -> Result<ValueWords, ValueTooWide> {
        let words = value.to_words();
        let limit = self.config.shape.value_bits();
        if fits(&words, limit) { Ok(words) } else { Err(ValueTooWide { bits: V::MAX_BITS, limit }) }
    }

    fn next_update(&self) -> Update {
        let (generation, sequence) = (self.lookup.generation(), self.lookup.next_sequence());
        Update { generation, sequence, ..Update::default() }
    }

    fn apply(&mut self, update: &Update) {
        self.lookup.apply(update).expect("an update that was planned on this structure fits it");
    }

    fn hasher(&self) -> &Hasher {
        &self.lookup.current().hasher
    }

    fn find(&self, key: &[u8]) -> Option<Place> {
        if key.len() != self.config.key_bytes {
            return None;
        }
        let digest = self.hasher().digest(key);
        self.keys.find(key, digest.tag(), digest.buckets(self.config.shape.buckets()))
    }

    fn digest_at(&self, place: Place) -> Digest {
        self.hasher().digest(self.keys.key(place))
    }

    fn other_bucket(&self, place: Place) -> u64 {
        let [first, second] = self.digest_at(place).buckets(self.config.shape.buckets());
        if bucket_of(place) == first { second } else { first }
    }

    fn content(&self, place: Place) -> Slot {
        let (table, bucket) = (&self.lookup.current().table, bucket_of(place));
        table.slot(bucket, self.digest_at(place).slot(table.seed(bucket)))
    }

    fn in_overlay(&self, digest: Digest) -> bool {
        self.lookup.current().classifier.overlay().choice(digest).is_some()
    }

    fn ends(&self, digest: Digest) -> Ends {
        self.lookup.current().classifier.nodes(digest).map(|node| node as u32)
    }

    /// The choice that two nodes will stand for after some flips.
    fn choice_after(&self, ends: Ends, flips: &[u32]) -> u32 {
        let before = self.lookup.current().classifier.of_nodes(ends.map(u64::from));
        (flips.iter().filter(|node| ends.contains(node)).count() as u32 % 2) ^ before
    }

    /// Moves one key to its other bucket: its bit is turned over on the smaller side of its edge.
    fn move_key(&mut self, from: Place, to: Place, update: &mut Update) {
        let digest = self.digest_at(from);
        let ends = self.ends(digest);
        let choice = choice_of(digest, to, self.config.shape.buckets());
        let held = self.in_overlay(digest);
        if held {
            update.overlay.push(OverlayChange::Put(digest, choice));
        } else {
            update.flips.extend(self.forest.smaller_part(from, ends));
            self.forest.relabel(from, to, ends);
        }
        self.renew_moved(from, to, digest);
        self.keys.shift(from, to);
    }

    /// Seeds and slots of all buckets that receive a key, the new key's first.
    fn plan_buckets(&self, room: &Room, digest: Digest, content: Slot) -> Result<Vec<BucketChange>, InsertError> {
        let leaves = |bucket: u64| room.moves.iter().map(|(from, _)| *from).find(|from| bucket_of(*from) == bucket);
        let mut changes = Vec::with_capacity(1 + room.moves.len());
        let target = bucket_of(room.free);
        changes.push(self.plan_bucket(target, leaves(target), digest, content)?);
        for (from, to) in &room.moves {
            let bucket = bucket_of(*to);
            changes.push(self.plan_bucket(bucket, leaves(bucket), self.digest_at(*from), self.content(*from))?);
        }
        let escapes = changes.iter().filter(|change| change.seed.is_some_and(|seed| seed >= ESCAPE)).count();
        if escapes > 0 && !self.lookup.has_overflow_room(escapes as u64) {
            return Err(InsertError::NeedsRebuild);
        }
        Ok(changes)
    }

    /// One bucket that loses the key at `leaves`, if any, and receives another.
    fn plan_bucket(
        &self,
        bucket: u64,
        leaves: Option<Place>,
        digest: Digest,
        content: Slot,
    ) -> Result<BucketChange, InsertError> {
        let before = self.lookup.current().table.seed(bucket);
        let mut digests = [Digest::default(); SLOTS];
        let mut sources = [0; SLOTS];
        let mut stay = 0;
        for place in self.keys.in_bucket(bucket).filter(|place| Some(*place) != leaves) {
            digests[stay] = self.digest_at(place);
            sources[stay] = digests[stay].slot(before);
            stay += 1;
        }
        digests[stay] = digest;
        let seed = seeds::find(before, &digests[..=stay]).ok_or(InsertError::NeedsRebuild)?;
        let mut change = BucketChange::new(bucket);
        if seed != before {
            change.seed = Some(seed);
            change.order = seeds::order(seed, &digests[..stay], &sources[..stay]);
        }
        change.write = Some((digest.slot(seed) as u8, content));
        Ok(change)
    }

    /// How a new key's edge lies. One that closes a cycle needs room in the overlay, and a digest of its own.
    fn plan_edge(&self, digest: Digest, buckets: [u64; 2]) -> Result<Ties, InsertError> {
        let ties = self.forest.ties(self.ends(digest));
        if ties == Ties::Joined {
            let mut neighbours = buckets.into_iter().flat_map(|bucket| self.keys.in_bucket(bucket));
            let twin = neighbours.any(|place| self.digest_at(place) == digest);
            if twin || self.lookup.overlay_len() >= OVERLAY_CAPACITY {
                return Err(InsertError::NeedsRebuild);
            }
        }
        Ok(ties)
    }
}

/// Which of its buckets a key is in: 0 or 1. One whose buckets are the same is in the first.
fn choice_of(digest: Digest, place: Place, buckets: u64) -> u32 {
    u32::from(digest.bucket(0, buckets) != bucket_of(place))
}

fn empty_generation(shape: &Shape, number: u64, hash_seed: u64, classifier_seed: u64) -> Generation<AtomicU64> {
    let classifier = Classifier::new(shape, classifier_seed);
    let table = Arc::new(Table::new(shape));
    Generation::new(number, *shape, Hasher::new(hash_seed), classifier, table)
}

#[cfg(test)]
mod tests;
