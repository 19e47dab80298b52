//! Fetching ahead what operations on keys will need.
//!
//! An insertion into a structure beyond the caches is a chain of some ten misses, each of which waits for the one before. Those of
//! different keys wait for nothing but the order of the program. So they are asked for together, a stage for all keys before the
//! next one, and the operations then find their lines. Loads do it: prefetch instructions are not to be had without `unsafe`.

use super::Maintenance;
use crate::forest::Ends;
use crate::generation::GROUP;
use crate::value::PackedValue;

impl<V: PackedValue> Maintenance<V> {
    /// Asks for the memory that inserting these keys will touch, or changing or removing them. It changes nothing and promises
    /// nothing. With structures beyond the caches and some tens of keys at a time, the operations that follow take about half
    /// the time.
    pub fn warm<K: AsRef<[u8]>>(&self, keys: &[K]) {
        keys.chunks(GROUP).for_each(|group| self.warm_group(group));
    }

    fn warm_group<K: AsRef<[u8]>>(&self, keys: &[K]) {
        let current = self.lookup.current();
        let mut wanted = [([0; 2], Ends::default()); GROUP];
        for ((buckets, ends), key) in wanted.iter_mut().zip(keys) {
            let digest = current.hasher.digest(key.as_ref());
            *buckets = digest.buckets(self.config.shape.buckets());
            *ends = self.ends(digest);
            buckets.iter().for_each(|bucket| self.keys.touch_tags(*bucket));
            ends.iter().for_each(|node| self.forest.touch_head(*node));
            current.classifier.touch(ends.map(u64::from));
        }
        let wanted = &wanted[..keys.len()];
        for (buckets, ends) in wanted {
            let emptier = self.keys.emptier(*buckets);
            self.keys.touch_keys(emptier);
            current.table.touch(emptier);
            ends.iter().for_each(|node| self.forest.touch_edge(*node));
        }
        let neighbours = wanted.iter().flat_map(|(_, ends)| *ends).map(|node| self.forest.touch_neighbour(node));
        let mut found = [None; 2 * GROUP];
        found.iter_mut().zip(neighbours).for_each(|(found, neighbour)| *found = neighbour);
        found.into_iter().flatten().for_each(|node| self.forest.touch_edge(node));
    }
}
