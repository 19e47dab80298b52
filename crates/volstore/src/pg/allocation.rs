//! Blocks of a group: reserved, in limbo, free again.

use std::sync::Arc;

use crate::content::{Content, Extent, VolumeIndex};
use crate::limits::DUMP_BLOCKS;
use crate::name::Opseq;
use crate::space::Space;

use super::{Freed, Pg, rows};

/// For what blocks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It leaves blocks for the next dump.
    Content,
    /// On the home volume.
    Dump,
}

impl Pg {
    /// Takes blocks: on the volume with the most free ones if they all find room there. None: there are not enough, or the home volume would not have enough for
    /// the next dump.
    pub fn reserve(&mut self, count: u64, purpose: Purpose) -> Option<Vec<Extent>> {
        if purpose == Purpose::Content && self.lacks_dump_room() {
            return None;
        }
        let mut volumes: Vec<(u64, VolumeIndex)> =
            self.indices().map(|index| (self.available(index, purpose), index)).collect();
        volumes.retain(|(available, _)| *available > 0);
        if volumes.iter().map(|(available, _)| available).sum::<u64>() < count {
            return None;
        }
        volumes.sort_unstable_by(|one, other| other.cmp(one));
        let mut extents = Vec::new();
        let mut missing = count;
        for (available, volume) in volumes {
            let taken = missing.min(available);
            if taken > 0 {
                let runs = self.space(volume).expect("it has free blocks").take(taken);
                let extent =
                    |run: std::ops::Range<u64>| Extent { volume, first: run.start as u32, count: (run.end - run.start) as u32 };
                extents.extend(runs.into_iter().map(extent));
            }
            missing -= taken;
        }
        self.reserved.extend(extents.iter().copied());
        Some(extents)
    }

    /// Gives up blocks that were reserved. Nothing is written to them any more.
    pub fn give_up(&mut self, extents: &[Extent]) {
        for extent in extents {
            assert!(self.reserved.remove(extent), "{extent:?} was not reserved");
            self.give(*extent);
        }
    }

    /// Blocks of a volume that a purpose may have.
    fn available(&self, volume: VolumeIndex, purpose: Purpose) -> u64 {
        let free = self.volumes[usize::from(volume.0)].as_ref().map_or(0, Space::free_blocks);
        let is_home = self.home == Some(volume);
        match purpose {
            Purpose::Content if is_home => free.saturating_sub(self.dump_blocks()),
            Purpose::Content => free,
            Purpose::Dump if is_home => free,
            Purpose::Dump => 0,
        }
    }

    /// Blocks that the next dump may need.
    pub fn dump_blocks(&self) -> u64 {
        rows::blocks_for(self.row_bytes) + DUMP_BLOCKS
    }

    /// Whether the next dump might not find room. Content waits until the home volume has more.
    pub fn lacks_dump_room(&self) -> bool {
        self.home.is_some_and(|home| {
            let space = self.volumes[usize::from(home.0)].as_ref();
            space.is_none_or(|space| space.free_blocks() < self.dump_blocks())
        })
    }

    /// Blocks that content may have now.
    pub fn spare_blocks(&self, volume: VolumeIndex) -> u64 {
        self.available(volume, Purpose::Content)
    }

    /// Blocks that become free when what is under way is settled, and readers have ended.
    pub fn limbo_blocks(&self) -> u64 {
        self.limbo_blocks
    }

    /// Blocks of all owners.
    pub fn used_blocks(&self) -> u64 {
        self.volumes.iter().flatten().map(|space| space.lent_blocks() - space.free_blocks()).sum()
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
        self.joined.retain(|(_, part)| part.strong_count() > 0);
        let joined = &self.joined;
        let is_held = |content: &Arc<Content>| joined.iter().any(|(whole, _)| whole.as_ptr() == Arc::as_ptr(content));
        for (_, contents) in self.limbo.range_mut(..settled_below) {
            contents.retain(|content| {
                // The readers' references are made under the lock under which this is called, from a name that is gone.
                let is_free = Arc::strong_count(content) == 1 && !is_held(content);
                if is_free {
                    free.push(content.clone());
                }
                !is_free
            });
        }
        self.limbo.retain(|_, contents| !contents.is_empty());
        for content in &free {
            self.limbo_blocks -= content.blocks();
            content.extents().for_each(|extent| self.give(extent));
        }
        !free.is_empty()
    }

    /// The superblock names another dump: its blocks were reserved, and the former one's are free.
    pub fn replace_dump(&mut self, dump: Vec<Extent>) {
        for extent in &dump {
            assert!(self.reserved.remove(extent), "{extent:?} was not reserved");
        }
        for extent in std::mem::replace(&mut self.dump, dump) {
            self.give(extent);
        }
    }

    /// Claims the blocks of all that was loaded. The first extent that has two owners, or no space.
    pub fn claim_all(&mut self, dump: Vec<Extent>) -> Result<(), Extent> {
        self.dump = dump;
        let owned: Vec<Extent> = self.owned().collect();
        for extent in owned {
            if let Some(space) = self.space(extent.volume)
                && !space.claim(extent.range())
            {
                return Err(extent);
            }
        }
        Ok(())
    }

    /// Extents of objects, parts and the dump.
    pub(super) fn owned(&self) -> impl Iterator<Item = Extent> {
        let objects = self.objects.values().flat_map(|object| object.content.extents());
        let parts = self.uploads.values().flat_map(|upload| upload.parts.values());
        let parts = parts.flat_map(|part| part.content.extents());
        objects.chain(parts).chain(self.dump.iter().copied())
    }

    fn give(&mut self, extent: Extent) {
        // The blocks of a device that is missing are derived anew when it is there again.
        if let Some(space) = self.space(extent.volume) {
            space.give(extent.range());
        }
    }

    /// A volume's blocks, if its device is there.
    pub fn space(&mut self, volume: VolumeIndex) -> Option<&mut Space> {
        self.volumes.get_mut(usize::from(volume.0)).and_then(Option::as_mut)
    }

    pub fn indices(&self) -> impl Iterator<Item = VolumeIndex> + use<> {
        (0..self.volumes.len() as u16).map(VolumeIndex)
    }

    /// The group is founded.
    pub fn set_home(&mut self, home: VolumeIndex) {
        self.home = Some(home);
    }

    pub fn home(&self) -> Option<VolumeIndex> {
        self.home
    }

    /// Whether any object or part has blocks on a volume.
    pub fn has_content_on(&self, volume: VolumeIndex) -> bool {
        self.owned().any(|extent| extent.volume == volume)
    }
}
