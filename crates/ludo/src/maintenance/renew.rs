//! A new classifier, built in steps while the present one serves and changes.
//!
//! Places are taken up in their order. Behind the cursor every key has its edge in the new forest, before it none has; a key
//! that moves across the cursor gains or loses its edge. A cycle restarts the build with another seed, which happens every
//! second time at full load. The finished classifier has an empty overlay.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::{Maintenance, Place, choice_of};
use crate::classifier::Classifier;
use crate::cuckoo::Keys;
use crate::forest::{Ends, Forest, Ties};
use crate::generation::Generation;
use crate::hash::{Digest, Hasher, fold};
use crate::shape::Shape;
use crate::value::PackedValue;

/// Classifier builds that may fail in a row: each fails with probability 1/2 at most, at capacity.
const ATTEMPTS_MAX: u32 = 128;

/// How far a renewal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    Building,
    /// A new generation serves; lookup units need its classifier, see [`Maintenance::classifier_snapshot`].
    Done,
    /// Too many attempts closed a cycle: more keys have digests in common than chance allows. Rebuild with another seed.
    Failed,
}

#[derive(Debug)]
pub struct Renewing {
    classifier: Classifier<AtomicU64>,
    forest: Forest,
    /// Places below this one are done.
    cursor: Place,
    /// A cycle was closed; the next step starts over. Until then the forest is not kept up and must not be walked.
    broken: bool,
    attempts: u32,
}

/// What is needed to find the ends of the edge of a place.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    pub keys: &'a Keys,
    pub hasher: &'a Hasher,
    pub buckets: u64,
}

impl Places<'_> {
    pub fn digest(&self, place: Place) -> Digest {
        self.hasher.digest(self.keys.key(place))
    }
}

impl Renewing {
    pub fn new(shape: &Shape, seed: u64, attempts: u32) -> Self {
        Self { classifier: Classifier::new(shape, seed), forest: Forest::of_shape(shape), cursor: 0, broken: false, attempts }
    }

    pub fn memory_bytes(&self) -> usize {
        self.classifier.memory_bytes() + self.forest.memory_bytes()
    }

    fn ends(&self, digest: Digest) -> Ends {
        self.classifier.nodes(digest).map(|node| node as u32)
    }

    fn flip(&self, nodes: &[u32]) {
        nodes.iter().for_each(|node| self.classifier.array().flip(u64::from(*node)));
    }

    /// Adds the edge of the key at a place.
    fn add(&mut self, place: Place, digest: Digest, choice: u32) {
        let ends = self.ends(digest);
        match self.forest.ties(ends) {
            Ties::Joined => self.broken = true,
            Ties::Apart(nodes) => {
                if self.classifier.of_nodes(ends.map(u64::from)) != choice {
                    self.flip(&nodes);
                }
                self.forest.link(place, ends);
            }
        }
    }

    /// Takes up to `budget` places; whether all are done.
    pub fn advance(&mut self, places: Places<'_>, budget: u64) -> bool {
        let end = u64::from(self.cursor).saturating_add(budget).min(u64::from(places.keys.places())) as Place;
        while self.cursor < end && !self.broken {
            if places.keys.holds(self.cursor) {
                let digest = places.digest(self.cursor);
                self.add(self.cursor, digest, choice_of(digest, self.cursor, places.buckets));
            }
            self.cursor += 1;
        }
        !self.broken && self.cursor == places.keys.places()
    }

    pub fn is_broken(&self) -> bool {
        self.broken
    }

    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    pub fn finish(self) -> (Classifier<AtomicU64>, Forest) {
        (self.classifier, self.forest)
    }
}

impl<V: PackedValue> Maintenance<V> {
    /// Whether keys wait in the overlay for a new classifier. Each costs every lookup a little; when the overlay is full,
    /// insertions can fail.
    pub fn needs_renewal(&self) -> bool {
        self.lookup.overlay_len() > 0
    }

    /// Whether a renewal has begun.
    pub fn is_renewing(&self) -> bool {
        self.renewal.is_some()
    }

    /// Works on a new classifier, for as many places as `budget` says, and begins one if none is being built. Other operations
    /// may come between the steps. Takes 22 bytes a key while it lasts.
    pub fn renew(&mut self, budget: u64) -> Renewal {
        let attempts = match &self.renewal {
            Some(renewing) if renewing.is_broken() => renewing.attempts() + 1,
            Some(_) => 0,
            None => 1,
        };
        if attempts > ATTEMPTS_MAX {
            self.renewal = None;
            return Renewal::Failed;
        }
        if attempts > 0 {
            // The old attempt goes first: two at once would need twice the memory.
            self.renewal = None;
            let seed = self.next_seed();
            self.renewal = Some(Renewing::new(&self.config.shape, seed, attempts));
        }
        let Some(mut renewing) = self.renewal.take() else { return Renewal::Building };
        if renewing.advance(self.places(), budget) {
            self.publish(renewing);
            return Renewal::Done;
        }
        self.renewal = Some(renewing);
        Renewal::Building
    }

    fn publish(&mut self, renewing: Renewing) {
        let (classifier, forest) = renewing.finish();
        let current = self.lookup.current();
        let table = Arc::clone(&current.table);
        let next = Generation::new(current.number + 1, current.shape, current.hasher, classifier, table);
        self.follows = Some(self.lookup.next_sequence());
        self.lookup.replace(next);
        self.forest = forest;
    }

    pub(super) fn places(&self) -> Places<'_> {
        Places { keys: &self.keys, hasher: self.hasher(), buckets: self.config.shape.buckets() }
    }

    /// Another seed, made from the caller's.
    pub(super) fn next_seed(&mut self) -> u64 {
        self.seeds_used += 1;
        derived_seed(self.config.seed, self.seeds_used)
    }

    pub(super) fn renew_inserted(&mut self, place: Place, digest: Digest, choice: u32) {
        if let Some(renewing) = &mut self.renewal
            && place < renewing.cursor
            && !renewing.broken
        {
            renewing.add(place, digest, choice);
        }
    }

    pub(super) fn renew_removed(&mut self, place: Place, digest: Digest) {
        if let Some(renewing) = &mut self.renewal
            && place < renewing.cursor
            && !renewing.broken
        {
            let ends = renewing.ends(digest);
            renewing.forest.unlink(place, ends);
        }
    }

    /// The key at `from` is about to move to `to`, which is free.
    pub(super) fn renew_moved(&mut self, from: Place, to: Place, digest: Digest) {
        let Some(renewing) = &mut self.renewal else { return };
        if renewing.broken {
            return;
        }
        let ends = renewing.ends(digest);
        match (from < renewing.cursor, to < renewing.cursor) {
            (true, true) => {
                let nodes = renewing.forest.smaller_part(from, ends);
                renewing.flip(&nodes);
                renewing.forest.relabel(from, to, ends);
            }
            (true, false) => renewing.forest.unlink(from, ends),
            (false, true) => renewing.add(to, digest, choice_of(digest, to, self.config.shape.buckets())),
            (false, false) => {}
        }
    }
}

/// Seed number `index` of a series.
pub fn derived_seed(seed: u64, index: u64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    fold(seed ^ STEP.wrapping_mul(index), STEP.rotate_left(31) ^ index)
}
