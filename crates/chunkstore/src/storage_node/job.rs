//! What the shell around a node does for it, and in which order.

use std::collections::VecDeque;

use bytes::Bytes;
use format::chunk_block::{BlockEntry, BlockHeader};
use format::chunk_id::ShardId;
use types::DeviceUuid;

use crate::message::{LiveCopy, NodeAnswer, Resolved};

/// Names a request to a node, for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Names a job of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(super) u64);

/// What the shell does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes it durable, then tells [`written`](super::StorageNode::written).
    Write {
        job: JobId,
        write: DiskWrite,
    },
    /// Reads from the data area and answers: with `copy` and the content if it has the checksum, else with `Damaged`.
    Read {
        tag: Tag,
        block: u32,
        offset: u32,
        length: u32,
        checksum: u32,
        copy: LiveCopy,
    },
    Answer {
        tag: Tag,
        answer: NodeAnswer,
    },
}

/// One durable write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskWrite {
    Data {
        block: u32,
        /// In the data area.
        offset: u32,
        content: Bytes,
    },
    Header {
        block: u32,
        slot: u64,
        bytes: Vec<u8>,
    },
    /// What stands there, raised by this: fences only grow.
    Fence {
        shard: ShardId,
        resolved: Resolved,
    },
}

/// A part of a plan.
pub(super) enum Part {
    Data { offset: u32, content: Bytes },
    Header(Vec<BlockEntry>),
    Fence { shard: ShardId, resolved: Resolved },
}

/// Writes in their order, and the answer after the last.
pub(super) struct Plan {
    pub parts: Vec<Part>,
    pub answer: NodeAnswer,
}

/// A write that is durable.
pub(super) enum Finished {
    Data,
    Header { entries: Vec<BlockEntry>, serial: u64 },
    Fence { shard: ShardId, resolved: Resolved },
}

pub(super) struct Job {
    pub tag: Tag,
    pub answer: NodeAnswer,
    device_uuid: DeviceUuid,
    block: u32,
    serial: u64,
    parts: VecDeque<Part>,
}

impl Job {
    pub fn new(tag: Tag, plan: Plan, device_uuid: DeviceUuid, block: u32, serial: u64) -> Self {
        Job { tag, answer: plan.answer, device_uuid, block, serial, parts: plan.parts.into() }
    }

    /// The write that is to be made durable now.
    pub fn next_write(&mut self) -> Option<DiskWrite> {
        let (device_uuid, block) = (self.device_uuid, self.block);
        match self.parts.front()? {
            Part::Data { offset, content } => Some(DiskWrite::Data { block, offset: *offset, content: content.clone() }),
            Part::Fence { shard, resolved } => Some(DiskWrite::Fence { shard: *shard, resolved: *resolved }),
            Part::Header(entries) => {
                self.serial += 1;
                let header =
                    BlockHeader { device_uuid, block, serial: self.serial, is_condemned: false, entries: entries.clone() };
                Some(DiskWrite::Header { block, slot: header.slot(), bytes: header.encode() })
            }
        }
    }

    /// It is durable: what counts from now on.
    pub fn finish_write(&mut self) -> Finished {
        match self.parts.pop_front().expect("a write was under way") {
            Part::Data { .. } => Finished::Data,
            Part::Header(entries) => Finished::Header { entries, serial: self.serial },
            Part::Fence { shard, resolved } => Finished::Fence { shard, resolved },
        }
    }
}
