//! The chunks of one device: blocks with their headers, and the order of writes that keeps them whole (RFD 11).
//!
//! A machine without I/O. A request becomes a *job* of one to three writes, each durable before the next; what the job does is visible
//! when the write is durable that makes it so, and answered after the last. Jobs of one block run one after the other.
//!
//! ```text
//!   put, bring        data → header                              a crash before the header leaves a gap
//!   write, with room  data elsewhere in the block → header       a crash leaves the old content
//!   write, without    header: overwriting → data → header        a crash leaves a copy that says it is damaged
//!   mend              the same data again, or as a write    a crash leaves what was damaged damaged
//!   end, era, depart  header
//!   forget            fence → header without the entry           a late put or copy finds the fence
//! ```
//!
//! Invariants:
//! - What is in `entries` stands in the newest durable header, but for `is_settled`, which is a hint and may be lost, and the end of a doubt, after which the copy
//!   is doubted once more.
//! - A copy that is doubted is not settled, whatever clients say: it may have fallen back to what they had written before something newer.
//! - Every request is about the entry with the full id. There is no request about a place alone.
//! - An entry is forgotten after the fence that keeps it from coming back is durable.

mod block;
mod change;
mod job;
mod noted;

pub use job::{DiskWrite, JobId, Step, Tag};

use std::collections::{BTreeMap, VecDeque};

use format::chunk_block::{BLOCK_DATA_BYTES, BlockEntry, BlockHeader, CopyState};
use format::chunk_id::{ChunkId, ShardId};
use types::DeviceUuid;

use crate::limits::MAX_WAITING_PER_BLOCK;
use crate::message::{LiveCopy, Mark, NodeAnswer, NodeRefusal, NodeRequest, Resolved};
use block::Block;
use job::{Finished, Job};
use noted::Noted;

/// A device's chunks.
pub struct StorageNode {
    device_uuid: DeviceUuid,
    block_count: u32,
    blocks: BTreeMap<u32, Block>,
    noted: Noted,
    fences: BTreeMap<ShardId, Fence>,
    jobs: BTreeMap<JobId, (u32, Job)>,
    next_job: u64,
}

/// What is refused, and how much of that outlives a crash.
#[derive(Clone, Copy, Debug, Default)]
struct Fence {
    present: Resolved,
    durable: Resolved,
}

/// A request that waits for its block.
struct Waiting {
    tag: Tag,
    id: ChunkId,
    request: NodeRequest,
}

impl StorageNode {
    /// Begins with what stands on the device: the newest believed header of each block that has one, and the fences.
    pub fn new(
        device_uuid: DeviceUuid,
        block_count: u32,
        headers: impl IntoIterator<Item = BlockHeader>,
        fences: BTreeMap<ShardId, Resolved>,
    ) -> Self {
        let blocks: BTreeMap<u32, Block> = headers.into_iter().map(|header| (header.block, Block::of_header(header))).collect();
        let mut noted = Noted::default();
        blocks.iter().for_each(|(number, block)| noted.change(*number, &[], block.entries()));
        let fences =
            fences.into_iter().map(|(shard, resolved)| (shard, Fence { present: resolved, durable: resolved })).collect();
        StorageNode { device_uuid, block_count, blocks, noted, fences, jobs: BTreeMap::new(), next_job: 0 }
    }

    /// A block that was left alone until now counts as its header says.
    pub fn adopt(&mut self, header: BlockHeader) {
        let number = header.block;
        let block = Block::of_header(header);
        self.noted.change(number, &[], block.entries());
        let former = self.blocks.insert(number, block);
        assert!(former.is_none(), "block {number} was in use");
    }

    /// Takes a request for a block. The tag comes back with its answer.
    pub fn handle(&mut self, tag: Tag, block: u32, id: ChunkId, request: NodeRequest) -> Vec<Step> {
        if let Some(step) = self.read(tag, block, id, &request) {
            return vec![step];
        }
        if block >= self.block_count {
            return vec![Step::Answer { tag, answer: NodeAnswer::Absent }];
        }
        let room = self.blocks.entry(block).or_default();
        if room.is_busy {
            if room.waiting.len() >= MAX_WAITING_PER_BLOCK {
                return vec![Step::Answer { tag, answer: NodeAnswer::Refused(NodeRefusal::Busy) }];
            }
            room.waiting.push_back(Waiting { tag, id, request });
            return Vec::new();
        }
        self.begin(tag, block, id, request)
    }

