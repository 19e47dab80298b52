//! The fsck: owners of blocks, derived from the records, against the bitmaps.

use crate::content::Extent;

use super::{Pg, rows};

impl Pg {
    /// What is wrong, if anything is: a block with two owners, one that is used without an owner, or a count that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let mut derived: Vec<_> = self.volumes.iter().map(|space| space.as_ref().map(|space| space.emptied())).collect();
        let mut claim = |extent: Extent, owner: &str| match derived.get_mut(usize::from(extent.volume.0)) {
            Some(Some(space)) => match space.claim(extent.range()) {
                true => Ok(()),
                false => Err(format!("{extent:?} of {owner} has another owner, or no space")),
            },
            // Its device is missing.
            Some(None) => Ok(()),
            None => Err(format!("{extent:?} of {owner} is on no volume")),
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
        for (index, (derived, kept)) in derived.iter().zip(&self.volumes).enumerate() {
            if let (Some(derived), Some(kept)) = (derived, kept)
                && !derived.has_same_free(kept)
            {
                let (derived, kept) = (derived.free_blocks(), kept.free_blocks());
                return Err(format!("volume {index}: {kept} blocks are free, by their owners it should be {derived}"));
            }
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
