//! The blocks of a volume: which are free, who has reserved which, and which wait until nothing can touch them any more.
//!
//! ```text
//!              reserve (chooses blocks)        commit
//!   (free) ─────────────────────────► pending ────────► (published: the caller's)
//!     ▲                                  │ revoke, deadline │ release
//!     │          drained                 ▼                  ▼
//!     └──────────────────────────────── limbo ◄─────────────┘
//! ```
//!
//! Invariants:
//! - A block is free, or pending, or in limbo, or published, and one of these only.
//! - The blocks of a key are held by no other key.
//!
//! What is published is the caller's to remember: after a restart it [claims](Blocks::claim) that again, and the rest is free.

use std::fmt;
use std::ops::Range;

use crate::bitmap::Bitmap;
use crate::reserve::{Deadline, Reserve, ReserveError};

/// Runs of free blocks that are looked at for one that is long enough. Then the longest of them is taken, and what is missing sought anew.
const MAX_RUNS_LOOKED_AT: usize = 64;

/// Blocks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    pub first: u64,
    /// At least one.
    pub count: u64,
}

impl Extent {
    fn range(self) -> Range<u64> {
        self.first..self.first + self.count
    }
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlocksError {
    /// The key can't be used.
    Key(ReserveError),
    /// Fewer blocks are free than are wanted. Those in limbo get free when they are drained.
    NoRoom { free: u64 },
    /// It asks for no block.
    Nothing,
    /// These blocks are not there, not published, or named twice.
    NotPublished(Extent),
    /// These blocks are not there, not free, or named twice.
    NotFree(Extent),
}

impl fmt::Display for BlocksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlocksError::Key(error) => error.fmt(f),
            BlocksError::NoRoom { free } => write!(f, "only {free} blocks are free"),
            BlocksError::Nothing => f.write_str("it asks for no block"),
            BlocksError::NotPublished(Extent { first, count }) => {
                write!(f, "{count} blocks from {first} on are not all published")
            }
            BlocksError::NotFree(Extent { first, count }) => write!(f, "{count} blocks from {first} on are not all free"),
        }
    }
}

impl std::error::Error for BlocksError {}

/// Blocks of one volume, from number 0 on, and the keys that hold some of them for now. Two bits a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks<K> {
    free: Bitmap,
    free_count: u64,
    /// Published, and by nobody released.
    published: Bitmap,
    keys: Reserve<K, Vec<Extent>>,
    /// Where the last reservation ended: the next one goes on there, so that blocks rest before they are written again.
    cursor: u64,
}

impl<K: Copy + Ord> Blocks<K> {
    /// A volume of this many blocks, all of them free, for up to `limit` pending reservations.
    pub fn new(count: u64, limit: usize) -> Self {
        let (mut free, published) = (Bitmap::new(count), Bitmap::new(count));
        free.insert(0..count);
        Blocks { free, free_count: count, published, keys: Reserve::new(limit), cursor: 0 }
    }

    /// How many blocks are free.
    pub fn free(&self) -> u64 {
        self.free_count
    }

    /// Chooses blocks: one extent where there is one near, else as few as are near. Without a deadline they stay pending until they are
    /// committed or revoked.
    pub fn reserve(&mut self, key: K, count: u64, deadline: Option<Deadline>) -> Result<&[Extent], BlocksError> {
        if count == 0 {
            return Err(BlocksError::Nothing);
        }
        if count > self.free_count {
            return Err(BlocksError::NoRoom { free: self.free_count });
        }
        self.keys.reserve(key, Vec::new(), deadline).map_err(BlocksError::Key)?;
        let chosen = self.choose(count);
        let extents = self.keys.pending_mut(key).expect("it was just reserved");
        *extents = chosen;
        Ok(extents)
    }

    /// Makes free blocks published, whose owner is known already: after a restart, or on a member that follows.
    pub fn claim(&mut self, extents: &[Extent]) -> Result<(), BlocksError> {
        for (index, extent) in extents.iter().enumerate() {
            if !self.holds(&self.free, *extent) {
                extents[..index].iter().for_each(|claimed| self.unclaim(*claimed));
                return Err(BlocksError::NotFree(*extent));
            }
            self.take(*extent);
            self.published.insert(extent.range());
        }
        Ok(())
    }

