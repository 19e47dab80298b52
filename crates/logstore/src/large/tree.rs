//! The tree over the chunks: built once, from the bottom.

use super::staging::LogStaged;
use crate::store::Inner;
use bytes::Bytes;
use engine::{EngineError, Payload};
use format::chunk_ref::{ChunkList, ChunkRef, MAX_REFS_PER_DESCRIPTOR, encode_list};
use smallvec::smallvec;

/// The payload of the descriptor over these chunks, and its height.
pub(super) async fn build(staged: &mut LogStaged, mut refs: Vec<ChunkRef>) -> Result<(Payload, u8), EngineError> {
    let mut covers: Vec<u64> = refs.iter().map(|chunk| chunk.payload_bytes as u64).collect();
    let mut height = 1;
    while refs.len() > MAX_REFS_PER_DESCRIPTOR {
        let mut nodes = Vec::new();
        let mut node_covers = Vec::new();
        for (below, lengths) in refs.chunks(MAX_REFS_PER_DESCRIPTOR).zip(covers.chunks(MAX_REFS_PER_DESCRIPTOR)) {
            let length = lengths.iter().sum();
            nodes.push(staged.push_node(encoded(below), length).await?);
            node_covers.push(length);
        }
        refs = nodes;
        covers = node_covers;
        height += 1;
    }
    Ok((smallvec![encoded(&refs)], height))
}

fn encoded(refs: &[ChunkRef]) -> Bytes {
    let mut list = Vec::new();
    encode_list(refs, &mut list);
    Bytes::from(list)
}

/// All chunks below a descriptor's payload, in order: for completing an upload, relocation and accounting. With `nodes`, the
/// inner nodes' own references come before those of their chunks.
pub(crate) async fn collect_refs(inner: &Inner, payload: &[u8], height: u8, nodes: bool) -> Result<Vec<ChunkRef>, EngineError> {
    let mut level = decode(payload)?;
    let mut inner_nodes = Vec::new();
    for _ in 1..height {
        let mut below = Vec::new();
        for node in &level {
            let frame = inner.read_chunk_frame(node).await?;
            below.extend(decode(&frame.payload)?);
        }
        if nodes {
            inner_nodes.append(&mut level);
        }
        level = below;
    }
    inner_nodes.extend(level);
    Ok(inner_nodes)
}

pub(super) fn decode(payload: &[u8]) -> Result<Vec<ChunkRef>, EngineError> {
    let list = ChunkList::decode(payload).map_err(|error| EngineError::Corrupt { detail: error.to_string() })?;
    Ok(list.iter().collect())
}
