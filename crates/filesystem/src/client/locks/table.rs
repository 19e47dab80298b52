//! What a client knows of its locks, without asking.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use env::Instant;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::circles::Circles;
use super::closing::Closing;
use super::{LONGEST_PAUSE, PAUSE_FOR_EACH};
use crate::client::FileHandle;
use crate::ids::{Ino, TreeIndex};
use crate::meta::LockOwner;

/// What a client knows of its locks.
#[derive(Debug, Default)]
pub struct Locks {
    pub(super) held: Mutex<BTreeMap<(Ino, LockOwner), Holding>>,
    /// The length of `held`.
    pub(super) count: AtomicUsize,
    pub(super) waiting: Mutex<BTreeMap<Ino, Waiting>>,
    /// Files of which an open one is being closed that may have locked something.
    pub(super) closing: Closing,
    pub(super) circles: Circles,
    /// When the last question was sent that the tree answered.
    pub(super) heard_at: Mutex<BTreeMap<TreeIndex, Instant>>,
    /// Trees where the session may have locks that an earlier process took.
    pub(super) older: Mutex<BTreeSet<TreeIndex>>,
    /// Whether there are such.
    pub(super) has_older: AtomicBool,
}

/// An owner that has locked something of a file, or has asked for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    /// The open file by which it locked first.
    pub(super) handle: FileHandle,
    pub(super) is_granted: bool,
    /// The tree has taken it away, and the owner does not know yet.
    pub(super) is_lost: bool,
    /// The owner has given it up, and the tree does not know yet.
    pub(super) is_owed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) count: usize,
    pub(super) freed: Arc<Notify>,
}

/// One that waits, until it is dropped.
pub(super) struct Waiter<'a> {
    pub(super) of: &'a Locks,
    pub(super) ino: Ino,
    pub(super) owner: LockOwner,
    pub(super) freed: Arc<Notify>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.of.circles.end(self.owner);
        let mut waiting = self.of.waiting.lock();
        if let Some(found) = waiting.get_mut(&self.ino) {
            found.count -= 1;
            if found.count == 0 {
                waiting.remove(&self.ino);
            }
        }
    }
}

impl Locks {
    /// Of a client that was resumed, with a session at these trees.
    pub fn taken_over(trees: impl Iterator<Item = TreeIndex>) -> Locks {
        let older: BTreeSet<TreeIndex> = trees.collect();
        let has_older = AtomicBool::new(!older.is_empty());
        Locks { older: Mutex::new(older), has_older, ..Locks::default() }
    }

    pub fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0 || self.has_older()
    }

    pub(super) fn has_older(&self) -> bool {
        self.has_older.load(Ordering::Acquire)
    }

    pub(super) fn has_older_at(&self, tree: TreeIndex) -> bool {
        self.has_older() && self.older.lock().contains(&tree)
    }

    /// A tree has said that the session has none there.
    pub(super) fn no_older_at(&self, tree: TreeIndex) {
        let mut older = self.older.lock();
        older.remove(&tree);
        self.has_older.store(!older.is_empty(), Ordering::Release);
    }

    /// Trees where the session may have some.
    pub(super) fn trees(&self) -> BTreeSet<TreeIndex> {
        let mut trees = self.older.lock().clone();
        trees.extend(self.held.lock().keys().map(|(ino, _)| ino.tree()));
        trees
    }

    pub(super) fn has_some_at(&self, tree: TreeIndex) -> bool {
        self.has_older_at(tree) || self.held.lock().keys().any(|(ino, _)| ino.tree() == tree)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<(Ino, LockOwner), Holding>) -> T) -> T {
        let mut held = self.held.lock();
        let changed = change(&mut held);
        self.count.store(held.len(), Ordering::Release);
        changed
    }

    pub(super) fn find(&self, ino: Ino, owner: LockOwner) -> Option<Holding> {
        self.held.lock().get(&(ino, owner)).copied()
    }

    /// An owner asks for a lock, or got it.
    pub(super) fn note(&self, ino: Ino, owner: LockOwner, handle: FileHandle, is_granted: bool) {
        self.change(|held| {
            let fresh = Holding { handle, is_granted, is_lost: false, is_owed: false };
            let holding = held.entry((ino, owner)).or_insert(fresh);
            holding.is_granted |= is_granted;
            holding.is_owed = false;
        });
    }

    /// An owner did not get its lock, and has no other.
    pub(super) fn refused(&self, ino: Ino, owner: LockOwner) {
        self.change(|held| {
            if held.get(&(ino, owner)).is_some_and(|holding| !holding.is_granted) {
                held.remove(&(ino, owner));
            }
        });
    }

    pub(super) fn forget(&self, ino: Ino, owner: LockOwner) {
        self.change(|held| held.remove(&(ino, owner)));
    }

    /// The tree is told later.
    pub(super) fn owe(&self, ino: Ino, owner: LockOwner) {
        let is_older = self.has_older_at(ino.tree());
        self.change(|held| {
            let older = Holding { handle: FileHandle(0), is_granted: true, is_lost: false, is_owed: true };
            match held.get_mut(&(ino, owner)) {
                Some(holding) => holding.is_owed = true,
                None if is_older => drop(held.insert((ino, owner), older)),
                None => {}
            }
        });
    }

    pub(super) fn owed(&self) -> Vec<(Ino, LockOwner)> {
        self.held.lock().iter().filter(|(_, holding)| holding.is_owed).map(|(key, _)| *key).collect()
    }

    /// The owners that have locked something of a file by an open file.
    pub(super) fn by_handle(&self, ino: Ino, handle: FileHandle) -> Vec<LockOwner> {
        if !self.has_some() {
            return Vec::new();
        }
        let held = self.held.lock();
        let of_file = held.iter().filter(|((other, _), holding)| *other == ino && holding.handle == handle);
        of_file.map(|((_, owner), _)| *owner).collect()
    }

    /// All that was locked at a tree is lost.
    pub(super) fn lose(&self, tree: TreeIndex) -> usize {
        self.change(|held| {
            held.retain(|(ino, _), holding| ino.tree() != tree || !holding.is_owed);
            let of_tree = held.iter_mut().filter(|((ino, _), _)| ino.tree() == tree);
            of_tree.map(|(_, holding)| holding.is_lost = true).count()
        })
    }

    /// Whether an owner has lost what it had locked of a file, and does not know.
    pub(super) fn is_lost(&self, ino: Ino) -> bool {
        self.held.lock().iter().any(|((other, _), holding)| *other == ino && holding.is_lost)
    }

    pub(super) fn is_locked(&self, ino: Ino) -> bool {
        self.has_older_at(ino.tree()) || self.held.lock().keys().any(|(other, _)| *other == ino)
    }

    pub(super) fn wait_for(&self, ino: Ino, owner: LockOwner) -> Waiter<'_> {
        let mut waiting = self.waiting.lock();
        let found = waiting.entry(ino).or_default();
        found.count += 1;
        Waiter { of: self, ino, owner, freed: found.freed.clone() }
    }

    pub(super) fn wake_one(&self, ino: Ino) {
        if let Some(found) = self.waiting.lock().get(&ino) {
            found.freed.notify_one();
        }
    }

    pub(super) fn longest_pause(&self) -> Duration {
        let waiting: usize = self.waiting.lock().values().map(|waiting| waiting.count).sum();
        LONGEST_PAUSE.max(PAUSE_FOR_EACH * u32::try_from(waiting).unwrap_or(u32::MAX))
    }
}