    /// A write that a step asked for is durable.
    pub fn written(&mut self, job: JobId) -> Vec<Step> {
        let (block, running) = self.jobs.get_mut(&job).expect("the job of a write is under way");
        let block = *block;
        let room = self.blocks.get_mut(&block).expect("the block of a job is known");
        match running.finish_write() {
            Finished::Data => {}
            Finished::Header { entries, serial } => {
                let former = room.install(entries, serial);
                self.noted.change(block, &former, room.entries());
            }
            Finished::Fence { shard, resolved } => {
                let fence = self.fences.entry(shard).or_default();
                fence.durable = fence.durable.raised(resolved);
            }
        }
        if let Some(write) = running.next_write() {
            return vec![Step::Write { job, write }];
        }
        let (_, Job { tag, answer, .. }) = self.jobs.remove(&job).expect("it was there");
        self.end(block, tag, answer)
    }

    /// A write that a step asked for can't be made: the job ends here. What the write left, if anything, is not believed and is written
    /// over by the block's next one, unless the device takes no more writes; then it is found out when the device is opened anew.
    pub fn given_up(&mut self, job: JobId, refusal: NodeRefusal) -> Vec<Step> {
        let (block, Job { tag, .. }) = self.jobs.remove(&job).expect("the job of a write is under way");
        self.end(block, tag, NodeAnswer::Refused(refusal))
    }

    /// Up to `limit` chunks of a shard whose copies here are dead: what the shard's unit is told until it has them forgotten.
    pub fn freed(&self, shard: ShardId, limit: usize) -> Vec<ChunkId> {
        self.noted.dead(shard).map(|(id, _)| id).take(limit).collect()
    }

    /// Copies of a shard whose content was being replaced at a power cut, and their blocks.
    pub fn half_written(&self, shard: ShardId) -> impl Iterator<Item = (ChunkId, u32)> {
        let is_idle = |(_, block): &(ChunkId, u32)| self.blocks.get(block).is_some_and(|block| !block.is_busy);
        self.noted.half_written(shard).filter(is_idle)
    }

    /// Copies of a shard that may be older than what was answered, and their blocks.
    pub fn doubted(&self, shard: ShardId) -> impl Iterator<Item = (ChunkId, u32)> {
        self.noted.doubted(shard)
    }

    /// A copy was compared with the others, and has the newest that they have.
    pub fn trust(&mut self, block: u32, id: ChunkId) {
        if let Some(entry) = self.blocks.get_mut(&block).and_then(|room| room.entry_mut(id)) {
            entry.is_doubted = false;
            self.noted.trust((id, block));
        }
    }

    /// The copies in a block.
    pub fn entries_of(&self, block: u32) -> impl Iterator<Item = &BlockEntry> {
        self.blocks.get(&block).into_iter().flat_map(Block::entries)
    }

    /// A chunk's copy in a block.
    pub fn entry(&self, block: u32, id: ChunkId) -> Option<&BlockEntry> {
        self.blocks.get(&block)?.entry(id)
    }

    /// Whether nothing is in a block, and nothing under way.
    pub fn is_vacant(&self, block: u32) -> bool {
        let is_vacant = |room: &Block| room.entries().next().is_none() && !room.is_busy && room.waiting.is_empty();
        self.blocks.get(&block).is_none_or(is_vacant)
    }

    /// The longest content that a block takes now. None while it is written to: what becomes of it is not known.
    pub fn longest_gap(&self, block: u32) -> u32 {
        match self.blocks.get(&block) {
            Some(room) if room.is_busy => 0,
            Some(room) => room.longest_gap(),
            None if block < self.block_count => BLOCK_DATA_BYTES,
            None => 0,
        }
    }

    /// The header of a vacant block is gone: its next one is its first.
    pub fn vacate(&mut self, block: u32) {
        assert!(self.is_vacant(block), "block {block} holds something");
        self.blocks.remove(&block);
    }

    /// All copies, by block.
    #[cfg(test)]
    pub fn entries(&self) -> impl Iterator<Item = (u32, &BlockEntry)> {
        self.blocks.keys().flat_map(|block| self.entries_of(*block).map(|entry| (*block, entry)))
    }

