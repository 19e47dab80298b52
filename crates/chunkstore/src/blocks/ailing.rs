//! What is not as it was written: copies whose content has rotted or was being replaced at a power cut, and blocks whose header is lost.
//!
//! And what may not be: a block one of whose headers was torn or has rotted has its copies as the other one says. If that is the older one, they may be older
//! than what was answered. They are *doubted*, which their block's headers say from then on ([`load`]): told of like rotten ones, though they are read as ever, until
//! the unit's leader has written again what other copies have. A write is not enough, nor is it that all copies are said to have had it: what comes late may be older
//! than what was lost.
//!
//! A block is left alone until the unit that owns it has it *condemned*, because all its chunks have copies elsewhere: then a header says in both
//! slots that nothing of it counts any more. Without that its copies might be readable again one day, behind those that were
//! made in their stead.

use std::collections::BTreeSet;
use std::sync::Arc;

use format::chunk_block::{BlockEntry, BlockHeader, ChunkVersion, CopyState, HEADER_SLOTS};
use format::chunk_id::{ChunkId, ShardId};
use parking_lot::Mutex;

use super::error::WriteError;
use super::layout::{padded, slot_start};
use super::limits::MAX_ROTTEN;
use super::reading::Extent;
use super::{BlockStore, Inner, load};
use crate::message::{NodeAnswer, NodeRefusal};
use crate::storage_node::StorageNode;

/// What is wrong, as far as it is known.
#[derive(Debug)]
pub(super) struct Ailing {
    /// Blocks whose header was lost.
    damaged: Mutex<BTreeSet<u32>>,
    /// Those among them that count as lost for good.
    condemned: Mutex<BTreeSet<u32>>,
    rotten: Mutex<BTreeSet<Rotten>>,
    /// Held by who condemns a block.
    condemning: Arc<tokio::sync::Mutex<()>>,
}

/// Of which chunk, and in which block.
pub(super) type Copy = (ChunkId, u32);

/// A content that is not what was written. One that stands elsewhere, or has another checksum, was written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rotten {
    id: ChunkId,
    block: u32,
    offset: u32,
    checksum: u32,
}

impl Ailing {
    pub fn new(mut damaged: BTreeSet<u32>, condemned: BTreeSet<u32>) -> Ailing {
        damaged.extend(&condemned);
        let (damaged, condemned) = (Mutex::new(damaged), Mutex::new(condemned));
        Ailing { damaged, condemned, rotten: Mutex::default(), condemning: Arc::default() }
    }

    pub fn is_damaged(&self, block: u32) -> bool {
        self.damaged.lock().contains(&block)
    }

    /// Notes a content that can't be read. What there is no room for is found again.
    pub fn note_rotten(&self, copy: Rotten) {
        let mut rotten = self.rotten.lock();
        if rotten.len() < MAX_ROTTEN {
            rotten.insert(copy);
        }
    }

    /// Returns when nothing is being condemned.
    pub async fn rest(&self) {
        drop(self.condemning.lock().await);
    }

    /// It was written again. If it still can't be read, that is found anew.
    fn forget_rotten(&self, id: ChunkId, block: u32) {
        self.rotten.lock().retain(|rotten| (rotten.id, rotten.block) != (id, block));
    }
}

impl Rotten {
    pub fn new(id: ChunkId, extent: Extent) -> Rotten {
        let Extent { block, offset, checksum, .. } = extent;
        Rotten { id, block, offset, checksum }
    }

    /// Whether the copy still has this content.
    pub fn is_held(&self, node: &StorageNode) -> bool {
        let is_it = |entry: &BlockEntry| {
            entry.state == CopyState::Live && (entry.offset, entry.checksum) == (self.offset, self.checksum)
        };
        node.entry(self.block, self.id).is_some_and(is_it)
    }
}

impl BlockStore {
    /// Up to `limit` copies of a shard without content that can be returned, or that are doubted, and the blocks that they are in.
    pub fn rotten(&self, shard: ShardId, limit: usize) -> Vec<Copy> {
        self.rotten_behind(shard, None, limit)
    }

    /// The same, of those that stand behind one in their order.
    pub fn rotten_behind(&self, shard: ShardId, behind: Option<Copy>, limit: usize) -> Vec<Copy> {
        let work = self.inner.work.lock();
        let mut rotten = self.inner.ailing.rotten.lock();
        rotten.retain(|copy| copy.is_held(&work.machine));
        let found = rotten.iter().filter(|copy| copy.id.shard == shard).map(|copy| (copy.id, copy.block));
        let is_behind = |copy: &Copy| behind.is_none_or(|behind| *copy > behind);
        let found = found.chain(work.machine.half_written(shard)).chain(work.machine.doubted(shard));
        let found: BTreeSet<Copy> = found.filter(is_behind).collect();
        found.into_iter().take(limit).collect()
    }

