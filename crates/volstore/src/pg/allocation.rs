//! Blocks of a group: reserved, in limbo, free again.

use std::ops::Bound;
use std::sync::Arc;

use crate::content::{Content, Extent, Object};
use crate::limits::DUMP_BLOCKS;
use crate::name::Opseq;
use crate::space::Space;

use super::{Freed, Pg, rows};

/// For what blocks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It leaves blocks for the next dump.
    Content,
    Dump,
}

impl Pg {
    /// Takes blocks. None: there are not enough, or the next dump would not find enough.
    pub fn reserve(&mut self, count: u64, purpose: Purpose) -> Option<Vec<Extent>> {
        let available = match purpose {
            Purpose::Content if self.lacks_dump_room() => return None,
            Purpose::Content => self.spare_blocks(),
            Purpose::Dump => self.space.free_blocks(),
        };
        if available < count {
            return None;
        }
        let extent = |run: std::ops::Range<u64>| Extent { first: run.start as u32, count: (run.end - run.start) as u32 };
        let extents: Vec<Extent> = self.space.take(count).into_iter().map(extent).collect();
        self.reserved.extend(extents.iter().copied());
        Some(extents)
    }

    /// Gives up blocks that were reserved. Nothing is written to them any more.
    pub fn give_up(&mut self, extents: &[Extent]) {
        for extent in extents {
            assert!(self.reserved.remove(extent), "{extent:?} was not reserved");
            self.space.give(extent.range());
        }
    }

    /// Blocks that the next dump may need.
    pub fn dump_blocks(&self) -> u64 {
        rows::blocks_for(self.row_bytes) + DUMP_BLOCKS
    }

    /// Whether the next dump might not find room. Content waits until the volume has more.
    pub fn lacks_dump_room(&self) -> bool {
        self.space.free_blocks() < self.dump_blocks()
    }

    /// Blocks that content may have now.
    pub fn spare_blocks(&self) -> u64 {
        self.space.free_blocks().saturating_sub(self.dump_blocks())
    }

    /// Blocks that become free when what is under way is settled, and readers have ended.
    pub fn limbo_blocks(&self) -> u64 {
        self.limbo_blocks
    }

    /// Blocks of all owners.
    pub fn used_blocks(&self) -> u64 {
        self.space.lent_blocks() - self.space.free_blocks()
    }

    pub(super) fn free_later(&mut self, freed: Freed) {
        for (opseq, content) in freed {
            self.limbo_blocks += content.blocks();
            self.limbo.entry(opseq).or_default().push(content);
        }
    }

    /// Frees what mutations below this one have given up, and no reader has. Whether anything was.
    pub fn release(&mut self, settled_below: Opseq) -> bool {
        let mut free: Vec<Arc<Content>> = Vec::new();
        let mut kept = Vec::new();
        self.joined.retain(|(_, part)| part.strong_count() > 0);
        let joined = &self.joined;
        let is_held = |content: &Arc<Content>| joined.iter().any(|(whole, _)| content.first_block() == Some(*whole));
        while let Some(first) = self.limbo.first_entry().filter(|first| *first.key() < settled_below) {
            let (opseq, mut contents) = first.remove_entry();
            contents.retain(|content| {
                // The readers' references are made under the lock under which this is called, from a name that is gone.
                let is_free = Arc::strong_count(content) == 1 && !is_held(content);
                if is_free {
                    free.push(content.clone());
                }
                !is_free
            });
            if !contents.is_empty() {
                kept.push((opseq, contents));
            }
        }
        self.limbo.extend(kept);
        for content in &free {
            self.limbo_blocks -= content.blocks();
            content.extents().for_each(|extent| self.space.give(extent.range()));
        }
        !free.is_empty()
    }

    /// The superblock names another dump: its blocks were reserved, and the former one's are free.
    pub fn replace_dump(&mut self, dump: Vec<Extent>) {
        for extent in &dump {
            assert!(self.reserved.remove(extent), "{extent:?} was not reserved");
        }
        for extent in std::mem::replace(&mut self.dump, dump) {
            self.space.give(extent.range());
        }
    }

    /// Claims the blocks of all that was loaded. The first extent that has two owners, or no space.
    pub fn claim_all(&mut self, dump: Vec<Extent>) -> Result<(), Extent> {
        self.dump = dump;
        let owned: Vec<Extent> = self.owned().collect();
        for extent in owned {
            if !self.space.claim(extent.range()) {
                return Err(extent);
            }
        }
        Ok(())
    }

    /// Extents of objects, parts and the dump.
    pub(super) fn owned(&self) -> impl Iterator<Item = Extent> {
        let objects = self.objects.range(Bound::Unbounded).flat_map(|(_, row)| extents_of(&row.object()));
        let parts = self.uploads.values().flat_map(|upload| upload.parts.values());
        let parts = parts.flat_map(|part| part.content.extents());
        objects.chain(parts).chain(self.dump.iter().copied())
    }

    /// The volume's blocks.
    pub fn space(&mut self) -> &mut Space {
        &mut self.space
    }
}

fn extents_of(object: &Object) -> Vec<Extent> {
    object.content.extents().collect()
}
