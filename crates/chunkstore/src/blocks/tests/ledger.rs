//! What a copy should be: a simple model of one chunk in one block.

use std::fmt;

use bytes::Bytes;
use crc_fast::crc32_iscsi;
use format::chunk_block::{BLOCK_DATA_BYTES, ChunkVersion, Era};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};

use super::support::{BLOCKS, Rig, bytes};
use crate::message::{Change, LiveCopy, Mark, NodeAnswer, NodeRefusal, NodeRequest, Resolved};

/// Capacities of the chunks that tests have; some do not fit beside others, and one fills its block.
const CAPACITIES: [u32; 8] = [10, 4_096, 5_000, 70_000, 3 << 20, 2 << 20, 1, BLOCK_DATA_BYTES];
/// Longest content that is made up.
const CONTENT_BYTES: u64 = 20_000;

pub const CHUNKS: usize = CAPACITIES.len();
/// The one that fills its block.
const WHOLE: usize = CHUNKS - 1;

/// What a copy is.
#[derive(Clone, PartialEq, Eq)]
pub enum State {
    Absent,
    Live { counter: u64, content: Bytes },
    Departed,
    Dead,
    Forgotten,
    Damaged,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Live { counter, content } => {
                write!(f, "write {counter} with {} bytes, checksum {:08x}", content.len(), crc32_iscsi(content))
            }
            State::Absent => f.write_str("absent"),
            State::Departed => f.write_str("departed"),
            State::Dead => f.write_str("dead"),
            State::Forgotten => f.write_str("forgotten"),
            State::Damaged => f.write_str("damaged"),
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Put,
    Write { counter: u64 },
    End,
    Depart,
    Erase,
    Forget,
}

pub fn block_of(chunk: usize) -> u32 {
    if chunk == WHOLE { BLOCKS - 1 } else { chunk as u32 % (BLOCKS - 1) }
}

/// Whether its block may have no room for a second content, so that the first is overwritten.
pub fn is_overwritten(chunk: usize) -> bool {
    CAPACITIES[chunk] > BLOCK_DATA_BYTES / 3
}

/// A shard each, so that a fence is about one chunk.
pub fn id_of(chunk: usize) -> ChunkId {
    ChunkId { shard: ShardId(chunk as u32), number: ChunkNumber(5), nonce: ChunkNonce(77) }
}

fn version(counter: u64) -> ChunkVersion {
    if counter == 0 { ChunkVersion::default() } else { ChunkVersion { counter, writer: 3 } }
}

/// What this write of the chunk has as content.
fn content_of(chunk: usize, counter: u64) -> Bytes {
    let seed = chunk as u64 * 1_000 + counter;
    bytes(seed, (seed * 7_919 % CONTENT_BYTES.min(u64::from(CAPACITIES[chunk]) + 1)) as usize)
}

pub fn request(chunk: usize, act: Act) -> NodeRequest {
    let era = Era(0);
    match act {
        Act::Put => NodeRequest::Put { era, capacity: CAPACITIES[chunk], content: content_of(chunk, 0) },
        Act::Write { counter } => {
            let change = Change::Content { version: version(counter), content: content_of(chunk, counter) };
            NodeRequest::Write { era, change }
        }
        Act::End => NodeRequest::Write { era, change: Change::End },
        Act::Depart => NodeRequest::Depart { era: Era(1) },
        Act::Erase => NodeRequest::Erase { era, moves: 0 },
        Act::Forget => NodeRequest::Forget { era: Era(1), resolved: Resolved { puts: ChunkNumber(6), moves: 0 } },
    }
}

fn live(chunk: usize, counter: u64) -> State {
    State::Live { counter, content: content_of(chunk, counter) }
}

/// What a request makes of a copy, and its answer. A put may be refused for want of room instead.
pub fn expected(chunk: usize, state: &State, act: Act) -> (State, NodeAnswer) {
    let held = |counter| NodeAnswer::Done(Some(Mark::Live(version(counter))));
    let dead = NodeAnswer::Done(Some(Mark::Dead));
    let same = |answer| (state.clone(), answer);
    match (act, state) {
        (_, State::Damaged) => panic!("tests don't go on with a damaged copy"),
        (Act::Erase, State::Absent | State::Live { .. }) => (State::Dead, dead),
        (Act::Erase, State::Dead | State::Departed | State::Forgotten) => same(dead),
        (Act::Forget, State::Live { .. }) => same(NodeAnswer::Refused(NodeRefusal::InUse)),
        (Act::Forget, _) => (State::Forgotten, NodeAnswer::Done(None)),
        (_, State::Departed) => same(NodeAnswer::Departed),
        (Act::Put, State::Absent) => (live(chunk, 0), held(0)),
        (Act::Put, State::Live { counter, .. }) => same(held(*counter)),
        (Act::Put, State::Dead) => same(NodeAnswer::Refused(NodeRefusal::Dead)),
        (Act::Put, State::Forgotten) => same(NodeAnswer::Refused(NodeRefusal::Resolved)),
        (_, State::Absent | State::Forgotten) => same(NodeAnswer::Absent),
        (Act::Write { counter }, State::Live { counter: known, .. }) if counter > *known => {
            (live(chunk, counter), held(counter))
        }
        (Act::Write { .. }, State::Live { counter, .. }) => same(held(*counter)),
        (Act::Write { .. }, State::Dead) => same(dead),
        (Act::End, State::Live { .. } | State::Dead) => (State::Dead, dead),
        (Act::Depart, State::Live { .. }) => (State::Departed, NodeAnswer::Departed),
        (Act::Depart, State::Dead) => same(NodeAnswer::Dead { era: Era(0), is_settled: false }),
    }
}

/// What a copy is. That it was forgotten shows only when it is put again.
pub async fn observe(rig: &Rig, chunk: usize) -> State {
    match rig.ask(block_of(chunk), id_of(chunk), NodeRequest::Read).await {
        NodeAnswer::Live(LiveCopy { version, content: Some(content), .. }) => State::Live { counter: version.counter, content },
        NodeAnswer::Dead { .. } => State::Dead,
        NodeAnswer::Departed => State::Departed,
        NodeAnswer::Damaged => State::Damaged,
        NodeAnswer::Absent => State::Absent,
        other => panic!("a read is answered with {other:?}"),
    }
}

/// Whether a copy is what it should be.
pub fn is_as(observed: &State, expected: &State) -> bool {
    observed == expected || (*observed == State::Absent && *expected == State::Forgotten)
}
