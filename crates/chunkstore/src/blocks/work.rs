//! Requests that write: from the request to the machine, from its steps to the volume, and back to whoever asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::chunk_block::BLOCK_STRIDE_BYTES;
use format::chunk_id::ChunkId;
use tokio::sync::oneshot;

use super::Inner;
use super::error::WriteError;
use super::layout::{STRIDES, data_start, padded, slot_start};
use super::limits::{MAX_REQUEST_BYTES, MAX_REQUESTS};
use crate::message::{NodeAnswer, NodeRefusal, NodeRequest};
use crate::storage_node::{DiskWrite, JobId, Step, StorageNode, Tag};

/// The machine, and who waits for it.
pub struct Work {
    pub machine: StorageNode,
    pub is_closed: bool,
    next_tag: u64,
    waiting: BTreeMap<Tag, Waiting>,
    /// Content that those who wait have brought.
    bytes: usize,
    /// Blocks with space in which nothing is, as far as it was noted: their units may be given back.
    pub vacant: BTreeSet<u32>,
    /// Blocks of a unit that is being given back. Requests that write wait.
    pub returning: BTreeSet<u32>,
}

struct Waiting {
    tell: oneshot::Sender<NodeAnswer>,
    bytes: usize,
}

impl Work {
    pub fn new(machine: StorageNode, vacant: BTreeSet<u32>) -> Work {
        let (waiting, returning) = (BTreeMap::new(), BTreeSet::new());
        Work { machine, is_closed: false, next_tag: 0, waiting, bytes: 0, vacant, returning }
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn next_tag(&mut self) -> Tag {
        self.next_tag += 1;
        Tag(self.next_tag)
    }

    fn refusal(&self, bytes: usize) -> Option<NodeRefusal> {
        if self.is_closed {
            return Some(NodeRefusal::Failed);
        }
        let is_full = self.waiting.len() >= MAX_REQUESTS || self.bytes + bytes > MAX_REQUEST_BYTES;
        is_full.then_some(NodeRefusal::Busy)
    }

    /// Tells those who are answered; the write that is asked for, if one is: a block's jobs run one after the other.
    fn take(&mut self, steps: Vec<Step>) -> Option<(JobId, DiskWrite)> {
        let mut next = None;
        for step in steps {
            match step {
                Step::Answer { tag, answer } => {
                    let Waiting { tell, bytes } = self.waiting.remove(&tag).expect("every request is answered once");
                    self.bytes -= bytes;
                    // Whoever asked may have gone.
                    drop(tell.send(answer));
                }
                Step::Write { job, write } => {
                    assert!(next.is_none(), "two jobs of one block at once");
                    next = Some((job, write));
                }
                Step::Read { .. } => unreachable!("a request that writes has no content to return"),
            }
        }
        next
    }
}

impl Inner {
    /// The work, once the block is in no unit that is being given back.
    async fn lock_for(&self, block: u32) -> parking_lot::MutexGuard<'_, Work> {
        loop {
            let idle = self.idle.notified();
            {
                let work = self.work.lock();
                if !work.returning.contains(&block) {
                    return work;
                }
            }
            idle.await;
        }
    }

    /// A request that writes.
    pub(super) async fn change(self: &Arc<Self>, block: u32, id: ChunkId, request: NodeRequest) -> NodeAnswer {
        if self.volume.poisoned_by().is_some() {
            return NodeAnswer::Refused(NodeRefusal::Failed);
        }
        let bytes = request.content_bytes();
        let (tell, told) = oneshot::channel();
        let next = {
            let mut work = self.lock_for(block).await;
            if let Some(refusal) = work.refusal(bytes) {
                return NodeAnswer::Refused(refusal);
            }
            let tag = work.next_tag();
            work.waiting.insert(tag, Waiting { tell, bytes });
            work.bytes += bytes;
            let steps = work.machine.handle(tag, block, id, request);
            work.take(steps)
        };
        if next.is_some() {
            // On its own, so that it goes on if whoever asked is gone.
            drop(self.env.spawn(self.clone().run(block, next)));
        }
        // The sender goes only with the process.
        told.await.unwrap_or(NodeAnswer::Refused(NodeRefusal::Failed))
    }

    /// Makes what a block's jobs write durable, one after the other, until the block has nothing to do.
    async fn run(self: Arc<Self>, block: u32, mut next: Option<(JobId, DiskWrite)>) {
        while let Some((job, write)) = next {
            let result = self.write(block, write).await;
            let mut work = self.work.lock();
            let steps = match result {
                Ok(()) => work.machine.written(job),
                Err(error) => {
                    tracing::warn!(device = self.volume.device().0, block, %error, "a chunk's write was given up");
                    work.machine.given_up(job, error.refusal())
                }
            };
            next = work.take(steps);
            if next.is_none() && work.machine.is_vacant(block) {
                work.vacant.insert(block);
            }
        }
        self.idle.notify_waiters();
    }

    async fn write(&self, block: u32, write: DiskWrite) -> Result<(), WriteError> {
        let counters = &self.counters;
        match write {
            DiskWrite::Fence { shard, resolved } => {
                let is_written = self.fences.raise(shard, resolved).await?;
                counters.fence_writes.add(u64::from(is_written));
            }
            // A chunk of no bytes.
            DiskWrite::Data { content, .. } if content.is_empty() => counters.writes.add(1),
            DiskWrite::Data { offset, content, .. } => {
                self.reserve(block).await?;
                self.volume.write(data_start(block, offset), padded(&content)).await?;
                counters.writes.add(1);
                counters.written_bytes.add(content.len() as u64);
            }
            DiskWrite::Header { slot, bytes, .. } => {
                self.reserve(block).await?;
                // Only the device blocks that have entries: what follows in the slot is not read.
                self.volume.write(slot_start(block, slot), padded(&bytes)).await?;
                counters.header_writes.add(1);
            }
        }
        Ok(())
    }

    /// Has a block's space reserved before its first write, so that a header never finds the file system full after its content.
    async fn reserve(&self, block: u32) -> Result<(), WriteError> {
        // Also where the block has space already, in the unit of the fences: it may have got that just before a power cut.
        self.fences.begin().await?;
        let start = STRIDES.block_start(block);
        if !self.volume.is_reserved(start, BLOCK_STRIDE_BYTES) {
            self.volume.reserve(start, BLOCK_STRIDE_BYTES).await?;
        }
        Ok(())
    }
}
