//! Fetching ahead what operations on keys will need.
//!
//! An insertion into a structure beyond the caches is a chain of some ten misses, each of which waits for the one before. Those of
//! different keys wait for nothing but the order of the program. So they are asked for together, a stage for all keys before the
//! next one, and the operations then find their lines. Loads do it: prefetch instructions are not to be had without `unsafe`.

use super::Maintenance;
use crate::forest::Ends;
use crate::generation::GROUP;
use crate::hash::Digest;
use crate::value::PackedValue;

#[derive(Clone, Copy, Default)]
struct Wanted {
    buckets: [u64; 2],
    ends: Ends,
}

impl<V: PackedValue> Maintenance<V> {
    /// Asks for the memory that inserting these keys will touch, or changing or removing them. It changes nothing and promises
    /// nothing. With structures beyond the caches and some tens of keys at a time, the operations that follow take about half
    /// the time.
    pub fn warm<K: AsRef<[u8]>>(&self, keys: &[K]) {
        keys.chunks(GROUP).for_each(|group| self.warm_group(group));
    }

    fn warm_group<K: AsRef<[u8]>>(&self, keys: &[K]) {
        let mut wanted = [Wanted::default(); GROUP];
        for (wanted, key) in wanted.iter_mut().zip(keys) {
            *wanted = self.ask_first(self.hasher().digest(key.as_ref()));
        }
        let wanted = &wanted[..keys.len()];
        wanted.iter().for_each(|wanted| self.ask_second(wanted));
        let neighbours = wanted.iter().flat_map(|wanted| wanted.ends).map(|node| self.forest.touch_neighbour(node));
        let mut found = [None; 2 * GROUP];
        found.iter_mut().zip(neighbours).for_each(|(found, neighbour)| *found = neighbour);
        found.into_iter().flatten().for_each(|node| self.forest.touch_edge(node));
    }

    /// What a single insertion can ask for before it waits for anything.
    pub(super) fn warm_one(&self, digest: Digest) {
        self.ask_second(&self.ask_first(digest));
    }

    /// What a key's digest names.
    fn ask_first(&self, digest: Digest) -> Wanted {
        let (buckets, ends) = (digest.buckets(self.config.shape.buckets()), self.ends(digest));
        buckets.iter().for_each(|bucket| self.keys.touch_tags(*bucket));
        ends.iter().for_each(|node| self.forest.touch_head(*node));
        self.lookup.current().classifier.touch(ends.map(u64::from));
        Wanted { buckets, ends }
    }

    /// What stands behind that.
    fn ask_second(&self, wanted: &Wanted) {
        let emptier = self.keys.emptier(wanted.buckets);
        self.keys.touch_keys(emptier);
        self.lookup.current().table.touch(emptier);
        self.forest.touch_bucket(emptier);
        wanted.ends.iter().for_each(|node| self.forest.touch_edge(*node));
    }
}
