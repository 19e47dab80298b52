//! Copies that somebody is told of now and then, so that nobody looks for them among all.

use std::collections::BTreeSet;

use format::chunk_block::{BlockEntry, CopyState};
use format::chunk_id::{ChunkId, ShardId};

/// A copy: of which chunk, whose shard comes first in its order, and in which block.
type Copy = (ChunkId, u32);

/// Dead copies, those that are half old and half new, and those that may be older than what was answered.
#[derive(Debug, Default)]
pub(super) struct Noted {
    dead: BTreeSet<Copy>,
    half_written: BTreeSet<Copy>,
    doubted: BTreeSet<Copy>,
}

impl Noted {
    /// A block's header says something else now.
    pub fn change<'a>(&mut self, block: u32, former: &[BlockEntry], present: impl Iterator<Item = &'a BlockEntry>) {
        for (state, noted) in [(CopyState::Dead, &mut self.dead), (CopyState::Overwriting, &mut self.half_written)] {
            former.iter().filter(|entry| entry.state == state).for_each(|entry| _ = noted.remove(&(entry.id, block)));
        }
        former.iter().filter(|entry| entry.is_doubted).for_each(|entry| self.trust((entry.id, block)));
        for entry in present {
            if entry.is_doubted {
                self.doubted.insert((entry.id, block));
            }
            match entry.state {
                CopyState::Dead => _ = self.dead.insert((entry.id, block)),
                CopyState::Overwriting => _ = self.half_written.insert((entry.id, block)),
                CopyState::Live | CopyState::Departed => {}
            }
        }
    }

    /// Dead copies of a shard, and their blocks.
    pub fn dead(&self, shard: ShardId) -> impl Iterator<Item = Copy> {
        of_shard(&self.dead, shard)
    }

    pub fn trust(&mut self, copy: Copy) {
        self.doubted.remove(&copy);
    }

    pub fn doubted(&self, shard: ShardId) -> impl Iterator<Item = Copy> {
        of_shard(&self.doubted, shard)
    }

    pub fn half_written(&self, shard: ShardId) -> impl Iterator<Item = Copy> {
        of_shard(&self.half_written, shard)
    }
}

fn of_shard(noted: &BTreeSet<Copy>, shard: ShardId) -> impl Iterator<Item = Copy> {
    let first = (ChunkId { shard, ..ChunkId::default() }, 0);
    noted.range(first..).take_while(move |(id, _)| id.shard == shard).copied()
}
