//! The fsck: owners of blocks, derived from the records, against the bitmaps.

use crate::content::Extent;

use super::{Pg, rows};

/// Blocks, by what has them.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Objects and parts.
    pub named: u64,
    pub dump: u64,
    /// What will be named or free: it is reserved, pending or in limbo.
    pub unsettled: u64,
    /// By the bitmap.
    pub used: u64,
}

impl Pg {
    /// What names and the dump have, and what the bitmap says is used. They are the same when nothing is unsettled: no block has leaked.
    #[cfg(test)]
    pub fn account(&self) -> Account {
        let count = |extents: &mut dyn Iterator<Item = Extent>| extents.map(|extent| u64::from(extent.count)).sum::<u64>();
        let dump = count(&mut self.dump.iter().copied());
        let pending = self.pending.values().filter_map(|mutation| mutation.content()).map(|content| content.blocks());
        let reserved = count(&mut self.reserved.iter().copied());
        let unsettled = pending.sum::<u64>() + reserved + self.limbo_blocks;
        Account { named: count(&mut self.owned()) - dump, dump, unsettled, used: self.used_blocks() }
    }

    /// What is wrong, if anything is: a block with two owners, one that is used without an owner, or a count that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let mut derived = self.space.emptied();
        let mut claim = |extent: Extent, owner: &str| match derived.claim(extent.range()) {
            true => Ok(()),
            false => Err(format!("{extent:?} of {owner} has another owner, or no space")),
        };
        for extent in self.owned() {
            claim(extent, "what is visible")?;
        }
        for extent in self.pending.values().filter_map(|mutation| mutation.content()).flat_map(|content| content.extents()) {
            claim(extent, "what is pending")?;
        }
        for extent in &self.reserved {
            claim(*extent, "what is reserved")?;
        }
        for extent in self.limbo.values().flatten().flat_map(|content| content.extents()) {
            claim(extent, "limbo")?;
        }
        if !derived.has_same_free(&self.space) {
            let (derived, kept) = (derived.free_blocks(), self.space.free_blocks());
            return Err(format!("{kept} blocks are free, by their owners it should be {derived}"));
        }
        let limbo: u64 = self.limbo.values().flatten().map(|content| content.blocks()).sum();
        if limbo != self.limbo_blocks {
            return Err(format!("{} blocks in limbo, counted {limbo}", self.limbo_blocks));
        }
        let row_bytes = rows::counted(self);
        if row_bytes != self.row_bytes {
            return Err(format!("{} bytes of rows, counted {row_bytes}", self.row_bytes));
        }
        Ok(())
    }
}
