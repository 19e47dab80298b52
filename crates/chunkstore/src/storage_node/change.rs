//! What a request does to a copy: a plan of writes, or an answer at once.

use bytes::Bytes;
use crc_fast::crc32_iscsi;
use format::chunk_block::{BlockEntry, ChunkVersion, CopyState, Era};
use format::chunk_id::ChunkId;

use super::block::Block;
use super::job::{Part, Plan};
use super::{Fence, mark_of};
use crate::message::{Change, Mark, NodeAnswer, NodeRefusal, NodeRequest};

type Planned = Result<Plan, NodeAnswer>;

pub(super) fn plan(block: &Block, fence: Fence, id: ChunkId, request: NodeRequest) -> Planned {
    let known = block.entry(id).copied();
    match request {
        NodeRequest::Put { era, capacity, content } => {
            let version = ChunkVersion::default();
            let is_over = id.number < fence.present.puts;
            let new = New { era, version, capacity, is_settled: true, content };
            create(block, id, known, is_over, new)
        }
        NodeRequest::Bring { relocation, era, capacity, version, is_settled, content } => {
            let is_over = relocation < fence.present.moves;
            create(block, id, known, is_over, New { era, version, capacity, is_settled, content })
        }
        NodeRequest::Write { era, change } => write(block, known, era, change),
        NodeRequest::Mend { era, version, content, .. } => mend(block, known, era, version, content),
        NodeRequest::Erase { era, moves } => {
            // Of the fence that outlives a crash: after one, what comes late must meet that, or the mark.
            let is_over = id.number < fence.durable.puts && moves <= fence.durable.moves;
            erase(block, id, known, is_over, era)
        }
        NodeRequest::Forget { era, .. } => forget(block, fence, id, known, era),
        NodeRequest::Depart { era } => depart(block, known, era),
        // Of the durable fence, as above.
        NodeRequest::Discard { era, moves } => discard(block, id, known, moves <= fence.durable.moves, era),
        NodeRequest::Raise { era } => raise(block, known, era),
        NodeRequest::Read | NodeRequest::Query | NodeRequest::Settle(_) | NodeRequest::Take { .. } => {
            unreachable!("these do not wait")
        }
    }
}

fn refuse<T>(refusal: NodeRefusal) -> Result<T, NodeAnswer> {
    Err(NodeAnswer::Refused(refusal))
}

fn done(mark: Mark) -> NodeAnswer {
    NodeAnswer::Done(Some(mark))
}

/// One header, with this entry changed.
fn header(block: &Block, entry: BlockEntry, answer: NodeAnswer) -> Planned {
    Ok(Plan { parts: vec![Part::Header(block.with(entry.id, Some(entry)))], answer })
}

/// Nothing is newer than this: a doubt ends with the copy.
fn dead(entry: BlockEntry) -> BlockEntry {
    BlockEntry { state: CopyState::Dead, is_settled: false, is_doubted: false, ..entry }
}

/// A copy that is to be made.
struct New {
    era: Era,
    version: ChunkVersion,
    capacity: u32,
    is_settled: bool,
    content: Bytes,
}

fn create(block: &Block, id: ChunkId, known: Option<BlockEntry>, is_over: bool, new: New) -> Planned {
    if let Some(entry) = known {
        return match entry.state {
            CopyState::Dead => refuse(NodeRefusal::Dead),
            // It came back with a header that could not be read before, behind what was made in its stead: it is not what is to be there, and takes no writes with the others.
            CopyState::Live | CopyState::Overwriting if entry.era < new.era => refuse(NodeRefusal::Full),
            // A repeated request: what became of the copy since is newer.
            CopyState::Live | CopyState::Overwriting => Err(done(mark_of(&entry))),
            CopyState::Departed => Err(NodeAnswer::Departed),
        };
    }
    if is_over {
        return refuse(NodeRefusal::Resolved);
    }
    let New { era, version, capacity, is_settled, content } = new;
    let length = u32::try_from(content.len()).ok().filter(|length| *length <= capacity);
    let Some(length) = length else { return refuse(NodeRefusal::TooLong) };
    let Some(offset) = block.gap(capacity).filter(|_| block.has_entry_room()) else { return refuse(NodeRefusal::Full) };
    let checksum = crc32_iscsi(&content);
    let (state, is_doubted) = (CopyState::Live, false);
    let entry = BlockEntry { id, offset, capacity, length, checksum, era, version, state, is_settled, is_doubted };
    let parts = vec![Part::Data { offset, content }, Part::Header(block.with(id, Some(entry)))];
    Ok(Plan { parts, answer: done(Mark::Live(version)) })
}

fn write(block: &Block, known: Option<BlockEntry>, era: Era, change: Change) -> Planned {
    let Some(entry) = known else { return Err(NodeAnswer::Absent) };
    if entry.state == CopyState::Departed {
        return Err(NodeAnswer::Departed);
    }
    if entry.era != era {
        return Err(NodeAnswer::OtherEra);
    }
    // A damaged copy takes the write that it had once more: nothing else of it is left.
    let is_newer =
        change.mark() > mark_of(&entry) || (entry.state == CopyState::Overwriting && change.mark() == mark_of(&entry));
    if !is_newer {
        return Err(done(mark_of(&entry)));
    }
    match change {
        Change::End => header(block, dead(entry), done(Mark::Dead)),
        Change::Content { version, content } => overwrite(block, entry, version, content),
    }
}

