//! The objects of a group, in leaves of packed rows: an object takes about as many bytes of memory as a record of it would.
//!
//! Invariants:
//! - A leaf's rows are not below its bound, and below the bound of the next leaf.
//! - The first leaf's bound is empty. No other leaf is empty.
//! - Contents with a block have one reference count: a pin of a version and what frees it later have the same.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Weak};

use crate::content::{Content, Object};
use crate::name::{Name, Opseq};

use super::leaf::{LEAF_BYTES, Leaf, Rows};
use super::packing;

/// Pins that have ended are looked for when there are so many, and twice as many as there were.
const LEAST_PINS: usize = 64;

/// Names and their visible versions.
pub struct Table {
    leaves: BTreeMap<Box<[u8]>, Leaf>,
    count: usize,
    pins: Pins,
}

impl Table {
    pub fn new() -> Table {
        Table { leaves: BTreeMap::from([(Box::default(), Leaf::default())]), count: 0, pins: Pins::default() }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    fn leaf(&self, name: &[u8]) -> &Leaf {
        self.leaves.range::<[u8], _>(up_to(name)).next_back().expect("the first leaf has no bound").1
    }

    fn body(&self, name: &Name) -> Option<&[u8]> {
        self.leaf(name.bytes()).get(name.bytes())
    }

    pub fn contains(&self, name: &Name) -> bool {
        self.body(name).is_some()
    }

    /// The number of the visible version.
    pub fn opseq(&self, name: &Name) -> Option<Opseq> {
        self.body(name).map(packing::opseq_of)
    }

    /// The visible version, whose blocks may be free again when the caller has given up its lock.
    pub fn get(&self, name: &Name) -> Option<Object> {
        self.body(name).map(packing::unpack)
    }

    /// The visible version. Its blocks are not free before its content is dropped.
    pub fn pin(&mut self, name: &Name) -> Option<Object> {
        let object = self.get(name)?;
        Some(self.pinned(object))
    }

    fn pinned(&mut self, object: Object) -> Object {
        Object { content: self.pins.hold(object.content), ..object }
    }

    /// The version that was there before, with what readers have of its content; and the bytes of both rows' bodies.
    pub fn set(&mut self, name: &Name, object: &Object) -> Set {
        let body = packing::pack(object);
        let key = name.bytes();
        let (_, leaf) = self.leaves.range_mut::<[u8], _>(up_to(key)).next_back().expect("the first leaf has no bound");
        let former = leaf.set(key, Some(&body));
        let other = (leaf.len() > LEAF_BYTES && leaf.has_several()).then(|| leaf.divide(leaf.ends_with(key)));
        self.leaves.extend(other);
        self.count += usize::from(former.is_none());
        let former_bytes = former.as_ref().map_or(0, |former| former.len());
        let former = former.map(|former| self.pinned(packing::unpack(&former)));
        Set { former, former_bytes, bytes: body.len() }
    }

    /// The version that was there, and the bytes of its row's body.
    pub fn remove(&mut self, name: &Name) -> Option<(Object, usize)> {
        let key = name.bytes();
        let (bound, leaf) = self.leaves.range_mut::<[u8], _>(up_to(key)).next_back().expect("the first leaf has no bound");
        let former = leaf.set(key, None)?;
        self.count -= 1;
        if leaf.len() < LEAF_BYTES / 4 {
            let bound = bound.clone();
            self.join(&bound);
        }
        let object = self.pinned(packing::unpack(&former));
        Some((object, former.len()))
    }

    /// Joins a leaf that has become small with the one before it, if that has room.
    fn join(&mut self, bound: &[u8]) {
        let small = &self.leaves[bound];
        let before = self.leaves.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(bound))).next_back();
        let Some((before, leaf)) = before else { return };
        if leaf.len() + small.len() > LEAF_BYTES / 4 * 3 && !small.is_empty() {
            return;
        }
        let before = before.clone();
        let small = self.leaves.remove(bound).expect("it was looked at");
        self.leaves.get_mut(&before).expect("it was looked at").join(&small);
    }

    /// Rows from a name on.
    pub fn range(&self, from: Bound<&Name>) -> Range<'_> {
        let start = match from {
            Bound::Unbounded => &[][..],
            Bound::Included(name) | Bound::Excluded(name) => name.bytes(),
        };
        let (bound, _) = self.leaves.range::<[u8], _>(up_to(start)).next_back().expect("the first leaf has no bound");
        let leaves = self.leaves.range::<[u8], _>((Bound::Included(&**bound), Bound::Unbounded));
        let skipping = match from {
            Bound::Unbounded => None,
            Bound::Included(name) => Some((name.bytes().into(), false)),
            Bound::Excluded(name) => Some((name.bytes().into(), true)),
        };
        Range { leaves, rows: None, skipping }
    }

    /// The contents of some rows, pinned, and their names.
    pub fn pin_slice(&mut self, from: Bound<&Name>, most: usize) -> Vec<(Name, Arc<Content>)> {
        let rows: Vec<(Name, Object)> = self.range(from).take(most).map(|(name, row)| (name, row.object())).collect();
        rows.into_iter().map(|(name, object)| (name, self.pins.hold(object.content))).collect()
    }

    /// Bytes of memory that rows and their index take, but for what the allocator adds.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        let entry = size_of::<Box<[u8]>>() + size_of::<Leaf>();
        // Nodes of the map are three quarters full.
        self.leaves.iter().map(|(bound, leaf)| bound.len() + leaf.room() + entry * 4 / 3).sum()
    }
}

