//! A machine over a medium that does at once what it is asked.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use crc_fast::crc32_iscsi;
use format::chunk_block::{BlockHeader, ChunkVersion, Era};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use types::DeviceUuid;

use crate::message::{Change, LiveCopy, Mark, NodeAnswer, NodeRequest, Resolved};
use crate::storage_node::{DiskWrite, JobId, Step, StorageNode, Tag};

pub const BLOCKS: u32 = 4;
pub const SHARD: ShardId = ShardId(7);
const DEVICE: DeviceUuid = DeviceUuid([5; 16]);

/// What was written, without what was in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    Data,
    Header,
    Fence,
}

#[derive(Default)]
struct Medium {
    headers: BTreeMap<(u32, u64), Vec<u8>>,
    data: BTreeMap<(u32, u32), Bytes>,
    fences: BTreeMap<ShardId, Resolved>,
}

pub struct Rig {
    pub node: StorageNode,
    medium: Medium,
    next_tag: u64,
}

pub fn id(number: u64) -> ChunkId {
    ChunkId { shard: SHARD, number: ChunkNumber(number), nonce: ChunkNonce(number ^ 0xffff) }
}

pub fn version(counter: u64) -> ChunkVersion {
    ChunkVersion { counter, writer: 9 }
}

pub fn text(content: &str) -> Bytes {
    Bytes::copy_from_slice(content.as_bytes())
}

pub fn put(capacity: u32, content: &str) -> NodeRequest {
    NodeRequest::Put { era: Era(0), capacity, content: text(content) }
}

pub fn write(era: u32, counter: u64, content: &str) -> NodeRequest {
    NodeRequest::Write { era: Era(era), change: Change::Content { version: version(counter), content: text(content) } }
}

pub fn end(era: u32) -> NodeRequest {
    NodeRequest::Write { era: Era(era), change: Change::End }
}

pub fn erase(era: u32, moves: u64) -> NodeRequest {
    NodeRequest::Erase { era: Era(era), moves }
}

pub fn forget(era: u32, puts: u64, moves: u64) -> NodeRequest {
    NodeRequest::Forget { era: Era(era), resolved: Resolved { puts: ChunkNumber(puts), moves } }
}

pub fn bring(relocation: u64, era: u32, content: &str) -> NodeRequest {
    let (version, content) = (version(3), text(content));
    NodeRequest::Bring { relocation, era: Era(era), capacity: 100, version, is_settled: false, content }
}

pub fn done(mark: Mark) -> NodeAnswer {
    NodeAnswer::Done(Some(mark))
}

pub fn live(counter: u64) -> Mark {
    if counter == 0 { Mark::Live(ChunkVersion::default()) } else { Mark::Live(version(counter)) }
}

impl Rig {
    pub fn new() -> Rig {
        Rig { node: StorageNode::new(DEVICE, BLOCKS, [], BTreeMap::new()), medium: Medium::default(), next_tag: 0 }
    }

    /// The same medium, and a machine that remembers nothing else.
    pub fn restart(&mut self) {
        let blocks: BTreeSet<u32> = self.medium.headers.keys().map(|(block, _)| *block).collect();
        let slot = |block, slot| self.medium.headers.get(&(block, slot)).map_or(&[][..], Vec::as_slice);
        let headers = blocks.into_iter().map(|block| BlockHeader::decode_newest([slot(block, 0), slot(block, 1)]));
        let headers: Vec<BlockHeader> = headers.map(|header| header.expect("no header is torn here")).collect();
        self.node = StorageNode::new(DEVICE, BLOCKS, headers, self.medium.fences.clone());
    }