    /// Ends a reservation: its blocks are published. None if the key is not pending (any more).
    pub fn commit(&mut self, key: K) -> Option<Vec<Extent>> {
        let extents = self.keys.commit(key)?;
        extents.iter().for_each(|extent| self.published.insert(extent.range()));
        Some(extents)
    }

    /// Gives a reservation up; whether it was pending.
    pub fn revoke(&mut self, key: K) -> bool {
        self.keys.revoke(key)
    }

    /// Gives up what has a deadline that is not later than `now`; these keys, the earliest deadline first.
    pub fn expire(&mut self, now: Deadline) -> Vec<K> {
        self.keys.expire(now)
    }

    /// Gives up blocks that are published. They wait under this key.
    pub fn release(&mut self, key: K, extents: Vec<Extent>) -> Result<(), BlocksError> {
        if extents.is_empty() {
            return Err(BlocksError::Nothing);
        }
        self.keys.check_unknown(key).map_err(BlocksError::Key)?;
        for (index, extent) in extents.iter().enumerate() {
            if !self.holds(&self.published, *extent) {
                extents[..index].iter().for_each(|released| self.published.insert(released.range()));
                return Err(BlocksError::NotPublished(*extent));
            }
            self.published.remove(extent.range());
        }
        self.keys.release(key, extents).expect("the key was looked at");
        Ok(())
    }

    /// Nothing can touch these blocks any more: they are free. Whether the key was in limbo.
    pub fn drained(&mut self, key: K) -> bool {
        let Some(extents) = self.keys.drained(key) else { return false };
        extents.iter().for_each(|extent| self.give_back(*extent));
        true
    }

    /// Keys that are pending or in limbo, with their blocks.
    pub fn keys(&self) -> &Reserve<K, Vec<Extent>> {
        &self.keys
    }

    /// Free blocks in runs, from the first on.
    pub fn free_runs(&self) -> impl Iterator<Item = Extent> {
        runs(&self.free)
    }

    /// Published blocks in runs, from the first on: what a snapshot has to remember.
    pub fn published_runs(&self) -> impl Iterator<Item = Extent> {
        runs(&self.published)
    }

    fn choose(&mut self, count: u64) -> Vec<Extent> {
        let mut chosen: Vec<Extent> = Vec::new();
        let mut missing = count;
        while missing > 0 {
            let extent = self.best_run(missing);
            self.take(extent);
            self.cursor = extent.range().end;
            missing -= extent.count;
            chosen.push(extent);
        }
        chosen
    }

    /// The first run of this many blocks from the cursor on, or the longest that was seen.
    fn best_run(&self, count: u64) -> Extent {
        let after = self.runs_from(self.cursor, count);
        let before = self.runs_from(0, count);
        let mut best: Option<Extent> = None;
        for run in after.chain(before).take(MAX_RUNS_LOOKED_AT) {
            if best.is_none_or(|best| run.count > best.count) {
                best = Some(run);
            }
            if run.count == count {
                break;
            }
        }
        best.expect("enough blocks are free")
    }

    /// Runs of free blocks from a block on, each cut to `count`.
    fn runs_from(&self, block: u64, count: u64) -> impl Iterator<Item = Extent> {
        let mut at = block;
        std::iter::from_fn(move || {
            let first = self.free.next_from(at)?;
            at = self.free.next_absent(first, first.saturating_add(count));
            Some(Extent { first, count: at - first })
        })
    }

    fn holds(&self, of: &Bitmap, extent: Extent) -> bool {
        let end = extent.first.checked_add(extent.count);
        extent.count > 0 && end.is_some_and(|end| end <= of.length() && of.holds(extent.first..end) == Some(true))
    }

    fn take(&mut self, extent: Extent) {
        self.free.remove(extent.range());
        self.free_count -= extent.count;
    }

    fn give_back(&mut self, extent: Extent) {
        self.free.insert(extent.range());
        self.free_count += extent.count;
    }

    fn unclaim(&mut self, extent: Extent) {
        self.published.remove(extent.range());
        self.give_back(extent);
    }
}

fn runs(of: &Bitmap) -> impl Iterator<Item = Extent> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = of.next_from(at)?;
        at = of.next_absent(first, of.length());
        Some(Extent { first, count: at - first })
    })
}

#[cfg(test)]
mod tests;