    /// The answer of a block's job, and what may begin after it.
    fn end(&mut self, block: u32, tag: Tag, answer: NodeAnswer) -> Vec<Step> {
        self.blocks.get_mut(&block).expect("the block of a job is known").is_busy = false;
        let mut steps = vec![Step::Answer { tag, answer }];
        while let Some(Waiting { tag, id, request }) = self.next_waiting(block) {
            steps.extend(self.begin(tag, block, id, request));
        }
        steps
    }

    fn next_waiting(&mut self, block: u32) -> Option<Waiting> {
        let room = self.blocks.get_mut(&block).expect("the block of a job is known");
        if room.is_busy { None } else { room.waiting.pop_front() }
    }

    /// Requests that change nothing do not wait.
    fn read(&mut self, tag: Tag, block: u32, id: ChunkId, request: &NodeRequest) -> Option<Step> {
        let entry = self.blocks.get_mut(&block).and_then(|room| room.entry_mut(id));
        let answer = match (request, entry) {
            (NodeRequest::Read | NodeRequest::Query | NodeRequest::Settle(_) | NodeRequest::Take { .. }, None) => {
                NodeAnswer::Absent
            }
            (NodeRequest::Settle(mark), Some(entry)) => {
                let held = mark_of(entry);
                entry.is_settled |= held == *mark && !entry.is_doubted;
                NodeAnswer::Done(Some(held))
            }
            (NodeRequest::Query, Some(entry)) => describe(entry),
            (NodeRequest::Read, Some(entry)) if entry.state == CopyState::Live => return Some(read_step(tag, block, entry)),
            (NodeRequest::Read, Some(entry)) => describe(entry),
            (NodeRequest::Take { era }, Some(entry)) => match entry.state {
                CopyState::Departed => return Some(read_step(tag, block, entry)),
                CopyState::Live if entry.era == *era => return Some(read_step(tag, block, entry)),
                CopyState::Live => NodeAnswer::OtherEra,
                CopyState::Dead | CopyState::Overwriting => describe(entry),
            },
            _ => return None,
        };
        Some(Step::Answer { tag, answer })
    }

    fn begin(&mut self, tag: Tag, block: u32, id: ChunkId, request: NodeRequest) -> Vec<Step> {
        let mut fence = self.fences.get(&id.shard).copied().unwrap_or_default();
        if let NodeRequest::Forget { resolved, .. } = &request {
            // From now on, though durable only with the job: who is refused before that is refused rightly.
            fence.present = fence.present.raised(*resolved);
            self.fences.insert(id.shard, fence);
        }
        let room = self.blocks.get_mut(&block).expect("a block is made when it is first asked for");
        let mut job = match change::plan(room, fence, id, request) {
            Err(answer) => return vec![Step::Answer { tag, answer }],
            Ok(plan) => Job::new(tag, plan, self.device_uuid, block, room.serial()),
        };
        let number = JobId(self.next_job);
        self.next_job += 1;
        let write = job.next_write().expect("a job has a write");
        room.is_busy = true;
        self.jobs.insert(number, (block, job));
        vec![Step::Write { job: number, write }]
    }
}

/// What a copy has.
fn mark_of(entry: &BlockEntry) -> Mark {
    if entry.state == CopyState::Dead { Mark::Dead } else { Mark::Live(entry.version) }
}

/// What a copy is, without its content.
fn describe(entry: &BlockEntry) -> NodeAnswer {
    match entry.state {
        CopyState::Live => NodeAnswer::Live(live(entry)),
        CopyState::Overwriting => NodeAnswer::Damaged,
        CopyState::Departed => NodeAnswer::Departed,
        CopyState::Dead => NodeAnswer::Dead { era: entry.era, is_settled: entry.is_settled },
    }
}

fn live(entry: &BlockEntry) -> LiveCopy {
    let BlockEntry { version, era, capacity, is_settled, .. } = *entry;
    LiveCopy { version, era, capacity, is_settled, content: None }
}

fn read_step(tag: Tag, block: u32, entry: &BlockEntry) -> Step {
    let BlockEntry { offset, length, checksum, .. } = *entry;
    Step::Read { tag, block, offset, length, checksum, copy: live(entry) }
}

/// Requests that wait for a block.
type Queue = VecDeque<Waiting>;

#[cfg(test)]
pub(crate) mod tests;