    /// The same after the newest header of block 1 has rotted: its entries are those of the one before, and nothing of them counts as settled.
    pub fn fall_back(&mut self) {
        let header = |slot| self.medium.headers.get(&(1, slot)).and_then(|bytes| BlockHeader::decode(bytes).ok());
        let newest = [0, 1].into_iter().filter_map(header).max_by_key(|header| header.serial).expect("a header");
        self.medium.headers.remove(&(1, newest.slot()));
        let before = [0, 1].into_iter().filter_map(|slot| self.medium.headers.get(&(1, slot)));
        let mut before =
            before.map(|bytes| BlockHeader::decode(bytes).expect("it was written")).next().expect("a former header");
        before.entries.iter_mut().for_each(|entry| entry.is_settled = false);
        self.node = StorageNode::new(DEVICE, BLOCKS, [before], self.medium.fences.clone());
    }

    pub fn tag(&mut self) -> Tag {
        self.next_tag += 1;
        Tag(self.next_tag)
    }

    /// Asks about a chunk of block 1; what is written until the answer, and the answer.
    pub fn ask(&mut self, id: ChunkId, request: NodeRequest) -> (Vec<Wrote>, NodeAnswer) {
        self.ask_at(1, id, request)
    }

    pub fn ask_at(&mut self, block: u32, id: ChunkId, request: NodeRequest) -> (Vec<Wrote>, NodeAnswer) {
        let tag = self.tag();
        let mut steps = self.node.handle(tag, block, id, request);
        let mut wrote = Vec::new();
        loop {
            assert_eq!(steps.len(), 1, "one thing after the other: {steps:?}");
            match steps.pop().expect("a step") {
                Step::Answer { tag: answered, answer } => {
                    assert_eq!(answered, tag);
                    return (wrote, answer);
                }
                Step::Read { block, offset, length, checksum, copy, .. } => {
                    return (wrote, self.medium.read((block, offset), length, checksum, copy));
                }
                Step::Write { job, write } => {
                    wrote.push(self.store(&write));
                    steps = self.node.written(job);
                }
            }
        }
    }

    /// The answer of a request that is to write nothing.
    pub fn answer(&mut self, id: ChunkId, request: NodeRequest) -> NodeAnswer {
        let (wrote, answer) = self.ask(id, request);
        assert_eq!(wrote, [], "{answer:?}");
        answer
    }

    /// The content of a live copy.
    pub fn content(&mut self, id: ChunkId) -> Option<String> {
        match self.answer(id, NodeRequest::Read) {
            NodeAnswer::Live(LiveCopy { content: Some(content), .. }) => {
                Some(String::from_utf8(content.to_vec()).expect("tests write text"))
            }
            _ => None,
        }
    }

    /// The first write of a request, which does not happen yet.
    pub fn begin(&mut self, id: ChunkId, request: NodeRequest) -> (Tag, JobId, DiskWrite) {
        let tag = self.tag();
        let mut steps = self.node.handle(tag, 1, id, request);
        match (steps.pop(), steps.is_empty()) {
            (Some(Step::Write { job, write }), true) => (tag, job, write),
            other => panic!("expected one write: {other:?}"),
        }
    }

    /// A write happens.
    pub fn store(&mut self, write: &DiskWrite) -> Wrote {
        match write.clone() {
            DiskWrite::Data { block, offset, content } => {
                self.medium.data.insert((block, offset), content);
                Wrote::Data
            }
            DiskWrite::Header { block, slot, bytes } => {
                self.medium.headers.insert((block, slot), bytes);
                Wrote::Header
            }
            DiskWrite::Fence { shard, resolved } => {
                let known = self.medium.fences.entry(shard).or_default();
                *known = known.raised(resolved);
                Wrote::Fence
            }
        }
    }
}

impl Medium {
    fn read(&self, at: (u32, u32), length: u32, checksum: u32, copy: LiveCopy) -> NodeAnswer {
        let content = self.data.get(&at).filter(|content| content.len() == length as usize && crc32_iscsi(content) == checksum);
        content.map_or(NodeAnswer::Damaged, |content| NodeAnswer::Live(LiveCopy { content: Some(content.clone()), ..copy }))
    }
}