/// Bounds up to a name, and with it.
fn up_to(name: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Included(name))
}

/// What a row has replaced.
pub struct Set {
    pub former: Option<Object>,
    pub former_bytes: usize,
    pub bytes: usize,
}

/// A row that is still packed.
#[derive(Clone, Copy)]
pub struct Row<'a>(&'a [u8]);

impl<'a> Row<'a> {
    pub fn object(&self) -> Object {
        packing::unpack(self.0)
    }

    pub fn body(&self) -> &'a [u8] {
        self.0
    }
}

/// Rows in the order of their names.
pub struct Range<'a> {
    leaves: std::collections::btree_map::Range<'a, Box<[u8]>, Leaf>,
    rows: Option<Rows<'a>>,
    /// Rows below this name are passed over; with it, if that is so.
    skipping: Option<(Box<[u8]>, bool)>,
}

impl<'a> Iterator for Range<'a> {
    type Item = (Name, Row<'a>);

    fn next(&mut self) -> Option<(Name, Row<'a>)> {
        loop {
            if self.rows.is_none() {
                self.rows = Some(self.leaves.next()?.1.rows());
            }
            let Some((name, body)) = self.rows.as_mut().and_then(Rows::next_row) else {
                self.rows = None;
                continue;
            };
            if let Some((from, is_excluded)) = &self.skipping {
                if name < &from[..] || *is_excluded && name == &from[..] {
                    continue;
                }
                self.skipping = None;
            }
            return Some((Name::from_bytes(name), Row(body)));
        }
    }
}

/// Contents that are referred to, by their first block.
#[derive(Default)]
struct Pins {
    held: HashMap<u32, Weak<Content>>,
    look_at: usize,
}

impl Pins {
    /// The content that others hold, if they do.
    fn hold(&mut self, content: Arc<Content>) -> Arc<Content> {
        let Some(first) = content.first_block() else { return content };
        if let Some(held) = self.held.get(&first).and_then(Weak::upgrade) {
            debug_assert_eq!(held, content, "a block that is held has one owner");
            return held;
        }
        if self.held.len() >= self.look_at.max(LEAST_PINS) {
            self.held.retain(|_, content| content.strong_count() > 0);
            self.look_at = 2 * self.held.len();
        }
        self.held.insert(first, Arc::downgrade(&content));
        content
    }
}

#[cfg(test)]
mod tests;