/// The same content is written once more where it stands; an older or half written one becomes this.
fn mend(block: &Block, known: Option<BlockEntry>, era: Era, version: ChunkVersion, content: Bytes) -> Planned {
    match known {
        Some(entry) if entry.state == CopyState::Live && entry.era == era && entry.version == version => {
            let is_it = content.len() == entry.length as usize && crc32_iscsi(&content) == entry.checksum;
            let data = Part::Data { offset: entry.offset, content };
            // A version is one content: what differs is damaged there as well.
            if is_it { Ok(Plan { parts: vec![data], answer: done(mark_of(&entry)) }) } else { Err(NodeAnswer::Damaged) }
        }
        known => write(block, known, era, Change::Content { version, content }),
    }
}

fn overwrite(block: &Block, entry: BlockEntry, version: ChunkVersion, content: Bytes) -> Planned {
    let length = u32::try_from(content.len()).ok().filter(|length| *length <= entry.capacity);
    let Some(length) = length else { return refuse(NodeRefusal::TooLong) };
    let checksum = crc32_iscsi(&content);
    let elsewhere = block.gap(entry.capacity);
    let offset = elsewhere.unwrap_or(entry.offset);
    let after = BlockEntry { offset, length, checksum, version, state: CopyState::Live, is_settled: false, ..entry };
    let mut parts = Vec::new();
    if elsewhere.is_none() {
        let during = BlockEntry { state: CopyState::Overwriting, is_settled: false, ..entry };
        parts.push(Part::Header(block.with(entry.id, Some(during))));
    }
    parts.push(Part::Data { offset, content });
    parts.push(Part::Header(block.with(entry.id, Some(after))));
    Ok(Plan { parts, answer: done(Mark::Live(version)) })
}

fn erase(block: &Block, id: ChunkId, known: Option<BlockEntry>, is_over: bool, era: Era) -> Planned {
    let Some(entry) = known else {
        if is_over {
            // Nothing can come any more. A repeated order must not leave a mark that nobody would have forgotten.
            return Err(NodeAnswer::Done(Some(Mark::Dead)));
        }
        if !block.has_entry_room() {
            return refuse(NodeRefusal::Full);
        }
        return header(block, mark(id, era, CopyState::Dead), NodeAnswer::Done(Some(Mark::Dead)));
    };
    match entry.state {
        CopyState::Live | CopyState::Overwriting => header(block, dead(entry), done(Mark::Dead)),
        // As a dead copy it would count for a delete that goes by the former places.
        CopyState::Departed | CopyState::Dead => Err(done(Mark::Dead)),
    }
}

/// An entry without content: what comes late meets it.
fn mark(id: ChunkId, era: Era, state: CopyState) -> BlockEntry {
    let version = ChunkVersion::default();
    let (offset, capacity, length, checksum) = (0, 0, 0, 0);
    BlockEntry { id, offset, capacity, length, checksum, era, version, state, is_settled: false, is_doubted: false }
}

fn forget(block: &Block, fence: Fence, id: ChunkId, known: Option<BlockEntry>, era: Era) -> Planned {
    let mut parts = Vec::new();
    if fence.present != fence.durable {
        parts.push(Part::Fence { shard: id.shard, resolved: fence.present });
    }
    match known {
        // An order from before the chunk came back to this block.
        Some(entry) if entry.era > era => {}
        Some(entry) if matches!(entry.state, CopyState::Live | CopyState::Overwriting) => return refuse(NodeRefusal::InUse),
        Some(_) => parts.push(Part::Header(block.with(id, None))),
        None => {}
    }
    let answer = NodeAnswer::Done(None);
    if parts.is_empty() { Err(answer) } else { Ok(Plan { parts, answer }) }
}

fn depart(block: &Block, known: Option<BlockEntry>, era: Era) -> Planned {
    let Some(entry) = known else { return Err(NodeAnswer::Absent) };
    match entry.state {
        CopyState::Dead => Err(NodeAnswer::Dead { era: entry.era, is_settled: entry.is_settled }),
        CopyState::Departed => Err(NodeAnswer::Departed),
        CopyState::Live | CopyState::Overwriting if entry.era >= era => Err(NodeAnswer::OtherEra),
        CopyState::Live | CopyState::Overwriting => {
            header(block, BlockEntry { state: CopyState::Departed, is_doubted: false, ..entry }, NodeAnswer::Departed)
        }
    }
}

fn discard(block: &Block, id: ChunkId, known: Option<BlockEntry>, is_over: bool, era: Era) -> Planned {
    match known {
        Some(_) => depart(block, known, era.just_after()),
        // It was forgotten. Nobody would have a mark forgotten that a repeated request left.
        None if is_over => Err(NodeAnswer::Departed),
        None if !block.has_entry_room() => refuse(NodeRefusal::Full),
        None => header(block, mark(id, era, CopyState::Departed), NodeAnswer::Departed),
    }
}

fn raise(block: &Block, known: Option<BlockEntry>, era: Era) -> Planned {
    let Some(entry) = known else { return Err(NodeAnswer::Absent) };
    match entry.state {
        CopyState::Dead => Err(NodeAnswer::Dead { era: entry.era, is_settled: entry.is_settled }),
        CopyState::Departed => Err(NodeAnswer::Departed),
        CopyState::Live | CopyState::Overwriting if entry.era >= era => Err(done(mark_of(&entry))),
        CopyState::Live | CopyState::Overwriting => {
            let answer = done(mark_of(&entry));
            header(block, BlockEntry { era, ..entry }, answer)
        }
    }
}