    /// Up to `limit` blocks whose header was lost, from one on, and whether they are condemned.
    pub fn damaged_from(&self, first: u32, limit: usize) -> Vec<(u32, bool)> {
        let condemned = self.inner.ailing.condemned.lock();
        let damaged = self.inner.ailing.damaged.lock();
        damaged.range(first..).take(limit).map(|block| (*block, condemned.contains(block))).collect()
    }

    #[cfg(test)]
    pub fn damaged_blocks(&self) -> Vec<(u32, bool)> {
        self.damaged_from(0, usize::MAX)
    }

    /// Has a damaged block count as lost for good: it answers nobody from now on, whatever can be read there later. Of a sound one it is refused, and of
    /// one that can be read again by now, which is as it was from then on. Once it is begun it goes on if the future is dropped.
    pub async fn condemn(&self, block: u32) -> NodeAnswer {
        let inner = self.inner.clone();
        // One after the other: what was found readable must not be overwritten by one that found it damaged before.
        let turn = inner.ailing.condemning.clone().lock_owned().await;
        let env = inner.env.clone();
        // On its own: a write may come to the disk long after whoever asked is gone, and until then it is nobody else's turn.
        let condemned = env.spawn(async move {
            let answer = inner.condemn(block).await;
            drop(turn);
            answer
        });
        condemned.await.unwrap_or(NodeAnswer::Refused(NodeRefusal::Failed))
    }
}

impl Inner {
    /// A mend has brought this version to a copy, which has that one now.
    pub fn was_mended(&self, (block, id): (u32, ChunkId), brought: ChunkVersion, held: ChunkVersion, is_compared: bool) {
        if held == brought {
            self.ailing.forget_rotten(id, block);
        }
        // What it has may be newer than what was brought, and unreadable as before; but it is not older than what the others had.
        if is_compared && held >= brought {
            self.work.lock().machine.trust(block, id);
        }
    }

    async fn condemn(self: &Arc<Self>, block: u32) -> NodeAnswer {
        if !self.ailing.is_damaged(block) {
            return NodeAnswer::Refused(NodeRefusal::InUse);
        }
        if self.ailing.condemned.lock().contains(&block) {
            return NodeAnswer::Done(None);
        }
        if self.work.lock().is_closed {
            return NodeAnswer::Refused(NodeRefusal::Failed);
        }
        match self.condemn_if_damaged(block).await {
            Ok(true) => {
                self.ailing.condemned.lock().insert(block);
                tracing::warn!(device = self.volume.device().0, block, "a block whose header was lost is out of use");
                NodeAnswer::Done(None)
            }
            Ok(false) => {
                tracing::warn!(device = self.volume.device().0, block, "a block whose header was lost can be read again");
                NodeAnswer::Refused(NodeRefusal::InUse)
            }
            Err(error) => {
                tracing::warn!(device = self.volume.device().0, block, %error, "a block was not condemned");
                NodeAnswer::Refused(error.refusal())
            }
        }
    }

    /// Whether a content that was found rotten still stands so.
    pub(super) fn is_rotten(&self, copy: &Rotten) -> bool {
        let work = self.work.lock();
        self.ailing.rotten.lock().contains(copy) && copy.is_held(&work.machine)
    }

    /// Whether it was condemned. Its header was looked for once, when the store was opened: a disk that fails reads for a moment then must not cost what
    /// stands on it. What can be read by now counts as after another start; nothing was written to the block, or answered from it, in between.
    async fn condemn_if_damaged(self: &Arc<Self>, block: u32) -> Result<bool, WriteError> {
        let Some(header) = load::believed(&self.volume, block).await? else {
            self.write_condemned(block).await?;
            return Ok(true);
        };
        self.work.lock().machine.adopt(header);
        self.ailing.damaged.lock().remove(&block);
        Ok(false)
    }

    /// Both slots, each durable: nothing of the former headers is left.
    async fn write_condemned(self: &Arc<Self>, block: u32) -> Result<(), WriteError> {
        let (device_uuid, entries) = (self.volume.device_uuid(), Vec::new());
        let mut header = BlockHeader { device_uuid, block, serial: 0, is_condemned: true, entries };
        for serial in 0..HEADER_SLOTS {
            header.serial = serial;
            self.volume.write(slot_start(block, header.slot()), padded(&header.encode())).await?;
            self.counters.header_writes.add(1);
        }
        Ok(())
    }
}
