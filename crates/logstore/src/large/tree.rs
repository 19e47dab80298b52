//! The tree over the chunks: built once, from the bottom.

use super::staging::LogStaged;
use crate::store::Inner;
use bytes::Bytes;
use engine::{EngineError, Payload};
use format::chunk_ref::{ChunkList, ChunkRef, encode_list};
use format::decode::DecodeError;
use format::part_table::{PartTable, decode_descriptor};
use smallvec::smallvec;

/// The payload of the descriptor over these chunks, and its height; the nodes between them are appended.
pub(super) async fn build(
    staged: &mut LogStaged,
    mut refs: Vec<ChunkRef>,
    parts: Option<PartTable>,
) -> Result<Built, EngineError> {
    let longest = staged.refs_per_list();
    let mut covers: Vec<u64> = refs.iter().map(|chunk| chunk.payload_bytes as u64).collect();
    let mut height = 1;
    while refs.len() > longest {
        let mut nodes = Vec::new();
        let mut node_covers = Vec::new();
        for (below, lengths) in refs.chunks(longest).zip(covers.chunks(longest)) {
            let length = lengths.iter().sum();
            nodes.push(staged.push_node(encoded(below), length).await?);
            node_covers.push(length);
        }
        refs = nodes;
        covers = node_covers;
        height += 1;
    }
    let mut payload: Payload = smallvec![encoded(&refs)];
    payload.extend(parts.map(|table| table.as_bytes().clone()));
    Ok(Built { payload, height })
}

/// A tree that was built.
pub(super) struct Built {
    pub payload: Payload,
    pub height: u8,
}

fn encoded(refs: &[ChunkRef]) -> Bytes {
    let mut list = Vec::new();
    encode_list(refs, &mut list);
    Bytes::from(list)
}

/// What stands below a descriptor.
pub(crate) struct Tree {
    /// Inner nodes, higher ones first.
    pub nodes: Vec<ChunkRef>,
    /// In the order of the content.
    pub chunks: Vec<ChunkRef>,
    /// Of an object that was made by parts.
    pub parts: Option<PartTable>,
}

impl Tree {
    pub fn all(&self) -> impl Iterator<Item = &ChunkRef> {
        self.nodes.iter().chain(&self.chunks)
    }
}

/// Reads the tree below a descriptor's payload: for completing an upload, relocation and accounting.
pub(crate) async fn read_tree(inner: &Inner, payload: &Bytes, height: u8) -> Result<Tree, EngineError> {
    let (mut chunks, parts) = decode_top(payload)?;
    let mut nodes = Vec::new();
    for _ in 1..height {
        let mut below = Vec::new();
        for node in &chunks {
            let frame = inner.read_chunk_frame(node).await?;
            below.extend(decode(&frame.payload)?);
        }
        nodes.append(&mut chunks);
        chunks = below;
    }
    Ok(Tree { nodes, chunks, parts })
}

/// The list of a node.
pub(super) fn decode(payload: &[u8]) -> Result<Vec<ChunkRef>, EngineError> {
    Ok(ChunkList::decode(payload).map_err(corrupt)?.iter().collect())
}

/// The list of the record itself, and its parts.
pub(super) fn decode_top(payload: &Bytes) -> Result<(Vec<ChunkRef>, Option<PartTable>), EngineError> {
    let (list, parts) = decode_descriptor(payload).map_err(corrupt)?;
    Ok((list.iter().collect(), parts))
}

fn corrupt(error: DecodeError) -> EngineError {
    EngineError::Corrupt { detail: error.to_string() }
}
