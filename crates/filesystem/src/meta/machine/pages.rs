//! An ordered map in pages, for many small entries: it takes little more memory than they have.
//!
//! ```text
//!   least key of a page ─► up to 32 entries, ascending, one behind the other
//! ```
//!
//! A `BTreeMap` that is filled in ascending order, as inode numbers are, leaves nearly half of its nodes empty. Here a page that is full at its end is left
//! full, and the next one begins.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// Entries of a page.
const MOST: usize = 32;
/// Room that a page gets at once.
const STEP: usize = 4;

/// A key with a least value: the first page begins there.
pub trait Key: Ord + Copy {
    const LEAST: Self;
}

#[derive(Clone, Debug)]
pub struct Pages<K, V> {
    /// By a key that none of the page's is below. The first page's is the least key there can be. No page is empty but a single first one.
    pages: BTreeMap<K, Vec<(K, V)>>,
    len: usize,
}

impl<K: Key, V> Default for Pages<K, V> {
    fn default() -> Self {
        Pages { pages: BTreeMap::from([(K::LEAST, Vec::new())]), len: 0 }
    }
}

impl<K: Key, V> Pages<K, V> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        let (_, page) = self.pages.range(..=key).next_back()?;
        let at = page.binary_search_by_key(key, |(other, _)| *other).ok()?;
        Some(&page[at].1)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (_, page) = self.pages.range_mut(..=key).next_back()?;
        let at = page.binary_search_by_key(key, |(other, _)| *other).ok()?;
        Some(&mut page[at].1)
    }

    /// Puts an entry in; what stood there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (_, page) = self.pages.range_mut(..=key).next_back().expect("the first page begins with the least key");
        let at = match page.binary_search_by_key(&key, |(other, _)| *other) {
            Ok(at) => return Some(std::mem::replace(&mut page[at].1, value)),
            Err(at) => at,
        };
        self.len += 1;
        if page.len() < MOST {
            put(page, at, (key, value));
            return None;
        }
        if at == MOST {
            self.pages.insert(key, vec![(key, value)]);
            return None;
        }
        let mut right = page.split_off(MOST / 2);
        page.shrink_to_fit();
        match at.checked_sub(MOST / 2) {
            Some(at) => put(&mut right, at, (key, value)),
            None => put(page, at, (key, value)),
        }
        self.pages.insert(right[0].0, right);
        None
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (first, page) = self.pages.range_mut(..=key).next_back()?;
        let at = page.binary_search_by_key(key, |(other, _)| *other).ok()?;
        let (_, value) = page.remove(at);
        self.len -= 1;
        let first = *first;
        if page.capacity() >= page.len() + 2 * STEP {
            page.shrink_to(page.len() + STEP);
        }
        if page.len() < MOST / 4 {
            self.join(first);
        }
        Some(value)
    }

    /// Joins a page that has few entries with the one behind it, if that fits.
    fn join(&mut self, first: K) {
        let behind = (Bound::Excluded(first), Bound::Unbounded);
        let next = self.pages.range(behind).next().map(|(next, page)| (*next, page.len()));
        let own = self.pages.get(&first).map_or(0, Vec::len);
        if let Some((next, len)) = next.filter(|(_, len)| own + len <= MOST / 2 || own == 0) {
            let moved = self.pages.remove(&next).expect("it was found");
            let page = self.pages.get_mut(&first).expect("it was found");
            page.reserve_exact(len);
            page.extend(moved);
        } else if own == 0 && first != K::LEAST {
            self.pages.remove(&first);
        }
    }

    pub fn range<R: RangeBounds<K>>(&self, range: R) -> impl Iterator<Item = (K, &V)> + use<'_, K, V, R> {
        let (start, end) = (range.start_bound().cloned(), range.end_bound().cloned());
        let from = match start {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => K::LEAST,
        };
        let first = self.pages.range(..=from).next_back().map_or(K::LEAST, |(first, _)| *first);
        let is_before = move |key: &K| match start {
            Bound::Included(start) => *key < start,
            Bound::Excluded(start) => *key <= start,
            Bound::Unbounded => false,
        };
        let is_within = move |key: &K| match end {
            Bound::Included(end) => *key <= end,
            Bound::Excluded(end) => *key < end,
            Bound::Unbounded => true,
        };
        let entries = self.pages.range(first..).enumerate().flat_map(move |(number, (_, page))| {
            let skipped = if number == 0 { page.partition_point(|(key, _)| is_before(key)) } else { 0 };
            &page[skipped..]
        });
        entries.map(|(key, value)| (*key, value)).take_while(move |(key, _)| is_within(key))
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.pages.values().flatten().map(|(key, value)| (*key, value))
    }
}

/// Puts an entry into a page, which grows by little.
fn put<T>(page: &mut Vec<T>, at: usize, entry: T) {
    if page.len() == page.capacity() {
        page.reserve_exact(STEP);
    }
    page.insert(at, entry);
}

#[cfg(test)]
mod tests;
